"""Least squares that a few bad trials do not pull off, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

F64 = npt.NDArray[np.float64]

MAD_TO_SIGMA: Final = 1.4826
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

    Parameters that are not ``free`` stay as in the start; ``scale`` is the residual from
    which on a point counts as an outlier. Parameters at a bound get the standard error 0.
    """
    mask = np.array(free, dtype=np.bool_)
    low, high = np.array(lower, dtype=np.float64)[mask], np.array(upper, dtype=np.float64)[mask]
    best: tuple[float, F64, F64, npt.NDArray[np.int_]] | None = None
    n = 0
    for start in starts:
        full = np.array(start, dtype=np.float64)

        def inner(x: F64, full: F64 = full) -> F64:
            every = full.copy()
            every[mask] = x
            return residual(every)

        margin = 1e-9 * (high - low)
        first = np.clip(full[mask], low + margin, high - margin)
        found = least_squares(
            inner,
            first,
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


def still(residuals: F64, scale: float) -> Fit:
    """What :func:`fit` would return with nothing to fit, to compare forms with."""
    z = (residuals / scale) ** 2
    mse = float(np.mean(2.0 * scale**2 * (np.sqrt(1.0 + z) - 1.0)))
    return Fit(np.empty(0), np.empty(0), mse, len(residuals), 0)


def _stderr(jacobian: F64, variance: float) -> F64:
    """Square roots of the diagonal of ``variance * inv(J'J)``; infinite where J says nothing."""
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
