"""Retransmission time-outs (RFC 6298): how long a sender waited for them, and why nothing came sooner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]
    Ints = NDArray[np.int64]

LEAST_WAIT_S: Final = 0.02
"""Shorter waits are those of fast retransmissions on a busy host."""
SILENT_S: Final = 0.1
"""After such a silence a timer triggered the retransmission: no packet came that could have asked for it.
Half of the least time-out of Linux, as a silence begins up to a round trip later than the timer.
"""
DUPLICATES: Final = 3
"""Duplicate ACKs that ask for a retransmission (RFC 5681, 3.2)."""
LEAST_TRIES: Final = 3
"""Transmissions of large segments that must have failed before a path counts as a black hole."""


@dataclass(frozen=True)
class BlackHole:
    """Segments of more than ``passed_bytes`` never arrived."""

    passed_bytes: int
    """The largest payload that was acknowledged."""
    lost_bytes: int
    """The smallest payload that was not."""
    tries: int
    """Transmissions of larger payloads, all in vain."""
    later_passed: bool
    """A small segment arrived that was sent after a larger one: the path was alive."""


@dataclass(frozen=True)
class Timeouts:
    """The time-outs of a sender."""

    number: int
    tails: int
    """Nothing had been sent after the lost segment, so that no duplicate ACK could report it."""
    ignored: int
    """Three or more duplicate ACKs had asked for the segment, but the sender waited."""
    longest_s: float
    black_hole: BlackHole | None = None


@dataclass(frozen=True)
class SenderPackets:
    """Packets in the sender's order, a value per packet. ``sent`` and ``acked`` are the greatest so far."""

    at_ns: Floats
    data: Bools
    acks: Bools
    seq: Ints
    payload_bytes: Ints
    sent: Ints
    acked: Ints
    again: Bools
    probe: Bools
    """Tail loss probes (RFC 8985, 7), which are no time-outs."""
    timeout: Bools
    """Retransmitted after a time-out, or in the course of its repair, by the count of ACKs."""


def timeouts(events: SenderPackets, least_rtt_s: float) -> tuple[Bools, Timeouts | None]:
    """Where the sender waited for a time-out, by packet until the next one; and what is known of these waits.

    A wait begins with the last packet that changed what the sender could expect: data that it sent, or an
    ACK of new data; if nothing had been sent after the lost segment, with that. It ends with the
    retransmission.
    """
    waits = np.zeros(len(events.at_ns), dtype=bool)
    silence_s = np.diff(events.at_ns, prepend=events.at_ns[:1]) / 1e9
    silent = events.again & ~events.probe & (silence_s >= max(SILENT_S, least_rtt_s))
    expired = np.flatnonzero(events.timeout | silent)
    if len(expired) == 0:
        return waits, None
    advanced = events.acks & (np.diff(events.acked, prepend=events.acked[:1]) > 0)
    tail = events.seq[expired] + events.payload_bytes[expired] >= events.sent[expired]
    before = np.where(
        tail, _last(events.data, expired), np.maximum(_last(events.data, expired), _last(advanced, expired))
    )
    lasted_s = (events.at_ns[expired] - events.at_ns[np.maximum(before, 0)]) / 1e9
    waited = (before >= 0) & (silent[expired] | (lasted_s >= max(LEAST_WAIT_S, least_rtt_s)))
    if not waited.any():
        return waits, None
    duplicates = np.cumsum(events.acks & ~advanced & (events.payload_bytes == 0))
    for first, behind in zip(before[waited], expired[waited], strict=True):
        waits[first:behind] = True
    mine = expired[waited]
    asked = duplicates[mine] - duplicates[before[waited]] >= DUPLICATES
    return waits, Timeouts(
        number=len(mine),
        tails=int(tail[waited].sum()),
        ignored=int(asked.sum()),
        longest_s=float(lasted_s[waited].max()),
        black_hole=_black_hole(events, mine),
    )


def _last(mask: Bools, before: Ints) -> Ints:
    """The last True before each index; -1 without any."""
    there = np.flatnonzero(mask)
    at = np.searchsorted(there, before, side="left") - 1
    return np.where(at >= 0, there[np.maximum(at, 0)], -1) if len(there) else np.full(len(before), -1)


def _black_hole(events: SenderPackets, expired: Ints) -> BlackHole | None:
    """Whether only segments up to some size arrive (RFC 2923, 2.1)."""
    data = np.flatnonzero(events.data)
    seq, sizes, end = (
        events.seq[data],
        events.payload_bytes[data],
        events.seq[data] + events.payload_bytes[data],
    )
    last_acked = int(events.acked[-1])
    repeated = _overlapped(seq, end, events.again[data])
    passed = ~events.again[data] & ~repeated & (end <= last_acked)
    if not passed.any():
        return None
    most = int(sizes[passed].max())
    large = sizes > most
    if int(large.sum()) < LEAST_TRIES or (events.payload_bytes[expired] <= most).any():
        return None
    # What was acknowledged after all must have come in smaller pieces.
    for first in np.unique(seq[large & (end <= last_acked)]):
        covering = (seq <= first) & (end > first)
        if sizes[np.flatnonzero(covering)[-1]] > most:
            return None
    begun = int(data[large][0])
    later = data[passed] > begun
    return BlackHole(most, int(sizes[large].min()), int(large.sum()), bool(later.any()))


def _overlapped(seq: Ints, end: Ints, again: Bools) -> Bools:
    """Which segments were sent again, in whole or in part."""
    order = np.argsort(seq[again], kind="stable")
    first, behind = seq[again][order], np.maximum.accumulate(end[again][order])
    if len(first) == 0:
        return np.zeros(len(seq), dtype=bool)
    # The last repetition that begins before a segment's end; the farthest of all up to it counts.
    at = np.searchsorted(first, end, side="left") - 1
    return np.asarray((at >= 0) & (behind[np.maximum(at, 0)] > seq))
