"""What a device does to packets while it is offered the same load.

A packet stays for ``floor_ns`` at least. Behind the server, interruptions hold packets up: independent
Poisson streams of interruptions, all those of one stream of the same length. A packet that is served during
some leaves when the last of them ends. So packets keep their order whatever their gaps, and the share of
packets that stay no longer than ``floor + x`` is ``exp(-N(x))``, where ``N(x)``, the mean number of
interruptions of which more than x is left, is convex and falls in straight lines: between the levels
``-ln(share)`` of p50, p90, p99 and p99.9 by ``1 / slope``. Slopes may therefore only grow with the delay.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from weirlab.model.base import DELAYS, F64, Prediction

LEVELS: Final = (3.0, *(-math.log(q) for q in (0.5, 0.9, 0.99, 0.999)), 0.0)
"""``N`` of the shares of packets at the floor, up to p50, p90, p99, p99.9, and the longest delay."""
STREAMS: Final = 4

_WEIGHTS: Final = (1000.0, 3.0, 1.0, 300.0, 1.0)
"""Of the relative errors of mean, p50, p90, p99 and p99.9: mean and p99 count, the others bend to them."""

LEAST_PLACES: Final = 16
"""Of the queue of an overloaded device. Just above the threshold delays spread from none to those of a full
queue, which still takes bursts."""


def _steps() -> F64:
    """Delays above the floor of unit slopes: mean, p50, p90, p99 and p99.9 by slope, shape (5, STREAMS)."""
    steps = np.zeros((len(DELAYS), STREAMS))
    for i in range(STREAMS):
        # The last slope goes on to the longest delay.
        top, end = LEVELS[i], LEVELS[i + 1] if i + 1 < STREAMS else 0.0
        steps[0, i] = top - end - (math.exp(-end) - math.exp(-top))
        steps[i + 1 :, i] = LEVELS[i] - LEVELS[i + 1]
    return steps


_STEPS: Final = _steps()


@dataclass(frozen=True)
class SteadyStates:
    """Of several loads; arrays of shape (n,), ``slopes_ns`` (n, STREAMS)."""

    floor_ns: F64
    slopes_ns: F64
    drop_ratio: F64
    """Share of packets that are lost before the queue: that of a device that is not overloaded."""
    rho: F64
    service_ns: F64

    @classmethod
    def of(cls, prediction: Prediction, rate_pps: npt.ArrayLike, queue_packets: float) -> Self:
        """The states that have the mean and p99 of ``prediction``, whose arrays have shape (n,)."""
        service_ns = 1e9 / prediction.threshold_pps
        rate = np.asarray(rate_pps)
        rho = rate * service_ns / 1e9
        # The full queue of an overloaded device holds every packet for so long.
        places = min(max(math.floor(queue_packets + 0.5), 1), LEAST_PLACES)
        least_ns = np.where(rho > 1.0, np.maximum(places * service_ns - 0.5e9 / rate, service_ns), service_ns)
        targets = np.stack([getattr(prediction, name) for name in DELAYS], axis=1)
        scale = np.array(_WEIGHTS) / targets
        # Unknown: the floor above the least one, the first slope, and by how much each exceeds the last.
        grown = _STEPS[:, ::-1].cumsum(axis=1)[:, ::-1]
        matrix = np.concatenate([np.ones((len(DELAYS), 1)), grown], axis=1)
        unknown = _nonnegative(matrix * scale[:, :, None], (targets - least_ns[:, None]) * scale)
        return cls(
            floor_ns=least_ns + unknown[:, 0],
            slopes_ns=unknown[:, 1:].cumsum(axis=1),
            drop_ratio=np.where(rho > 1.0, 0.0, prediction.loss_ratio),
            rho=rho,
            service_ns=service_ns,
        )

    def delays_ns(self) -> dict[str, F64]:
        """Mean and quantiles, by the names in ``DELAYS``."""
        found = self.floor_ns[:, None] + self.slopes_ns @ _STEPS.T
        return dict(zip(DELAYS, found.T, strict=True))


def _nonnegative(matrix: F64, target: F64) -> F64:
    """Least squares of ``matrix x = target`` for x >= 0; (n, r, k) and (n, r), answer (n, k).

    The best of all sets of unknowns that may differ from 0: there are few, and it is the same everywhere.
    """
    n, _, k = matrix.shape
    best, least = np.zeros((n, k)), (target**2).sum(axis=1)
    for size in range(1, k + 1):
        for used in itertools.combinations(range(k), size):
            part = matrix[:, :, used]
            normal = part.transpose(0, 2, 1) @ part
            right = (part.transpose(0, 2, 1) @ target[:, :, None])[:, :, 0]
            solved = np.linalg.solve(normal, right[:, :, None])[:, :, 0]
            misfit = (((part @ solved[:, :, None])[:, :, 0] - target) ** 2).sum(axis=1)
            better = (solved >= 0).all(axis=1) & (misfit < least)
            best[better] = 0.0
            best[np.ix_(better, used)] = solved[better]
            least = np.where(better, misfit, least)
    return best
