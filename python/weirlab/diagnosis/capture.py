"""Captured packets of one direction as a timeline of their sender.

The sender knows what it sent and what had been acknowledged *to it*. Away from the sender this is found by
counting each ACK later, by the round trip from the point of capture to the sender: 0 at the sender, the whole
round trip at the receiver. Two things are known only inside the sender and are inferred: the congestion
window (no more than what was once in flight), and whether data waited (a segment shorter than the MSS is the
last of the available data; new data without an ACK before it was not available earlier).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.packets.departures import Departures, departures
from weirlab.diagnosis.packets.pacing import paced
from weirlab.diagnosis.packets.rounds import growing_until, is_flat, is_level
from weirlab.diagnosis.packets.sends import SenderEvents, SenderVisibility, clocked, last_known, sends
from weirlab.diagnosis.packets.timeouts import SenderPackets, timeouts
from weirlab.diagnosis.timeline import Timeline, TransferFacts, least_room

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.causes import Source
    from weirlab.diagnosis.timeline import Bools, Floats

    Ints = NDArray[np.int64]

AT_ONCE_S: Final = 0.001
"""Data that follows an ACK within this time was released by it. An idle host needs a tenth of it."""
MOSTLY: Final = 0.5
PARTS: Final = 8
"""Parts of a round trip."""
USUAL_NS: Final = 100_000_000
"""Time for which round trips stay alike."""
AT_ONCE_UNSURE: Final = 0.2
"""``AT_ONCE_RATIO`` if only the handshake's round trip is known."""
SILENT: Final = 3.0
"""Multiple of the usual gap between data from which on the bottleneck had nothing to transmit."""
PAUSED: Final = 0.8
"""A silence must be at least this share of the time by which the round trip exceeds the least one."""
LONGEST: Final = 1.1
"""Multiple of the usual round trip: data that answers later was not released by the ACK that it echoes."""
AT_ONCE_RATIO: Final = 0.05
"""Added to ``AT_ONCE_S``: share of a round trip that had to be estimated."""
TIMESTAMP_BYTES: Final = 12
LEAST_MSS: Final = 536
"""Bytes (RFC 9293, 3.7.1): anything smaller is not a full segment."""
WHOLE: Final = 0.8
"""Share of the bytes that come in whole segments, in a transfer that is not of small messages."""
LATE_TRIPS: Final = 2
"""Round trips for which an application that ACKs release may do nothing."""
OPEN_BYTES: Final = 1 << 40
"""A window that is not known must not look full."""
FILLED: Final = 8
"""Times that the data in flight must reach a window that is not scaled, if the scale is not known."""
BEYOND: Final = 0.05
"""Share of the data that may leave beyond the window: probes, and data after ACKs that were missed."""
SEEN: Final = 0.5
"""Share of the data that is acknowledged in a capture that has the ACKs, if nothing was sent again."""
_NO_ACKS: Final = "the capture does not have the receiver's ACKs, perhaps because of its filter"
_TOO_MUCH: Final = (
    "more data was in flight than the receiver's window allowed, so the capture does not have all ACKs"
)
_SYN, _RST, _ECE = 2, 4, 0x40


@dataclass(frozen=True)
class ConnectionPackets:
    """All packets of a connection in the order of the capture, as in ``segments`` of ``docs/trace.md``.

    ``from_sender``: which side sent each. ``again``: retransmissions, except probes that the receiver
    reported as needless. ``probe``: tail loss probes; ``timeout``: those after a time-out. ``tsval`` is NaN
    without time stamps.
    """

    time_ns: Ints
    from_sender: Bools
    seq: Ints
    payload_bytes: Ints
    ack: Ints
    window_bytes: Ints
    flags: Ints
    again: Bools
    probe: Bools
    timeout: Bools
    tsval: Floats


@dataclass(frozen=True)
class RttSeries:
    """Round trips: when they were known, and how long they took."""

    time_ns: Ints
    rtt_ns: Ints

    def at(self, times_ns: Floats) -> Floats:
        """The latest known round trip at each time, in s; before the first one, that. NaN without any."""
        if len(self.time_ns) == 0:
            return np.full(len(times_ns), np.nan)
        at = np.searchsorted(self.time_ns, times_ns, side="right") - 1
        return np.asarray(self.rtt_ns[np.maximum(at, 0)] / 1e9)

    def until(self, times_ns: Floats) -> Floats:
        """Round trips in s of what was sent at these times, limited to leave out pauses of the sender."""
        if len(self.time_ns) == 0:
            return np.full(len(times_ns), np.nan)
        sent_ns = np.maximum.accumulate(self.time_ns - self.rtt_ns)
        usual = self.usual(USUAL_NS)
        at = np.maximum(np.searchsorted(sent_ns, times_ns, side="right") - 1, 0)
        return np.asarray(np.minimum(self.rtt_ns[at], usual[at] * LONGEST + AT_ONCE_S * 1e9) / 1e9)

    def without_pauses(self, data_ns: Ints, least_ns: int | None, *, messages: bool = False) -> RttSeries:
        """The same, with round trips that a sender's pauses made longer reduced to the least.

        ``data_ns``: when all data arrived. ``least_ns`` is the round trip of the handshake: a sender that
        pauses all the time shows none that short. ``messages``: most segments are no full ones, so that a
        silence need not be longer than others.

        Data after a silence found no queue: the time by which its round trip exceeds the least one was spent
        in the sender.
        """
        if len(self.time_ns) == 0 or len(data_ns) < 2:
            return self
        gaps = np.diff(data_ns, prepend=data_ns[0])
        usual = 0.0 if messages else float(np.median(gaps)) * SILENT
        silent = gaps > max(usual, AT_ONCE_S * 1e9)
        number = np.maximum(np.searchsorted(data_ns, self.time_ns, side="right") - 1, 0)
        least = min(int(self.rtt_ns.min()), least_ns or np.iinfo(np.int64).max)
        # The pause is not longer than the silence; otherwise a queue made the round trip long.
        paused = silent[number] & (PAUSED * (self.rtt_ns - least) <= gaps[number])
        return RttSeries(self.time_ns, np.where(paused, least, self.rtt_ns))

    def usual(self, within_ns: int) -> Floats:
        """The least round trip of about ``within_ns``, ns; where it changes, the greater of two periods."""
        numbers, least = self._leasts(within_ns)
        most = least.copy()
        most[1:] = np.maximum(most[1:], least[:-1])
        most[:-1] = np.maximum(most[:-1], least[1:])
        return most[numbers].astype(np.float64)

    def least(self, within_ns: int) -> RttSeries:
        """The least round trip of each ``within_ns``: a single ACK may have been delayed on purpose."""
        if len(self.time_ns) == 0:
            return self
        numbers, least = self._leasts(within_ns)
        return RttSeries(self.time_ns, least[numbers])

    def _leasts(self, within_ns: int) -> tuple[Ints, Ints]:
        """The number of the period of each, and the least of each period."""
        numbers = (self.time_ns - self.time_ns[0]) // max(within_ns, int(AT_ONCE_S * 1e9))
        numbers = np.unique(np.maximum.accumulate(numbers), return_inverse=True)[1]
        least = np.full(int(numbers[-1]) + 1, np.iinfo(np.int64).max)
        np.minimum.at(least, numbers, self.rtt_ns)
        return numbers, least


def read(
    packets: ConnectionPackets,
    source: Source,
    facts: TransferFacts,
    trips: RttSeries,
    behind: RttSeries,
    echoes: RttSeries | None = None,
    *,
    scaled: bool = True,
) -> tuple[Timeline, TransferFacts] | None:
    """A timeline from the packets of a connection.

    Parameters
    ----------
    packets
        Both directions.
    source
        Where they were captured.
    facts
        What is known about the whole transfer; ``mss_bytes`` 0 if the handshake was not seen.
    trips
        Round trips of the whole path, from sender to receiver and back.
    behind
        Round trips from the point of capture to the sender: how much later each ACK counts. With time stamps
        only the least counts: data counts from when it left, not from when it arrived.
    echoes
        The same as measured, pauses and queues included.
    scaled
        Whether the scale of the windows is known; otherwise only a closed one is known, unless the data shows
        that they are not scaled.

    Returns
    -------
    tuple or None
        None if hardly any data was captured.
    """
    data = packets.from_sender & (packets.payload_bytes > 0) & (packets.flags & (_SYN | _RST) == 0)
    acks = ~packets.from_sender & (packets.flags & (_SYN | _RST) == 0)
    if data.sum() < 3 or acks.sum() < 2:
        return None
    mss = facts.mss_bytes or _usual(packets.payload_bytes[data])
    least_s = facts.min_rtt_s
    left = None
    close_s = AT_ONCE_S
    if source != "sender":
        ours = packets.from_sender
        left = departures(packets.time_ns[ours], packets.tsval[ours])
        if left is not None:
            close_s += left.tick_ns / 1e9
        else:
            close_s += least_s * (AT_ONCE_RATIO if len(behind.time_ns) > 1 else AT_ONCE_UNSURE)
    if left is not None:
        back_ns = _back_ns(packets, left, behind, echoes)
        behind = RttSeries(packets.time_ns[:1], np.array([back_ns]))
        if source == "receiver":
            least_s = back_ns / 1e9
            facts = replace(facts, min_rtt_s=least_s)
            trips = _queued_trips(packets, left, least_s)
    # Data does not come before the ACK that released it, however its round trip was rounded.
    early_s = 0.0 if source == "sender" else close_s / 2
    if scaled and _is_beyond(packets, data, acks, mss):
        facts = replace(facts, flaw=_TOO_MUCH)
    p, data, acks = _as_sent(packets, data, acks, behind, early_s, left)
    waited_s = _waited_s(packets, p, left)
    del packets
    # If the next data met a queue, the time before cost nothing: the bottleneck was busy meanwhile.
    outlasted = np.broadcast_to(False, len(data)) if left is None else _next(waited_s > close_s, data)
    at = p.time_ns.astype(np.float64)
    first_seq = int(p.seq[np.argmax(data)])
    sent = np.maximum.accumulate(np.where(data, p.seq + p.payload_bytes, first_seq))
    acked = np.maximum.accumulate(np.where(acks, p.ack, first_seq))
    np.maximum(acked, first_seq, out=acked)
    window_edge = last_known(np.where(acks, p.ack + p.window_bytes, -1))
    payload_bytes, again = p.payload_bytes, data & p.again
    echoes_mark = acks & (p.flags & _ECE != 0)
    marks = np.cumsum(echoes_mark).astype(np.float64) if echoes_mark.any() else None
    timing_out, known_timeouts = timeouts(
        SenderPackets(at, data, acks, p.seq, payload_bytes, sent, acked, again, p.probe, data & p.timeout),
        least_s,
    )
    del p
    known = np.maximum.accumulate(data) & (window_edge >= 0)
    if not known[: int(np.flatnonzero(data)[-1]) + 1].any():
        return None
    if int(acked[-1]) - first_seq < SEEN * (int(sent[-1]) - first_seq) and not again.any():
        facts = replace(facts, flaw=_NO_ACKS)
    recovery, lost = _recoveries(again, sent, acked)
    window = np.maximum(window_edge - acked, 0).astype(np.float64)
    flight = np.maximum(sent - acked, 0).astype(np.float64)
    del window_edge, again
    unseen = source == "receiver" and len(trips.time_ns) <= 1
    # If more seems to be in flight than the window allows, round trips are shorter than the handshake's.
    measured = not unseen or float((data & known & (flight > window + mss)).sum()) <= BEYOND * data.sum()
    if not (measured if scaled else _fills(data & known, flight, window, mss)):
        window[window > 0] = OPEN_BYTES
    tight = window - flight < least_room(window, mss)
    # What SACK has reported in a recovery is no longer in flight.
    anew = recovery | tight
    events = SenderEvents(at, data, acks, payload_bytes, sent, acked, anew)
    # The handshake alone does not show how long ACKs take later.
    timed = np.broadcast_to(not unseen, len(at))
    sight = SenderVisibility(close_s, least_s, timed)
    found = sends(events, mss, sight)
    round_s = max(least_s, AT_ONCE_S)
    # Away from the sender an ACK seems to make room a moment before the data that used it.
    ends = np.maximum.accumulate(np.where(tight, np.append(at[1:], at[-1]), -np.inf))
    limited = tight | recovery | timing_out | found.held | (at - ends <= 2 * close_s * 1e9)
    del ends
    if least_s <= 0:
        # Without any round trip, changes from one to the next are not known, nor what is small.
        limited[:], lost[:] = True, 0.0
    since_s = (at - at[0]) / 1e9
    flat = is_flat(since_s, flight, lost, round_s, mss) & ~limited
    level = is_level(since_s, flight, lost, round_s, mss) & ~limited
    if window.max() >= OPEN_BYTES:
        # A flight that stays the same may be due to a full window, too.
        flat[:] = level[:] = False
    even = np.zeros(len(at), dtype=bool)
    if source == "sender" or left is not None:
        even = paced(events, mss, None if source == "sender" else waited_s) & ~limited
        # Away from the sender, only if it applies to most of the transfer: a path spreads some bursts, too.
        lasted = np.append(np.diff(at), 0.0)
        if source != "sender" and lasted[even].sum() < MOSTLY * lasted.sum():
            even[:] = False
    if unseen:
        # A queue, which also keeps the flight level, would not be seen.
        flat[:] = level[:] = False
    steady = clocked(events, found.bursts, flat | level, mss) & ~even
    lasts = np.append(np.diff(at), 0.0) / 1e9
    # With nothing in flight and an open window, only the application can hold a sender back.
    # One that ACKs wake may be late for a moment.
    empty = (flight <= 0) & ~tight & ~even & (lasts > np.where(steady, LATE_TRIPS * round_s, close_s))
    if unseen or least_s <= 0:
        empty &= found.requested | (lasts > sight.late_s)
    # Between whole segments, a congestion window that grows leaves gaps.
    grows_s = growing_until(since_s, flight, lost, round_s)
    growing = (since_s < grows_s) & ~found.ended & ~found.requested
    idle = empty | (found.idle & ~limited & ~steady & ~even & ~outlasted & ~growing)
    # After the last data there is only its way to the receiver and back, which nothing limits.
    last = int(np.flatnonzero(data)[-1])
    kept = slice(int(np.argmax(known)), last + 1)
    held = found.held & ~tight & ~recovery & ~empty
    # At the receiver, data counts when it arrives, not when the gaps before it are filled.
    if source == "receiver" and left is None:
        delivered = np.cumsum(np.where(data, payload_bytes, 0))
    else:
        delivered = acked - first_seq
    del events, found, sent, acked, since_s
    rtt = trips.at(at)
    # Columns that captures cannot fill take no memory.
    unknown = np.broadcast_to(np.nan, last + 1 - kept.start)
    timeline = Timeline(
        source=source,
        start_s=(at[kept] - at[kept][0]) / 1e9,
        lasts_s=lasts[kept],
        flight_bytes=flight[kept],
        window_bytes=np.where(window < OPEN_BYTES, window, np.nan)[kept],
        unsent_bytes=np.where(idle & ~held, 0.0, np.nan)[kept],
        rtt_s=rtt[kept],
        acked_bytes=delivered[kept].astype(np.float64),
        lost=lost[kept],
        recovery=recovery[kept],
        held_small=held[kept],
        flat=(steady | (flat & ~idle & ~even))[kept],
        paced=even[kept],
        starting=np.broadcast_to(False, len(unknown)),
        timing_out=timing_out[kept],
        cwnd_room_bytes=unknown,
        buffer_fill=unknown,
        pacing_bytes_per_s=unknown,
        estimate_bytes_per_s=unknown,
        unread_bytes=unknown,
        cpu_wait=unknown,
        marks=None if marks is None else marks[kept],
        begun_ns=float(at[kept][0]),
    )
    until = growing_until(timeline.start_s, timeline.flight_bytes, timeline.lost, round_s)
    starting = ~(idle | limited)[kept] & (timeline.start_s < until)
    timeline = replace(timeline, starting=starting, flat=timeline.flat & ~starting)
    return timeline, replace(facts, mss_bytes=mss, timeouts=known_timeouts)


def _is_beyond(p: ConnectionPackets, data: Bools, acks: Bools, mss: int) -> bool:
    """Whether much of the data was captured before any ACK that allowed it."""
    edge = np.maximum.accumulate(np.where(acks, p.ack + p.window_bytes, -1))
    beyond = data & (edge >= 0) & (p.seq + p.payload_bytes > edge + mss)
    return int(p.payload_bytes[beyond].sum()) > BEYOND * int(p.payload_bytes[data].sum())


def _fills(data: Bools, flight: Floats, window: Floats, mss: int) -> bool:
    """Whether a window of unknown scale limits the data in flight as it stands."""
    reached, beyond = (data & (flight + room >= window) for room in (mss, -mss))
    return int((reached & (window > mss)).sum()) >= FILLED and not beyond.any()


def _back_ns(p: ConnectionPackets, left: Departures, behind: RttSeries, echoes: RttSeries | None) -> int:
    """The least round trip from the point of capture to the sender, without the time that data waited."""
    found = [int(behind.rtt_ns.min())] if len(behind.rtt_ns) else []
    if echoes is not None and len(echoes.rtt_ns):
        came_ns = p.time_ns[p.from_sender]
        at = np.minimum(np.searchsorted(came_ns, echoes.time_ns), len(came_ns) - 1)
        found.append(max(int((echoes.rtt_ns - left.waited_ns(came_ns)[at]).min()), 0))
    return min(found, default=0)


def _waited_s(packets: ConnectionPackets, p: ConnectionPackets, left: Departures | None) -> Floats:
    """By event: the wait in queues before the point of capture; 0 if it is not known."""
    if left is None:
        return np.broadcast_to(0.0, len(p.time_ns))
    found = np.zeros(len(p.time_ns))
    waited_ns = left.waited_ns(packets.time_ns[packets.from_sender])
    found[p.from_sender] = waited_ns[np.argsort(left.left_ns, kind="stable")] / 1e9
    return found


def _next(mask: Bools, data: Bools) -> Bools:
    """By event: ``mask`` at the next data, or at the last data if there is none."""
    sent = np.flatnonzero(data)
    after = np.searchsorted(sent, np.arange(len(data)), side="right")
    return np.asarray(mask[sent[np.minimum(after, len(sent) - 1)]])


def _queued_trips(p: ConnectionPackets, left: Departures, least_s: float) -> RttSeries:
    """Round trips of the whole path, from the time that the sender's packets waited on their way."""
    waited = left.waited_ns(p.time_ns[p.from_sender])
    # A packet left at any time within its tick, not only at its end.
    waited = np.where(waited > 0, waited + round(left.tick_ns / 2), 0)
    order = np.argsort(left.left_ns, kind="stable")
    least_ns = round(least_s * 1e9)
    # No ACK was delayed here, but a busy host may deliver late.
    return RttSeries(left.left_ns[order], waited[order] + least_ns).least(least_ns // PARTS)


def _as_sent(
    p: ConnectionPackets, data: Bools, acks: Bools, behind: RttSeries, early_s: float, left: Departures | None
) -> tuple[ConnectionPackets, Bools, Bools]:
    """The packets in the order in which the sender knew of them; ACKs rather ``early_s`` too early."""
    if left is None and len(behind.time_ns) == 0 and bool((p.time_ns[1:] >= p.time_ns[:-1]).all()):
        # At the sender they are in its order already.
        return p, data, acks
    times = p.time_ns.copy()
    theirs = ~p.from_sender
    if left is None:
        late_s = np.nan_to_num(behind.until(times[theirs].astype(np.float64)))
    else:
        times[p.from_sender] = left.left_ns
        late_s = np.full(int(theirs.sum()), float(behind.rtt_ns[0]) / 1e9)
    late_s = np.maximum(late_s - early_s, 0.0)
    # One after the other, as they were sent.
    times[theirs] = np.maximum.accumulate(times[theirs] + (late_s * 1e9).astype(np.int64))
    order = np.argsort(times, kind="stable")
    moved = ConnectionPackets(
        time_ns=times[order],
        from_sender=p.from_sender[order],
        seq=p.seq[order],
        payload_bytes=p.payload_bytes[order],
        ack=p.ack[order],
        window_bytes=p.window_bytes[order],
        flags=p.flags[order],
        again=p.again[order],
        probe=p.probe[order],
        timeout=p.timeout[order],
        tsval=p.tsval[order],
    )
    return moved, data[order], acks[order]


def _recoveries(again: Bools, sent: Ints, acked: Ints) -> tuple[Bools, Floats]:
    """Whether a recovery lasts: from a retransmission until all sent by then is acknowledged; and the count
    of retransmissions so far.
    """
    inside = np.zeros(len(sent), dtype=bool)
    until = -1
    for at in np.flatnonzero(again):
        if at < until:
            continue
        until = int(np.searchsorted(acked, sent[at], side="left"))
        inside[at:until] = True
    return inside, np.cumsum(again).astype(np.float64)


def _usual(payloads: Ints) -> int:
    """The most common payload: what a full segment carries."""
    values, counts = np.unique(payloads, return_counts=True)
    most = int(values[np.argmax(counts * values)])
    # Segments that a network card splits later, or has joined, carry several full ones.
    total = float((counts * values).sum())
    for one in sorted({int(value) for value in values if LEAST_MSS <= value <= most}):
        if float((counts * values)[values % one == 0].sum()) >= WHOLE * total:
            return one
    return max(most, LEAST_MSS)
