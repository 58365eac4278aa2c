"""Jitter (RFC 3550) over load, and its fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.model import robust
from weirlab.model.base import F64
from weirlab.model.queueing import waiting
from weirlab.model.queueing.delay import DelayInput

FIELDS: Final = ("base_ns", "wake_ns", "wake_pps", "busy", "overload_ns", "overload_service")

RESOLUTION_NS: Final = 10.0
"""Below this a time stamp cannot tell jitter from none; added to both sides of relative errors."""


@dataclass(frozen=True)
class JitterCurve:
    """Mean difference between the delays of successive packets.

    Below the threshold two successive packets differ by what an idle device occasionally adds,
    and by waiting, which changes by a share of the service time as often as the
    server is busy: ``base + wake / (1 + rate / wake_pps) + busy * rho * s``. In overload
    every packet finds the queue full except for a part of one service:
    ``overload + overload_service * s``. The filling of the queue interpolates between the two.
    """

    base_ns: float
    wake_ns: float
    wake_pps: float
    busy: float
    overload_ns: float
    overload_service: float

    def ns(self, load: DelayInput, variability: npt.ArrayLike, queue_packets: float) -> F64:
        """Jitter in ns."""
        values = np.array([getattr(self, name) for name in FIELDS])
        return _evaluate(values, load, waiting.mean_fraction(load.rho, variability, queue_packets))


def fit_jitter(load: DelayInput, jitter_ns: F64, variability: F64, queue_packets: float) -> JitterCurve:
    """Fit to trials of both regimes; jitter that was not measured (NaN) is left out."""
    known = np.isfinite(jitter_ns)
    if not known.any():
        return JitterCurve(*[float("nan")] * len(FIELDS))
    load, measured, variability = load.where(known), jitter_ns[known], variability[known]
    full = waiting.mean_fraction(load.rho, variability, queue_packets)

    def residual(values: F64) -> F64:
        fitted = _evaluate(values, load, full)
        return np.asarray(np.log((fitted + RESOLUTION_NS) / (measured + RESOLUTION_NS)))

    top = 2 * float(measured.max()) + RESOLUTION_NS
    typical = float(np.median(measured))
    slow, fast = float(load.rate_pps.min()), float(load.rate_pps.max())
    over = full > 0.5
    plateau = float(np.median(measured[over])) if over.any() else typical
    starts = [[0.8 * typical, 0.2 * typical, rate, 0.1, 0.8 * plateau, 0.1] for rate in (2 * slow, fast / 3)]
    best = robust.fit(
        residual,
        starts,
        lower=[0.0, 0.0, slow / 4, 0.0, 0.0, 0.0],
        upper=[top, top, 2 * fast, 20.0, top, 20.0],
        free=(True, True, True, True, bool(over.any()), bool(over.any())),
        scale=0.2,
    )
    return JitterCurve(**dict(zip(FIELDS, map(float, best.values), strict=True)))


def _evaluate(values: F64, load: DelayInput, full: F64) -> F64:
    base, wake, wake_pps, busy, overload, overload_service = robust.each(values)
    below = (
        base + wake / (1.0 + load.rate_pps / wake_pps) + busy * np.minimum(load.rho, 1.0) * load.service_ns
    )
    above = overload + overload_service * load.service_ns
    return np.asarray((1.0 - full) * below + full * above)
