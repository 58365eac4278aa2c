"""What a prediction covers besides its own setting: lighter loads, and more even gaps.

A heavier load leaves a device less room, and so do bursts. What trials scatter or lack at one load must not
make another one look better: the upper end of a loss, of jitter and of the longest delays is at least that of
every lighter load at the same setting. Usual delays fall with the load where a device must wake up, so their
intervals stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from weirlab.model.base import DELAYS, F64, Prediction, ProfileRange
from weirlab.model.intervals.calibration import NEAR

_EVENER: Final = (*DELAYS, "jitter_ns", "loss_ratio")
_RISING: Final = ("delay_p99_ns", "delay_p999_ns", "jitter_ns", "loss_ratio")
_JUST_BELOW: Final = 1 - 1e-9
_SHARES: Final = np.unique(
    [
        *np.geomspace(0.01, 0.8, 36),
        *np.linspace(0.8, 1.2, 41),
        *np.geomspace(1.2, 2.0, 6),
        *(_JUST_BELOW * share for share in (1.0, *NEAR)),
    ]
)
"""Loads at which intervals are compared, relative to the threshold: dense where delays rise, and where laws
and regimes change."""


def covering(
    predict: Callable[[F64, F64, F64, F64], Prediction],
    profiled: ProfileRange,
    rate_pps: F64,
    frame_bytes: F64,
    position: F64,
    gap_scv: F64,
) -> Prediction:
    """What ``predict`` says at these settings, arrays of one shape, and covers."""

    def with_even(rate: F64, frame: F64, place: F64, gaps: F64) -> Prediction:
        found, even = predict(rate, frame, place, gaps), np.minimum(gaps, profiled.gap_scv_min)
        return _at_least(found, predict(rate, frame, place, even)) if (even < gaps).any() else found

    found = with_even(rate_pps, frame_bytes, position, gap_scv)
    if not found.intervals:
        return found
    settings, first, which = np.unique(
        np.stack([frame_bytes.ravel(), position.ravel(), gap_scv.ravel()]),
        axis=1,
        return_index=True,
        return_inverse=True,
    )
    which = which.ravel()
    # Heavier ones than all that are asked for say nothing, but for the next.
    shares = _SHARES[: np.searchsorted(_SHARES, np.max(rate_pps / found.threshold_pps), side="right") + 1]
    loads = np.maximum(np.outer(shares, found.threshold_pps.ravel()[first]), profiled.rate_min_pps)
    frame, place, gaps = (np.broadcast_to(each, loads.shape) for each in settings)
    lighter = with_even(loads, frame, place, gaps)
    below = (loads[:, which] <= rate_pps.ravel()).sum(axis=0)
    intervals = dict(found.intervals)
    for name, bands in found.intervals.items():
        if name in _RISING:
            intervals[name] = {}
            predicted = getattr(found, name)
            for level, band in bands.items():
                high = _rising(band.high, lighter.intervals[name][level].high, below, which)
                intervals[name][level] = replace(band, high=np.maximum(high, predicted))
    return replace(found, intervals=intervals)


def _rising(high: F64, lighter: F64, below: Any, which: Any) -> F64:
    """``high`` between the highest ends of the first ``below`` loads at its setting, and of one more.

    ``lighter`` has the ends at these loads, shape (loads, settings); ``which``: the number of the setting.
    """
    tops = np.maximum.accumulate(lighter, axis=0)
    ends = np.vstack([np.zeros(tops.shape[1]), tops, np.full(tops.shape[1], np.inf)])
    least, most = ends[below, which], ends[below + 1, which]
    most = np.where(below > 0, most, np.inf)
    return np.asarray(np.clip(high.ravel(), least, most).reshape(high.shape))


def _at_least(found: Prediction, even: Prediction) -> Prediction:
    """``found`` with no quantity below that with more even gaps."""
    values: dict[str, Any] = {name: np.maximum(getattr(found, name), getattr(even, name)) for name in _EVENER}
    intervals = {
        name: {
            level: replace(band, high=np.maximum(band.high, even.intervals[name][level].high))
            if name in _EVENER
            else band
            for level, band in bands.items()
        }
        for name, bands in found.intervals.items()
    }
    return replace(found, **values, intervals=intervals)
