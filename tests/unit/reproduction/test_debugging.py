"""The report on tbwtools: what follows from the samples and captures of a transfer."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from weirlab.publications import publication
from weirlab.reproduction import debugging
from weirlab.reproduction.contract import Answer
from weirlab.transfers.tcp.measure import captured
from weirlab.transfers.tcp.study import kept as keeping

from .answers import unanswered, verdict

ABOUT = publication(debugging.KEY)
RTT_US = 8800.0
WINDOW = 400_000


def record(**changes: Any) -> Any:
    """A transfer of ten reports; the names of ``changes`` are those of columns and facts."""
    facts = {
        "received_bytes": round(ABOUT.number("example-connection", "data")),
        "lasted_s": 10.0,
        "throughput_bps": 70e6,
        "rtt_mean_us": RTT_US,
        "receiver_share": 0.01,
        "network_share": 0.98,
    }
    columns: dict[str, Any] = {
        "total_retrans": [*range(0, 500, 50)],
        "total_rto": [0] * 9 + [1],
        "snd_mss_bytes": [1448] * 10,
        "snd_wnd_bytes": [65_536, *[WINDOW] * 9],
        "notsent_bytes": [5000] * 9 + [0],
        "app_bytes": [*range(1, 11)],
    }
    facts |= {name: value for name, value in changes.items() if name in facts}
    columns |= {name: value for name, value in changes.items() if name in columns}
    rows = pl.DataFrame(
        {"time_ns": [*range(10)], "end": "client", "connection": 0, "role": "sender", **columns}
    )
    pair = {"quantity": "Segments retransmitted", "place": "sender", "kernel": 450.0, "capture": 450.0}
    return SimpleNamespace(
        directions=(SimpleNamespace(**facts),),
        samples=rows,
        packets=pl.DataFrame({"end": ["client", "server"], "duplicate_acks": [77, 1]}),
        crossing=lambda number: SimpleNamespace(lost_bytes=500, sent_bytes=100_000),
        agreement=(SimpleNamespace(**{**pair, "agrees": changes.get("agrees", True)}),),
    )


def answers(
    experiment: Any, monkeypatch: pytest.MonkeyPatch, lossy: Any, clean: Any = None
) -> Mapping[str, Answer]:
    runs: Any = dict.fromkeys(debugging.LOSSY, lossy)
    if clean is not None:
        runs[debugging.CLEAN] = clean
    monkeypatch.setattr(keeping, "read", lambda run: run)
    monkeypatch.setattr(debugging, "_panels", lambda run: [None] * 9)
    return {each.key: each for each in experiment.answers(runs, ABOUT.experiments[experiment.key])}


def test_every_value_of_the_summary_follows_from_samples_and_captures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = answers(debugging.ExampleConnection(), monkeypatch, record())
    here = {key: answer.here for key, answer in found.items()}
    assert here["rate"] == 70
    assert here["retransmitted"] == 450
    assert here["duplicate-acks"] == 77
    assert here["timeouts"] == 1
    assert here["rtt"] == pytest.approx(8.8)
    assert here["loss"] == pytest.approx(0.5)
    assert here["window"] == pytest.approx(WINDOW / 1024)
    assert here["window-allows"] == pytest.approx(WINDOW * 8 / RTT_US)
    assert verdict(found["segment"]) == "holds"
    assert verdict(found["data"]) == "holds"


@pytest.mark.parametrize(
    ("claim", "changes", "expected"),
    [
        ("fast-retransmit", {}, "holds"),
        ("fast-retransmit", {"total_rto": [0] * 9 + [100]}, "differs"),
        ("fast-retransmit", {"total_retrans": [0] * 10}, "cannot tell"),
        ("flat-window", {}, "holds"),
        ("flat-window", {"snd_wnd_bytes": [*range(1000, 11_000, 1000)]}, "differs"),
        ("flat-window", {"receiver_share": 0.5}, "differs"),
        ("unsent-data", {}, "holds"),
        ("unsent-data", {"notsent_bytes": [0, 5000] * 5}, "differs"),
        ("window-bound", {"throughput_bps": 900e6}, "differs"),
    ],
)
def test_claims_are_decided_by_what_was_measured(
    claim: str, changes: dict[str, Any], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = answers(debugging.ExampleConnection(), monkeypatch, record(**changes))
    assert verdict(found[claim]) == expected


def test_the_window_is_a_bound_that_a_transfer_without_loss_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    allows = WINDOW * 8 / RTT_US * 1e6
    for share, expected in ((0.95, "holds"), (0.5, "differs")):
        clean = record(throughput_bps=share * allows)
        found = answers(debugging.ExampleConnection(), monkeypatch, record(), clean)
        assert verdict(found["window-bound"]) == expected


def test_quantities_of_both_sources_agree_or_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert verdict(answers(debugging.Sources(), monkeypatch, record())["agreement"]) == "holds"
    found = answers(debugging.Sources(), monkeypatch, record(agrees=False))["agreement"]
    assert verdict(found) == "differs"
    assert found.decision is not None
    assert "Segments retransmitted" in found.decision.found


def test_every_value_and_claim_is_answered_or_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        each.key: answers(each, monkeypatch, record(), record()).keys() for each in debugging.EXPERIMENTS
    }
    assert not unanswered(ABOUT, found)


def test_the_congestion_window_is_the_most_in_flight_of_a_round_trip_unless_the_receiver_limits_it() -> None:
    rows = pl.DataFrame(
        {
            "time_ns": [0, 5, 10, 15, 30],
            "flight_bytes": [1000, 5000, None, 2000, 9500],
            "window_bytes": [10_000, None, None, None, None],
        }
    )
    found = captured.congestion_window(rows, 10, 1000)
    # The window has no room for another segment in the end.
    assert found["cwnd_bytes"].to_list() == [1000, 5000, 5000, 2000, None]
