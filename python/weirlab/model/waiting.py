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

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

_SMALL = 1e-4
_LARGE = 500.0
_NO_LOSS = 1e-9


def mean_fraction(rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike) -> F64:
    """Mean content that an arriving packet finds, as a fraction of K."""
    kappa = _kappa(rho, variability, places)
    safe = np.where(np.abs(kappa) < _SMALL, 1.0, kappa)
    inner = 1.0 / -np.expm1(-np.clip(safe, -_LARGE, _LARGE)) - 1.0 / safe
    content = np.where(np.abs(kappa) < _SMALL, 0.5 + kappa / 12.0, inner)
    return np.asarray(np.minimum(rho, 1.0) * content)


def quantile_fraction(q: float, rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike) -> F64:
    """Quantile ``q`` of the content that an arriving packet finds, as a fraction of K.

    Below saturation a packet finds the server idle with probability ``1 - rho``.
    """
    kappa = _kappa(rho, variability, places)
    busy = np.minimum(rho, 1.0)
    share = np.clip((q - (1.0 - busy)) / busy, 0.0, 1.0)
    safe = np.where(np.abs(kappa) < _SMALL, 1.0, kappa)
    below = np.log1p(share * np.expm1(np.clip(safe, -_LARGE, 0.0))) / np.minimum(safe, -_SMALL)
    tail = np.maximum(share + (1.0 - share) * np.exp(-np.clip(safe, 0.0, _LARGE)), 1e-300)
    above = 1.0 + np.log(tail) / np.maximum(safe, _SMALL)
    inner = np.where(safe < 0, below, above)
    return np.clip(np.where(np.abs(kappa) < _SMALL, share, inner), 0.0, 1.0)


def loss_ratio(rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike) -> F64:
    """Share of packets that find the queue full."""
    kappa = _kappa(rho, variability, places)
    safe = np.where(np.abs(kappa) < _SMALL, 1.0, kappa)
    rise = np.where(
        np.abs(kappa) < _SMALL, 1.0 + kappa / 2.0, safe / -np.expm1(-np.clip(safe, -_LARGE, _LARGE))
    )
    ratio = np.asarray(variability, dtype=np.float64) / np.asarray(places, dtype=np.float64) / rho
    loss = np.clip(ratio * rise, 0.0, 1.0)
    return np.where(loss < _NO_LOSS, 0.0, loss)


def _kappa(rho: F64, variability: npt.ArrayLike, places: npt.ArrayLike) -> F64:
    v, k = np.asarray(variability, dtype=np.float64), np.asarray(places, dtype=np.float64)
    return np.asarray((rho - 1.0) * k / v)
