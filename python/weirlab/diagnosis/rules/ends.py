"""Causes at the two ends: applications, buffers, windows, hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import causes
from weirlab.diagnosis.rules.rule import Rule
from weirlab.diagnosis.view import View
from weirlab.trace.quantities import bit_rate, count, duration, percent, size

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

BUFFER_FULL: Final = 1.0
"""Of the send buffer: an application is blocked only by one that was full to the last byte."""
UNSCALED: Final = 65_535
SHRUNK: Final = 0.5
"""Of the greatest window: what is missing then lies unread in the buffer."""
MOSTLY: Final = 0.5
STARVED: Final = 0.25
"""Share of the time in which a thread waited for a CPU from which on that is what kept it."""


_UNTIMED: Final = "that much per round trip, whose time is not known"


def seconds(value: float) -> str:
    return duration(value * 1e9)


def at_rtt(bps: float, rtt_s: float) -> str:
    """A throughput, and at which round-trip time; where that is not known, words that say so."""
    return f"{bit_rate(bps)} at an RTT of {seconds(rtt_s)}" if rtt_s > 0 else _UNTIMED


def _window(view: View, part: Floats) -> tuple[float, float, float]:
    """Usual window, usual round trip, and what both allow in bit/s."""
    t = view.timeline
    window = view.usual(t.window_bytes, part)
    rtt = view.usual(t.rtt_s, part)
    rtt = rtt if np.isfinite(rtt) else view.facts.min_rtt_s
    return window, rtt, window * 8 / rtt if rtt > 0 else float("nan")


def needed(view: View, allowed_bps: float, rtt_s: float, what: str) -> str:
    """What a faster transfer would need."""
    target = view.target_bps
    if target is None and view.capacity is not None and view.capacity * 8 > 1.2 * allowed_bps:
        target = view.capacity * 8
    if target is None or target <= allowed_bps:
        return f"twice the throughput needs twice the {what}"
    return f"{size(target * rtt_s / 8, 2)} would be needed for {bit_rate(target)}"


# -- the sending application ---------------------------------------------------------------------------------


def _blocked(view: View) -> Bools:
    t = view.timeline
    return np.asarray(view.idle & (t.buffer_fill >= BUFFER_FULL))


def _buffer(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    flight = view.usual(t.flight_bytes, part, 0.9)
    rtt = view.usual(t.rtt_s, part)
    allowed = flight * 8 / rtt if rtt > 0 else float("nan")
    why = (
        f"it holds {size(flight)} of data, which allows {at_rtt(allowed, rtt)}; "
        f"{needed(view, allowed, rtt, 'buffer')}"
    )
    if t.source != "kernel":
        return why, (
            f"the data in flight stayed at {size(flight)}, each ACK was answered at once by as much new data",
            "the receiver's window was open, nothing was lost and no queue built up",
            "a congestion window that is held fixed at the sender would look the same",
        )
    return why, (
        "everything written had been sent, and its memory filled the send buffer",
        f"the receiver's window had room for {size(view.usual(t.window_bytes - t.flight_bytes, part))} more",
    )


def _unwritten(view: View) -> Bools:
    return view.idle


def _writing(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    empty = view.share(part * (t.flight_bytes <= 0))
    evidence = [f"{percent(empty)} of the time not a byte was in flight"]
    if t.source == "kernel":
        evidence.insert(0, "the send queue held nothing unsent, and the send buffer had room")
    else:
        evidence.insert(
            0, "a segment shorter than the MSS, or new data without an ACK before it, ended each pause"
        )
    return "TCP could have sent more", tuple(evidence)


def _nagle(view: View) -> Bools:
    return view.timeline.held_small


def _held(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    starts = np.flatnonzero(np.diff(np.concatenate([[0.0], (part > 0.5).astype(float)])) > 0)
    each = float((part * t.lasts_s).sum()) / max(len(starts), 1)
    least = view.facts.min_rtt_s
    why = (
        f"{count(len(starts))} times for {seconds(each)} on average, with an RTT of {seconds(least)}"
        + ("; the receiver delays ACKs" if each > least + 0.015 else "")
        + "; TCP_NODELAY, or writing each message at once, avoids it"
    )
    return why, ("less than a segment waited, and left as soon as the segment before it was acknowledged",)


_BUFFER: Final = (
    "on the wire it looks like a fixed congestion window, or like an application that writes little at a time"
)

APPLICATION_RULES: Final = (
    Rule(
        causes.NAGLE,
        _nagle,
        _held,
        {"kernel": "high", "sender": "medium", "receiver": "medium"},
    ),
    Rule(
        causes.SEND_BUFFER,
        _blocked,
        _buffer,
        {"kernel": "high"},
        {
            "sender": _BUFFER,
            "between": _BUFFER,
            "receiver": _BUFFER,
        },
    ),
    Rule(
        causes.APPLICATION_WRITE,
        _unwritten,
        _writing,
        {"kernel": "high", "sender": "medium", "receiver": "medium", "between": "medium"},
    ),
)


# -- the receiver --------------------------------------------------------------------------------------------


def _limited(view: View) -> Bools:
    # Where the bottleneck is busy anyway, a larger window would only make the queue longer. A busy host
    # lengthens some round trips, too; a queue that the window fills stands all the time.
    opened = view.window_full & (view.timeline.window_bytes >= view.facts.mss_bytes)
    both = opened & view.plainly_queued
    queued = view.share(both.astype(np.float64)) > MOSTLY * view.share(opened.astype(np.float64))
    # While the window is closed nothing stands in a queue, however long the last round trip was.
    return view.window_full & ~(opened & view.saturated & view.plainly_queued & queued)


def _most_window(view: View) -> Floats:
    window = view.timeline.window_bytes
    return np.asarray(np.fmax.accumulate(window)) if len(window) else window


def _unread(view: View) -> Bools:
    """What is missing in the window lies in the buffer."""
    t = view.timeline
    shrunk = t.window_bytes < SHRUNK * _most_window(view)
    unread = t.unread_bytes > np.maximum(t.window_bytes, view.facts.mss_bytes)
    return np.asarray(_limited(view) & (shrunk | unread))


def _starved(view: View) -> Bools:
    return _unread(view) & np.asarray(view.timeline.cpu_wait >= STARVED)


def _waiting(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    waited = view.usual(view.timeline.cpu_wait, part)
    why = f"it was ready to run and had no CPU {percent(waited)} of the time"
    return why, ("the kernel's scheduler says so (schedstat)", *_reading(view, part)[1])


def _reading(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    window, most = view.usual(t.window_bytes, part), float(np.nanmax(t.window_bytes))
    closed = view.share(part * (t.window_bytes < view.facts.mss_bytes))
    evidence = [
        f"the window fell from {size(most)} to {size(window)}",
        f"closed {percent(closed)} of the time",
    ]
    if t.knows("unread_bytes"):
        evidence.append(f"{size(view.usual(t.unread_bytes, part))} lay unread at the receiver")
    return f"what it had not read filled its buffer, and its window fell to {size(window)}", tuple(evidence)


def _unscaled(view: View) -> Bools:
    off = view.facts.window_scaling is False
    return _limited(view) & (view.timeline.window_bytes <= UNSCALED) & off


def _full(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    window, rtt, allowed = _window(view, part)
    why = (
        f"its buffer of {size(window)} allows {at_rtt(allowed, rtt)}; {needed(view, allowed, rtt, 'window')}"
    )
    flight = view.usual(t.flight_bytes, part)
    return why, (
        f"{size(flight)} were in flight, and the window was {size(window)}",
        f"the window was at most {size(float(np.nanmax(t.window_bytes)))} at any time",
    )


def _scaling(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    _, evidence = _full(view, part)
    _, rtt, allowed = _window(view, part)
    return (
        f"without it no window exceeds 65.5 kB, which allows {at_rtt(allowed, rtt)}",
        ("the handshake did not agree on window scaling (RFC 7323)", *evidence),
    )


_READER: Final = (
    "whether the application did not read or had no CPU: both leave data unread in the receiver's buffer"
)

WINDOW_RULES: Final = (
    Rule(
        causes.RECEIVER_HOST,
        _starved,
        _waiting,
        {"kernel": "high"},
        {"sender": _READER, "between": _READER, "receiver": _READER},
    ),
    Rule(
        causes.APPLICATION_READ,
        _unread,
        _reading,
        {"kernel": "high", "sender": "high", "between": "high", "receiver": "high"},
    ),
    Rule(
        causes.WINDOW_SCALING,
        _unscaled,
        _scaling,
        {"kernel": "high", "sender": "high", "between": "high", "receiver": "high"},
    ),
    Rule(
        causes.RECEIVE_WINDOW,
        _limited,
        _full,
        {"kernel": "high", "sender": "high", "between": "medium", "receiver": "medium"},
    ),
)


# -- the sender's host ---------------------------------------------------------------------------------------


def _paced(view: View) -> Bools:
    return view.has_room & view.facts.paced


def _pacing(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    rate = view.usual(view.timeline.pacing_bytes_per_s, part) * 8
    return f"segments left at {bit_rate(rate)}", (
        "data waited although both windows were open",
        "the congestion control, or a limit of the socket, sets the pace",
    )


def _late(view: View) -> Bools:
    return view.has_room


def _hosting(view: View, part: Floats) -> tuple[str, tuple[str, ...]]:
    waited = view.usual(view.timeline.unsent_bytes, part)
    return f"{size(waited)} waited although both windows were open", (
        "neither window, nor pacing, nor a recovery kept the data back: CPU, interface or queues of the host",
    )


_PACE: Final = "pacing and an application that writes evenly look alike on the wire"
_HOST: Final = "a host without CPU looks like an application that does not write"

HOST_RULES: Final = (
    Rule(
        causes.PACING,
        _paced,
        _pacing,
        {"kernel": "medium"},
        {"sender": _PACE, "between": _PACE, "receiver": _PACE},
    ),
    Rule(
        causes.SENDER_HOST,
        _late,
        _hosting,
        {"kernel": "medium"},
        {"sender": _HOST, "between": _HOST, "receiver": _HOST},
    ),
)

FLAT_RULES: Final = (Rule(causes.SEND_BUFFER, lambda view: view.timeline.flat, _buffer),)
