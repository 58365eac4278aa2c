from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike

from weirlab.model.base import DELAYS, F64, Band, Model, Prediction
from weirlab.records import Observation


@dataclass(frozen=True)
class Textbook:
    """A model whose answers can be written down: M/M/1 in the mean, quantiles as multiples of it.

    Profiled with 1 to 2000 kpps, 64 to 1518 B and 0 to 1000 rules. Intervals are log-normal
    with standard deviation ``sigma``; none for 0.
    """

    name: ClassVar[str] = "textbook"
    fixed_ns: float = 1000.0
    per_rule_ns: float = 2.0
    per_byte_ns: float = 0.1
    base_ns: float = 10_000.0
    sigma: float = 0.1

    def service_ns(self, frame: ArrayLike, position: ArrayLike) -> F64:
        return self.fixed_ns + self.per_rule_ns * np.asarray(position) + self.per_byte_ns * np.asarray(frame)

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        rate, frame, place = np.broadcast_arrays(
            np.asarray(rate_pps, float), np.asarray(frame_bytes, float), np.asarray(position, float)
        )
        service = self.service_ns(frame, place)
        rho = rate * service / 1e9
        wait = service / np.maximum(1 - rho, 1e-3)
        # Poisson arrivals wait, regular ones do not, in this textbook.
        mean = self.base_ns + np.where(np.asarray(gap_scv) > 0, wait, service)
        outside = (rate < 1e3) | (rate > 2e6) | (frame < 64) | (frame > 1518) | (place > 1000)
        values: dict[str, F64] = {
            "threshold_pps": 1e9 / service,
            "loss_ratio": np.maximum(1 - 1 / rho, 0.0),
            **{name: mean * factor for name, factor in zip(DELAYS, (1, 1, 2, 3, 4), strict=True)},
            "jitter_ns": mean / 10,
        }
        why = []
        if ((rate < 1e3) | (rate > 2e6)).any():
            why.append("load outside the profiled 1 to 2000 kpps")
        if (place > 1000).any():
            why.append("matching position outside the profiled 0 to 1000")
        z = {50: 0.6745, 90: 1.6449, 99: 2.5758}
        bands = {
            name: {
                level: Band(value * np.exp(-k * self.sigma), value * np.exp(k * self.sigma))
                for level, k in z.items()
            }
            for name, value in values.items()
            if name != "loss_ratio"
        }
        return Prediction(**values, extrapolated=outside, why=why, intervals=bands if self.sigma else {})

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        return np.asarray(1e9 / self.service_ns(frame_bytes, position))

    @classmethod
    def fit(cls, observations: Iterable[Observation]) -> Self:
        return cls()


@pytest.fixture(scope="session")
def textbook() -> Textbook:
    return Textbook()


@pytest.fixture(scope="session")
def exact() -> Textbook:
    """Without intervals."""
    return Textbook(sigma=0.0)


@pytest.fixture(scope="session")
def slow() -> Textbook:
    return Textbook(fixed_ns=2000.0)


_: Model = Textbook()
