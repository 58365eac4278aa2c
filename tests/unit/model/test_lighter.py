"""Predictions cover lighter loads, more even gaps, and what trials lost below the threshold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.model import Model, fit_all
from weirlab.model.base import DELAYS, TOLD_LEVEL
from weirlab.model.tunnelled import tunnelled
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile

LOADS = (0.03, 0.15, 0.3, 0.45, 0.6, 0.75, 0.85, 0.92, 1.1, 1.2, 1.4)
RISING = ("delay_p99_ns", "delay_p999_ns", "jitter_ns", "loss_ratio")
LOST = 0.09
"""What a trial loses at 85 % of the threshold, and none of its repetitions."""


@pytest.fixture(scope="module")
def trials() -> list[Observation]:
    """A profile whose trials scatter less the heavier the load is, and one of which loses packets."""
    rng = np.random.default_rng(7)
    found = []
    truths = [
        truth
        for poisson in (False, True)
        for truth in profile(QueueDevice(), frames=(64.0, 1518.0), loads=LOADS, poisson=poisson, packets=800)
    ]
    for truth in truths:
        for _ in range(3):
            off = np.exp(rng.normal(0, 0.4 * min(2e4 / truth.rate_pps, 1.0) + 0.02))
            found.append(
                replace(truth, **{name: getattr(truth, name) * off for name in (*DELAYS, "jitter_ns")})
            )
    quiet = [i for i, trial in enumerate(found) if trial.loss_ratio == 0 and trial.position == 0]
    worst = max(quiet, key=lambda i: found[i].rate_pps)
    found[worst] = replace(found[worst], loss_ratio=LOST, forwarding_pps=(1 - LOST) * found[worst].rate_pps)
    return found


@pytest.fixture(scope="module")
def models(trials: list[Observation]) -> dict[str, Model]:
    return fit_all(trials)


@pytest.mark.parametrize("kind", ["queueing", "piecewise", "lohmiller"])
@pytest.mark.parametrize("gaps", [0.0, 1.0])
def test_no_upper_end_falls_when_the_load_rises(models: dict[str, Model], kind: str, gaps: float) -> None:
    model = models[kind]
    threshold = float(model.threshold_pps(0.0, 64.0))
    found = model.predict(np.geomspace(0.03, 1.4, 150) * threshold, 64.0, 0.0, gaps)
    for name in RISING:
        for band in found.intervals[name].values():
            assert (band.high >= getattr(found, name)).all()
            # Between the loads that are compared, a predicted value may bulge.
            assert (band.high >= 0.97 * np.maximum.accumulate(band.high)).all(), name


def test_neither_does_that_of_a_tunnel_behind_rules(models: dict[str, Model]) -> None:
    rules = models["queueing"]
    for cpus in (1, 2):
        both = tunnelled(rules, rules, cpus)  # type: ignore[arg-type]
        loads = np.geomspace(0.05, 1.2, 60) * float(both.threshold_pps(0.0, 64.0))
        high = both.predict(loads, 64.0, 0.0).intervals["loss_ratio"][TOLD_LEVEL].high
        assert (np.diff(high) >= 0).all()


def test_random_gaps_never_look_better_than_even_ones(models: dict[str, Model]) -> None:
    model = models["queueing"]
    loads = np.geomspace(0.03, 1.4, 80) * float(model.threshold_pps(0.0, 64.0))
    even, random = (model.predict(loads, 64.0, 0.0, gaps) for gaps in (0.0, 1.0))
    for name in (*DELAYS, "jitter_ns", "loss_ratio"):
        assert (getattr(random, name) >= getattr(even, name)).all()
        assert (random.intervals[name][TOLD_LEVEL].high >= even.intervals[name][TOLD_LEVEL].high * 0.99).all()


@pytest.mark.parametrize("kind", ["queueing", "piecewise", "lohmiller"])
def test_an_interval_contains_what_a_trial_lost_there_and_at_lighter_loads(
    trials: list[Observation], models: dict[str, Model], kind: str
) -> None:
    lost = next(trial for trial in trials if trial.loss_ratio == LOST)
    for load in (lost.rate_pps, 1.05 * lost.rate_pps):
        found = models[kind].predict(load, lost.frame_bytes, 0.0, lost.gap_scv)
        assert found.intervals["loss_ratio"][TOLD_LEVEL].high >= LOST
    light = models[kind].predict(0.3 * lost.rate_pps, lost.frame_bytes, 0.0, lost.gap_scv)
    assert light.intervals["loss_ratio"][TOLD_LEVEL].high < LOST
