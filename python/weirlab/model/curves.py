"""Curves that the published firewall model and our variant of it share, and how they are fitted.

Loads are in Mpps, delays in µs and positions relative to the last profiled one while fitting, so that all
coefficients are of similar size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from weirlab.base.errors import ModelError
from weirlab.model.base import DELAYS, F64, ObservationTable, Prediction, ProfileRange, places, settings
from weirlab.model.intervals.calibration import IntervalCalibration
from weirlab.model.intervals.lighter import covering
from weirlab.model.spike import Spike

QUANTITIES: Final = (*DELAYS, "jitter_ns")

MPPS: Final = 1e6
US: Final = 1e3


@dataclass(frozen=True)
class ThresholdCurve:
    """``a exp(-b n) + c`` in Mpps, n relative."""

    a: float
    b: float
    c: float

    def pps(self, n: F64) -> F64:
        """The threshold in pps, 1 at least."""
        return np.maximum((self.a * np.exp(-self.b * n) + self.c) * MPPS, 1.0)


def root(n: F64, b: float, a: float, c: float) -> F64:
    """``b n^a + c``, the largest loss at position n, relative."""
    return np.asarray(b * n**a + c)


def highest_loads(table: ObservationTable) -> tuple[tuple[float, float], ...]:
    """Positions and the highest load in pps offered at each."""
    return tuple((float(n), float(table.rate_pps[table.position == n].max())) for n in positions(table))


def positions(table: ObservationTable) -> F64:
    """The different positions, ascending."""
    return np.unique(table.position)


@dataclass(frozen=True)
class CurvePoints:
    """Where curves are read, an element each: what was asked for, and the threshold there."""

    rate_pps: F64
    frame_bytes: F64
    position: F64
    relative_position: F64
    threshold_pps: F64

    @property
    def mpps(self) -> F64:
        """The load, as curves take it."""
        return self.rate_pps / MPPS


class CurveModel(ABC):
    """A model made of curves over load and position. The gaps between arrivals have no effect."""

    unit_position: float
    """Positions are divided by this."""
    g: ThresholdCurve
    profiled: ProfileRange
    calibration: IntervalCalibration | None

    @abstractmethod
    def delay_ns(self, quantity: str, at: CurvePoints) -> F64:
        """One of :data:`QUANTITIES`."""

    @abstractmethod
    def loss_ratio(self, at: CurvePoints) -> F64:
        """The lost share of packets, from 0 to 1."""

    def predict(
        self, rate_pps: ArrayLike, frame_bytes: ArrayLike, position: ArrayLike, gap_scv: ArrayLike = 0.0
    ) -> Prediction:
        asked = settings(rate_pps, frame_bytes, position, gap_scv)
        return covering(self._predict, self._predict, self.profiled, *asked)

    def _predict(self, rate: F64, frame: F64, place: F64, gaps: F64) -> Prediction:
        """The prediction for each setting by itself; arrays of one shape."""
        relative = place / self.unit_position
        at = CurvePoints(rate, frame, place, relative, self.g.pps(relative))
        outside, why = self.profiled.outside(rate, frame, place, at.threshold_pps, gaps)
        found = Prediction(
            threshold_pps=at.threshold_pps,
            loss_ratio=self.loss_ratio(at),
            **cast(Any, {quantity: self.delay_ns(quantity, at) for quantity in QUANTITIES}),
            extrapolated=outside,
            why=why,
        )
        if self.calibration is None:
            return found
        bare = self.with_calibration(None)

        def laws(factor: float) -> dict[str, F64]:
            # Everything of a slower device takes longer, and its threshold is nearer.
            slower = bare._predict(rate * factor, frame, place, gaps)
            return {
                q: getattr(slower, q) * (1 if q == "loss_ratio" else factor)
                for q in (*QUANTITIES, "loss_ratio")
            }

        return self.calibration.applied(found, rate, frame, place, laws)

    def threshold_pps(self, position: ArrayLike, frame_bytes: ArrayLike) -> F64:
        """Offered load above which packets are lost; the frame size does not matter here."""
        place, _ = places(position, frame_bytes)
        return self.g.pps(place / self.unit_position)

    def with_calibration(self, calibration: IntervalCalibration | None) -> Self:
        """The same model, with intervals around its predictions; without them for None."""
        return cast(Self, replace(cast(Any, self), calibration=calibration))

    def with_spike(self, spike: Spike) -> Self:
        """The same model with ``spike`` after steps up of the rate."""
        return cast(Self, replace(cast(Any, self), spike=spike))


@dataclass(frozen=True)
class LeastSquares:
    """How the curves of a model are fitted."""

    model: str
    """Its name, for messages."""
    robust: bool
    """With a loss function that outliers cannot dominate."""

    def curve(
        self,
        f: Callable[..., F64],
        x: F64 | tuple[F64, F64],
        y: F64,
        start: Sequence[float],
        low: Sequence[float],
        high: Sequence[float],
    ) -> F64:
        """Parameters within ``low`` and ``high`` for which ``f`` of ``x`` is ``y``; see :meth:`solve`."""
        return self.solve(lambda p: f(x, *p) - y, y, np.clip(start, low, high), bounds=(low, high))

    def solve(self, residual: Callable[[F64], F64], y: F64, start: F64, **settings: Any) -> F64:
        """The least sum of squares of ``residual``, which is of the size of ``y``.

        Raises ``ModelError`` if there is no solution.
        """
        from scipy.optimize import least_squares

        if self.robust:
            outlier = max(0.1 * float(np.median(np.abs(y))), 1e-6)
            settings = {"loss": "soft_l1", "f_scale": outlier, **settings}
        try:
            found = least_squares(residual, start, max_nfev=2000, **settings)
            problem = "" if found.success else found.message
        except ValueError as error:
            problem = str(error)
        if problem:
            raise ModelError(
                f"the {self.model} model's curves do not fit these trials ({problem}); measure a profile "
                "with more loads per position"
            )
        return np.asarray(found.x, dtype=np.float64)
