"""What listening to the CPUs says of trials to come."""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.measure import noise
from weirlab.measure.noise import CpuGaps, Noise, summarize

SECOND_NS = 1_000_000_000


def stretch(gaps_ms: dict[float, float] | None = None, *, seconds: float = 1.0) -> CpuGaps:
    """A stretch with gaps: when each began, and how long it was."""
    gaps = sorted((gaps_ms or {}).items())
    starts = np.array([start * 1e6 for start, _ in gaps], dtype=np.uint64)
    lengths = np.array([length * 1e6 for _, length in gaps], dtype=np.uint64)
    return CpuGaps(0, round(seconds * SECOND_NS), starts, lengths)


def heard(sender: CpuGaps, dut: CpuGaps) -> Noise:
    return summarize({"sender": [sender], "dut": [dut]}, {"sender": 0.0, "dut": 0.0})


def test_quiet_cpus_spoil_nothing() -> None:
    quiet = heard(stretch(), stretch())
    assert quiet.undisturbed_ratio == 1.0
    assert quiet.verdict == "good"
    assert quiet.longest_s == {"sender": 0.0, "dut": 0.0}
    assert noise.sentence(quiet) == ""
    assert noise.finding(quiet).ok


@pytest.mark.parametrize("role", ["sender", "dut"])
def test_one_long_gap_is_left_out_of_the_trials_that_it_falls_into(role: str) -> None:
    gap = stretch({500.0: 5.0})
    found = heard(gap, stretch()) if role == "sender" else heard(stretch(), gap)
    assert found.undisturbed_ratio == 1.0
    assert found.longest_s[role] == pytest.approx(0.005)
    assert found.away_ratio[role] == pytest.approx(0.005)


@pytest.mark.parametrize(("role", "behind_ms"), [("sender", 6.4), ("dut", 2.0)])
def test_a_gap_of_more_than_half_a_trial_spoils_it(role: str, behind_ms: float) -> None:
    gap = stretch({500.0: 60.0})
    found = heard(gap, stretch()) if role == "sender" else heard(stretch(), gap)
    # Of the 50 bins of a trial more than 25 are among those left out; 451 trials begin at a bin.
    left_out = int((60.0 + behind_ms) // 2) + 1
    assert (1 - found.undisturbed_ratio) * 451 == pytest.approx(left_out - 1)


def test_what_a_sender_makes_up_for_spoils_a_device() -> None:
    gaps = stretch({float(start): 0.3 for start in range(0, 1000, 4)})
    assert heard(gaps, stretch()).undisturbed_ratio == 1.0
    assert heard(stretch(), gaps).undisturbed_ratio == 0.0


def test_many_gaps_leave_nothing_to_measure() -> None:
    busy = heard(stretch(), stretch({float(start): 4.0 for start in range(0, 1000, 10)}))
    assert busy.verdict == "not usable"
    assert busy.away_ratio["dut"] == pytest.approx(0.4)
    assert "not usable" in noise.sentence(busy)
    assert "stop other work" in noise.finding(busy).remedy
    assert not noise.finding(busy).ok
    assert not noise.finding(busy).essential


def test_a_host_that_takes_the_cpu_is_named() -> None:
    gaps = stretch({float(start): 4.0 for start in range(0, 1000, 10)})
    stolen = summarize({"sender": [stretch()], "dut": [gaps]}, {"sender": 0.0, "dut": 0.38})
    assert "the host took 38 %" in noise.finding(stolen).remedy


def test_how_much_longer_measuring_takes_is_told() -> None:
    gaps = stretch({float(start): 60.0 for start in range(50, 1000, 200)})
    usable = heard(stretch(), gaps)
    assert usable.verdict == "usable"
    assert f"{1 / usable.undisturbed_ratio:.1f} times as long" in noise.sentence(usable)


def test_cpus_are_compared_only_while_both_were_listened_to() -> None:
    late = CpuGaps(600_000_000, SECOND_NS, np.array([], dtype=np.uint64), np.array([], dtype=np.uint64))
    assert heard(stretch({100.0: 50.0}), late).undisturbed_ratio == 1.0
