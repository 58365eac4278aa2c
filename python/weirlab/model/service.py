"""Service time over matching position and frame size, and its fit to overloaded trials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from scipy.special import ndtr

from weirlab.model import robust
from weirlab.model.base import F64

FIELDS: Final = ("fixed_ns", "per_rule_ns", "per_byte_ns", "io_ns", "io_per_byte_ns", "spread_ns")

# Misfits smaller than this are below what any lab resolves; they must not buy another parameter.
_RESOLUTION: Final = 0.003
_OUTLIER: Final = 0.03


@dataclass(frozen=True)
class ServiceTime:
    """Mean time that one packet occupies the device, in ns.

    The rule stage takes ``fixed + per_rule * n + per_byte * L`` (n matching position,
    L frame bytes). Where an input/output stage ``io + io_per_byte * L`` works in series,
    the slower one counts; with ``spread_ns`` above 0 both fluctuate, so that near equality
    now the one and now the other holds up the packet: the mean of the larger of two
    normal variables whose difference has that standard deviation (C. E. Clark, Operations
    Research 9, 1961).
    """

    fixed_ns: float
    per_rule_ns: float = 0.0
    per_byte_ns: float = 0.0
    io_ns: float = 0.0
    io_per_byte_ns: float = 0.0
    spread_ns: float = 0.0
    stderr: dict[str, float] = field(default_factory=dict)
    """Standard error in ns by field name; a field that the data do not support is absent."""
    scatter: float = 0.0
    """Relative standard deviation of measured around fitted service times."""
    bic_gain: float = 0.0
    """By how much BIC prefers this form to a single stage."""

    @property
    def stages(self) -> int:
        return 2 if self.io_ns > 0 or self.io_per_byte_ns > 0 else 1

    def ns(self, position: F64, frame_bytes: F64) -> F64:
        """Time per packet, the inverse of the threshold."""
        return _evaluate(np.array([getattr(self, name) for name in FIELDS]), position, frame_bytes)

    def even_position(self, frame_bytes: float) -> float:
        """Matching position from which on the rules are the slower stage; 0 for one stage."""
        if self.stages == 1 or self.per_rule_ns <= 0:
            return 0.0
        io = self.io_ns + self.io_per_byte_ns * frame_bytes
        return max((io - self.fixed_ns - self.per_byte_ns * frame_bytes) / self.per_rule_ns, 0.0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def fit_service(position: F64, frame_bytes: F64, forwarding_pps: F64) -> ServiceTime:
    """Fit to trials in overload, where the forwarding rate is the service rate.

    Among one stage, two stages in series, and two fluctuating stages, each with and
    without influence of the frame size, the Bayesian information criterion decides. All
    arrays have shape (n,), n >= 1.
    """
    measured = 1e9 / forwarding_pps
    top = float(measured.max())
    span_n = max(float(position.max()), 1.0)
    span_l = float(frame_bytes.max())
    lower = [0.0, 0.0, 0.0, 0.0, 0.0, 1e-3 * float(measured.min())]
    upper = [2 * top, 2 * top / span_n, 2 * top / span_l, 2 * top, 2 * top / span_l, top]

    def residual(values: F64) -> F64:
        return np.asarray(np.log(np.maximum(_evaluate(values, position, frame_bytes), 1e-3) / measured))

    fits: dict[tuple[bool, ...], robust.Fit] = {}
    for free in _candidates(len(np.unique(position)), _different(frame_bytes)):
        starts = list(_starts(free, position, frame_bytes, measured))
        fits[free] = robust.fit(residual, starts, lower, upper, free, _OUTLIER)
    single = min(fit.bic(_RESOLUTION) for free, fit in fits.items() if not free[3])
    chosen, best = min(fits.items(), key=lambda item: item[1].bic(_RESOLUTION))
    values = dict(zip(FIELDS, map(float, best.values), strict=True))
    errors = {name: float(e) for name, e, free in zip(FIELDS, best.stderr, chosen, strict=True) if free}
    return ServiceTime(
        **values,
        stderr=errors,
        scatter=robust.scatter(residual(best.values)),
        bic_gain=single - best.bic(_RESOLUTION),
    )


def _evaluate(values: F64, position: F64, frame_bytes: F64) -> F64:
    fixed, per_rule, per_byte, io, io_per_byte, spread = values
    rules = fixed + per_rule * position + per_byte * frame_bytes
    if io <= 0 and io_per_byte <= 0:
        return np.asarray(rules)
    transfer = io + io_per_byte * frame_bytes
    if spread <= 0:
        return np.asarray(np.maximum(rules, transfer))
    z = (transfer - rules) / spread
    density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
    return np.asarray(transfer * ndtr(z) + rules * ndtr(-z) + spread * density)


def _different(frame_bytes: F64) -> int:
    return len(np.unique(np.round(frame_bytes)))


def _candidates(positions: int, frames: int) -> Iterator[tuple[bool, ...]]:
    """Which of ``FIELDS`` to fit; only forms that the number of distinct settings can tell apart."""
    rule, sizes = positions >= 2, frames >= 2
    for per_byte in (False, True) if sizes else (False,):
        yield (True, rule, per_byte, False, False, False)
    for per_byte, io_per_byte in itertools.product((False, True) if sizes else (False,), repeat=2):
        if positions >= 4:
            yield (True, True, per_byte, True, io_per_byte, False)
        if positions >= 5:
            yield (True, True, per_byte, True, io_per_byte, True)


def _starts(free: tuple[bool, ...], position: F64, frame: F64, measured: F64) -> Iterator[list[float]]:
    """Straight lines through all, and through the farther positions with the nearest as the other stage."""
    lowest = float(np.median(measured[position == position.min()]))
    if not free[3]:
        yield [*_line(free, position, frame, measured), 0.0, 0.0, 0.0]
        return
    distinct = np.unique(position)
    for first in (len(distinct) // 3, len(distinct) // 2):
        far = position >= distinct[first]
        line = _line(free, position[far], frame[far], measured[far])
        for spread in (0.05, 0.25) if free[5] else (0.0,):
            yield [*line, lowest * (0.9 if spread else 1.0), 0.0, spread * lowest]


def _line(free: tuple[bool, ...], position: F64, frame: F64, measured: F64) -> list[float]:
    columns = [np.ones_like(position), position * free[1], frame * free[2]]
    relative = np.stack(columns, axis=1) / measured[:, None]
    solution, *_ = np.linalg.lstsq(relative, np.ones_like(measured), rcond=None)
    return [max(float(v), 0.0) for v in solution]
