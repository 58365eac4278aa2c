"""Predicted loss follows the mean of trials below the threshold; a single stall does not move it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.model import QueueingModel
from weirlab.model.base import TOLD_LEVEL
from weirlab.model.intervals.cross_validation import calibrate
from weirlab.model.planning.judge import LEAST, Judge, OperatingPoints
from weirlab.model.planning.reach import reach
from weirlab.model.planning.requirements import QuantityLimit
from weirlab.model.queueing.stalls import StallLoss
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile

LOADS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.92, 0.95, 1.1, 1.2, 1.4)
LOST = 0.06


def test_the_mean_of_many_trials_that_met_stalls_is_kept_and_that_of_one_is_not() -> None:
    share = np.tile(np.arange(1, 11) / 10.5, 30)
    lost = np.zeros(share.shape)
    lost[np.flatnonzero(share > 0.9)[::3]] = LOST
    found = StallLoss.fit(share, lost)
    assert found.at(np.array([0.5, 0.85])).tolist() == [0.0, 0.0]
    assert 0.5 * LOST / 3 < float(found.at(np.array(0.96))) < LOST / 3
    assert found.at(np.array(1.3)) == found.at(np.array(0.99))
    alone = np.where(np.arange(len(share)) == 14, LOST, 0.0)
    assert StallLoss.fit(share, alone) == StallLoss()
    assert StallLoss.fit(share, np.zeros(share.shape)) == StallLoss()


def test_more_than_the_threshold_allows_is_overload_and_no_stall() -> None:
    assert StallLoss.fit(np.array([0.5, 0.7, 1.1, 1.2]), np.array([0.0, 0.0, 0.1, 0.2])) == StallLoss()


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 1, 3)])
def test_the_order_of_repetitions_does_not_count(order: tuple[int, ...]) -> None:
    lost = np.array([0.0, 0.0, 0.06, 0.05])
    share = np.array([0.801, 0.803, 0.802, 0.804])
    found = StallLoss.fit(share[::-1], lost[list(order)])
    assert found.shares == (0.801,)
    assert found.loss_ratios == pytest.approx([lost.mean() - lost.std(ddof=1) / 2])


@pytest.fixture(scope="module")
def trials() -> list[Observation]:
    """A profile of which every third trial just below the threshold loses packets, without overload."""
    truths = profile(QueueDevice(), (0, 100, 400, 1000), (64.0, 1518.0), LOADS, packets=800)
    found = [trial for trial in truths for _ in range(3)]
    near = [
        i for i, load in enumerate(np.tile(np.repeat(LOADS, 3), len(found) // 30)) if load in (0.92, 0.95)
    ]
    for i in near[::3]:
        found[i] = replace(found[i], loss_ratio=LOST, forwarding_pps=(1 - LOST) * found[i].rate_pps)
    return found


def test_the_predicted_loss_and_the_load_with_little_loss_follow_the_mean(trials: list[Observation]) -> None:
    model = QueueingModel.fit(trials)
    model = model.with_calibration(calibrate(QueueingModel, trials, model))
    threshold = float(model.threshold_pps(0.0, 64.0))
    found = model.predict(threshold * np.array([0.5, 0.8, 0.96]), 64.0, 0.0)
    assert found.loss_ratio[:2].tolist() == [0.0, 0.0]
    assert 0.5 * LOST / 3 < found.loss_ratio[2] < LOST / 3
    band = found.intervals["loss_ratio"][TOLD_LEVEL]
    assert band.low[2] == 0.0
    assert band.high[2] >= LOST
    judge = Judge(model, (QuantityLimit("loss_ratio", 0.01),), LEAST)
    reached = reach(judge, threshold * np.linspace(0.5, 1.1, 61), lambda pps: OperatingPoints(pps, 64.0, 0.0))
    assert 0.85 < (reached.value or 0.0) / threshold < 0.93


def test_bursts_of_random_gaps_are_no_stalls(trials: list[Observation]) -> None:
    even = [replace(trial, loss_ratio=0.0) if trial.loss_ratio == LOST else trial for trial in trials]
    bursts = [replace(trial, gap_scv=1.0) for trial in trials]
    assert QueueingModel.fit([*even, *bursts]).stalls == StallLoss()
    assert QueueingModel.fit(bursts).stalls != StallLoss()
