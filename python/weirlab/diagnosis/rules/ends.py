"""Causes at the two ends: applications, buffers, windows, hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis import causes
from weirlab.diagnosis.rules.allowance import (
    AMPLE,
    REST,
    at_rtt,
    got_through,
    needed,
    seconds,
    wanted,
    window_of,
)
from weirlab.diagnosis.rules.network import stands_still
from weirlab.diagnosis.rules.rule import DiagnosisRule
from weirlab.diagnosis.timeline import DELAYED_S, SHRUNK
from weirlab.diagnosis.view import TimelineView
from weirlab.trace.quantities import bit_rate, percent, plural, size

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

BUFFER_FULL: Final = 1.0
"""Fill of the send buffer: only a completely full one blocks the application."""
UNSCALED: Final = 65_535
KEEPS_PACE: Final = 0.5
"""Share of the pacing rate. Data that leaves more slowly is held up by the host."""
MUCH: Final = 2.0
"""A receive window that allows this multiple of what gets through opens late."""
FELL: Final = 0.9
"""Share of the largest window, below which it is no window that only grew."""
STARVED: Final = 0.25
"""Share of the time that a thread waited for a CPU, from which on the wait counts as the cause."""


# -- the sending application ---------------------------------------------------------------------------------


def _blocked(view: TimelineView) -> Bools:
    t = view.timeline
    return np.asarray(view.idle & (t.buffer_fill >= BUFFER_FULL))


def explain_buffer(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
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
            f"the data in flight rose to {size(flight)} again and again: it filled what ACKs had freed",
            "the receiver's window was open, nothing was lost, and no queue was seen",
            "a fixed congestion window, or a limit in the application, would look the same",
        )
    return why, (
        "all written data had been sent, and its memory filled the send buffer",
        f"the receiver's window had room for {size(view.usual(t.window_bytes - t.flight_bytes, part))} more",
    )


def explain_writing(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    empty = view.share(part * (t.flight_bytes <= 0))
    evidence = [f"{percent(empty)} of the time no data was in flight"]
    if t.source == "kernel":
        evidence.insert(0, "the send queue held no unsent data, and the send buffer had room")
    else:
        evidence.insert(
            0, "a segment shorter than the MSS, or new data without an ACK before it, ended each pause"
        )
    _, reached = got_through(view, part)
    why = "TCP could have sent more"
    if reached is not None:
        why = f"when it had more to send, {bit_rate(reached)} got through"
    return why, tuple(evidence)


def _asking(view: TimelineView) -> Floats:
    """Nothing to send, and what came next answered data of the receiver."""
    asked = view.timeline.asked
    return np.zeros(len(view.idle)) if asked is None else view.idle * asked


def _asks(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    asks, waited_s = view.facts.asks, view.share(part) * view.timeline.seconds
    why = f"{plural(asks, 'time')}, for {seconds(waited_s / max(asks, 1))} on average"
    _, reached = got_through(view, part)
    if reached is not None:
        why += f"; when it had more to send, {bit_rate(reached)} got through"
    return why, ("the receiver's data may be requests, or anything else that the sender waits for",)


def _held(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    # Each wait begins with a piece in which data had just been sent.
    inside = part > 0.5
    sent = t.flight_bytes > np.concatenate([[-1.0], t.flight_bytes[:-1]])
    entered = inside & ~np.concatenate([[False], inside[:-1]])
    starts = np.flatnonzero(inside & (sent | entered))
    each = float((part * t.lasts_s).sum()) / max(len(starts), 1)
    least = view.facts.min_rtt_s
    why = (
        f"{plural(len(starts), 'time')}, for {seconds(each)} on average at an RTT of {seconds(least)}"
        + (", as the receiver delays ACKs" if each > least + DELAYED_S else "")
        + "; TCP_NODELAY, or one write per message, avoids it"
    )
    return why, ("less than a segment waited, and left as soon as the segment before it was acknowledged",)


_BUFFER: Final = (
    "on the wire it looks like a fixed congestion window, or like an application that writes little at a time"
)

APPLICATION_RULES: Final = (
    DiagnosisRule(causes.NAGLE, lambda view: view.timeline.held_small, _held, {"kernel": "high"}),
    DiagnosisRule(
        causes.SEND_BUFFER,
        _blocked,
        explain_buffer,
        {"kernel": "high"},
        {"sender": _BUFFER, "between": _BUFFER, "receiver": _BUFFER},
        (causes.APPLICATION_WRITE.key, causes.PACING.key, causes.UNKNOWN.key),
    ),
    DiagnosisRule(causes.APPLICATION_ASK, _asking, _asks),
    DiagnosisRule(
        causes.APPLICATION_WRITE,
        lambda view: view.idle & ~stands_still(view),
        explain_writing,
        {"kernel": "high"},
    ),
)


# -- the receiver --------------------------------------------------------------------------------------------


def _limited(view: TimelineView) -> Bools:
    # If the bottleneck is busy anyway, a larger window would only make the queue longer. But while the window
    # is closed, nothing waits in a queue, however long the last round trip was.
    if not view.window_full.any():
        return view.window_full
    opened = view.window_full & (view.timeline.window_bytes >= view.facts.mss_bytes)
    return view.window_full & ~view.behind_queue(opened) & ~view.unanswered


def _unread(view: TimelineView) -> Bools:
    """The missing part of the window is unread data in the buffer."""
    t, limited = view.timeline, _limited(view)
    if not limited.any():
        return limited
    shrunk = (t.window_bytes < SHRUNK * view.most_window) | (t.window_bytes <= 0)
    unread = t.unread_bytes > np.maximum(t.window_bytes, view.facts.mss_bytes)
    return np.asarray(limited & (shrunk | unread))


def _ample(view: TimelineView, ratio: float) -> Bools:
    """The window is full, but allows ``ratio`` times what gets through."""
    part = _limited(view) & ~_unread(view)
    weights = part.astype(np.float64)
    allowed, got = window_of(view, weights)[2], got_through(view, weights)[0]
    # The allowed rate is NaN if no round trip is known.
    if view.share(weights) < REST or not allowed >= ratio * got > 0:
        return np.zeros(len(part), dtype=bool)
    return part


def _opens_late(view: TimelineView) -> Bools:
    """An ample window that is mostly smaller than it was: it opens when the receiver reads."""
    part = _ample(view, MUCH)
    lower = part & (view.timeline.window_bytes < FELL * view.most_window)
    return part & (view.share(lower.astype(np.float64)) > view.share(part.astype(np.float64)) / 2)


def _opening(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    window, rtt, allowed = window_of(view, part)
    why = (
        f"its window was full, but {size(window)} allow {at_rtt(allowed, rtt)}, and "
        f"{bit_rate(got_through(view, part)[0])} got through: the window opened later than ACKs came"
    )
    return why, explain_window(view, part)[1]


def _waiting(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    waited = view.usual(view.timeline.cpu_wait, part)
    why = f"it was ready to run but had no CPU for {percent(waited)} of that time, while its buffer was full"
    return why, ("the kernel's scheduler counted the wait (schedstat)", *_reading(view, part)[1])


def _reading(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t, after_s = view.timeline, view.facts.unread_s
    later = f"after the last data it took {seconds(after_s)} to read what its buffer held"
    if not part.any():
        return later, ("its window was small until then",)
    window, most = view.usual(t.window_bytes, part), view.usual(view.most_window, part)
    if most <= 0:
        return "its window was closed", ("its scale is not known, so an open window may have been full, too",)
    small, shut = (
        view.share(part * held) * t.seconds
        for held in (t.window_bytes < view.facts.mss_bytes, t.window_bytes <= 0)
    )
    evidence = [f"the window fell from {size(most)} to {size(window)}"]
    if small > 0:
        closed = f"; it was closed for {seconds(shut)} of this" if shut > 0 else ""
        evidence.append(f"it was below one segment for {seconds(small)}{closed}")
    if after_s > 0:
        evidence.append(later)
    if t.knows("unread_bytes"):
        evidence.append(f"{size(view.usual(t.unread_bytes, part))} was unread at the receiver")
    why = f"unread data filled its buffer, and its window fell to {size(window)}"
    _, reached = got_through(view, part)
    if reached is not None:
        why += f"; while it read, {bit_rate(reached)} got through"
    return why, tuple(evidence)


def _unscaled(view: TimelineView) -> Bools:
    # A much smaller window is that of a small buffer, whether windows are scaled or not.
    limited = _limited(view)
    if view.facts.window_scaling is not False or not limited.any():
        return np.zeros(len(limited), dtype=bool)
    most = np.nan_to_num(view.most_window).max(initial=0.0)
    return np.asarray(limited & (UNSCALED / 2 < most <= UNSCALED))


def explain_window(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t = view.timeline
    window, rtt, allowed = window_of(view, part)
    why = (
        f"its buffer of {size(window)} allows {at_rtt(allowed, rtt)}; {needed(view, allowed, rtt, 'window')}"
    )
    flight = view.usual(t.flight_bytes, part)
    return why, (
        f"{size(flight)} was in flight, and the window was {size(window)}",
        f"the window was at most {size(float(np.nanmax(t.window_bytes)))} at any time",
    )


def _scaling(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    _, evidence = explain_window(view, part)
    _, rtt, allowed = window_of(view, part)
    target = wanted(view, allowed)
    more = "" if target is None else f"; {size(target * rtt / 8, 2)} would be needed for {bit_rate(target)}"
    return (
        f"without it no window exceeds 65.5 kB, which allows {at_rtt(allowed, rtt)}{more}",
        ("the ends did not agree on window scaling in the handshake (RFC 7323)", *evidence),
    )


_READER: Final = (
    "an application that does not read and one without a CPU both leave data unread in the receiver's buffer"
)

WINDOW_RULES: Final = (
    DiagnosisRule(
        causes.RECEIVER_HOST,
        lambda view: _unread(view) & np.asarray(view.timeline.cpu_wait >= STARVED),
        _waiting,
        {"kernel": "high"},
        {"sender": _READER, "between": _READER, "receiver": _READER},
        (causes.APPLICATION_READ.key,),
    ),
    DiagnosisRule(
        causes.APPLICATION_READ,
        _unread,
        _reading,
        {"kernel": "high", "sender": "high", "between": "high", "receiver": "high"},
    ),
    DiagnosisRule(
        causes.WINDOW_SCALING,
        _unscaled,
        _scaling,
        {"kernel": "high", "sender": "high", "between": "high", "receiver": "high"},
    ),
    DiagnosisRule(causes.APPLICATION_READ, _opens_late, _opening),
    # In between, the path may have stood still for a while.
    DiagnosisRule(causes.RECEIVE_WINDOW, lambda view: _ample(view, AMPLE), explain_window),
    DiagnosisRule(causes.RECEIVE_WINDOW, _limited, explain_window, {"kernel": "high", "sender": "high"}),
)


# -- the sender's host ---------------------------------------------------------------------------------------


def _paced(view: TimelineView) -> Bools:
    t = view.timeline
    if view.facts.pacing is None:
        return t.paced
    return t.paced | (view.has_room & (view.rate >= KEEPS_PACE * t.pacing_bytes_per_s))


def _pacing(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    t, limit = view.timeline, view.facts.pacing_limit_bytes_per_s
    rate, _ = got_through(view, part)
    if t.source != "kernel":
        acks = ", and not right after ACKs" if t.source == "sender" else ", and met no queue"
        also = "an application or a small send buffer may look the same"
        return f"segments left evenly, at {bit_rate(rate)}{acks}; {also}", (
            "small bursts of whole segments left, with gaps in proportion to their sizes",
            "the congestion control (such as BBR), or a limit on the socket, sets the pace",
            "whether the path carries more cannot be seen, because there was no standing queue",
        )
    room = f"both windows had room for {size(view.usual(t.cwnd_room_bytes, part))} more, and data waited"
    if limit is not None and view.share(part * view.at_limit) > view.share(part) / 2:
        return (
            f"the socket's limit of {bit_rate(limit * 8)} (SO_MAX_PACING_RATE) was reached",
            (room, f"{bit_rate(rate)} was delivered meanwhile"),
        )
    pace, estimate = (view.usual(each, part) * 8 for each in (t.pacing_bytes_per_s, t.estimate_bytes_per_s))
    by = f", from its estimate of the path's capacity ({bit_rate(estimate)})" if estimate > 0 else ""
    why = f"{view.facts.pacing} sent at {bit_rate(pace)}{by}"
    return why, (room, f"{bit_rate(rate)} was delivered meanwhile")


def _hosting(view: TimelineView, part: Floats) -> tuple[str, tuple[str, ...]]:
    waited = view.usual(view.timeline.unsent_bytes, part)
    return f"{size(waited)} waited although both windows had room", (
        "no window, pacing or recovery held the data back: the CPU, interface or queues of the host did",
    )


_PACE: Final = "a sender that paces and an application that writes evenly look alike on the wire"
_HOST: Final = "a host without a CPU looks like an application that does not write"
_WRITES: Final = (causes.APPLICATION_WRITE.key, causes.SEND_BUFFER.key, causes.UNKNOWN.key)

LIMIT_RULES: Final = (
    DiagnosisRule(causes.PACING, lambda view: view.has_room & view.at_limit, _pacing, {"kernel": "high"}),
)
HOST_RULES: Final = (
    DiagnosisRule(
        causes.PACING,
        _paced,
        _pacing,
        dict.fromkeys(("sender", "between", "receiver"), "low"),
        {"sender": _PACE, "between": _PACE, "receiver": _PACE},
        _WRITES,
    ),
    DiagnosisRule(
        causes.SENDER_HOST,
        lambda view: view.has_room,
        _hosting,
        {},
        {"sender": _HOST, "between": _HOST, "receiver": _HOST},
        _WRITES,
    ),
)


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


def _nearly_full(view: TimelineView) -> Bools:
    """The flight stays the same, and as near to the receiver's window as can be seen."""
    part = _level(view) & (not _writes_evenly(view)) & view.nearly_full
    if not part.any():
        return part
    t, weights = view.timeline, part.astype(np.float64)
    near = view.usual(t.flight_bytes, weights, 0.9) >= NEARLY * view.usual(t.window_bytes, weights)
    return part & near


FLAT_RULES: Final = (
    DiagnosisRule(causes.RECEIVE_WINDOW, _nearly_full, explain_window, {"both": "medium"}),
    DiagnosisRule(
        causes.SEND_BUFFER,
        lambda view: _level(view) & (not _writes_evenly(view)) & ~view.nearly_full,
        explain_buffer,
    ),
    DiagnosisRule(
        causes.APPLICATION_WRITE, lambda view: _level(view) & _writes_evenly(view), explain_writing
    ),
)
