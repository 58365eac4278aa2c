"""What the benchmark of TCP makes of its runs: ratios, missed samples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

import tcp


def run(case: str, connections: int, bps: float, cpu_s: float, missed: int | None = None) -> tcp.Run:
    late = None if case == "watched event" else {"p99_ns": 3000, "max_ns": 9000}
    idle = None if case == "watched event" else 5
    counted = {"samples": 100, "missed": missed, "idle": idle, "lateness": late, "due": 1105}
    watch = None if missed is None else counted
    return tcp.Run(case, connections, 0, bps, 10.0, cpu_s, watch, None if missed is None else 0.0125)


RUNS = [
    run("start", 1, 1.0, 2.0),
    run("iperf3", 1, 10e9, 4.0),
    run("weir", 1, 11e9, 6.4),
    run("iperf3", 4, 20e9, 4.0),
    run("weir", 4, 10e9, 4.0),
    run("watched 1ms bpf", 1, 10.45e9, 1.0, 0),
    run("unwatched", 1, 9e9, 1.0),
    run("watched 1ms", 1, 9.5e9, 1.0, 25),
    run("unwatched", 1, 11e9, 1.0),
    run("watched event", 1, 9e9, 1.0, 3),
    run("many 10ms", tcp.WATCHED, 50e6, 1.0, 0),
    run("many 10ms bpf", tcp.WATCHED, 50e6, 1.0, 1),
]


def test_ratios_are_to_the_peer_with_as_many_connections() -> None:
    speed = {(row[0], row[1]): row for row in tcp.tables(RUNS)[tcp.SPEED]}
    assert speed["weir", "1"][-2:] == ("1.100 x", "1.000 x"), "starting took 2 s of its CPU time"
    assert speed["weir", "4"][-2:] == ("0.500 x", "1.000 x")
    assert speed["iperf3", "4"][-2:] == ("1.000 x", "1.000 x")


def test_the_cost_of_watching_is_told_beside_what_was_missed() -> None:
    shown = tcp.tables(RUNS)
    cost = [dict(zip(tcp.COST, row, strict=True)) for row in shown[tcp.COST]]
    told = ("watched every", "throughput is", "from - to", "CPU % of watch", "missed", "missed %", "idle")
    assert [tuple(row[name] for name in told) for row in cost] == [
        ("not", "1.000 x", "-", "-", "-", "-", "-"),
        ("1ms", "0.950 x", "0.950 - 0.950", "1.25", "25", "20.00", "5"),
        ("1ms bpf", "1.045 x", "1.045 - 1.045", "1.25", "0", "0.00", "5"),
        ("event", "0.900 x", "0.900 - 0.900", "1.25", "3", "2.91", "-"),
    ]
    assert shown[tcp.MANY] == [
        ("50", "10ms", "1,105", "100", "0", "0.00", "5", "3", "9"),
        ("50", "10ms bpf", "1,105", "100", "1", "0.99", "5", "3", "9"),
    ]
    assert "| 50 | 10ms |" in tcp.summary(RUNS, {"date": "", "command": "", "versions": {}}).markdown()


def test_samples_are_due_by_the_clock_whatever_the_watch_counts(tmp_path: Path) -> None:
    times = {0: [0, 10, 40], 1: [25, 95], 2: [3]}
    rows = [(number, 1_000_000 * ms) for number, each in times.items() for ms in each]
    file = tmp_path / "samples.parquet"
    with file.open("wb") as sink:
        pl.DataFrame(rows, schema=["connection", "time_ns"], orient="row").write_parquet(sink)
    assert tcp.due(file, 10_000_000) == 5 + 8 + 1
    assert tcp.due(file, None) is None


def test_a_watched_transfer_is_compared_with_those_of_its_repeat() -> None:
    faster = [replace(each, bps=2 * each.bps, repeat=1) for each in RUNS]
    slower = next(each for each in RUNS if each.case == "watched 1ms")
    runs = [*RUNS, *faster, replace(slower, bps=8e9)]
    one = dict(zip(tcp.COST, tcp.watch_rows(runs)[1], strict=True))
    assert (one["throughput is"], one["standard error"]) == ("0.900 x", "0.050")
    assert one["from - to"] == "0.800 - 0.950"


def test_every_repeat_has_its_transfers_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    def made(connections: int, wanted: object, repeat: int, case: str = "", every: str = "") -> tcp.Run:
        assert case == (f"watched {every}" if every else tcp.UNWATCHED)
        return run(case, connections, 1.0, 1.0)

    monkeypatch.setattr(tcp, "by_weir", made)
    orders = [[each.case for each in tcp.run_watches(tcp.COMPARED, 1.0, repeat)] for repeat in range(9)]
    assert all(sorted(order) == ["unwatched", "watched 1ms", "watched 1ms bpf"] for order in orders)
    assert len({tuple(order) for order in orders}) > 1


def test_the_cpu_time_of_a_watch_is_that_between_the_lines_of_a_transfer() -> None:
    assert tcp.rate([(0.0, 5.0), (1.0, 5.125), (2.0, 5.25), (2.5, 7.0)]) == 0.125
    assert tcp.rate([(0.0, 5.0), (2.5, 7.0)]) is None
