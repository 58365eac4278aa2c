"""A watch by events: what it is made of; the events themselves need root (tests/netns/test_tcp_events.py)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from weirlab._engine import tcp_event_kinds
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import connections, watching
from weirlab.transfers.tcp.show import screen, tables
from weirlab.transfers.tcp.show.screen import SampleFile
from weirlab.transfers.tcp.watching import RETRANSMITTED, RetransmissionLog, WatchSettings

from ...conftest import Weir

STATE, RECEIVED, SENT_AGAIN = range(3)
NAMES = ("seq", "end_seq", "snd_cwnd")
EVENTS: tuple[tuple[int, Mapping[str, int]], ...] = (
    (STATE, {"snd_cwnd": 10, "data_segs_in": 0, "data_segs_out": 0, "total_retrans": 0}),
    (RECEIVED, {"snd_cwnd": 11, "seq": 5, "end_seq": 5, "rtt_us": 20_000}),
    (SENT_AGAIN, {"snd_cwnd": 5, "seq": 4_294_967_000, "end_seq": 1_152, "rtt_us": 21_000, "ca_state": 3,
                  "total_retrans": 1}),
)  # fmt: skip


class Happening:
    """An engine that tells :data:`EVENTS`, and ends."""

    def __init__(self, *, fields: list[str], **_: Any) -> None:
        self._names, self._taken = fields, False

    def progress(self) -> dict[str, Any]:
        one = {
            "local": ("192.0.2.1", 1), "remote": ("192.0.2.2", 2), "pid": None, "process": None,
            "congestion": "", "found_ns": 1, "ended_ns": 3, "samples": len(EVENTS), "missed": 0,
            "idle": 0,
        }  # fmt: skip
        late = {"rounds": 0, "mean_ns": 0, "p99_ns": 0, "max_ns": 0}
        return {
            "connections": [one],
            "lost": 4,
            "left_out": 0,
            "failure": None,
            "lateness": late,
            "ended": True,
            "by": "events",
            "why_not": None,
        }

    def take(self) -> dict[str, Any]:
        events = () if self._taken else EVENTS
        self._taken = True

        def column(name: str) -> Any:
            there = np.array([name in values for _, values in events], np.bool_)
            return np.array([values.get(name, 0) for _, values in events], np.uint64), there

        return {
            "connection": np.zeros(len(events), np.uint32),
            "time_ns": np.arange(len(events)) * 1_000_000 + 1_000_000_000,
            "kind": np.array([kind for kind, _ in events], np.uint8),
            "fields": {name: column(name) for name in self._names},
        }

    def stop(self) -> None: ...


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> WatchSettings:
    monkeypatch.setattr("weirlab._engine.TcpEvents", Happening)
    return WatchSettings(connections.parse(":1"), None, NAMES)


def test_what_was_sent_again_is_listed_with_its_sequence_numbers(settings: WatchSettings) -> None:
    again = RetransmissionLog()
    with Stop() as stop:
        outcome = watching.watch(settings, [again], stop)
    (segment,) = again.kept
    assert (segment.seq, segment.length) == (4_294_967_000, 1_448), "sequence numbers begin again at 2^32"
    assert (segment.at_s, segment.congestion, segment.cwnd) == (0.002, "recovery", 5)
    assert outcome.missed == 4
    assert outcome.tallies[0].grown("total_retrans") == 1
    assert outcome.tallies[0].from_the_beginning
    assert outcome.tallies[0].shares is None, "events do not tell the kernel's times"
    row = tables.retransmissions(again).rows[0]
    assert list(row) == [
        "0.002000", "192.0.2.1:1 to 192.0.2.2:2", "4294967000", "1,448", "recovery", "5", "21.0 ms",
    ]  # fmt: skip
    conclusion = tables.watch_conclusion(outcome, settings)
    assert "3 events, 4 lost for lack of room." in conclusion
    document = tables.watch_document(outcome, settings, ":1", None)
    assert (document["by"], document["period_ns"], document["lateness"]) == ("events", None, None)


def test_lines_and_files_say_what_happened(settings: WatchSettings, tmp_path: Path) -> None:
    said: list[Mapping[str, Any]] = []
    file = SampleFile(tmp_path / "events.parquet", NAMES, events=True)
    with Stop() as stop:
        watching.watch(settings, [screen.SampleLines(NAMES, said.append), file], stop)
    file.write()
    assert [(each["kind"], each["event"]) for each in said] == [
        ("tcp watch event", name) for name in tcp_event_kinds()
    ]
    assert ("seq" in said[0], said[2]["seq"]) == (False, 4_294_967_000)
    frame = pl.read_parquet(tmp_path / "events.parquet")
    assert frame.columns == ["time_ns", "connection", "local", "remote", "event", *NAMES]
    assert frame["event"].to_list() == list(tcp_event_kinds())
    assert frame["seq"].to_list() == [None, 5, 4_294_967_000]


def test_names_are_those_of_the_engine() -> None:
    assert tcp_event_kinds()[SENT_AGAIN] == RETRANSMITTED
    known = {each.name for each in connections.event_fields()}
    assert known >= {*connections.EVENT_USUAL, *watching.EVENTS_NEEDED}
    assert connections.chosen("rtt,seq", events=True) == ("rtt_us", "seq")
    assert set(connections.chosen("all", events=True)) == known


def test_options_that_events_do_not_have_are_refused(weir: Weir) -> None:
    for options, told in [
        (("--every", "1ms"), "--every and --events exclude each other"),
        (("--fields", "busy_time_us"), "there is no field of events 'busy_time_us'"),
    ]:
        answer = weir("tcp", "watch", ":1", "--events", *options)
        assert (answer.code, told in answer.err) == (2, True), answer.err
    listed = weir("tcp", "watch", "--events", "--list-fields", "--json").json["fields"]
    assert {"seq", "snd_cwnd"} <= {each["name"] for each in listed}
    assert "busy_time_us" not in {each["name"] for each in listed}
