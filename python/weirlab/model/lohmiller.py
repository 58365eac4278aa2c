"""The published model of a firewall, as published.

N. Lohmiller, "Modeling and Simulation of the Performance Impact of Network Security Mechanisms on Network
Traffic", master thesis, Tübingen 2022, sections 6.2 and 6.5. With load x and matching position n:

- threshold ``g(n) = a exp(-b n) + c`` (eq. 6.2), fitted to the measured thresholds and to fifty points on a
  straight line between any two neighbours;
- base curve, from the trials at the lowest position (no rules) of all frame sizes: ``c x^2 + d x + e``
  below the threshold, ``a x + b`` above (eq. 6.7). The line of overload begins right after the highest load
  that lost nothing there, and at other positions at the same share of the threshold: rather too early than
  too late;
- offset ``h(n) = i n + j``, one line for each side of the threshold, never negative (eqs. 6.5, 6.6). It
  raises the base curve to the mean of the other positions;
- optionally, below the threshold, a curve for small and one for large frames (eqs. 6.10, 6.11). Small ones
  have up to 1.25 times half of the largest size, large ones more than half of it, so both are fitted to
  those between;
- loss: none below the threshold, above it a parabola through ``(g(n), 0)`` with its apex at the largest loss
  (eq. 6.18), which is ``m(n) = b n^a + c``, from 0 to 1 (eq. 6.16);
- after a step of the rate, a spike (section 6.5.5): :mod:`weirlab.model.spike`.

Everything is fitted by least squares, as published. What the publication leaves open is filled in as
follows. A threshold is "where loss begins": the forwarding rate in overload, which is that load. Equation
6.9 replaces the constants of the base curve by ``h(n)``, a mean delay. Taken literally, what the load adds
is then counted twice, which contradicts the published deviations without rules. So ``h(n)`` is the increase
of the mean over that of the base; ``fit(..., printed=True)`` takes the equation literally. The mean delay is
what the publication predicts. Quantiles and jitter, for which it has no equation, get curves of the same
form here.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Final, Self

import numpy as np
import numpy.typing as npt

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
from weirlab.model.regimes import Regimes
from weirlab.model.spike import NO_SPIKE, Spike
from weirlab.records import Observation

POINTS_BETWEEN: Final = 50
"""Interpolated thresholds between neighbouring positions."""

OVERLAP: Final = 1.25
"""Small frames have up to this times half of the largest size."""

LEAST_LOADS_BELOW: Final = 3
LEAST_POSITIONS: Final = 2

_SAME_LOAD: Final = 0.05
"""Logarithm of the ratio of two loads that are different."""

_FIT: Final = LeastSquares("lohmiller", robust=False)


@dataclass(frozen=True)
class BaseCurve:
    """``square x^2 + slope x + constant`` in µs, x in Mpps."""

    square: float
    slope: float
    constant: float


@dataclass(frozen=True)
class OffsetLine:
    """``slope n + start`` in µs, n relative; 0 where it is negative."""

    slope: float
    start: float

    def us(self, n: F64) -> F64:
        """The offset at positions ``n``."""
        return np.maximum(self.slope * n + self.start, 0.0)


@dataclass(frozen=True)
class ShiftedCurve:
    """The curve of the base measurement with the offset of the position."""

    base: BaseCurve
    offset: OffsetLine
    printed: bool = field(default=False, metadata=SPARSE)
    """The offset replaces the constant of the curve, instead of being added to it."""

    def us(self, x: F64, n: F64) -> F64:
        """The delay, never negative (eq. 6.8)."""
        base, constant = self.base, 0.0 if self.printed else self.base.constant
        return np.maximum(base.square * x**2 + base.slope * x + constant + self.offset.us(n), 0.0)


@dataclass(frozen=True)
class FrameGroups:
    """Curves below the threshold for small and for large frames, by quantity."""

    limit_bytes: float
    """Half of the largest mean frame size: longer frames are large."""
    small: dict[str, ShiftedCurve]
    large: dict[str, ShiftedCurve]


@dataclass(frozen=True)
class LargestLoss:
    """``b n^a + c`` as a ratio, n relative."""

    b: float
    a: float
    c: float

    def ratio(self, n: F64) -> F64:
        """The largest loss at positions ``n``, from 0 to 1."""
        return np.clip(root(n, self.b, self.a, self.c), 0.0, 1.0)


@dataclass(frozen=True)
class LohmillerModel(CurveModel):
    """The published curves, fitted."""

    name: ClassVar[str] = "lohmiller"

    unit_position: float
    g: ThresholdCurve
    extension: float
    """Share of the threshold from which delays are those of overload."""
    below: dict[str, ShiftedCurve]
    above: dict[str, ShiftedCurve]
    loss: LargestLoss
    highest: tuple[tuple[float, float], ...]
    """Profiled positions and the highest load in pps offered at each: the apex of the loss."""
    profiled: ProfileRange
    groups: FrameGroups | None = field(default=None, metadata=SPARSE)
    calibration: IntervalCalibration | None = field(default=None, metadata=SPARSE)
    spike: Spike = field(default=NO_SPIKE, metadata=SPARSE)

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if a quantity has no curve."""
        require_all("below", self.below, QUANTITIES)
        require_all("above", self.above, QUANTITIES)
        if self.groups is not None:
            require_all("small", self.groups.small, QUANTITIES)
            require_all("large", self.groups.large, QUANTITIES)

    @classmethod
    def fit(
        cls,
        observations: Iterable[Observation],
        like: Self | None = None,
        *,
        grouped: bool = False,
        printed: bool = False,
    ) -> Self:
        """Fit to valid trials.

        ``grouped``: with curves for small and large frames. ``printed``: offsets replace the constants of the
        base curve, see the module. ``like`` has both from another fit.
        """
        if like is not None:
            grouped = like.groups is not None
            printed = any(shifted.printed for shifted in like.below.values())
        table = ObservationTable.of(observations)
        regimes = regime.sort(table)
        regime.require(table, regimes, cls.name, LEAST_LOADS_BELOW, LEAST_POSITIONS)
        over, below = table.where(regimes.overload), table.where(regimes.below)
        unit = max(float(table.position.max()), 1.0)
        g = _fit_threshold(*measured_thresholds(table, regimes), unit)
        shifted = partial(_fit_shifted, unit=unit, printed=printed)
        return cls(
            unit_position=unit,
            g=g,
            extension=_extension(over, below),
            below={q: shifted(below, q, 2) for q in QUANTITIES},
            above={q: shifted(over, q, 1) for q in QUANTITIES},
            loss=_fit_largest_loss(table, unit),
            highest=highest_loads(table),
            profiled=ProfileRange.of(table, g.pps(table.position / unit)),
            groups=_fit_groups(below, shifted) if grouped else None,
        )

    def delay_ns(self, quantity: str, at: CurvePoints) -> F64:
        """See :meth:`weirlab.model.curves.CurveModel.delay_ns`; the frame size matters only with groups."""
        x, n = at.mpps, at.relative_position
        under = self.below[quantity].us(x, n)
        if self.groups is not None:
            small, large = self.groups.small[quantity], self.groups.large[quantity]
            under = np.where(at.frame_bytes > self.groups.limit_bytes, large.us(x, n), small.us(x, n))
        overload = at.rate_pps > self.extension * at.threshold_pps
        return np.asarray(np.where(overload, self.above[quantity].us(x, n), under) * US)

    def loss_ratio(self, at: CurvePoints) -> F64:
        """A parabola from the threshold to the largest loss, and that beyond."""
        profiled, loads = np.array(self.highest).T
        apex = np.maximum(np.interp(at.position, profiled, loads), 1.01 * at.threshold_pps)
        left = np.clip((apex - at.rate_pps) / (apex - at.threshold_pps), 0.0, 1.0)
        return np.asarray(self.loss.ratio(at.relative_position) * (1.0 - left**2))


def measured_thresholds(table: ObservationTable, regimes: Regimes) -> tuple[F64, F64]:
    """Positions with overload, and the threshold of each in pps: the mean over the frame sizes."""
    limits = regimes.threshold_pps(table)
    places = np.array([setting.position for setting in regimes.settings])
    known = np.isfinite(limits)
    n = np.unique(places[known])
    return n, np.array([float(np.mean(limits[known & (places == p)])) for p in n])


def interpolated(n: F64, y: F64) -> tuple[F64, F64]:
    """The points with :data:`POINTS_BETWEEN` on the line between any two neighbours."""
    if len(n) < 2:
        return n, y
    segments = [np.linspace(a, b, POINTS_BETWEEN + 2)[:-1] for a, b in itertools.pairwise(n)]
    dense = np.append(np.concatenate(segments), n[-1])
    return dense, np.interp(dense, n, y)


def fit_exponential(n: F64, y: F64) -> ThresholdCurve:
    """``a exp(-b n) + c`` by least squares, n relative and ``y`` in Mpps."""
    top, low = float(y.max()), float(y.min())
    if len(n) == 1:
        return ThresholdCurve(0.0, 1.0, top)
    ends = [9 * top, 60.0, 9 * top]
    a, b, c = _FIT.curve(
        lambda p, a, b, c: np.asarray(a * np.exp(-b * p) + c),
        n,
        y,
        [top - low, 3.0, low],
        [0, 1e-3, -9 * top],
        ends,
    )
    return ThresholdCurve(float(a), float(b), float(c))


def _fit_threshold(n: F64, pps: F64, unit: float) -> ThresholdCurve:
    return fit_exponential(*interpolated(n / unit, pps / MPPS))


def _extension(over: ObservationTable, below: ObservationTable) -> float:
    """The highest load without overload at the lowest position with overload, as a share of the threshold."""
    base = float(over.position.min())
    lossless = below.rate_pps[below.position == base]
    if not len(lossless):
        return 1.0
    threshold = float(np.median(over.forwarding_pps[over.position == base]))
    return min(float(lossless.max()) / threshold, 1.0)


def _fit_shifted(
    table: ObservationTable, quantity: str, degree: int, *, unit: float, printed: bool
) -> ShiftedCurve:
    """The polynomial of the lowest position, and the offset line of all."""
    known = table.where(np.isfinite(getattr(table, quantity)))
    if not len(known):
        return ShiftedCurve(BaseCurve(0.0, 0.0, float("nan")), OffsetLine(0.0, 0.0), printed)
    x, y = known.rate_pps / MPPS, getattr(known, quantity) / US
    n = positions(known)
    base = known.position == n[0]
    # Fewer different loads than coefficients determine a curve of a lower degree only.
    loads = len(np.unique(np.round(np.log(x[base]) / _SAME_LOAD)))
    fitted = np.polynomial.Polynomial.fit(x[base], y[base], min(degree, loads - 1)).convert().coef
    constant, slope, square = np.append(fitted, [0.0, 0.0])[:3]
    means = np.array([float(y[known.position == p].mean()) for p in n])
    if not printed:
        means -= means[0]
    line = np.polyfit(n / unit, means, 1) if len(n) > 1 else (0.0, means[0])
    return ShiftedCurve(
        BaseCurve(float(square), float(slope), float(constant)),
        OffsetLine(float(line[0]), float(line[1])),
        printed,
    )


def size_groups(frame_bytes: F64) -> tuple[float, npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Half of the largest size, and which frames are small and which are large: some are both."""
    limit = float(frame_bytes.max()) / 2
    return limit, frame_bytes <= OVERLAP * limit, frame_bytes > limit


def _fit_groups(below: ObservationTable, shifted: partial[ShiftedCurve]) -> FrameGroups:
    limit, is_small, is_large = size_groups(below.frame_bytes)
    # With one size all frames are large.
    small = below.where(is_small) if is_small.any() else below
    return FrameGroups(
        limit,
        {q: shifted(small, q, 2) for q in QUANTITIES},
        {q: shifted(below.where(is_large), q, 2) for q in QUANTITIES},
    )


def _fit_largest_loss(table: ObservationTable, unit: float) -> LargestLoss:
    n = positions(table)
    largest = np.array([float(table.loss_ratio[table.position == p].max()) for p in n])
    if len(n) == 1:
        return LargestLoss(0.0, 1.0, float(largest[0]))
    spread = float(largest[-1] - largest[0])
    if len(n) == 2:
        return LargestLoss(spread, 1.0, float(largest[0]))
    start = [spread, 0.5, float(largest[0])]
    b, a, c = map(float, _FIT.curve(root, n / unit, largest, start, [-1, 0.02, 0], [1, 4, 1]))
    return LargestLoss(b, a, c)


@dataclass(frozen=True)
class VerificationFigures:
    """Deviations of predictions as the publication states them: measured minus predicted.

    Positive: the prediction is too low. Percentages are of the predicted value. The standard deviation is
    that of the population; the interval of the mean is 1.96 standard errors wide on each side, from that of
    the sample.
    """

    n: int
    mean: float
    mean_percent: float
    low: float
    high: float
    std: float
    max: float
    """The deviation of largest magnitude, with its sign."""
    max_percent: float


def verification_figures(predicted: npt.ArrayLike, measured: npt.ArrayLike) -> VerificationFigures:
    """The figures for predictions beside measured values, shape (n,), n >= 1, in one unit."""
    expected, found = np.asarray(predicted, dtype=np.float64), np.asarray(measured, dtype=np.float64)
    deviation = found - expected
    percent = 100 * deviation / np.where(expected > 0, expected, np.nan)
    n, mean = len(deviation), float(deviation.mean())
    half = 1.96 * float(deviation.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
    return VerificationFigures(
        n=n,
        mean=mean,
        mean_percent=float(percent.mean()),
        low=mean - half,
        high=mean + half,
        std=float(deviation.std()),
        max=float(deviation[np.argmax(np.abs(deviation))]),
        max_percent=float(percent[np.argmax(np.abs(percent))]),
    )
