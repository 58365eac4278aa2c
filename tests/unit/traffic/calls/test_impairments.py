from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.calls.impairments import FrameArrivals, Impairments, impair

PACKETS, FLOWS, PACKET_NS = 5000, 4, 20_000_000


def through(faults: Impairments, *, speech: bool = True) -> FrameArrivals:
    """``FLOWS`` streams of ``PACKETS`` packets each, evenly phased."""
    flow = np.tile(np.arange(FLOWS), PACKETS)
    due_ns = np.arange(FLOWS * PACKETS) * (PACKET_NS // FLOWS)
    return impair(due_ns, flow, np.full(len(flow), speech), FLOWS, faults)


def sequence(found: FrameArrivals, flow: int) -> list[int]:
    """Numbers of the packets of a stream in the order of arrival."""
    return [int(frame) // FLOWS for frame in found.frame if frame % FLOWS == flow]


def test_without_faults_nothing_changes() -> None:
    found = through(Impairments())
    assert (found.frame == np.arange(FLOWS * PACKETS)).all()
    assert found.lost.sum() == found.reordered.sum() == found.duplicated.sum() == 0


def test_the_same_seed_gives_the_same_faults_and_another_one_others() -> None:
    faults = Impairments(0.02, 3.0, 2e6, 0.01, 0.01)
    first, again, other = through(faults), through(faults), through(replace(faults, seed=2))
    assert (first.at_ns == again.at_ns).all()
    assert (first.frame == again.frame).all()
    assert len(first.frame) != len(other.frame) or (first.frame != other.frame).any()


def test_what_is_counted_is_what_is_missing_late_or_there_twice() -> None:
    found = through(Impairments(0.05, None, 2e6, 0.03, 0.02))
    assert (np.diff(found.at_ns) >= 0).all()
    for flow in range(FLOWS):
        numbers = sequence(found, flow)
        assert PACKETS - len(set(numbers)) == found.lost[flow] > 0
        assert len(numbers) - len(set(numbers)) == found.duplicated[flow] > 0
        highest, late, seen = -1, 0, set()
        for number in numbers:
            late += number < highest and number not in seen
            highest, seen = max(highest, number), seen | {number}
        assert late == found.reordered[flow] > 0
        assert {0, PACKETS - 1} <= set(numbers)


@pytest.mark.parametrize("burst", [None, 4.0])
def test_the_share_lost_and_the_length_of_runs_are_those_asked_for(burst: float | None) -> None:
    found = through(Impairments(0.05, burst))
    total = int(found.lost.sum())
    assert total == pytest.approx(0.05 * FLOWS * PACKETS, rel=0.15)
    there = [np.isin(np.arange(PACKETS), sequence(found, flow)) for flow in range(FLOWS)]
    runs = sum(int((np.diff(np.append(True, each).astype(int)) == -1).sum()) for each in there)
    assert total / runs == pytest.approx(burst or 1 / 0.95, rel=0.15)


def test_rare_bursts_take_memory_by_the_packets_there_are_and_not_by_those_between_bursts() -> None:
    tracemalloc.start()
    try:
        lost = Impairments(1e-7, 4.0).lost(1000, np.random.default_rng(1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (len(lost), int(lost.sum())) == (1000, 0)
    assert peak < 1_000_000


def test_jitter_is_the_mean_difference_in_delay_and_overtakes_nobody() -> None:
    found = through(Impairments(jitter_ns=1e6))
    for flow in range(FLOWS):
        mine = found.frame % FLOWS == flow
        assert (np.diff(found.frame[mine]) > 0).all()
        delay = found.at_ns[mine] - found.frame[mine] * (PACKET_NS // FLOWS)
        assert np.abs(np.diff(delay)).mean() == pytest.approx(1e6, rel=0.1)
        assert delay.min() >= 0


def test_control_and_signalling_pass() -> None:
    found = through(Impairments(0.3, 3.0, 5e6, 0.1, 0.1), speech=False)
    assert (found.frame == np.arange(FLOWS * PACKETS)).all()


@pytest.mark.parametrize(
    ("faults", "complaint"),
    [
        ({"loss_ratio": 0.6}, "not from 0 to 50 %"),
        ({"duplicate_ratio": math.nan}, "duplicated: nan %"),
        ({"jitter_ns": -1.0}, "jitter of"),
        ({"loss_ratio": 0.1, "loss_burst": 0.5}, "must be 1 or more"),
        ({"loss_ratio": 0.5, "loss_burst": math.inf}, "must be 1 or more"),
    ],
)
def test_faults_that_cannot_be_are_refused(faults: dict[str, float], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        Impairments(**faults)  # type: ignore[arg-type]
