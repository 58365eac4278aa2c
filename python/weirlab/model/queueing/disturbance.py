"""Disturbance by the host: long, rare interruptions with a heavy tail.

While the device's CPU is away for a time H, packets queue up, and the queue drains at
``1 - rho`` of the device's speed. So the share of packets that are held up by more than x is
``T(x) / (1 - rho)`` with ``T(x) = f E[(H - x)+]``, f interruptions per second: one function
of the host alone, seen through the load. A delay that 1 % of all packets exceed at 90 % load is
one that 0.1 % exceed at an idle device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from weirlab.model import robust
from weirlab.model.base import F64

_LEAST_LEFT: Final = 0.02
"""Least share of the device's speed that is left to drain a queue: the law is for loads below saturation."""

_POWER: Final = 2.0
"""Two independent delays: their quantile is hardly more than the larger one's."""

_MOST: Final = 0.3
_LIGHTEST: Final = 20.0
"""As good as exponential."""
_RESOLUTION: Final = 0.1
_OUTLIER: Final = 0.3


@dataclass(frozen=True)
class DisturbanceLaw:
    """``T(x) = share * (1 + x / scale)^-tail``, a Pareto tail; ``share`` 0 means an undisturbed host."""

    share: float = 0.0
    scale_ns: float = 1.0
    tail: float = 1.0
    stderr: dict[str, float] = field(default_factory=dict)
    """By field name, in the same unit."""

    def quantile_ns(self, q: float, rho: F64) -> F64:
        """Delay due to the host that a share of ``1 - q`` of all packets exceeds."""
        if self.share <= 0:
            return np.zeros_like(rho)
        return _quantile_ns(q, rho, self.share, self.scale_ns, self.tail)


def _quantile_ns(q: float, rho: F64, share: float | F64, scale_ns: float | F64, tail: float | F64) -> F64:
    exceeded = (1.0 - q) * np.maximum(1.0 - rho, _LEAST_LEFT) / share
    return np.asarray(scale_ns * np.maximum(exceeded ** (-1.0 / tail) - 1.0, 0.0))


def joined(own_ns: F64, host_ns: F64) -> F64:
    """Waiting in the queue and delay due to the host together, at one quantile."""
    return np.asarray((own_ns**_POWER + host_ns**_POWER) ** (1.0 / _POWER))


def fit_disturbance(
    quantiles: Sequence[float],
    rho: F64,
    undisturbed_ns: F64,
    waiting_ns: Sequence[F64],
    delays_ns: Sequence[F64],
    like: DisturbanceLaw | None = None,
) -> DisturbanceLaw:
    """Fit to tail quantiles of trials below the threshold.

    Parameters
    ----------
    quantiles:
        Which; k of them.
    rho, undisturbed_ns:
        Load, and delay of a packet that nothing holds up; shape (n,).
    waiting_ns, delays_ns:
        Per quantile what the queue alone makes packets wait, and what was measured (NaN:
        not measured); shape (n,) each.
    """
    if like is not None and like.share == 0:
        return DisturbanceLaw()
    known = [np.isfinite(delay) for delay in delays_ns]
    if sum(int(mask.sum()) for mask in known) < 4:
        return DisturbanceLaw()

    def residual(values: F64) -> F64:
        share, scale, tail = robust.each(values)
        host = np.exp(share), np.exp(scale), tail
        parts = [
            np.log((undisturbed_ns + joined(wait, _quantile_ns(q, rho, *host)))[..., mask] / delay[mask])
            for q, wait, delay, mask in zip(quantiles, waiting_ns, delays_ns, known, strict=True)
        ]
        return np.concatenate(parts, axis=-1)

    typical = float(np.median(undisturbed_ns))
    starts = [[math.log(0.01), math.log(f * typical), 1.5] for f in (0.3, 3.0)]
    if like is not None and like.share > 0:
        starts = [[math.log(like.share), math.log(like.scale_ns), like.tail]]
    found = robust.fit(
        residual,
        starts,
        lower=[math.log(1e-5), math.log(1e-3 * typical), 0.3],
        upper=[math.log(_MOST), math.log(1e3 * typical), _LIGHTEST],
        free=(True, True, True),
        scale=_OUTLIER,
    )
    undisturbed = [
        np.log((undisturbed_ns + wait)[mask] / delay[mask])
        for wait, delay, mask in zip(waiting_ns, delays_ns, known, strict=True)
    ]
    none = robust.still(np.concatenate(undisturbed), _OUTLIER)
    if like is None and none.bic(_RESOLUTION) <= found.bic(_RESOLUTION):
        return DisturbanceLaw()
    share, scale, tail = math.exp(found.values[0]), math.exp(found.values[1]), float(found.values[2])
    errors = found.stderr * np.array([share, scale, 1.0])
    names = ("share", "scale_ns", "tail")
    return DisturbanceLaw(share, scale, tail, dict(zip(names, map(float, errors), strict=True)))
