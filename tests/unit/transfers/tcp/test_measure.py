"""A transfer over loopback measured from both ends, and what it is computed from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from weirlab.base.errors import InputError, MissingCapability
from weirlab.diagnosis import kernel
from weirlab.link import bindings
from weirlab.store import Store
from weirlab.trace.quantities import Window
from weirlab.transfers.tcp.measure import measuring, result, samples
from weirlab.transfers.tcp.measure.samples import Exchange, Offset, Start, offset

from ...conftest import Weir
from .conftest import Served

Serve = Callable[..., Served]
MS = 1_000_000
AHEAD_NS = 5_000 * MS


def exchange(sent_ns: int, there_ns: int, back_ns: int) -> Exchange:
    """With a clock that is :data:`AHEAD_NS` ahead."""
    return Exchange(sent_ns, sent_ns + there_ns + AHEAD_NS, sent_ns + there_ns + back_ns)


def test_the_offset_is_between_what_all_exchanges_allow() -> None:
    # The way there is slow once, the way back another time: together they leave little.
    found = offset([exchange(0, 30 * MS, 2 * MS), exchange(100 * MS, 1 * MS, 40 * MS)])
    assert found == Offset(AHEAD_NS - 500_000, 1_500_000, 2)
    assert abs(found.ns - AHEAD_NS) <= found.bound_ns
    assert offset([]) is None


def test_clocks_that_run_apart_are_noticed_and_the_bound_holds_all() -> None:
    later = exchange(200 * MS, MS, MS)
    moved = Exchange(later.sent_ns, later.at_ns + 10 * MS, later.heard_ns)
    found = offset([exchange(0, MS, MS), moved])
    assert found is not None
    assert found.drifted
    assert abs(found.ns - AHEAD_NS) <= found.bound_ns >= abs(found.ns - AHEAD_NS - 10 * MS)


def test_reports_of_the_server_are_put_on_the_clients_clock() -> None:
    start = Start(client_ns=1_000, server_ns=1_000 + AHEAD_NS + 7 * MS, client_since_1970_ns=10**18)
    assert start.axis_ns("client", 5, None) == 10**18 + 5
    # The server began 7 ms later.
    assert start.axis_ns("server", 5, Offset(AHEAD_NS, 0, 1)) == 10**18 + 7 * MS + 5


def test_of_each_connection_one_end_sends_and_the_other_receives() -> None:
    flow = {"bytes": 10, "waited_ns": None, "fields": {"rtt_us": 3}}
    events = [{"of_server": end, "at_ns": 1, "flows": [flow, flow]} for end in (False, True)]
    found = samples.frame(events, [True, False], Start(0, 0, 0), None)
    assert found.select("end", "connection", "role").rows() == [
        ("client", 0, "sender"),
        ("client", 1, "receiver"),
        ("server", 0, "receiver"),
        ("server", 1, "sender"),
    ]
    assert samples.of(found, 1, "sender")["rtt_us"].to_list() == [3]


def made(times_ms: list[int], **columns: list[int]) -> pl.DataFrame:
    return pl.DataFrame({"time_ns": [at * MS for at in times_ms], **columns})


def test_sources_with_periods_of_their_own_share_the_axis() -> None:
    sender = made([5, 10, 15, 25], app_bytes=[100, 200, 300, 500], rtt_us=[1, 2, 3, 4])
    packets = made([21, 29], flight_bytes=[7, 9])
    chosen = {"sender": ["throughput_bps", "rtt_us"], "capture": ["flight_bytes"]}
    found = samples.axis({"sender": sender, "capture": packets}, chosen, 10 * MS, 0)
    assert found.columns == ["time_ns", "sender.throughput_bps", "sender.rtt_us", "capture.flight_bytes"]
    assert found.rows() == [(0, 80_000.0, 1, None), (10 * MS, 160_000.0, 3, None), (20 * MS, 160_000.0, 4, 9)]
    coarse = samples.coarser(found, 20 * MS, 0)
    assert coarse.rows() == [(0, 120_000.0, 3, None), (20 * MS, 160_000.0, 4, 9)]


def test_what_was_sent_before_the_first_report_was_sent_since_the_start() -> None:
    rows = made([35, 45], app_bytes=[400, 500])
    found = samples.axis({"sender": rows}, {"sender": ["throughput_bps"]}, 10 * MS, 0)
    assert found["sender.throughput_bps"].to_list() == [80_000.0, 80_000.0]


def test_rows_without_the_counter_of_bytes_do_not_hide_the_throughput() -> None:
    times = [5 * MS, 9 * MS, 15 * MS, 25 * MS, 27 * MS]
    # One-way delays come beside, and in a period there may be nothing else.
    acked = [1000, None, None, 3000, None]
    rows = pl.DataFrame({"time_ns": times, "acked_bytes": acked, "delay_us": [None, 2.0, 2.0, None, 2.0]})
    found = samples.axis({"capture": rows}, {"capture": ["throughput_bps", "delay_us"]}, 10 * MS, 0)
    assert found["capture.throughput_bps"].to_list() == [800_000.0, 0.0, 1_600_000.0]
    assert found["capture.delay_us"].to_list() == [2.0, 2.0, 2.0]


def test_a_window_counts_from_the_start_or_from_1970_and_has_to_hold_something() -> None:
    rows = {"sender": made([105, 115, 125], rtt_us=[1, 2, 3])}
    whole = samples.axis(rows, {"sender": ["rtt_us"]}, 10 * MS, 100 * MS)
    relative = samples.within(whole, Window(10 * MS, 20 * MS, relative=True), 100 * MS)
    absolute = samples.within(whole, Window(110 * MS, 120 * MS), 100 * MS)
    assert relative.rows() == absolute.rows() == [(110 * MS, 2)]
    with pytest.raises(InputError, match="--from and --to"):
        samples.within(whole, Window(10**9, None, relative=True), 100 * MS)


def test_what_packets_show_is_kept_by_period() -> None:
    rows = pl.DataFrame(
        {
            "time_ns": [100 * MS, 104 * MS, 112 * MS, 113 * MS],
            "connection": [0, 0, 0, 0],
            "end": ["client"] * 4,
            "acked_bytes": [10, 20, 30, 40],
            "flight_bytes": [5, 9, 4, None],
            "window_bytes": [7, 6, None, None],
            "rtt_us": [None, 2.0, 4.0, 8.0],
            "retransmissions": [0, 1, None, None],
            "delay_us": [None, 3.0, 5.0, None],
            "duplicate_acks": [0, None, 2, 3],
            "cwnd_bytes": [5, 9, None, None],
        }
    )
    found = result.periods(rows, 10 * MS, 100 * MS)
    assert found.rows() == [
        (0, "client", 100 * MS, 20, 9, 6, 2.0, 2.0, 1, 3.0, 3.0, 0, 9),
        (0, "client", 110 * MS, 40, 4, None, 6.0, 8.0, 1, 5.0, 5.0, 3, None),
    ]
    # What another end's capture shows is kept apart.
    ends = rows.with_columns(end=pl.Series(["client", "client", "client", "server"]))
    assert result.periods(ends, 10 * MS, 100 * MS)["acked_bytes"].to_list() == [20, 30, 40]
    # No more rows than can be kept, whatever the period of the reports.
    many = rows.with_columns(pl.col("time_ns") + pl.Series([0, 0, 0, 10**12]))
    assert result.periods(many, MS, 100 * MS).height <= 3
    assert result.periods(rows.clear(), MS, 0).columns == found.columns


def test_a_wait_for_a_cpu_counts_for_the_time_before_it_is_told() -> None:
    times = np.arange(6) * 100.0
    # Told at 400: it had waited for 250, from 150 on.
    waited = np.array([0.0, 0.0, 0.0, 0.0, 250.0, 250.0])
    assert kernel.starvation(times, waited).tolist() == [0, 0, 0.5, 1, 1, 0]


@pytest.mark.parametrize("ways", [(), ("--reverse",)], ids=str)
def test_both_ends_are_on_one_axis_and_the_run_is_kept(
    weir: Weir, serve: Serve, tmp_path: Path, ways: tuple[str, ...]
) -> None:
    answer = weir(
        *("tcp", "measure", "127.0.0.1", "--port", serve().port, "--json", "--store", tmp_path, *ways),
        *("--bytes", "20MB", "--rate", "200Mbit/s", "--every", "1ms", "--period", "2ms", "--capture", "none"),
    )
    assert answer.code == 0, answer.err
    document = answer.json
    assert document["directions"][0]["received_bytes"] == 20_000_000
    # With one clock the truth is 0, and the bound has to hold it.
    clocks = document["clocks"]
    assert clocks["same_clock"]
    assert clocks["exchanges"] >= 8
    assert abs(clocks["offset_ns"]) <= clocks["bound_ns"]
    (diagnosis,) = document["diagnoses"]
    assert sum(each["share"] for each in diagnosis["findings"]) == pytest.approx(1, abs=0.02)
    assert diagnosis["sentence"] in document["conclusion"]
    columns = {
        "time_ns",
        "sender.throughput_bps",
        "sender.rtt_us",
        "receiver.throughput_bps",
        "receiver.rqueue_bytes",
    }
    assert columns <= set(document["axis"][0])
    run = Store(tmp_path).open(document["run_id"])
    assert run.manifest.kind == "tcp"
    rows = run.table("samples")
    assert set(rows["end"]) == {"client", "server"}
    assert int(samples.of(rows, 0, "receiver")["app_bytes"].max()) == 20_000_000  # type: ignore[arg-type]
    assert run.table("axis").height == len(document["axis"])


def test_without_json_the_axis_the_diagnosis_and_the_clock_are_shown(
    weir: Weir, serve: Serve, tmp_path: Path
) -> None:
    answer = weir(
        *("tcp", "measure", "127.0.0.1", "--port", serve().port, "--store", tmp_path, "--bytes", "20MB"),
        *("--rate", "200Mbit/s", "--every", "1ms", "--capture", "none", "--target", "1Gbit/s"),
    )
    assert answer.code == 0, answer.err
    for text in ("One axis", "Where the time went", "Both ends share one clock.", "To the server: "):
        assert text in answer.out
    assert "No capture: it was not requested." in answer.err


def test_options_that_exclude_each_other_are_refused(weir: Weir) -> None:
    answer = weir("tcp", "measure", "localhost", "--duration", "1s", "--bytes", "1MB")
    assert answer.code == 2
    assert "exclude each other" in answer.err


def test_why_there_is_no_capture_is_told_of_each_end(
    weir: Weir, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> object:
        raise MissingCapability("recording needs CAP_NET_RAW; run as root")

    monkeypatch.setattr(bindings, "open_recorder", refused)
    common = ("tcp", "measure", "127.0.0.1", "--port", serve().port, "--store", tmp_path, "--bytes", "1MB")
    answer = weir(*common, "--json")
    assert answer.code == 0, answer.err
    ends = answer.json["captures"]
    assert ends["client"]["why_not"] == "recording needs CAP_NET_RAW"
    assert ends["server"]["why_not"] == "it records no packets; that needs weir tcp serve --allow-capture"
    assert answer.json["crossings"] == answer.json["agreement"] == []
    told = weir(*common)
    assert "No capture at the client: recording needs CAP_NET_RAW." in told.err
    assert "No capture at the server: it records no packets" in told.err


def test_an_end_that_must_be_captured_and_cannot_ends_the_measurement(
    weir: Weir, serve: Serve, tmp_path: Path
) -> None:
    common = ("tcp", "measure", "127.0.0.1", "--port", serve().port, "--store", tmp_path, "--bytes", "1MB")
    refused = weir(*common, "--capture", "receiver")
    assert refused.code != 0
    assert "the server refuses: it records no packets" in refused.err
    assert not list(tmp_path.rglob("manifest.json"))
    wrong = weir(*common, "--capture", "auto,receiver")
    assert wrong.code == 2
    assert "expected auto, none, or" in wrong.err


def test_a_capture_at_the_server_is_put_onto_the_clients_clock() -> None:
    start = Start(client_ns=1_000, server_ns=70_000, client_since_1970_ns=5_000_000)
    other = measuring.TransferMeasurement(
        outcome=None, samples=None, start=start, offset=Offset(69_000, 5, 8), same_clock=False
    )  # type: ignore[arg-type]
    # The server began at 70,000 of its own clock, which is 1,000 of the client's: when the client did.
    assert other.shift_ns(8_000_000) == 5_000_000 - 8_000_000
    assert replace(other, offset=Offset(68_900, 5, 8)).shift_ns(8_000_000) == 5_000_100 - 8_000_000
    # Without an offset both are taken to have begun at once; with one clock there is none to be used.
    assert replace(other, offset=None).shift_ns(8_000_000) == 5_000_000 - 8_000_000
    both = Start(client_ns=1_000, server_ns=1_300, client_since_1970_ns=5_000_000)
    assert replace(other, start=both, same_clock=True, offset=Offset(7, 9, 8)).shift_ns(5_000_300) == 0
