"""The share of a model's error that is a change of the host."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from weirlab.model import QueueingModel
from weirlab.model.drift import shifts
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile

FRAMES = (64.0,)


def measured(device: QueueDevice, positions: tuple[int, ...], seed: int) -> list[Observation]:
    """Two trials of every setting, with 1 % of scatter."""
    draw = np.random.default_rng(seed)
    found = []
    for truth in profile(replace(device), frames=FRAMES, positions=positions):
        for _ in range(2):
            scatter = math.exp(0.01 * draw.standard_normal())
            over = truth.loss_ratio > 0
            forwarding = truth.forwarding_pps * (scatter if over else 1.0)
            found.append(
                replace(truth, forwarding_pps=forwarding, delay_mean_ns=truth.delay_mean_ns * scatter)
            )
    return found


@pytest.mark.parametrize("slower", [1.0, 1.12])
def test_an_error_that_is_the_host_s_is_told_from_the_model_s(slower: float) -> None:
    device = QueueDevice()
    then = replace(device, fixed_ns=device.fixed_ns * slower, per_rule_ns=device.per_rule_ns * slower)
    before = measured(device, (0, 100, 400, 1000), 1)
    again, held_out = measured(then, (0, 100, 1000), 2), measured(then, (200, 700), 3)
    found = {
        each.quantity: each
        for each in shifts(before, again, {"queueing": QueueingModel.fit(before)}, held_out)
    }
    threshold = found["threshold"]
    assert threshold.low <= 1 / slower - 1 <= threshold.high
    assert threshold.proven == (slower > 1)
    assert threshold.places == 3
    without = threshold.without_percent["queueing"]
    assert without < 2.5
    if slower > 1:
        assert threshold.error_percent["queueing"] - without > 9


def test_without_common_settings_nothing_is_told() -> None:
    before = measured(QueueDevice(), (0, 100, 400, 1000), 1)
    held_out = measured(QueueDevice(), (200,), 2)
    assert (
        shifts(before, measured(QueueDevice(), (50,), 3), {"queueing": QueueingModel.fit(before)}, held_out)
        == ()
    )
