"""What a link tells of itself, and how it is shown."""

from __future__ import annotations

import io
import math
from typing import Any

import numpy as np
import pytest

from weirlab.emulation.account import COUNTED, EmulationCounters, complaints, problem, read_account
from weirlab.links.emulator import tables
from weirlab.links.emulator.netem import NetemCounters, NetemDirection


def direction(**known: Any) -> dict[str, Any]:
    """As the engine tells it: frames that were 10 µs late, most of them."""
    late = {"lower_ns": [10_000, 50_000], "upper_ns": [10_100, 50_100], "count": [98, 2]}
    return {
        **dict.fromkeys(COUNTED, 0),
        "refused_reason": "",
        "late": {name: np.array(values, np.uint64) for name, values in late.items()},
        "late_max_ns": 50_050,
        "paced_bits": 0,
        "paced_ns": 0,
        "paced_bursts": 0,
        **known,
    }


CARRIED: dict[str, Any] = {
    "arrived": 110, "arrived_bytes": 110_000, "departed": 100, "departed_bytes": 100_000, "lost": 5,
    "dropped_full": 3, "dropped_early": 2, "duplicated": 1, "held": 1, "queued": 1, "sent": 100,
    "sent_bytes": 100_000, "paced_bits": 9_900_000, "paced_ns": 100_000_000,
}  # fmt: skip


def account(up: dict[str, Any], elapsed_s: float = 2.0, failure: str = "") -> EmulationCounters:
    """Of a link of 100 Mbit/s upwards; nothing happens downwards."""
    raw = {
        "directions": [direction(**up), direction()],
        "elapsed_ns": int(elapsed_s * 1e9),
        "cpu_ns": int(0.25e9),
        "real_time_refused": "",
        "ended": False,
        "failure": failure,
    }
    return read_account(raw, ("eth1", "eth2"), (1e8, None))


def test_rate_and_lateness_are_those_of_frames_as_they_left() -> None:
    up, down = account(CARRIED).directions
    assert (up.source, up.target, down.source, down.target) == ("eth1", "eth2", "eth2", "eth1")
    assert up.carried_bps == 9.9e7
    assert up.rate_error == pytest.approx(-0.01)
    assert math.isnan(down.rate_error)
    assert up.document()["late_p50_ns"] == pytest.approx(10_050, abs=50)
    assert up.document()["late_p99_ns"] == pytest.approx(50_050, abs=50)


def test_a_frame_without_an_end_is_complained_of() -> None:
    assert account(CARRIED).up.adds_up
    assert complaints(account(CARRIED)) == []
    missing = account({**CARRIED, "arrived": 111})
    assert not missing.up.adds_up
    assert "do not add up" in complaints(missing)[0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("not_received", "arrived faster than this host took them"),
        ("too_long", "switch segmentation offload off"),
        ("no_memory", "found no memory"),
    ],
)
def test_what_the_emulator_lost_itself_is_never_the_links_loss(name: str, words: str) -> None:
    found = account({**CARRIED, name: 7})
    assert found.not_kept == 7
    (said,) = complaints(found)
    assert said.startswith("eth1 to eth2: 7 frames were lost by the emulator")
    assert words in said
    assert tables.conclusion(found, [said]).startswith("NOT as configured: eth1 to eth2: 7 frames")


def late(share: float, late_ns: int, count: int = 1000) -> dict[str, Any]:
    """A direction whose last frames were late."""
    counts = [round(count * (1 - share)), round(count * share)]
    edges = {"lower_ns": [10_000, late_ns], "upper_ns": [10_100, late_ns + 1], "count": counts}
    histogram = {name: np.array(values, np.uint64) for name, values in edges.items()}
    return {**CARRIED, "late": histogram, "late_max_ns": late_ns}


@pytest.mark.parametrize(
    ("share", "late_ns", "slack_s", "is_kept"),
    [(0.1, 27_000_000, 0, False), (0.02, 1_100_000, 0, False), (0.02, 1_100_000, 0.001, True),
     (0.02, 900_000, 0, True), (0.005, 27_000_000, 0, True)],
)  # fmt: skip
def test_a_link_whose_frames_are_late_is_not_as_configured(
    share: float, late_ns: int, slack_s: float, is_kept: bool
) -> None:
    said = complaints(account(late(share, late_ns)), slack_s)
    assert (said == []) is is_kept
    if not is_kept:
        assert said[0].startswith("eth1 to eth2: 1 % of the frames left ")


def test_a_link_whose_rate_is_another_is_not_as_configured() -> None:
    (said,) = complaints(account({**CARRIED, "paced_bits": 9_700_000}))
    assert said == "eth1 to eth2: the rate was 97 Mbit/s instead of 100 Mbit/s"
    # Too little waited for a judgement.
    assert complaints(account({**CARRIED, "paced_bits": 90_000, "paced_ns": 1_000_000})) == []
    assert complaints(account({**CARRIED, "paced_bits": 9_700_000, "paced_bursts": 30})) == []


def test_frames_that_the_interface_refused_are_told_with_its_reason() -> None:
    found = account({**CARRIED, "sent": 98, "refused": 2, "refused_reason": "eth2 is down"})
    assert complaints(found) == [
        "eth1 to eth2: 2 frames were lost by the emulator: they were not taken (eth2 is down)"
    ]


def test_a_link_that_ended_before_its_time_is_a_problem() -> None:
    assert problem(account(CARRIED)) is None
    assert "interface eth1 is gone" in str(problem(account(CARRIED, failure="interface eth1 is gone")))


def test_the_tables_have_a_row_for_each_direction() -> None:
    fates, itself = tables.of(account(CARRIED))
    assert list(fates.rows[0]) == ["eth1", "eth2", "110", "100", "5", "3", "2", "1", "0", "1", "0"]
    assert list(itself.rows[0])[:5] == ["eth1", "eth2", "100 Mbit/s", "99 Mbit/s", "-1.000 %"]
    assert list(itself.rows[1])[2:5] == ["–", "–", "–"]


def test_the_conclusion_names_the_direction_that_was_later() -> None:
    said = tables.conclusion(account(CARRIED), [])
    assert said.startswith("Every frame was handled as configured; 99 % left at most 50.0 µs after")
    assert said.endswith("(eth1 to eth2).")
    assert tables.conclusion(account({}), []) == "No frame crossed the link."


def test_the_line_shows_what_passed_since_the_last_one() -> None:
    rates = tables.LinkRates()
    rates.look(account(CARRIED, 2.0))
    later = account({**CARRIED, "sent": 300, "sent_bytes": 350_000}, 4.0)
    shown = tables.line(later, rates.look(later), 56.0)
    assert shown.startswith("4 s so far, 56 s left: eth1 to eth2 100 pps, 1 Mbit/s, 1 queued, 9.1 % lost")
    assert "eth2 to eth1 0 pps" in shown
    assert "NOT KEPT" not in shown
    assert tables.line(account({**CARRIED, "too_long": 3}), ("", ""), None).endswith("; 3 NOT KEPT")


def test_netem_has_the_same_line_but_for_what_it_does_not_tell() -> None:
    up = NetemDirection("eth1", "eth2", sent=1000, sent_bytes=125_000, lost=10, dropped_full=0, queued=7)
    now = NetemCounters(up, NetemDirection("eth2", "eth1", 0, 0, 0, 0, 0), elapsed_s=1.0, ended=False)
    assert tables.line(now, tables.LinkRates().look(now), None) == (
        "1 s so far: eth1 to eth2 1.00 kpps, 1 Mbit/s, 7 queued, 0.98 % lost or dropped; "
        "eth2 to eth1 0 pps, 0 bit/s, 0 queued, nothing yet"
    )


def test_what_is_no_terminal_gets_notes_at_once() -> None:
    stream = io.StringIO()
    with tables.screen(stream) as shown:
        shown.note("eth1: put up")
        shown.show(account(CARRIED), None)
    assert stream.getvalue() == "weir: eth1: put up\n"
