"""Least squares that a few bad trials do not distort, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

MAD_TO_SIGMA: Final = 1.4826
_STEP: Final = math.sqrt(np.finfo(np.float64).eps)
"""Relative step of a forward difference: its truncation error is as small as its rounding error."""
MEDIAN_EFFICIENCY: Final = 1.2533
"""Standard error of a median over that of a mean, for normal scatter."""


@dataclass(frozen=True)
class Fit:
    """Result of :func:`fit`. ``mse`` is the mean squared (robust) residual."""

    values: F64
    stderr: F64
    mse: float
    n: int
    free: int

    def bic(self, floor: float) -> float:
        """Bayesian information criterion; misfits below ``floor`` (same unit as residuals) do not count."""
        return self.n * math.log(max(self.mse, floor**2)) + self.free * math.log(self.n)


def fit(
    residual: Callable[[F64], F64],
    starts: Sequence[Sequence[float]],
    lower: Sequence[float],
    upper: Sequence[float],
    free: Sequence[bool],
    scale: float,
) -> Fit:
    """Minimise soft-L1 loss of ``residual`` from each of ``starts`` and keep the best.

    ``residual`` takes parameters of shape (p,) or (k, p) and returns shape (n,) or (k, n); see
    :func:`each`. Parameters that are not ``free`` keep their start values; ``scale`` is the residual from
    which a point counts as an outlier. Parameters at a bound get the standard error 0.
    """
    # Only fits need it, and importing it takes as long as the rest of a model.
    from scipy.optimize import least_squares

    mask = np.array(free, dtype=np.bool_)
    low, high = np.array(lower, dtype=np.float64)[mask], np.array(upper, dtype=np.float64)[mask]
    best: tuple[float, F64, F64, npt.NDArray[np.int_]] | None = None
    n = 0
    for start in starts:
        full = np.array(start, dtype=np.float64)

        def inner(x: F64, full: F64 = full) -> F64:
            every = np.tile(full, (len(x), 1))
            every[:, mask] = x
            return residual(every)

        margin = 1e-9 * (high - low)
        first = np.clip(full[mask], low + margin, high - margin)
        slopes = _Slopes(inner, low, high)
        found = least_squares(
            slopes.residual,
            first,
            jac=slopes.jacobian,
            bounds=(low, high),
            x_scale=np.maximum(np.abs(first), 0.01 * (high - low)),
            loss="soft_l1",
            f_scale=scale,
            max_nfev=400,
        )
        n = len(found.fun)
        if best is None or found.cost < best[0]:
            every = full.copy()
            every[mask] = found.x
            best = (float(found.cost), every, np.asarray(found.jac), np.asarray(found.active_mask))
    assert best is not None, "fit() needs at least one start"
    cost, values, jacobian, active = best
    mse = 2.0 * cost / n
    stderr = np.zeros(len(mask))
    inside = np.flatnonzero(mask)[active == 0]
    if len(inside):
        degrees = max(n - int(mask.sum()), 1)
        stderr[inside] = _stderr(jacobian[:, active == 0], 2.0 * cost / degrees)
    return Fit(values, stderr, mse, n, int(mask.sum()))


def each(parameters: F64) -> F64:
    """Parameters of shape (p,) or (k, p), to be unpacked into p factors of arrays of shape (n,)."""
    return parameters if parameters.ndim == 1 else parameters.T[:, :, None]


class _Slopes:
    """Residuals, and their derivatives by forward differences, all from one evaluation.

    With some hundred trials an evaluation costs the same for one set of parameters as for ten.
    """

    def __init__(self, residual: Callable[[F64], F64], low: F64, high: F64) -> None:
        """``residual`` takes shape (k, p); ``low`` and ``high`` are the parameters' bounds, shape (p,)."""
        self._residual = residual
        self._low = low
        self._high = high
        self._at = np.full(len(low), np.nan)
        self._steps = np.empty(0)
        self._values = np.empty((0, 0))

    def residual(self, x: F64) -> F64:
        self._evaluate(x)
        # The solver modifies what it gets in place.
        return np.asarray(self._values[0].copy())

    def jacobian(self, x: F64) -> F64:
        """Shape (n, p)."""
        self._evaluate(x)
        return np.asarray((self._values[1:] - self._values[0]).T / self._steps)

    def _evaluate(self, x: F64) -> None:
        if np.array_equal(x, self._at):
            return
        step = _STEP * np.maximum(np.abs(x), 1.0)
        # Step away from a nearby bound, and never beyond the farther one.
        forward = (self._high - x >= step) | (self._high - x >= x - self._low)
        moved = np.clip(np.where(forward, x + step, x - step), self._low, self._high)
        self._at, self._steps = x.copy(), moved - x
        self._values = self._residual(np.vstack([x, np.where(np.eye(len(x), dtype=np.bool_), moved, x)]))


def still(residuals: F64, scale: float) -> Fit:
    """The result of :func:`fit` with nothing to fit, to compare forms with."""
    z = (residuals / scale) ** 2
    mse = float(np.mean(2.0 * scale**2 * (np.sqrt(1.0 + z) - 1.0)))
    return Fit(np.empty(0), np.empty(0), mse, len(residuals), 0)


def _stderr(jacobian: F64, variance: float) -> F64:
    """Square roots of the diagonal of ``variance * inv(J'J)``; infinite where a column of J is zero."""
    norm = np.sqrt((jacobian**2).sum(axis=0))
    usable = np.where(norm > 0, norm, 1.0)
    _, s, vt = np.linalg.svd(jacobian / usable, full_matrices=False)
    weak = s < 1e-10 * s.max() if s.max() > 0 else np.ones_like(s, dtype=np.bool_)
    inverse = np.where(weak, 0.0, 1.0 / np.where(weak, 1.0, s))
    spread = np.sqrt(((vt.T * inverse) ** 2).sum(axis=1) * variance) / usable
    return np.where(norm > 0, spread, np.inf)


def scatter(values: F64) -> float:
    """Robust standard deviation around the median."""
    return MAD_TO_SIGMA * float(np.median(np.abs(values - np.median(values)))) if len(values) else 0.0


def median_with_error(values: F64) -> tuple[float, float]:
    """Median and its standard error."""
    return float(np.median(values)), MEDIAN_EFFICIENCY * scatter(values) / math.sqrt(len(values))
