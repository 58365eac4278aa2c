"""How large a quantity may become with a given certainty, from a model's intervals.

An interval at level L covers L percent of trials, so ``(100 + L)/2`` percent of them stay below
its upper end: the levels 50, 90 and 99 give 75, 95 and 99.5 %. Between those the
logarithm of the bound is interpolated over the quantile of the normal distribution, in
which it is a straight line if errors are log-normal. The prediction itself counts as 50 %.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy.special import ndtri

from weirlab.base.errors import InputError, ModelError
from weirlab.model.base import F64, LEVELS, Prediction

HIGHEST: Final = (100 + max(LEVELS)) / 200
"""The highest certainty that intervals can give; beyond it nothing was calibrated."""

DEFAULT: Final = 0.95


def check(certainty: float) -> None:
    """Raise ``InputError`` for a certainty that no prediction can have."""
    if not 0.5 <= certainty <= HIGHEST:
        raise InputError(
            f"certainty {certainty * 100:g} % is out of range: 50 % (the prediction itself) to "
            f"{HIGHEST * 100:g} % (the widest calibrated interval)"
        )


def known(prediction: Prediction, quantity: str) -> bool:
    """Whether the model has an interval for ``quantity``."""
    return bool(prediction.intervals.get(quantity))


def at_most(prediction: Prediction, quantity: str, certainty: float) -> F64:
    """The bound below which ``quantity`` stays in a trial with ``certainty`` (0.5 to :data:`HIGHEST`).

    Without intervals this is the prediction. Loss is bounded by the uncertainty of the
    threshold, too: ``1 - threshold / load`` at the threshold's lower end.
    """
    value = getattr(prediction, quantity)
    bands = prediction.intervals.get(quantity, {})
    return _between(value, {level: band.high for level, band in bands.items()}, certainty, rising=True)


def at_least(prediction: Prediction, quantity: str, certainty: float) -> F64:
    """The bound above which ``quantity`` stays with ``certainty``; without intervals the prediction."""
    value = getattr(prediction, quantity)
    bands = prediction.intervals.get(quantity, {})
    return _between(value, {level: band.low for level, band in bands.items()}, certainty, rising=False)


def loss_at_most(prediction: Prediction, rate_pps: F64, certainty: float) -> F64:
    """Loss ratio below which a trial stays with ``certainty``.

    The larger of two bounds: the interval of the loss itself, and the excess of the load over
    the lower end of the threshold, since loss sets in there.
    """
    own = at_most(prediction, "loss_ratio", certainty)
    if not known(prediction, "threshold_pps"):
        return own
    threshold = at_least(prediction, "threshold_pps", certainty)
    return np.asarray(np.clip(np.maximum(own, 1.0 - threshold / rate_pps), 0.0, 1.0))


def _between(value: F64, ends: dict[int, F64], certainty: float, *, rising: bool) -> F64:
    check(certainty)
    value = np.asarray(value, dtype=np.float64)
    if not ends or certainty == 0.5:
        return value
    levels = sorted(ends)
    knots = [float(ndtri((100 + level) / 200)) for level in levels]
    # The ends of wider intervals never lie further in, whatever calibration did.
    extreme = np.maximum if rising else np.minimum
    curve = extreme.accumulate(np.stack([value, *(np.asarray(ends[level]) for level in levels)]), axis=0)
    z = float(ndtri(certainty))
    if z > knots[-1] + 1e-9:
        raise ModelError(
            f"the intervals of this model give at most {(100 + levels[-1]) / 2:g} % certainty, "
            f"not {certainty * 100:g} %; fit it again with weir fit"
        )
    right = min(int(np.searchsorted(knots, z - 1e-12)), len(knots) - 1)
    z_left, z_right = (0.0, *knots)[right], knots[right]
    low, high = curve[right], curve[right + 1]
    weight = min((z - z_left) / (z_right - z_left), 1.0)
    if weight == 1.0:
        return np.asarray(high)
    positive = (low > 0) & (high > 0) & np.isfinite(high)
    safe_low, safe_high = np.where(positive, low, 1.0), np.where(positive, high, 1.0)
    geometric = safe_low ** (1 - weight) * safe_high**weight
    finite = np.where(np.isfinite(high), high, 0.0)
    straight = np.where(np.isfinite(high), low * (1 - weight) + finite * weight, high)
    return np.asarray(np.where(positive, geometric, straight))
