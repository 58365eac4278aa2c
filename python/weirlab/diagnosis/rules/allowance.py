"""What a window allows, what gets through, and what more would need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.timeline import weighted_quantile
from weirlab.diagnosis.view import TimelineView
from weirlab.trace.quantities import bit_rate, duration, size

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Floats

REST: Final = 0.05
"""Least share of the time that shows what the transfer does in it."""
AMPLE: Final = 1.5
"""A window that allows this multiple of what gets through is not the limit."""

_UNTIMED: Final = "that much per round trip (the RTT is not known)"


def seconds(value: float) -> str:
    return duration(value * 1e9)


def at_rtt(bps: float, rtt_s: float) -> str:
    """A throughput and its round-trip time, or a phrase for an RTT that is not known."""
    return f"{bit_rate(bps)} at an RTT of {seconds(rtt_s)}" if rtt_s > 0 else _UNTIMED


def window_of(view: TimelineView, part: Floats) -> tuple[float, float, float]:
    """The usual window, the usual round trip, and the throughput in bit/s that both allow."""
    t = view.timeline
    window = view.usual(t.window_bytes, part)
    rtt = view.usual(t.rtt_s, part)
    rtt = rtt if np.isfinite(rtt) else view.facts.min_rtt_s
    return window, rtt, window * 8 / rtt if rtt > 0 else float("nan")


def wanted(view: TimelineView, allowed_bps: float) -> float | None:
    """The target throughput, else the path's capacity, in bit/s; None if it is not above ``allowed_bps``."""
    target = view.target_bps
    if target is None and view.capacity is not None and view.capacity * 8 > 1.2 * allowed_bps:
        target = view.capacity * 8
    return target if target is not None and target > allowed_bps else None


def needed(view: TimelineView, allowed_bps: float, rtt_s: float, what: str) -> str:
    """A phrase: what a faster transfer would need."""
    target = wanted(view, allowed_bps)
    if target is None:
        return f"twice the throughput needs twice the {what}"
    return f"{size(target * rtt_s / 8, 2)} would be needed for {bit_rate(target)}"


def got_through(view: TimelineView, part: Floats) -> tuple[float, float | None]:
    """The mean bit/s in a part of the time; and the usual rate in the rest, if that is long and faster."""
    t = view.timeline
    inside = float((part * t.lasts_s).sum())
    mean = float((view.rate * part * t.lasts_s).sum()) / inside if inside > 0 else 0.0
    rest = weighted_quantile(view.rate, (1 - part) * t.lasts_s, 0.5)
    if not t.seconds - inside > max(REST * t.seconds, 2 * view.facts.min_rtt_s) or not rest > 1.2 * mean:
        return mean * 8, None
    return mean * 8, rest * 8
