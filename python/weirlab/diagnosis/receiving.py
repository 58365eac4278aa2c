"""Samples of the receiver's kernel: whether this end holds a transfer up, and how."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.causes import APPLICATION_READ, RECEIVE_WINDOW, UNKNOWN, Cause
from weirlab.diagnosis.finding import DiagnosisFinding
from weirlab.diagnosis.timeline import rate_window, rates
from weirlab.trace.quantities import bit_rate, count, duration, percent, size

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

FIELDS: Final = (
    "bytes_received", "rqueue_bytes", "rcv_wnd_bytes", "rcv_mss_bytes", "min_rtt_us", "rcv_ooopack",
    "data_segs_in",
)  # fmt: skip
FULL: Final = 0.8
"""Share of the window that arrives in a round trip, from which on the window is the limit: while nothing else
is, all of it does; a window that grows with the rate (``tcp_rcv_space_adjust``) is twice as large."""
LEAST_SHARE: Final = 0.005
_UNREPORTED: Final = "this kernel does not report its receive window, which Linux 6.2 and later do"
DISORDER: Final = 0.001
"""Share of segments out of order from which on it is said."""


def findings(time_ns: Floats, fields: Mapping[str, Floats]) -> tuple[DiagnosisFinding, ...]:
    """Where the time went, seen from the end that receives, the largest share first.

    The columns are named as in ``weir tcp watch`` (:data:`FIELDS`), NaN where the kernel reports nothing. The
    tuple is empty if nothing arrived.
    """
    # Until the handshake is over, and once the connection has closed, the kernel reports nothing.
    known = np.isfinite(fields["bytes_received"]) & np.isfinite(fields["rqueue_bytes"])
    time_ns, fields = time_ns[known], {name: fields[name][known] for name in FIELDS}
    received = fields["bytes_received"]
    if len(time_ns) < 4 or not received[-1] > received[0]:
        return ()
    start, lasts = time_ns[:-1] / 1e9, np.diff(time_ns) / 1e9
    unread, window = fields["rqueue_bytes"][:-1], fields["rcv_wnd_bytes"][:-1]
    least_us = fields["min_rtt_us"][fields["min_rtt_us"] > 0]
    rtt_s = float(least_us.min()) / 1e6 if len(least_us) else float("nan")
    read = np.diff(received) - np.diff(fields["rqueue_bytes"])
    rate = rates(start, lasts, received[:-1], rate_window(lasts, rtt_s))
    # Before Linux 6.2 the kernel does not report its own receive window.
    known = np.isfinite(window)
    segment = fields["rcv_mss_bytes"][:-1]
    slow = _until_read(np.asarray(known & (unread > np.fmax(window, segment))), unread >= segment)
    small = np.asarray(known & ~slow & (rate * rtt_s >= FULL * window))
    rest = known & ~slow & ~small
    return tuple(
        sorted(
            (
                *_finding(
                    APPLICATION_READ, slow, lasts, lambda part: _slow(part, unread, window, read, lasts)
                ),
                *_finding(RECEIVE_WINDOW, small, lasts, lambda part: _small(part, window, rtt_s)),
                *_finding(UNKNOWN, rest, lasts, lambda part: _elsewhere(fields)),
                *_finding(UNKNOWN, ~known, lasts, lambda _: _UNREPORTED),
            ),
            key=lambda finding: -finding.share,
        )
    )


def _until_read(slow: Bools, unread: Bools) -> Bools:
    """``slow``, and the time between two such moments in which there was always something ``unread``.

    Each read opens the window for a while, but a reader that always finds data is slower than the rest.
    """
    stretch = np.cumsum(~unread)
    before = np.maximum.accumulate(np.where(slow, stretch, -1))
    after = np.minimum.accumulate(np.where(slow, stretch, len(slow) + 1)[::-1])[::-1]
    return np.asarray(slow | (unread & (before == stretch) & (after == stretch)))


def _finding(cause: Cause, part: Bools, lasts: Floats, why: Callable[[Bools], str]) -> list[DiagnosisFinding]:
    total = float(lasts.sum())
    share = float(lasts[part].sum()) / total if total > 0 else 0.0
    if share < LEAST_SHARE:
        return []
    evidence = why(part)
    return [
        DiagnosisFinding(
            cause,
            share,
            share * total,
            "low" if cause is UNKNOWN else "high",
            f"{percent(share)} of the time {cause.held}: {evidence}.",
            (evidence,),
        )
    ]


def _slow(part: Bools, unread: Floats, window: Floats, read: Floats, lasts: Floats) -> str:
    rate = max(float(read[part].sum() / lasts[part].sum()), 0.0)
    return (
        f"{size(float(np.median(unread[part])))} that had arrived was unread, and the window was down to "
        f"{size(float(np.median(window[part])))}; it read {bit_rate(rate * 8)}"
    )


def _small(part: Bools, window: Floats, rtt_s: float) -> str:
    usual = float(np.median(window[part]))
    return (
        f"this end reads at once, but its buffer of {size(usual)} allows {bit_rate(usual * 8 / rtt_s)} at an "
        f"RTT of {duration(rtt_s * 1e9)}; twice the throughput needs twice the buffer (SO_RCVBUF, tcp_rmem)"
    )


def _elsewhere(fields: Mapping[str, Floats]) -> str:
    late, segments = (float(fields[name][-1] - fields[name][0]) for name in ("rcv_ooopack", "data_segs_in"))
    why = "this end read what arrived, and its window had room: the sender or the network was the limit"
    if late > DISORDER * segments:
        why += (
            f"; {count(int(late))} of {count(int(segments))} segments were out of order: loss or reordering"
        )
    return why
