"""What an adaptive profile of half the trials knows, beside the whole grid."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure import profile as grid
from weirlab.measure import verify
from weirlab.measure.adaptive import AdaptivePlan, committee, measure
from weirlab.model import QueueingModel
from weirlab.records import Observation
from weirlab.store import Run, Store

from .small import SMALL

POSITIONS = (20, 250, 700)
NOT_WORSE = 1.0
"""Percentage points by which errors on held-out settings may exceed those of the whole grid."""


def held_out(device: SimDevice, store: Store, seed: int) -> list[Observation]:
    def threshold_pps(position: float, frame_bytes: float) -> float:
        service = device.service_fixed_ns + position * device.service_per_rule_ns
        return 1e9 / (service + frame_bytes * device.service_per_byte_ns)

    plan = verify.plan(
        verify.VerificationPlan(
            positions=POSITIONS, sizes=SMALL.sizes, repetitions=1, trial_s=0.03, warmup_s=0.005, seed=seed
        ),
        threshold_pps,
    )
    with store.create("verify", {"name": "test"}, {}) as own:
        verify.run(SimLab(device), plan, own)
    return own.run.observations("verify")


def errors_percent(run: Run, trials: Sequence[Observation]) -> tuple[float, float]:
    """Mean error of threshold, and of mean delay below 90 % of it, against the held-out trials."""
    model = QueueingModel.fit(run.observations("profile"))
    columns = {
        name: np.array([getattr(o, name) for o in trials])
        for name in ("rate_pps", "frame_bytes", "position", "loss_ratio", "forwarding_pps", "delay_mean_ns")
    }
    found = model.predict(columns["rate_pps"], columns["frame_bytes"], columns["position"])
    over = columns["loss_ratio"] > 0.05
    below = columns["rate_pps"] < 0.9 * found.threshold_pps
    threshold = np.abs(found.threshold_pps / columns["forwarding_pps"] - 1)[over].mean()
    delay = np.abs(found.delay_mean_ns / columns["delay_mean_ns"] - 1)[below].mean()
    return float(100 * threshold), float(100 * delay)


@pytest.mark.parametrize("seed", [1, 3])
def test_half_the_trials_reach_the_accuracy_of_the_grid_on_held_out_settings(
    tmp_path: Path, seed: int
) -> None:
    device = SimDevice(
        service_fixed_ns=900 + 300 * seed, service_per_rule_ns=1.5 * seed, io_service_ns=1600, seed=seed
    )
    store = Store(tmp_path)
    with store.create("profile", {"name": "grid"}, {}) as whole:
        all_of_it = grid.measure(SimLab(device), SMALL, whole)
    with store.create("profile", {"name": "adaptive"}, {}) as part:
        found = measure(
            SimLab(device),
            AdaptivePlan(SMALL, batch_trials=12),
            part,
            uncertainty=partial(committee, members=4),
        )
    trials = held_out(device, store, seed)
    assert found.outcome.trials <= all_of_it.trials / 2
    of_grid, of_part = errors_percent(whole.run, trials), errors_percent(part.run, trials)
    assert of_part[0] <= of_grid[0] + NOT_WORSE
    assert of_part[1] <= of_grid[1] + NOT_WORSE
