"""What the benchmark of TCP makes of its runs: ratios, missed samples."""

from __future__ import annotations

import tcp


def run(case: str, connections: int, bps: float, cpu_s: float, missed: int | None = None) -> tcp.Run:
    late = None if case == "watched event" else {"p99_ns": 3000, "max_ns": 9000}
    watch = None if missed is None else {"samples": 100, "missed": missed, "lateness": late}
    return tcp.Run(case, connections, 0, bps, 10.0, cpu_s, watch)


RUNS = [
    run("start", 1, 1.0, 2.0),
    run("iperf3", 1, 10e9, 4.0),
    run("weir", 1, 11e9, 6.4),
    run("iperf3", 4, 20e9, 4.0),
    run("weir", 4, 10e9, 4.0),
    run("unwatched", 1, 10e9, 1.0),
    run("watched 1ms", 1, 9.5e9, 1.0, 2),
    run("unwatched", 1, 10e9, 1.0),
    run("watched 1ms bpf", 1, 10.45e9, 1.0, 1),
    run("unwatched", 1, 12e9, 1.0),
    run("watched event", 1, 9.9e9, 1.0, 3),
    run("unwatched", 1, 10e9, 1.0),
    run("many", tcp.WATCHED, 50e6, 1.0, 7),
]


def test_ratios_are_to_the_peer_with_as_many_connections() -> None:
    speed = {(row[0], row[1]): row for row in tcp.tables(RUNS)[tcp.SPEED]}
    assert speed["weir", "1"][-2:] == ("1.100 x", "1.000 x"), "starting took 2 s of its CPU time"
    assert speed["weir", "4"][-2:] == ("0.500 x", "1.000 x")
    assert speed["iperf3", "4"][-2:] == ("1.000 x", "1.000 x")


def test_the_cost_of_watching_is_told_beside_what_was_missed() -> None:
    shown = tcp.tables(RUNS)
    assert [(row[0], row[3], row[4], row[6]) for row in shown[tcp.COST]] == [
        ("not", "1.000 x", "-", "-"),
        ("1ms", "0.950 x", "-", "2"),
        ("1ms bpf", "0.950 x", "-", "1"),
        ("event", "0.900 x", "-", "3"),
    ]
    assert shown[tcp.MANY] == [("50", "10ms", "100", "7", "3", "9")]
    twice = tcp.watch_rows([*RUNS[5:-1], *RUNS[5:-1]])
    assert (twice[1][3], twice[1][4]) == ("0.950 x", "0.000"), "between those just before and after"
    assert "| 50 | 10ms |" in tcp.summary(RUNS, {"date": "", "command": "", "versions": {}}).markdown()
