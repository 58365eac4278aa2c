"""Service time over matching position and frame size, and its fit to overloaded trials."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
from scipy.special import expit, ndtr

from weirlab.model import robust, trials
from weirlab.model.base import F64
from weirlab.model.queueing.kriging import Kriging, ResidualField

FIELDS: Final = (
    "fixed_ns", "per_rule_ns", "per_byte_ns", "io_ns", "io_per_byte_ns", "spread_ns", "late_per_rule_ns",
    "bend_position",
)  # fmt: skip

# Misfits smaller than this are below what any lab resolves; they must not justify another parameter.
_RESOLUTION: Final = 0.003
_OUTLIER: Final = 0.03

_BEND_WIDTH: Final = 0.2
"""Width of the bend in ln(position): a cache that overflows does so within some 20 % more rules."""

_DEVIATION: Final = "service_ns"
_NEAR_RULES: Final = 30.0
"""Positions closer than this hardly differ; farther ones are compared by ratio."""
_LENGTHS: Final = ((0.7, 1.5), (1.4, 3.0))
"""Lengths in ln(position) and ln(frame bytes) over which a deviation from the law persists."""
_LEAST_NOISE: Final = 0.003
_PROVEN: Final = 2.0
"""Standard errors by which a threshold must rise with the position to be believed."""


@dataclass(frozen=True)
class ServiceTime:
    """Mean time that one packet occupies the device, in ns.

    The rule stage takes ``fixed + per_rule * n + per_byte * L`` (n matching position,
    L frame bytes). If an input/output stage ``io + io_per_byte * L`` works in series,
    the slower one counts; with ``spread_ns`` above 0 both fluctuate, so that near equality
    sometimes one and sometimes the other holds up the packet: the mean of the larger of two
    normal variables whose difference has that standard deviation (C. E. Clark, Operations
    Research 9, 1961).

    If ``bend_position`` is above 0, a rule costs ``per_rule_ns`` up to about there and
    ``late_per_rule_ns`` beyond: rules are walked in a circle, so once they no longer fit into
    a cache every one of them misses it.

    The residuals of the law are kept as a smooth ``deviation`` over position and size.
    """

    fixed_ns: float
    per_rule_ns: float = 0.0
    per_byte_ns: float = 0.0
    io_ns: float = 0.0
    io_per_byte_ns: float = 0.0
    spread_ns: float = 0.0
    late_per_rule_ns: float = 0.0
    bend_position: float = 0.0
    stderr: dict[str, float] = field(default_factory=dict)
    """Standard error by field name, in the field's unit; a field that the data do not support is absent."""
    scatter: float = 0.0
    """Relative standard deviation of repetitions."""
    bic_gain: float = 0.0
    """By how much BIC prefers this form to a single stage."""
    deviation: Kriging = field(default_factory=lambda: Kriging.none(2, (_DEVIATION,)))
    settings: int = 1
    """Number of different settings that it was fitted to."""

    @property
    def values(self) -> list[float]:
        """The fitted numbers in the order of ``FIELDS``."""
        return [float(getattr(self, name)) for name in FIELDS]

    @property
    def free(self) -> tuple[bool, ...]:
        """Which of ``FIELDS`` were fitted: the form of the law."""
        return tuple(name in self.stderr for name in FIELDS)

    @property
    def stages(self) -> int:
        return 2 if self.io_ns > 0 or self.io_per_byte_ns > 0 else 1

    def ns(self, position: F64, frame_bytes: F64) -> F64:
        """Time per packet, the inverse of the threshold."""
        position, frame_bytes = np.broadcast_arrays(position, frame_bytes)
        left = self.deviation.at(_coordinates(position, frame_bytes), ())[_DEVIATION].mean
        return self.law_ns(position, frame_bytes) * np.exp(left.reshape(position.shape))

    def law_ns(self, position: F64, frame_bytes: F64) -> F64:
        """Time per packet by the law alone, without deviation."""
        return _evaluate(np.array([getattr(self, name) for name in FIELDS]), position, frame_bytes)

    def uncertainty(self, position: F64, frame_bytes: F64) -> F64:
        """Relative standard error of :meth:`ns`."""
        of_law = self.scatter / math.sqrt(max(self.settings, 1))
        position, frame_bytes = np.broadcast_arrays(position, frame_bytes)
        std = self.deviation.at(_coordinates(position, frame_bytes))[_DEVIATION].std
        return np.hypot(of_law, std.reshape(position.shape))

    def even_position(self, frame_bytes: float) -> float:
        """Matching position from which the rules are the slower stage; 0 for one stage."""
        if self.stages == 1 or self.per_rule_ns <= 0:
            return 0.0
        io = self.io_ns + self.io_per_byte_ns * frame_bytes
        return max((io - self.fixed_ns - self.per_byte_ns * frame_bytes) / self.per_rule_ns, 0.0)


def fit_service(
    position: F64, frame_bytes: F64, forwarding_pps: F64, like: ServiceTime | None = None
) -> ServiceTime:
    """Fit to trials in overload, where the forwarding rate is the service rate.

    Among one stage, two stages in series, two fluctuating stages and a bend, each with and
    without influence of the frame size, the Bayesian information criterion decides; the form
    of ``like`` is taken if given. All arrays have shape (n,), n >= 1.
    """
    measured = 1e9 / forwarding_pps
    top = float(measured.max())
    span_n = max(float(position.max()), 1.0)
    span_l = float(frame_bytes.max())
    lower = [0.0, 0.0, 0.0, 0.0, 0.0, 1e-3 * float(measured.min()), 0.0, 1.0]
    steep = 2 * top / span_n
    upper = [2 * top, steep, 2 * top / span_l, 2 * top, 2 * top / span_l, top, 2 * steep, span_n + 1]

    def residual(values: F64) -> F64:
        return np.asarray(np.log(np.maximum(_evaluate(values, position, frame_bytes), 1e-3) / measured))

    forms = list(_candidates(len(np.unique(position)), len(np.unique(np.round(frame_bytes)))))
    if like is not None and like.free in forms:
        forms = [like.free]
    fits: dict[tuple[bool, ...], robust.Fit] = {}
    for free in forms:
        starts = [like.values] if like is not None and len(forms) == 1 else []
        starts = starts or list(_starts(free, position, frame_bytes, measured))
        fits[free] = robust.fit(residual, starts, lower, upper, free, _OUTLIER)
    single = min((fit.bic(_RESOLUTION) for free, fit in fits.items() if sum(free[3:]) == 0), default=0.0)
    chosen, best = min(fits.items(), key=lambda item: item[1].bic(_RESOLUTION))
    errors = {name: float(e) for name, e, free in zip(FIELDS, best.stderr, chosen, strict=True) if free}
    same = like is not None and forms == [like.free]
    gain = like.bic_gain if like is not None and same else max(single - best.bic(_RESOLUTION), 0.0)
    numbers: dict[str, Any] = dict(zip(FIELDS, map(float, best.values), strict=True))
    law = ServiceTime(**numbers, stderr=errors, bic_gain=gain)
    return _with_deviation(law, position, frame_bytes, measured, like)


def _with_deviation(
    law: ServiceTime, position: F64, frame_bytes: F64, measured_ns: F64, like: ServiceTime | None
) -> ServiceTime:
    keys, inverse = np.unique(np.stack([position, np.round(frame_bytes, 1)]), axis=1, return_inverse=True)
    groups = [np.flatnonzero(inverse.ravel() == i) for i in range(keys.shape[1])]
    left = np.log(measured_ns / law.law_ns(position, frame_bytes))
    value = np.array([np.median(left[rows]) for rows in groups])
    counts = np.array([len(rows) for rows in groups])
    # Repetitions scatter alike everywhere; a handful at one setting would not suffice alone.
    degrees = int((counts - 1).sum())
    inner = float(((left - value[inverse.ravel()]) ** 2).sum()) / max(degrees, 1)
    scatter = math.sqrt(trials.trial_variance(inner, degrees, value))
    noise = np.maximum(scatter * trials.median_error(counts), _LEAST_NOISE)
    points = ResidualField(value, noise, np.full(len(groups), scatter))
    deviation = Kriging.fit(
        _coordinates(*keys), {_DEVIATION: points}, _LENGTHS, like.deviation if like else None
    )
    bent = replace(law, deviation=deviation, settings=len(groups), scatter=scatter)
    # A refit takes over what the fit to all trials decided.
    if like is None and not _rise_is_proven(bent, *keys):
        return replace(bent, deviation=deviation.flat())
    return bent


def _rise_is_proven(service: ServiceTime, position: F64, frame_bytes: F64) -> bool:
    """Whether the threshold's largest rise with the position, if there is one, exceeds its own error.

    By every law more rules make a device slower, so the opposite requires evidence.
    """
    places = np.unique(position)
    places = np.sort(np.concatenate([places, 0.5 * (places[1:] + places[:-1])]))
    for frame in np.unique(frame_bytes):
        sizes = np.full(len(places), frame)
        service_ns = np.log(service.ns(places, sizes))
        error = service.deviation.at(_coordinates(places, sizes))[_DEVIATION].std
        rise = np.triu(service_ns[:, None] - service_ns[None, :])
        first, last = np.unravel_index(np.argmax(rise), rise.shape)
        if 0.0 < rise[first, last] < _PROVEN * math.hypot(error[first], error[last]):
            return False
    return True


def _coordinates(position: F64, frame_bytes: F64) -> F64:
    """Shape (n, 2)."""
    return np.stack([np.log(position.ravel() + _NEAR_RULES), np.log(frame_bytes.ravel())], axis=1)


def _evaluate(values: F64, position: F64, frame_bytes: F64) -> F64:
    fixed, per_rule, per_byte, io, io_per_byte, spread, late, bend = robust.each(values)
    each = np.asarray(per_rule)
    bends = (bend > 0) & (late > per_rule)
    if bends.any():
        share = expit(np.log(np.maximum(position, 1e-3) / np.where(bends, bend, 1.0)) / _BEND_WIDTH)
        each = np.where(bends, per_rule + (late - per_rule) * share, per_rule)
    rules = fixed + each * position + per_byte * frame_bytes
    two = (io > 0) | (io_per_byte > 0)
    if not two.any():
        return np.asarray(rules)
    transfer = io + io_per_byte * frame_bytes
    slower = np.maximum(rules, transfer)
    fluctuates = spread > 0
    if fluctuates.any():
        wide = np.where(fluctuates, spread, 1.0)
        z = (transfer - rules) / wide
        density = np.exp(-0.5 * z * z) / math.sqrt(2 * math.pi)
        slower = np.where(fluctuates, transfer * ndtr(z) + rules * ndtr(-z) + wide * density, slower)
    return np.asarray(np.where(two, slower, rules))


def _candidates(positions: int, frames: int) -> Iterator[tuple[bool, ...]]:
    """Which of ``FIELDS`` to fit; only forms that the number of distinct settings can tell apart."""
    rule, both = positions >= 2, (False, True) if frames >= 2 else (False,)
    for per_byte in both:
        if rule:
            yield (True, False, per_byte, False, False, False, False, False)
        yield (True, rule, per_byte, False, False, False, False, False)
        if positions >= 6:
            yield (True, True, per_byte, False, False, False, True, True)
    for per_byte, io_per_byte in itertools.product(both, repeat=2):
        if positions >= 4:
            yield (True, True, per_byte, True, io_per_byte, False, False, False)
        if positions >= 5:
            yield (True, True, per_byte, True, io_per_byte, True, False, False)


def _starts(free: tuple[bool, ...], position: F64, frame: F64, measured: F64) -> Iterator[list[float]]:
    """Starts of a fit: straight lines through all positions, or through the farther ones, with the nearest
    as the other stage."""
    lowest = float(np.median(measured[position == position.min()]))
    distinct = np.unique(position)
    if free[7]:
        for first in (len(distinct) // 3, len(distinct) // 2, 2 * len(distinct) // 3):
            near = position <= distinct[first]
            line = _line(free, position[near], frame[near], measured[near])
            late = _line(free, position[~near], frame[~near], measured[~near])[1]
            yield [*line, 0.0, 0.0, 0.0, late, float(distinct[first]) + 1.0]
        return
    if not free[3]:
        yield [*_line(free, position, frame, measured), 0.0, 0.0, 0.0, 0.0, 0.0]
        return
    for first in (len(distinct) // 3, len(distinct) // 2):
        far = position >= distinct[first]
        line = _line(free, position[far], frame[far], measured[far])
        for spread in (0.05, 0.25) if free[5] else (0.0,):
            yield [*line, lowest * (0.9 if spread else 1.0), 0.0, spread * lowest, 0.0, 0.0]


def _line(free: tuple[bool, ...], position: F64, frame: F64, measured: F64) -> list[float]:
    columns = [np.ones_like(position), position * free[1], frame * free[2]]
    relative = np.stack(columns, axis=1) / measured[:, None]
    solution, *_ = np.linalg.lstsq(relative, np.ones_like(measured), rcond=None)
    return [max(float(v), 0.0) for v in solution]
