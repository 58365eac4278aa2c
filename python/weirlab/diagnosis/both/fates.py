"""Why each segment was retransmitted, judged by what arrived of it; pure.

A copy cannot arrive before the least delay has passed. Hence data that arrived earlier than that belongs to
an earlier copy, which was not lost. The offset of the two hosts' clocks does not matter: the least delay is
measured by the same two clocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.finding import RetransmissionCounts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.both.crossing import CaptureLeg, Ints

    Bools = NDArray[np.bool_]

SLACK: Final = 0.05
"""A short segment may be faster than the least delay by this share of the minimum RTT, and ``SLACK_NS``."""
SLACK_NS: Final = 200_000
AT_ONCE: Final = 3.0
"""Minimum RTTs within which the next copy follows from the one before."""
ANSWERED_BY: Final = 2
"""Segments with data: the second one, at the latest, is acknowledged at once (RFC 5681 section 4.2)."""
_NEVER: Final = np.iinfo(np.int64).max


def fates(sender: CaptureLeg, receiver: CaptureLeg, there_ns: float, back_ns: float) -> RetransmissionCounts:
    """What happened to all segments; both captures must be whole.

    ``there_ns``, ``back_ns``: the least delay from the sender's capture to the receiver's, by their clocks,
    and that of ACKs on their way back.
    """
    # However far the clocks are apart, the sum of both delays is right.
    least_ns = there_ns - SLACK * (there_ns + back_ns) - SLACK_NS
    again = np.flatnonzero(sender.new_bytes < sender.payload_bytes)
    if len(receiver.seq) == 0:
        return RetransmissionCounts(len(again), 0, 0, 0, 0, 0.0, 0, len(receiver.ack), len(receiver.ack))
    byte = sender.seq[again]
    sent, came = _copies(sender, byte), _copies(receiver, byte)
    arrived = came.count > 0
    # What arrived before this copy could have was an earlier copy; so it was if no copy is missing.
    earlier = arrived & (
        (came.first_ns < _arrives(sender.data_ns[again], least_ns)) | (came.count >= sent.count)
    )
    late = earlier & (came.first_ns < _arrives(sent.second_ns, least_ns)) & _overtaken(receiver)[came.first]
    dropped = earlier & ~late & _ignored(receiver, byte, came)
    near_ns = AT_ONCE * (there_ns + back_ns)
    late = _followed(late, earlier & ~dropped, sender.data_ns[again], near_ns)
    overtaken, overtaken_ns = _late(sender, receiver, least_ns)
    acks, acks_came = len(receiver.ack), len(sender.ack)
    return RetransmissionCounts(
        lost=int((~earlier).sum()),
        late=int(late.sum()),
        dropped=int(dropped.sum()),
        needless=int((earlier & ~late & ~dropped).sum()),
        overtaken=overtaken,
        overtaken_s=overtaken_ns / 1e9,
        duplicated=_duplicated(sender, receiver),
        acks=acks,
        acks_lost=max(acks - acks_came, 0),
    )


@dataclass(frozen=True)
class _Copies:
    """For each byte: how many segments of a capture contain it, and the first two of these with their times.

    If there is no such segment, its number is 0 and its time is ``_NEVER``.
    """

    count: Ints
    first: Ints
    first_ns: Ints
    second: Ints
    second_ns: Ints


def _copies(leg: CaptureLeg, byte: Ints) -> _Copies:
    count = np.zeros(len(byte), dtype=np.int64)
    first, second = (np.full(len(byte), _NEVER) for _ in range(2))
    if len(leg.seq):
        order = np.argsort(leg.seq, kind="stable")
        begins, ends = leg.seq[order], leg.ends[order]
        behind = np.searchsorted(begins, byte, side="right")
        # No segment is longer, so none that begins earlier reaches this far.
        before = np.searchsorted(begins, byte - int(leg.payload_bytes.max()), side="right")
        for back in range(1, int((behind - before).max(initial=0)) + 1):
            at = np.maximum(behind - back, 0)
            covers = (behind - back >= before) & (ends[at] > byte)
            count += covers
            number = np.where(covers, order[at], _NEVER)
            second = np.minimum(second, np.maximum(first, number))
            first = np.minimum(first, number)
    return _Copies(count, *_when(leg, first), *_when(leg, second))


def _when(leg: CaptureLeg, number: Ints) -> tuple[Ints, Ints]:
    there = number < _NEVER
    known = np.where(there, number, 0)
    return known, np.where(there, leg.data_ns[known], _NEVER)


def _arrives(sent_ns: Ints, least_ns: float) -> NDArray[np.float64]:
    """The earliest times at which data sent then may be captured at the receiver."""
    return np.asarray(sent_ns + least_ns, dtype=np.float64)


def _overtaken(leg: CaptureLeg) -> Bools:
    """By segment: whether one that ends after it arrived before it."""
    return np.asarray(leg.ends < np.maximum.accumulate(leg.ends))


def _late(sender: CaptureLeg, receiver: CaptureLeg, least_ns: float) -> tuple[int, int]:
    """How many segments were overtaken, and the longest time by which one was late, ns."""
    at = np.flatnonzero(_overtaken(receiver) & (receiver.new_bytes > 0))
    if len(at) == 0:
        return 0, 0
    sent = _copies(sender, receiver.ends[at] - receiver.new_bytes[at])
    # A retransmission arrives after others without having been overtaken.
    at = at[receiver.data_ns[at] < _arrives(sent.second_ns, least_ns)]
    if len(at) == 0:
        return 0, 0
    reached = np.maximum.accumulate(receiver.ends)
    overtook = np.searchsorted(reached, receiver.ends[at], side="right")
    return len(at), int((receiver.data_ns[at] - receiver.data_ns[overtook]).max())


def _ignored(leg: CaptureLeg, byte: Ints, came: _Copies) -> Bools:
    """Whether the receiver's host acknowledged bytes only after their second copy, although nothing before
    them was missing and enough came after them.
    """
    if len(leg.ack) == 0:
        return np.zeros(len(byte), dtype=bool)
    twice = came.second_ns < _NEVER
    answered = came.second - came.first > ANSWERED_BY
    before = np.searchsorted(leg.ack_ns, came.second_ns, side="left") - 1
    acked = np.where(before >= 0, np.maximum.accumulate(leg.ack)[np.maximum(before, 0)], 0)
    complete = leg.complete()[np.maximum(came.second - 1, 0)] > byte
    return np.asarray(twice & answered & complete & (acked <= byte))


def _followed(late: Bools, needless: Bools, sent_ns: Ints, near_ns: float) -> Bools:
    """``late``, and the needless copies right after: without SACK, the copy of a late segment causes a
    duplicate ACK, which looks like one more loss.
    """
    found = late.copy()
    for at in np.flatnonzero(needless & ~late):
        found[at] = at > 0 and found[at - 1] and sent_ns[at] - sent_ns[at - 1] <= near_ns
    return found


def _duplicated(sender: CaptureLeg, receiver: CaptureLeg) -> int:
    """The number of segments without new bytes of which more copies arrived than were sent."""
    byte = receiver.seq[receiver.new_bytes < receiver.payload_bytes]
    return int((_copies(receiver, byte).count > _copies(sender, byte).count).sum())
