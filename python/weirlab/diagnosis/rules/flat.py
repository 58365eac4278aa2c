"""Causes of a flight that stays the same: send buffer, receiver's window, or little that is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import causes
from weirlab.diagnosis.rules.ends import explain_buffer, explain_window, explain_writing
from weirlab.diagnosis.rules.rule import DiagnosisRule

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools
    from weirlab.diagnosis.view import TimelineView

NEARLY: Final = 0.8
"""Share of the receiver's window in flight, from which on the window is the likeliest limit."""


def _level(view: TimelineView) -> Bools:
    flat = view.timeline.flat
    if not flat.any():
        return flat
    others = view.shared & (view.paired is not None)
    return flat & ~view.behind_queue(flat) & ~view.acks_queued & ~others


def _writes_evenly(view: TimelineView) -> bool:
    """Whether the application wrote little at a time, rather than a full send buffer held it up.

    Both leave a flight that stays the same. But a buffer that is too small is full all the time.
    """
    return view.share(_level(view)) < view.share(view.idle)


def _flat(view: TimelineView) -> Bools:
    return _level(view) & (not _writes_evenly(view)) & ~view.nearly_full


def _nearly_full(view: TimelineView) -> Bools:
    """The flight stays the same, and as near to the receiver's window as can be seen."""
    part = _level(view) & (not _writes_evenly(view)) & view.nearly_full
    if not part.any():
        return part
    t, weights = view.timeline, part.astype(np.float64)
    near = view.usual(t.flight_bytes, weights, 0.9) >= NEARLY * view.usual(t.window_bytes, weights)
    return part & near


def _evenly_written(view: TimelineView) -> Bools:
    return _level(view) & _writes_evenly(view)


FLAT_RULES: Final = (
    DiagnosisRule(causes.RECEIVE_WINDOW, _nearly_full, explain_window, {"both": "medium"}),
    DiagnosisRule(causes.SEND_BUFFER, _flat, explain_buffer),
    DiagnosisRule(causes.APPLICATION_WRITE, _evenly_written, explain_writing),
)
