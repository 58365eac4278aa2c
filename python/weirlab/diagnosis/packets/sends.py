"""Whether data waited in a sender, inferred from what released new data: an ACK, or the application.

Data that leaves right after an ACK had waited for it. Data that leaves without an ACK before it was not
available earlier, unless the sender's host was late. If one segment misleads by chance, those around it
correct it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.timeline import DELAYED_S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.timeline import Bools, Floats

    Ints = NDArray[np.int64]

ABLE_TRIPS: Final = 3
"""Round trips for which past data in flight shows what the congestion window allows."""
NEIGHBOURS: Final = 4
"""Bursts before and after one that show whether the ACK before it was there by chance."""
MOSTLY: Final = 0.5
LEAST_ROOM: Final = 3
"""Segments, and ``MOST_ROOM`` of the congestion window, that TCP may leave unused to send larger bursts."""
MOST_ROOM: Final = 1 / 3
_FAR_BITS: Final = 34
"""More than is ever in flight."""
LEAST_BURSTS: Final = 6
CLOCKED: Final = 0.5
"""Share of the bursts that must follow an ACK soon if ACKs release them: a busy host is late for some."""
SOON: Final = 0.15
"""Share of the time between bursts that counts as soon after an ACK."""
BEYOND_CHANCE: Final = 2.5
"""Factor by which more bursts must follow an ACK than would by chance. If ACKs come all the time, they show
nothing.
"""
REFILLS: Final = 0.5
"""Share of the variation in burst sizes by which the flight after bursts may vary, besides a segment. A full
buffer is filled up to the same mark again, however late the application is woken and however much ACKs have
freed until then; an application that writes at its own pace leaves a flight that varies like its writes.
"""
DELAYED_SEGMENTS: Final = 2
"""Segments that one ACK may acknowledge (RFC 5681, 4.2): a mark cannot be known more exactly."""
FEW_SEGMENTS: Final = 4
"""Least segments in flight at such a mark; fewer are the end of a message."""
BEYOND: Final = 0.05
"""Share of the bursts that may begin with more in flight than that: their ACKs were lost or overtaken."""
EMPTIED: Final = 0.85
"""Greatest share of the flight left before a burst: an application sleeps until a third of its send buffer is
free (``sk_stream_is_writeable``), while a congestion window is filled again by each ACK.
"""


@dataclass(frozen=True)
class SenderEvents:
    """Packets in the order of the sender, with one value each per column.

    ``at_ns``; data, or ACK; ``payload_bytes``; sent and acknowledged so far; ``anew``: past data in flight no
    longer shows what the congestion window allows.
    """

    at_ns: Floats
    data: Bools
    acks: Bools
    payload_bytes: Ints
    sent: Ints
    acked: Ints
    anew: Bools


@dataclass(frozen=True)
class SenderVisibility:
    """How well a place sees the sender: what follows an ACK within ``close_s`` was released by it.

    ``least_s``: the least round trip. ``timed`` (by event): whether it is known when ACKs reach the sender.
    """

    close_s: float
    least_s: float
    timed: Bools

    @property
    def late_s(self) -> float:
        """How late an ACK may be, if only the round trip of the handshake is known."""
        return max(self.least_s, DELAYED_S) + self.close_s if self.least_s > 0 else np.inf


@dataclass(frozen=True)
class SendGaps:
    """For all new data but the first: ``one`` is the event of the data before, ``other`` its own."""

    one: Ints
    other: Ints
    gap_s: Floats
    since_ack_s: Floats
    fresh: Bools
    """There was an ACK since the data before."""
    bare: Bools
    """The last packet of the receiver carried no data."""
    short: Bools
    """The data before ended with less than a segment."""
    tail: Bools
    """Less than a segment, and nothing right after it: what Nagle's algorithm kept back until then."""
    left: Floats
    """The share of the data in flight after the data before that is still in flight."""
    close_s: float

    @property
    def answered(self) -> Bools:
        return self.since_ack_s <= self.close_s

    @property
    def begins(self) -> Bools:
        """It does not follow immediately after the data before."""
        return self.gap_s > self.close_s

    @property
    def restarted(self) -> Bools:
        """Neither data nor an ACK was right before it."""
        return np.asarray(np.minimum(self.since_ack_s, self.gap_s) > self.close_s)


@dataclass(frozen=True)
class SendStates:
    """By event: there was nothing to send until the next new data, or less than a segment waited.

    ``ended``: the data before ended with less than a segment; ``requested``: the receiver sent data before
    the next.
    """

    idle: Bools
    held: Bools
    ended: Bools
    requested: Bools
    bursts: SendGaps | None


def sends(events: SenderEvents, mss: int, sight: SenderVisibility) -> SendStates:
    """What was there to send at each event."""
    at, sent, acked = events.at_ns, events.sent, events.acked
    rises = np.concatenate([[True], sent[1:] > sent[:-1]])
    new = np.flatnonzero(events.data & rises)
    idle, held = np.zeros(len(at), dtype=bool), np.zeros(len(at), dtype=bool)
    if len(new) < 2:
        return SendStates(idle, held, held.copy(), held.copy(), None)
    # No capture has more packets than 32-bit numbers.
    last_ack = last_known(np.where(events.acks, np.arange(len(at), dtype=np.int32), np.int32(-1)))
    bursts = _bursts(events, new, last_ack, mss, sight.close_s)
    del last_ack, rises
    one, other = bursts.one, bursts.other
    # A late ACK of everything, without data, released the next segment.
    little = sent[one] - acked[one] <= 2 * mss
    everything = acked[np.maximum(other - 1, 0)] >= sent[one]
    late = bursts.gap_s > sight.least_s + DELAYED_S
    waited = bursts.short & bursts.answered & little & everything & bursts.bare & bursts.fresh & late
    # Nagle's algorithm may keep less than a segment back for a round trip: there was hardly anything to send.
    freely = (bursts.restarted | _by_chance(bursts)) & sight.timed[other]
    # The ACK that released data may have taken longer than that of the handshake.
    answered = bursts.answered | (~sight.timed[other] & (bursts.since_ack_s <= sight.late_s))
    pauses = ((bursts.short & ~(answered & bursts.bare)) | freely | bursts.tail) & ~waited
    # Each event belongs to the new data before it; what follows the last one is not known.
    ends_short = bool(events.payload_bytes[new[-1]] % mss != 0)
    pauses = np.append(pauses, ends_short)
    after = np.searchsorted(new, np.arange(len(at)), side="right") - 1
    begun = after >= 0
    idle[begun] = pauses[after[begun]]
    held[begun] = np.append(waited, False)[after[begun]]
    theirs = np.cumsum(events.acks & (events.payload_bytes > 0))
    ended, requested = np.zeros(len(at), dtype=bool), np.zeros(len(at), dtype=bool)
    ended[begun] = np.append(bursts.short, ends_short)[after[begun]]
    requested[begun] = np.append(theirs[other] > theirs[one], False)[after[begun]]
    idle |= _unused(events, bursts, mss, sight) & sight.timed
    idle = _whole(at, bursts, idle & ~held) & ~held
    return SendStates(idle, held, ended, requested, bursts)


def clocked(events: SenderEvents, bursts: SendGaps | None, stretch: Bools, mss: int) -> Bools:
    """``stretch`` (by event) where ACKs released the data, though the host may have been late to answer them.

    An application that is woken by the ACK that makes room in its send buffer sends a moment later, and fills
    the buffer up again; one that sends by its own clock does not depend on ACKs.
    """
    found = np.zeros(len(stretch), dtype=bool)
    if bursts is None:
        return found
    edges = np.flatnonzero(np.diff(np.concatenate([[False], stretch, [False]]).astype(np.int8)))
    for first, behind in zip(edges[::2], edges[1::2], strict=True):
        mine = (bursts.other >= first) & (bursts.other < behind) & bursts.begins & ~bursts.tail
        if mine.sum() < LEAST_BURSTS or not _may_be_let_out(bursts, mine):
            continue
        part = slice(first, behind)
        found[part] = _fills_up(events, bursts.other[mine], behind, mss) or (
            (
                _comes_back(events, bursts.other[mine], behind, mss)
                or _starts_anew(events, bursts.other[mine], mss)
            )
            and _is_clocked(events, bursts, mine, part)
        )
    return found


def last_known(values: Ints) -> Ints:
    """Each -1 replaced by the last value before it."""
    at = np.where(values >= 0, np.arange(len(values), dtype=np.int32), np.int32(-1))
    np.maximum.accumulate(at, out=at)
    return np.where(at >= 0, values[np.maximum(at, 0)], values.dtype.type(-1))


def _bursts(events: SenderEvents, new: Ints, last_ack: Ints, mss: int, close_s: float) -> SendGaps:
    one, other = new[:-1], new[1:]
    at, ack = events.at_ns, last_ack[other]
    there = np.maximum(ack, 0)
    gap_s = (at[other] - at[one]) / 1e9
    alone = (gap_s > close_s) & np.append(gap_s[1:] > close_s, True)
    peak = np.maximum(events.sent[one] - events.acked[one], 1)
    return SendGaps(
        one=one,
        other=other,
        gap_s=gap_s,
        since_ack_s=np.where(ack >= 0, (at[other] - at[there]) / 1e9, np.inf),
        fresh=ack > one,
        bare=(ack >= 0) & (events.payload_bytes[there] == 0),
        short=events.payload_bytes[one] % mss != 0,
        tail=alone & (events.payload_bytes[other] < mss),
        left=(events.sent[one] - events.acked[other]) / peak,
        close_s=close_s,
    )


def _may_be_let_out(bursts: SendGaps, mine: Bools) -> bool:
    # Bursts that end with less than a segment end where the application's data does.
    emptied = float(np.median(bursts.left[mine])) <= EMPTIED
    return emptied and float(bursts.short[mine].mean()) <= MOSTLY


def _fills_up(events: SenderEvents, begin: Ints, behind: int, mss: int) -> bool:
    """Whether bursts, which begin at these events, are as large as what ACKs have freed: however much they
    vary, the flight reaches one mark, or never exceeds the usual one.
    """
    sizes, peaks = _sizes_and_peaks(events, begin, behind)
    if _scatter(peaks) + _scatter(sizes) > 0 and _scatter(peaks) <= REFILLS * _scatter(sizes):
        return True
    return _scatter(sizes) >= mss and float(peaks.max() - np.median(peaks)) <= mss


def _comes_back(events: SenderEvents, begin: Ints, behind: int, mss: int) -> bool:
    """Whether the flight reaches about the same mark each time."""
    sizes, peaks = _sizes_and_peaks(events, begin, behind)
    return _scatter(peaks) <= max(REFILLS * _scatter(sizes), mss)


def _starts_anew(events: SenderEvents, begin: Ints, mss: int) -> bool:
    """Whether bursts begin when the flight has fallen to one mark.

    An application that writes in large pieces overfills its buffer by varying amounts, but always sleeps
    until the same share of it is free.
    """
    before = np.maximum(begin - 1, 0)
    left = events.sent[before] - events.acked[before]
    # If ACKs come together, late, it is woken with less left.
    mark, near = float(np.quantile(left, 0.75)), DELAYED_SEGMENTS * mss
    reached, beyond = float((left >= mark - near).mean()), float((left > mark + near).mean())
    return mark >= FEW_SEGMENTS * mss and reached >= MOSTLY and beyond <= BEYOND


def _sizes_and_peaks(events: SenderEvents, begin: Ints, behind: int) -> tuple[Ints, Ints]:
    """The size of each burst, and the most data in flight until the next one, in bytes."""
    peaks = np.maximum.reduceat((events.sent - events.acked)[:behind], begin)
    sizes = np.diff(np.append(events.sent[np.maximum(begin - 1, 0)], events.sent[behind - 1]))
    return sizes, peaks


def _scatter(values: Ints) -> float:
    """The interquartile range."""
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low)


def _is_clocked(events: SenderEvents, bursts: SendGaps, mine: Bools, stretch: slice) -> bool:
    soon_s = max(bursts.close_s, SOON * float(np.median(bursts.gap_s[mine])))
    followed = float((bursts.fresh[mine] & (bursts.since_ack_s[mine] <= soon_s)).mean())
    at = events.at_ns[stretch]
    acks_ns = at[events.acks[stretch]]
    near_s = float(np.minimum(np.diff(acks_ns) / 1e9, soon_s).sum()) + soon_s
    by_chance = near_s * 1e9 / max(float(at[-1] - at[0]), 1.0)
    return followed >= max(CLOCKED, BEYOND_CHANCE * by_chance)


def _by_chance(bursts: SendGaps) -> Bools:
    """Bursts after an ACK, most of whose neighbours began without one: they would have begun anyway."""
    found = np.zeros(len(bursts.one), dtype=bool)
    at = np.flatnonzero(bursts.begins & ~bursts.tail)
    if len(at) <= 2 * NEIGHBOURS:
        return found
    free = bursts.restarted[at].astype(np.float64)
    around = np.ones(2 * NEIGHBOURS + 1)
    counted = np.convolve(np.ones(len(at)), around, mode="same")
    found[at] = np.convolve(free, around, mode="same") > MOSTLY * counted
    return found


def _unused(events: SenderEvents, bursts: SendGaps, mss: int, sight: SenderVisibility) -> Bools:
    """By event: the congestion window has room that a sender with data would use.

    It allows what was in flight within the last round trips, unless something was lost since (``anew``). This
    counts only right after a plain pause: data left without an ACK before it, or a burst ended with less than
    a segment. Pacing and changing round trips leave room, too.
    """
    at = events.at_ns
    flight = events.sent - events.acked
    after = np.zeros(len(at), dtype=np.int64)
    after[bursts.other] = flight[bursts.other]
    recent_ns = max(ABLE_TRIPS * sight.least_s * 1e9, 1.0)
    lost = np.cumsum(events.anew, dtype=np.int32)
    # Each one forgets at the end of its periods, when the other one still remembers.
    able = _greatest(after, _epochs(at, 2 * recent_ns, 0.0, lost))
    np.maximum(able, _greatest(after, _epochs(at, 2 * recent_ns, 0.5, lost)), out=able)
    del after, lost
    room = np.maximum(LEAST_ROOM * mss, able * min(2 * sight.close_s / max(sight.least_s, 1e-9), MOST_ROOM))
    begins = np.full(len(at), -np.inf)
    paused = bursts.other[bursts.restarted | (bursts.begins & bursts.short)]
    begins[paused] = at[paused]
    lately = at - np.maximum.accumulate(begins) <= recent_ns
    return np.asarray((flight + room <= able) & lately)


def _epochs(at: Floats, length_ns: float, shift: float, lost: NDArray[np.int32]) -> Ints:
    """By event: the number of its period plus the losses so far, which grows when either does."""
    found = at - at[0]
    found /= length_ns
    found += shift
    np.floor(found, out=found)
    found += lost
    return np.asarray(found, dtype=np.int64)


def _greatest(values: Ints, epochs: Ints) -> Ints:
    """The greatest so far within each epoch."""
    far = np.left_shift(epochs, _FAR_BITS, out=epochs)
    found = values + far
    np.maximum.accumulate(found, out=found)
    found -= far
    return np.asarray(found)


def _whole(at: Floats, bursts: SendGaps, idle: Bools) -> Bools:
    """``idle``, and all of the time from a burst to the next one if it is idle for most of that.

    The burst belongs to it: it left at once, and only the bottleneck may have spread it.
    """
    lasts = np.append(np.diff(at), 0.0)
    first = np.zeros(len(at), dtype=bool)
    first[bursts.other[bursts.begins]] = True
    number = np.cumsum(first)
    whole = np.bincount(number, lasts)
    return np.asarray(idle | (np.bincount(number, lasts * idle) > MOSTLY * whole)[number])
