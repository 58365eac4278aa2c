"""Waiting in a finite queue, from far below to far above saturation, in closed form.

The queue is approximated by Brownian motion reflected at 0 and at K packets, whose
drift and variance are those of the G/G/1 queue (Harrison, "Brownian Models of
Performance and Control", ch. 6). With load ``rho = lambda/mu`` and variability
``V = (ca^2 + cs^2) / 2`` (squared coefficients of variation of gaps and of service
times) the content has a density proportional to ``exp(kappa x / K)`` on [0, K] with
``kappa = (rho - 1) K / V``. Well below saturation its mean is Kingman's formula, at
``rho = 1`` half the queue, far above K; what overflows at the upper end is the loss,
``1 - 1/rho`` far above saturation. For V -> 0 it becomes D/D/1/K.

The arrays ``rho``, ``variability`` and ``places`` (K) broadcast against each other.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

F64 = npt.NDArray[np.float64]

_SMALL: Final = 1e-4
_LEAST_VARIABILITY: Final = 1e-9
_LARGE: Final = 500.0
_NO_LOSS: Final = 1e-5
_CHANG_PERES: Final = -0.582597157939
"""zeta(1/2) / sqrt(2 pi)"""
_SERIES: Final = 0.25
"""Drift below which its series in powers of the drift is exact to four digits."""
_SKEW_POWER: Final = 0.34
"""Of the service times' squared coefficient of variation: fits gamma-distributed ones within 10 %."""


def variability(gap_scv: npt.ArrayLike, service_scv: npt.ArrayLike) -> F64:
    """Variability V of gaps and service times, given their squared coefficients of variation."""
    return np.asarray(0.5 * np.add(gap_scv, service_scv))


def rarity(rho: F64, gap_scv: npt.ArrayLike, service_scv: npt.ArrayLike) -> F64:
    """Factor by which packets wait more rarely than V alone says; 1 at saturation.

    Gaps more even than random ones make waiting rare below it. Constant gaps: between the
    mean maximum of a random walk with normal steps (J. Chang and Y. Peres, Annals of
    Probability 25, 1997), which is that of hardly varying service times, and D/M/1 for
    exponential ones. Poisson: 1, as for every M/G/1 queue. Between them, and beyond, the
    exponents of W. Krämer and M. Langenbach-Belz (8th International Teletraffic Congress, 1976).
    """
    ca, cs = np.asarray(gap_scv, dtype=np.float64), np.maximum(service_scv, _LEAST_VARIABILITY)
    load = np.clip(rho, 1e-6, 1.0)
    drift = np.maximum((1.0 - load) / (load * np.sqrt(cs)), 1e-9)
    skew = np.minimum(cs, 1.0) ** _SKEW_POWER
    normal, exponential = _rarities(drift)
    even = (normal + skew * (exponential - normal)) * (1.0 - ca) ** 2 * cs / (ca + cs)
    bursty = -(1.0 - load) * (ca - 1.0) / (ca + 4.0 * cs)
    return np.exp(np.where(ca <= 1.0, even, bursty))


def _rarities(drift: F64) -> tuple[F64, F64]:
    """Logarithms of the above for constant gaps: service times nearly normal, and exponential.

    ``drift`` is the mean step downwards of service time less gap, in standard deviations.
    """
    grid, normal, exponential = _walks()
    slow = np.minimum(drift, grid[0])
    near = np.log1p(2.0 * slow * (_CHANG_PERES + slow / 4.0))
    low = np.log1p(-2.0 * slow / 3.0)
    small = drift < grid[0]
    return (
        np.where(small, near, np.interp(drift, grid, normal)),
        np.where(small, low, np.interp(drift, grid, exponential)),
    )


@cache
def _walks() -> tuple[F64, F64, F64]:
    """Grid of drifts, and both logarithms there: Spitzer's sum over the steps, and the root of D/M/1."""
    grid = np.geomspace(0.02, 12.0, 300)
    root = np.sqrt(np.arange(1, 800))
    z = grid[:, None] * root
    beyond = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi) - z * ndtr(-z)
    far = (beyond / root).sum(axis=1)
    series = 0.5 / grid + _CHANG_PERES + grid / 4.0
    maximum = np.where(grid < _SERIES, series, far)
    low, high = np.full_like(grid, 1e-9), np.full_like(grid, 1.0 - 1e-15)
    for _ in range(60):
        middle = 0.5 * (low + high)
        beyond_root = np.log1p(-middle) + middle * (1.0 + grid) < 0
        low, high = np.where(beyond_root, low, middle), np.where(beyond_root, middle, high)
    waits = (1.0 - low) / low
    return grid, np.log(np.maximum(2.0 * grid * maximum, 1e-300)), np.log(2.0 * grid * waits)


def mean_fraction(
    rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike, rarity: npt.ArrayLike = 1.0
) -> F64:
    """Mean content that an arriving packet finds, as a fraction of K."""
    kappa = _kappa(rho, variability, places)
    safe = np.where(np.abs(kappa) < _SMALL, 1.0, kappa)
    inner = 1.0 / -np.expm1(-np.clip(safe, -_LARGE, _LARGE)) - 1.0 / safe
    content = np.where(np.abs(kappa) < _SMALL, 0.5 + kappa / 12.0, inner)
    return np.asarray(np.minimum(rho, 1.0) * rarity * content)


def quantile_fraction(
    q: float, rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike, rarity: npt.ArrayLike = 1.0
) -> F64:
    """Quantile ``q`` of the content that an arriving packet finds, as a fraction of K.

    Below saturation a packet has to wait with probability ``rho * rarity``.
    """
    kappa = _kappa(rho, variability, places)
    busy = np.minimum(rho, 1.0) * np.maximum(rarity, 1e-300)
    share = np.clip((q - (1.0 - busy)) / busy, 0.0, 1.0)
    safe = np.where(np.abs(kappa) < _SMALL, 1.0, kappa)
    below = np.log1p(share * np.expm1(np.clip(safe, -_LARGE, 0.0))) / np.minimum(safe, -_SMALL)
    tail = np.maximum(share + (1.0 - share) * np.exp(-np.clip(safe, 0.0, _LARGE)), 1e-300)
    above = 1.0 + np.log(tail) / np.maximum(safe, _SMALL)
    inner = np.where(safe < 0, below, above)
    return np.asarray(np.clip(np.where(np.abs(kappa) < _SMALL, share, inner), 0.0, 1.0))


def loss_ratio(rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike) -> F64:
    """Share of packets that find the queue full."""
    kappa = _kappa(rho, variability, places)
    safe = np.where(np.abs(kappa) < _SMALL, 1.0, kappa)
    rise = np.where(
        np.abs(kappa) < _SMALL, 1.0 + kappa / 2.0, safe / -np.expm1(-np.clip(safe, -_LARGE, _LARGE))
    )
    ratio = np.asarray(variability, dtype=np.float64) / np.asarray(places, dtype=np.float64) / rho
    loss = np.clip(ratio * rise, 0.0, 1.0)
    return np.asarray(np.where(loss < _NO_LOSS, 0.0, loss))


def _kappa(rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike) -> F64:
    v, k = np.maximum(variability, _LEAST_VARIABILITY), np.asarray(places, dtype=np.float64)
    return np.asarray((rho - 1.0) * k / v)
