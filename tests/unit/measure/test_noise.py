"""What listening to the CPUs says of trials to come."""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.measure import noise
from weirlab.measure.noise import Noise, Stretch, summarize

SECOND_NS = 1_000_000_000


def stretch(gaps_ms: dict[float, float] | None = None, *, seconds: float = 1.0) -> Stretch:
    """A stretch with gaps: when each began, and how long it was."""
    gaps = sorted((gaps_ms or {}).items())
    starts = np.array([start * 1e6 for start, _ in gaps], dtype=np.uint64)
    lengths = np.array([length * 1e6 for _, length in gaps], dtype=np.uint64)
    return Stretch(0, round(seconds * SECOND_NS), starts, lengths)


def heard(sender: Stretch, dut: Stretch) -> Noise:
    return summarize({"sender": [sender], "dut": [dut]}, {"sender": 0.0, "dut": 0.0})


def test_quiet_cpus_spoil_nothing() -> None:
    quiet = heard(stretch(), stretch())
    assert quiet.undisturbed_ratio == 1.0
    assert quiet.verdict == "good"
    assert quiet.longest_s == {"sender": 0.0, "dut": 0.0}
    assert noise.sentence(quiet) == ""
    assert noise.finding(quiet).ok


@pytest.mark.parametrize("role", ["sender", "dut"])
def test_one_long_gap_spoils_the_trials_that_it_would_fall_into(role: str) -> None:
    gap = stretch({500.0: 5.0})
    found = heard(gap, stretch()) if role == "sender" else heard(stretch(), gap)
    # 901 trials of 100 ms begin at a millisecond; the gap falls into those that begin from 400 to 505 ms,
    # less the few that meet less of it than the limit allows.
    spoiled = round((1 - found.undisturbed_ratio) * 901)
    assert 100 <= spoiled <= 105
    assert found.longest_s[role] == pytest.approx(0.005)
    assert found.away_ratio[role] == pytest.approx(0.005)


def test_what_a_sender_makes_up_for_spoils_a_device() -> None:
    gap = stretch({500.0: 0.6})
    assert heard(gap, stretch()).undisturbed_ratio == 1.0
    assert heard(stretch(), gap).undisturbed_ratio < 0.95


def test_many_gaps_leave_nothing_to_measure() -> None:
    busy = heard(stretch(), stretch({float(start): 4.0 for start in range(0, 1000, 20)}))
    assert busy.verdict == "not usable"
    assert busy.away_ratio["dut"] == pytest.approx(0.2)
    assert "not usable" in noise.sentence(busy)
    assert "stop other work" in noise.finding(busy).remedy
    assert not noise.finding(busy).ok
    assert not noise.finding(busy).essential


def test_a_host_that_takes_the_cpu_is_named() -> None:
    gaps = stretch({float(start): 4.0 for start in range(0, 1000, 20)})
    stolen = summarize({"sender": [stretch()], "dut": [gaps]}, {"sender": 0.0, "dut": 0.18})
    assert "the host took 18.0%" in noise.finding(stolen).remedy


def test_how_much_longer_measuring_takes_is_told() -> None:
    gaps = stretch({float(start): 5.0 for start in range(50, 1000, 200)})
    usable = heard(stretch(), gaps)
    assert usable.verdict == "usable"
    assert f"{1 / usable.undisturbed_ratio:.1f} times as long" in noise.sentence(usable)


def test_cpus_are_compared_only_while_both_were_listened_to() -> None:
    late = Stretch(600_000_000, SECOND_NS, np.array([], dtype=np.uint64), np.array([], dtype=np.uint64))
    assert heard(stretch({100.0: 50.0}), late).undisturbed_ratio == 1.0
