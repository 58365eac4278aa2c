from __future__ import annotations

from dataclasses import replace

import numpy as np

from weirlab.model.base import ObservationTable
from weirlab.model.regimes import sort
from weirlab.records import Observation


def trial(rate: float, loss: float, position: float = 0.0, frame: float = 64.0) -> Observation:
    return Observation(rate, frame, position, rate * (1 - loss), loss, 1e4, 1e4, 1e4, 1e4, 100.0)


def test_regimes_are_told_apart_by_loss() -> None:
    table = ObservationTable.of([trial(1e5, 0.0), trial(5e5, 0.004), trial(6e5, 0.1), trial(9e5, 0.4)])
    regimes = sort(table)
    assert regimes.overload.tolist() == [False, False, True, True]
    assert regimes.below.tolist() == [True, True, False, False]


def test_loss_far_below_the_threshold_is_neither_regime() -> None:
    table = ObservationTable.of([trial(1e5, 0.01), trial(3e5, 0.0), trial(6e5, 0.1), trial(9e5, 0.4)])
    regimes = sort(table)
    assert regimes.overload.tolist() == [False, False, True, True]
    assert not regimes.below[0]


def test_packets_that_come_late_far_below_the_threshold_are_neither_loss_nor_overload() -> None:
    """Reported: three trials that lost nothing were set aside as lossy, those with the longest delays."""
    late = replace(trial(2.4e5, 0.0), forwarding_pps=2.2e5)
    table = ObservationTable.of([trial(1e5, 0.0), trial(3.5e5, 0.0), late, trial(9e5, 0.6)])
    regimes = sort(table)
    assert regimes.below.tolist() == [True, True, True, False]
    assert regimes.late(table).tolist() == [False, False, True, False]


def test_loss_below_a_load_that_passed_is_no_overload() -> None:
    table = ObservationTable.of([trial(1e5, 0.02), trial(3e5, 0.0)])
    assert not sort(table).overload.any()


def test_slight_loss_near_the_threshold_is_overload() -> None:
    table = ObservationTable.of([trial(5e5, 0.0), trial(5.45e5, 0.01), trial(9e5, 0.4)])
    assert sort(table).overload.tolist() == [False, True, True]


def test_a_queue_without_end_is_overload_without_loss() -> None:
    held = replace(trial(8e5, 0.0), forwarding_pps=3e5)
    table = ObservationTable.of([trial(1e5, 0.0), trial(2.9e5, 0.0), held])
    regimes = sort(table)
    assert regimes.overload.tolist() == [False, False, True]
    assert regimes.threshold_pps(table).tolist() == [3e5]


def test_thresholds_are_measured_per_position_and_size() -> None:
    table = ObservationTable.of(
        [trial(9e5, 0.5), trial(9e5, 0.8, position=100), trial(9e5, 0.0, frame=1518.0)]
    )
    regimes = sort(table)
    found = dict(zip(map(str, regimes.settings), regimes.threshold_pps(table), strict=True))
    assert np.isclose(found["position 0 with 64 B frames"], 4.5e5)
    assert np.isclose(found["position 100 with 64 B frames"], 1.8e5)
    assert np.isnan(found["position 0 with 1518 B frames"])


def test_a_device_that_forwards_little_of_a_load_beyond_its_threshold_is_in_overload() -> None:
    """Reported: its trial was set aside for its result."""
    table = ObservationTable.of([trial(1e5, 0.0), trial(9e5, 0.4), trial(9e5, 0.41), trial(9e5, 0.7)])
    regimes = sort(table)
    assert regimes.overload.tolist() == [False, True, True, True]
    assert regimes.unsteady(table).tolist() == [False, False, False, True]
