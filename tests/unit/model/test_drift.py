"""Drift of the host within a profile."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from weirlab.model.drift import STARTED, drifts
from weirlab.records import Observation

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def profile(seed: int, slower: float, trials: int = 240) -> list[Observation]:
    """Trials in random order, the device slower by the factor ``slower`` in the second half; scatter 2 %."""
    draw = np.random.default_rng(seed)
    settings = [(position, share) for position in (0, 100, 400) for share in (0.2, 0.5, 0.8, 1.3, 2.0)]
    found = []
    for number in range(trials):
        position, share = settings[draw.integers(len(settings))]
        threshold = 1e6 / (1 + position / 100)
        state = slower if number >= trials / 2 else 1.0
        scatter = math.exp(0.02 * draw.standard_normal())
        rate = share * threshold
        forwarded = min(rate, threshold / state * scatter)
        delay = (1e-3 if share > 1 else 2e-5 / (1 - share)) * 1e9 * state * scatter
        delays = {f"delay_{name}_ns": delay for name in ("mean", "p50", "p90", "p99", "p999")}
        found.append(
            Observation(
                rate_pps=rate,
                frame_bytes=64.0,
                position=float(position),
                forwarding_pps=forwarded,
                loss_ratio=1 - forwarded / rate,
                jitter_ns=100.0,
                packets=10_000,
                extra={STARTED: (BEGIN + timedelta(seconds=number)).isoformat()},
                **delays,
            )
        )
    return found


def test_a_steady_host_shows_no_drift() -> None:
    found = [each for seed in range(100) for each in drifts(profile(seed, 1.0))]
    assert len(found) == 200
    assert sum(each.proven for each in found) <= 2
    assert np.median([each.std for each in found]) < 0.003


@pytest.mark.parametrize("slower", [1.05, 1.3])
def test_a_device_that_becomes_slower_is_found_with_its_size(slower: float) -> None:
    for found in drifts(profile(1, slower)):
        assert found.proven
        # The two halves differ by it: a little more than it between the outermost of eight parts.
        assert math.log(slower) < found.span < math.log(slower) + 0.05
        assert found.std == pytest.approx(math.log(slower) * math.sqrt(2 / 7), rel=0.2)


def test_too_few_trials_say_nothing() -> None:
    assert drifts(profile(1, 1.3, trials=15)) == ()
    assert drifts([]) == ()
