"""Curves that the published firewall model and our variant of it share, and how they are fitted.

Loads are in Mpps, delays in µs and positions relative to the last profiled one while fitting, so that all
coefficients are of similar size.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weirlab.base.errors import ModelError
from weirlab.model.base import DELAYS, F64, ObservationTable, Prediction
from weirlab.model.intervals import IntervalCalibration

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


def with_intervals(
    calibration: IntervalCalibration | None,
    found: Prediction,
    rate_pps: F64,
    bare: Callable[[F64], Prediction],
) -> Prediction:
    """``found`` with the intervals of ``calibration``; ``bare`` predicts without them at other loads."""
    if calibration is None:
        return found

    def laws(factor: float) -> dict[str, F64]:
        # Everything of a slower device takes longer, and its threshold is nearer.
        slower = bare(rate_pps * factor)
        return {
            q: getattr(slower, q) * (1 if q == "loss_ratio" else factor) for q in (*QUANTITIES, "loss_ratio")
        }

    return calibration.applied(found, rate_pps, laws)


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
