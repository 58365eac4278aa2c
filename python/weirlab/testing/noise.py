"""Trials of a device as a noisy shared virtual machine would measure them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from weirlab.model.base import DELAYS, F64
from weirlab.records import Observation

_TIMES = (*DELAYS, "jitter_ns")


@dataclass(frozen=True)
class HostNoise:
    """How the host spoils trials; a change in the device's speed changes the queueing delay as well."""

    scatter: float = 0.05
    """Standard deviation of ln(speed) from trial to trial."""
    outliers: float = 0.1
    """Share of the trials that a neighbour slows down by 10 to 40 %. Nothing makes a device faster."""
    drift: float = 0.04
    """Amplitude of ln(speed) over the run, which lasts one period."""
    single: float = 0.5
    """Share of the settings with one valid trial; the others have three."""

    def trials(self, truths: Sequence[Observation], seed: int) -> list[Observation]:
        """Trials of the settings in ``truths``, which are what a quiet host would measure."""
        rng = np.random.default_rng(seed)
        counts = np.where(rng.random(len(truths)) < self.single, 1, 3)
        rows = rng.permutation(np.repeat(np.arange(len(truths)), counts))
        when = np.linspace(0.0, 2.0 * math.pi, len(rows)) + rng.uniform(0.0, 2.0 * math.pi)
        speeds = self._speeds(rng, when)
        return [_at_speed(truths[row], float(speed)) for row, speed in zip(rows, speeds, strict=True)]

    def _speeds(self, rng: np.random.Generator, when: F64) -> F64:
        disturbed = rng.random(len(when)) < self.outliers
        slowed = np.where(disturbed, 1.0 - rng.uniform(0.1, 0.4, len(when)), 1.0)
        return np.asarray(
            slowed * np.exp(self.drift * np.sin(when) + rng.normal(0.0, self.scatter, len(when)))
        )


def _at_speed(truth: Observation, speed: float) -> Observation:
    """``truth`` with the device's CPU at ``speed`` times its usual speed."""
    forwarding = truth.forwarding_pps * speed if truth.loss_ratio > 0 else truth.forwarding_pps
    forwarding = min(forwarding, truth.rate_pps)
    times = {name: getattr(truth, name) / speed for name in _TIMES}
    return replace(truth, forwarding_pps=forwarding, loss_ratio=1.0 - forwarding / truth.rate_pps, **times)
