"""The curves of the published firewall model, changed where that predicts better.

As in :mod:`weirlab.model.lohmiller`, the threshold is ``a exp(-b n) + c``, the delay a quadratic in the load
below it and a line above it, both shifted linearly with n, and the largest loss ``b n^a + c``. What is
different here:

- the threshold is fitted to what was measured, without interpolated points;
- delays are fitted to the trials at all positions together, not to those without rules and then shifted;
- frames below and above 400 B have curves of their own, without an overlap;
- loss above the threshold has a curvature of its own, not an apex at the largest loss;
- the curves change at the threshold itself: the line of overload is not extended below it;
- outliers weigh less than by least squares.

The publication predicts the mean delay; quantiles and jitter get curves of the same form in both models.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import ClassVar, Final, Self

import numpy as np

from weirlab.base.documents import SPARSE
from weirlab.model import regimes as regime
from weirlab.model.base import F64, ObservationTable, ProfileRange, require_all
from weirlab.model.curves import (
    MPPS,
    QUANTITIES,
    US,
    CurveModel,
    CurvePoints,
    LeastSquares,
    ThresholdCurve,
    highest_loads,
    positions,
    root,
)
from weirlab.model.intervals.calibration import IntervalCalibration
from weirlab.model.spike import NO_SPIKE, Spike
from weirlab.records import Observation

SMALL_FRAMES_BELOW_BYTES: Final = 400
"""Between the publication's small and medium frames."""

LEAST_LOADS_BELOW: Final = 3
LEAST_POSITIONS: Final = 2

_FIT: Final = LeastSquares("piecewise", robust=True)


@dataclass(frozen=True)
class UnderloadDelay:
    """``c x^2 + d x + h0 + h1 n`` in µs, x in Mpps, n relative."""

    c: float
    d: float
    h0: float
    h1: float


@dataclass(frozen=True)
class OverloadDelay:
    """``a x + h0 + h1 n`` in µs, x in Mpps, n relative."""

    a: float
    h0: float
    h1: float


@dataclass(frozen=True)
class OverloadLoss:
    """``m(n) u (1 + q (1 - u))`` with ``m(n) = b n^a + c``, u = 0 at the threshold and 1 at the highest load.

    A quadratic through two points has one more degree of freedom, the curvature ``q``.
    """

    b: float
    a: float
    c: float
    q: float


@dataclass(frozen=True)
class PiecewiseModel(CurveModel):
    """The curves, fitted."""

    name: ClassVar[str] = "piecewise"

    unit_position: float
    g: ThresholdCurve
    loss: OverloadLoss
    highest: tuple[tuple[float, float], ...]
    """Profiled positions and the highest load in pps offered at each."""
    small: dict[str, UnderloadDelay]
    large: dict[str, UnderloadDelay]
    above: dict[str, OverloadDelay]
    profiled: ProfileRange
    calibration: IntervalCalibration | None = field(default=None, metadata=SPARSE)
    spike: Spike = field(default=NO_SPIKE, metadata=SPARSE)
    """What a rate step adds for a while, see :mod:`weirlab.model.transient`."""

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if a quantity has no curve."""
        for name in ("small", "large", "above"):
            require_all(name, getattr(self, name), QUANTITIES)

    @classmethod
    def fit(cls, observations: Iterable[Observation], like: Self | None = None) -> Self:
        """Fit to valid trials; with fewer than three positions the curves over n lose terms.

        ``like`` is ignored: there is no choice of form to take over from it.
        """
        table = ObservationTable.of(observations)
        regimes = regime.sort(table)
        regime.require(table, regimes, cls.name, LEAST_LOADS_BELOW, LEAST_POSITIONS)
        over, below = table.where(regimes.overload), table.where(regimes.below)
        unit = max(float(table.position.max()), 1.0)
        highest = highest_loads(table)
        g = _fit_threshold(over, unit)
        small = below.where(below.frame_bytes < SMALL_FRAMES_BELOW_BYTES)
        large = below.where(below.frame_bytes >= SMALL_FRAMES_BELOW_BYTES)
        model = cls(
            unit_position=unit,
            g=g,
            loss=OverloadLoss(0.0, 1.0, 0.0, 0.0),
            highest=highest,
            small={q: _fit_below(small if len(small) else below, q, unit) for q in QUANTITIES},
            large={q: _fit_below(large if len(large) else below, q, unit) for q in QUANTITIES},
            above={q: _fit_above(over, q, unit) for q in QUANTITIES},
            profiled=ProfileRange.of(table, g.pps(table.position / unit)),
        )
        shares = model._share(over.rate_pps, over.position)
        return replace(model, loss=_fit_loss(over, shares, unit))

    def delay_ns(self, quantity: str, at: CurvePoints) -> F64:
        """See :meth:`weirlab.model.curves.CurveModel.delay_ns`."""
        xn = at.mpps, at.relative_position
        small = _below(xn, **asdict(self.small[quantity]))
        large = _below(xn, **asdict(self.large[quantity]))
        under = np.where(at.frame_bytes < SMALL_FRAMES_BELOW_BYTES, small, large)
        above = _above(xn, **asdict(self.above[quantity]))
        return np.maximum(np.where(at.rate_pps > at.threshold_pps, above, under) * US, 0.0)

    def loss_ratio(self, at: CurvePoints) -> F64:
        """None below the threshold."""
        share = self._share(at.rate_pps, at.position)
        loss = np.clip(_loss((share, at.relative_position), **asdict(self.loss)), 0.0, 1.0)
        return np.where(at.rate_pps > at.threshold_pps, loss, 0.0)

    def _share(self, rate_pps: F64, position: F64) -> F64:
        """Where a load lies between the threshold (0) and the highest profiled load (1)."""
        n, pps = np.array(self.highest).T
        threshold = self.g.pps(position / self.unit_position)
        top = np.maximum(np.interp(position, n, pps), 1.05 * threshold)
        return np.asarray(np.clip((rate_pps - threshold) / (top - threshold), 0.0, 1.0))


def _below(xn: tuple[F64, F64], c: float, d: float, h0: float, h1: float) -> F64:
    x, n = xn
    return np.asarray(c * x**2 + d * x + h0 + h1 * n)


def _above(xn: tuple[F64, F64], a: float, h0: float, h1: float) -> F64:
    x, n = xn
    return np.asarray(a * x + h0 + h1 * n)


def _loss(un: tuple[F64, F64], b: float, a: float, c: float, q: float) -> F64:
    u, n = un
    return np.asarray(root(n, b, a, c) * u * (1.0 + q * (1.0 - u)))


def _fit_threshold(over: ObservationTable, unit: float) -> ThresholdCurve:
    n = positions(over)
    measured = np.array([float(np.median(over.forwarding_pps[over.position == p])) for p in n]) / MPPS
    top, low = float(measured.max()), float(measured.min())
    if len(n) == 1:
        return ThresholdCurve(0.0, 1.0, top)
    if len(n) == 2:
        start, low_ends, ends = [top, 1.0], [0.0, 0.0], [9 * top, 60.0]
        a, b = _FIT.curve(
            lambda p, a, b: np.asarray(a * np.exp(-b * p)), n / unit, measured, start, low_ends, ends
        )
        return ThresholdCurve(float(a), float(b), 0.0)
    a, b, c = _FIT.curve(
        lambda p, a, b, c: np.asarray(a * np.exp(-b * p) + c),
        n / unit,
        measured,
        [top - low, 3.0, low],
        [0, 0, 0],
        [9 * top, 60, 9 * top],
    )
    return ThresholdCurve(float(a), float(b), float(c))


def _fit_below(below: ObservationTable, quantity: str, unit: float) -> UnderloadDelay:
    known = np.isfinite(getattr(below, quantity))
    if not known.any():
        return UnderloadDelay(0.0, 0.0, float("nan"), 0.0)
    table = below.where(known)
    y = getattr(table, quantity) / US
    x, n = table.rate_pps / MPPS, table.position / unit
    return UnderloadDelay(
        *_sum((x**2, x, np.ones_like(x), n), y, 2, (True, True, True, float(np.ptp(n)) > 0))
    )


def _fit_above(over: ObservationTable, quantity: str, unit: float) -> OverloadDelay:
    known = np.isfinite(getattr(over, quantity))
    if not known.any():
        return OverloadDelay(0.0, float("nan"), 0.0)
    table = over.where(known)
    y = getattr(table, quantity) / US
    x, n = table.rate_pps / MPPS, table.position / unit
    # A line needs two points: with one load or one position its slope stays 0.
    return OverloadDelay(
        *_sum((x, np.ones_like(x), n), y, 1, (float(np.ptp(x)) > 0, True, float(np.ptp(n)) > 0))
    )


def _fit_loss(over: ObservationTable, share: F64, unit: float) -> OverloadLoss:
    """m(n) through the losses at each position's highest load, then the curvature."""
    n = positions(over)
    largest = np.array([_loss_at_top(over, position) for position in n])
    relative = n / unit
    spread = float(largest[-1] - largest[0])
    if len(n) == 1:
        b, a, c = 0.0, 1.0, float(largest[0])
    elif len(n) == 2:
        slope = spread / float(relative[1] - relative[0])
        b, a, c = slope, 1.0, float(largest[0] - slope * relative[0])
    else:
        b, a, c = map(
            float,
            _FIT.curve(root, relative, largest, [spread, 0.5, float(largest[0])], [-1, 0.02, 0], [1, 4, 1]),
        )
    rows = (share, over.position / unit)
    (q,) = _FIT.curve(lambda un, q: _loss(un, b, a, c, q), rows, over.loss_ratio, [0.5], [-1], [1])
    return OverloadLoss(b, a, c, float(q))


def _loss_at_top(over: ObservationTable, position: float) -> float:
    rows = over.where(over.position == position)
    return float(np.median(rows.loss_ratio[rows.rate_pps >= 0.98 * rows.rate_pps.max()]))


def _sum(columns: Sequence[F64], y: F64, constant: int, free: Sequence[bool]) -> list[float]:
    """Coefficients of ``columns``, each of shape (n,), whose sum is ``y``; 0 where they are not ``free``.

    The coefficient of the column ``constant`` starts at the median of ``y``, the others at 0.
    """
    mask = np.array(free, dtype=np.bool_)
    start = np.zeros(len(columns))
    start[constant] = np.median(y)
    matrix = np.stack(columns, axis=1)[:, mask]
    coefficients = np.zeros(len(columns))
    # Some versions of the solver modify in place what they get.
    coefficients[mask] = _FIT.solve(lambda p: matrix @ p - y, y, start[mask], jac=lambda _: matrix.copy())
    return [float(c) for c in coefficients]
