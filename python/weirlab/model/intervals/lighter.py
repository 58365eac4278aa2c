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
RISING: Final = ("delay_p99_ns", "delay_p999_ns", "jitter_ns", "loss_ratio")
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


_Predict = Callable[[F64, F64, F64, F64], Prediction]


def covering(
    predict: _Predict,
    predict_rising: _Predict,
    profiled: ProfileRange,
    rate_pps: F64,
    frame_bytes: F64,
    position: F64,
    gap_scv: F64,
) -> Prediction:
    """What ``predict`` says at these settings, arrays of one shape, and covers.

    ``predict_rising`` says the same with the intervals of loss, jitter and the longest delays at least.
    """

    def with_even(predict: _Predict, rate: F64, frame: F64, place: F64, gaps: F64) -> Prediction:
        found, even = predict(rate, frame, place, gaps), np.minimum(gaps, profiled.gap_scv_min)
        return _at_least(found, predict(rate, frame, place, even)) if (even < gaps).any() else found

    found = with_even(predict, rate_pps, frame_bytes, position, gap_scv)
    if not found.intervals:
        return found
    settings, first, which = np.unique(
        np.stack([frame_bytes.ravel(), position.ravel(), gap_scv.ravel()]),
        axis=1,
        return_index=True,
        return_inverse=True,
    )
    which = which.ravel()
    loads = np.maximum(np.outer(_SHARES, found.threshold_pps.ravel()[first]), profiled.rate_min_pps)
    below = (loads[:, which] <= rate_pps.ravel()).sum(axis=0)
    # Heavier loads than all that are asked for at a setting say nothing, but for the next; nor do equal ones.
    last = (loads == loads[0]).sum(axis=0) - 1
    np.maximum.at(last, which, below)
    needed = np.arange(len(loads))[:, None] <= last
    needed[:-1] &= loads[:-1] < loads[1:]
    frame, place, gaps = (np.broadcast_to(each, loads.shape)[needed] for each in settings)
    lighter = with_even(predict_rising, loads[needed], frame, place, gaps)
    intervals = dict(found.intervals)
    for name, bands in found.intervals.items():
        if name in RISING:
            intervals[name] = {}
            predicted = getattr(found, name)
            for level, band in bands.items():
                ends = np.zeros(loads.shape)
                ends[needed] = lighter.intervals[name][level].high
                high = _rising(band.high, ends, below, which)
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
