"""Many captures: a row for each, the same whoever reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from weirlab.trace.quantities import Window
from weirlab.transfers.trace import tables
from weirlab.transfers.trace.tables import CaptureSummaries, summary

from ...campaigns.conftest import LocalCluster, cluster  # noqa: F401
from ...conftest import Weir

CAPTURES = sorted((Path(__file__).parents[4] / "examples/captures").glob("*.zst"))


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    path = tmp_path / "damaged.pcap"
    path.write_bytes(b"no capture")
    return path


def test_totals_are_those_of_each_capture_by_itself(weir: Weir, damaged: Path) -> None:
    answer = weir("trace", "--each", *CAPTURES, damaged, "--json")
    assert (answer.code, answer.json["valid"]) == (2, False)
    *found, failed = answer.json["captures"]
    assert [each["path"] for each in found] == [str(path) for path in CAPTURES]
    assert str(damaged) in failed["problem"]
    alone = weir("trace", CAPTURES[0], "--json").json
    assert found[0]["connections"] == len(alone["connections"]) + alone["connections_left_out"]
    assert found[0]["packets"] == alone["capture"]["packets"]
    sides = [connection[end] for connection in alone["connections"] for end in "ab"]
    assert found[0]["segments"] == sum(side["data_packets"] for side in sides)
    shown = weir("trace", "--each", *CAPTURES, "--limit", "2")
    assert (shown.code, f"{len(CAPTURES) - 2} more" in shown.out) == (0, True)


def test_a_capture_that_cannot_be_read_holds_no_zeros(damaged: Path) -> None:
    found = summary(str(damaged), "", Window())
    (row,) = CaptureSummaries((found,)).table(1).rows
    assert row == (str(damaged), *["–"] * 7, found.problem)


def test_streams_that_are_left_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(CAPTURES[0])
    streams = summary(path, "", Window()).streams
    found = tables.analyse(path, rows=None)
    monkeypatch.setattr(tables, "analyse", lambda *_, **__: {**found, "streams_left_out": 7})
    assert summary(path, "", Window()).streams == streams + 7


def test_workers_answer_byte_for_byte_as_one_process(
    weir: Weir,
    damaged: Path,
    cluster: LocalCluster,  # noqa: F811
) -> None:
    files = (*CAPTURES, damaged, *CAPTURES)
    here = weir("trace", "--each", *files, "--json")
    workers = [cluster.worker()]
    cluster.wait_for(1)
    one = weir("trace", "--each", *files, "--json", "--cluster", cluster.url)
    workers += [cluster.worker() for _ in range(2)]
    cluster.wait_for(3)
    workers[0].kill()
    three = weir("trace", "--each", *files, "--json", "--cluster", cluster.url)
    assert here.out == one.out == three.out
    assert (here.code, one.code, three.code) == (2, 2, 2)


def test_a_filter_counts_what_it_selects() -> None:
    found = summary(str(CAPTURES[0]), "port 1", Window())
    assert (found.selected, found.connections, found.packets > 0) == (0, 0, True)


def test_workers_share_the_connections_of_one_capture(weir: Weir, cluster: LocalCluster) -> None:  # noqa: F811
    def answer(*more: str) -> tuple[int, dict[str, object]]:
        found = weir("trace", *CAPTURES, "--no-diagnosis", "--json", *more)
        return found.code, {**found.json, "elapsed_ns": 0}

    here, one = answer(), answer("--connection", "5")
    workers = [cluster.worker() for _ in range(3)]
    cluster.wait_for(3)
    assert answer("--cluster", cluster.url) == here
    workers[0].kill()
    assert answer("--connection", "5", "--cluster", cluster.url) == one
    missing = weir("trace", "no.pcap", "--no-diagnosis", "--cluster", cluster.url)
    assert (missing.code, "no.pcap" in missing.err) == (2, True)


@pytest.mark.parametrize("option", [(), ("--out", "a.html"), ("--series", "s"), ("--pcapng", "a.pcapng")])
def test_what_needs_the_packets_of_connections_stays_on_one_machine(
    weir: Weir, option: tuple[str, ...]
) -> None:
    refused = weir("trace", CAPTURES[0], *option, "--cluster", "tcp://127.0.0.1:1")
    assert (refused.code, "--each" in refused.err) == (2, True)


@pytest.mark.parametrize("option", [("--connection", "0"), ("--series", "s"), ("--flow", "192.0.2.1")])
def test_options_about_one_capture_do_not_go_with_each(weir: Weir, option: tuple[str, str]) -> None:
    answer = weir("trace", "--each", CAPTURES[0], *option)
    assert (answer.code, "--each" in answer.err) == (2, True)
    assert weir("trace", "--each", "-").code == 2
