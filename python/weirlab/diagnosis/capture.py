"""Captured packets of one direction as a timeline of their sender.

The sender knows what it sent and what had been acknowledged *to it*. Away from the sender the same is
found by letting each ACK count later: by the round trip from the point of capture to the sender and back,
which is 0 at the sender and all of it at the receiver. Two pieces of knowledge stay inside the sender,
and are inferred: the congestion window (no more than what was once in flight), and whether data waited (a
segment shorter than the MSS ends what was there; new data without an ACK before it had not been there).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.rounds import growing_until, is_flat
from weirlab.diagnosis.timeline import DELAYED_S, Facts, Timeline

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.causes import Source
    from weirlab.diagnosis.timeline import Bools, Floats

    Ints = NDArray[np.int64]

AT_ONCE_S: Final = 0.001
"""What follows an ACK within this time was let out by it. A host that is not busy needs a tenth of it."""
USUAL_NS: Final = 100_000_000
"""Round trips are alike for so long."""
AT_ONCE_UNSURE: Final = 0.2
"""The same where only the handshake's round trip is known."""
ABLE_TRIPS: Final = 3
"""Round trips for which data without an ACK before it proves what the congestion window allows."""
LONGEST: Final = 1.5
"""Of the usual round trip: what answers later was not let out by the ACK that it echoes."""
AT_ONCE_RATIO: Final = 0.05
"""The same, of a round trip that had to be estimated."""
TIMESTAMP_BYTES: Final = 12
_SYN, _RST = 2, 4


@dataclass(frozen=True)
class Packets:
    """All packets of a connection in the order of the capture, as in ``segments`` of ``docs/trace.md``.

    ``from_sender`` tells who sent each; ``again`` those that carry what had been sent before.
    """

    time_ns: Ints
    from_sender: Bools
    seq: Ints
    payload_bytes: Ints
    ack: Ints
    window_bytes: Ints
    flags: Ints
    again: Bools


@dataclass(frozen=True)
class Trips:
    """Round trips: when they were known, and how long they took."""

    time_ns: Ints
    rtt_ns: Ints

    def at(self, times_ns: Floats) -> Floats:
        """In s, the last one known; the first one before. NaN without any."""
        if len(self.time_ns) == 0:
            return np.full(len(times_ns), np.nan)
        at = np.searchsorted(self.time_ns, times_ns, side="right") - 1
        return np.asarray(self.rtt_ns[np.maximum(at, 0)] / 1e9)

    def until(self, times_ns: Floats) -> Floats:
        """In s, of what was sent at these times; but no pause of the sender's, which is no round trip."""
        if len(self.time_ns) == 0:
            return np.full(len(times_ns), np.nan)
        sent_ns = np.maximum.accumulate(self.time_ns - self.rtt_ns)
        usual = self.least(USUAL_NS).rtt_ns
        at = np.maximum(np.searchsorted(sent_ns, times_ns, side="right") - 1, 0)
        most = np.maximum(usual[at], usual[np.maximum(at - 1, 0)]) * LONGEST + AT_ONCE_S * 3e9
        return np.asarray(np.minimum(self.rtt_ns[at], most) / 1e9)

    def least(self, within_ns: int) -> Trips:
        """The least of about ``within_ns`` each: a single ACK may have been delayed on purpose."""
        if len(self.time_ns) == 0:
            return self
        numbers = (self.time_ns - self.time_ns[0]) // max(within_ns, int(AT_ONCE_S * 1e9))
        numbers = np.unique(np.maximum.accumulate(numbers), return_inverse=True)[1]
        most = np.full(int(numbers[-1]) + 1, np.iinfo(np.int64).max)
        np.minimum.at(most, numbers, self.rtt_ns)
        return Trips(self.time_ns, most[numbers])


def read(
    packets: Packets, source: Source, facts: Facts, trips: Trips, behind: Trips
) -> tuple[Timeline, Facts] | None:
    """A timeline from the packets of a connection.

    Parameters
    ----------
    packets
        Both directions.
    source
        Where they were captured.
    facts
        What is known of the whole; ``mss_bytes`` 0 if the handshake was not seen.
    trips
        Round trips of the whole path, from sender to receiver and back.
    behind
        From the point of capture to the sender and back: how much later each ACK counts.

    Returns
    -------
    tuple or None
        None where hardly any data was captured.
    """
    data = packets.from_sender & (packets.payload_bytes > 0) & (packets.flags & (_SYN | _RST) == 0)
    acks = ~packets.from_sender & (packets.flags & (_SYN | _RST) == 0)
    if data.sum() < 3 or acks.sum() < 2:
        return None
    mss = facts.mss_bytes or _usual(packets.payload_bytes[data])
    p, data, acks = _as_sent(packets, data, acks, behind)
    at = p.time_ns.astype(np.float64)
    ends = np.where(data, p.seq + p.payload_bytes, np.iinfo(np.int64).min)
    sent = np.maximum.accumulate(ends)
    first_seq = int(p.seq[data][0])
    acked = np.maximum.accumulate(np.where(acks, p.ack, first_seq))
    acked = np.maximum(acked, first_seq)
    window_edge = _filled(np.where(acks, p.ack + p.window_bytes, -1))
    known = (sent > np.iinfo(np.int64).min) & (window_edge >= 0)
    if not known.any():
        return None
    recovery, lost = _recoveries(data & p.again, sent, acked)
    least_s = facts.min_rtt_s
    close_s = AT_ONCE_S
    if source != "sender":
        close_s += least_s * (AT_ONCE_RATIO if len(behind.time_ns) > 1 else AT_ONCE_UNSURE)
    window = np.maximum(window_edge - acked, 0).astype(np.float64)
    flight = np.maximum(sent - acked, 0).astype(np.float64)
    tight = window - flight < mss
    anew = (data & p.again) | tight
    sends = _sends(_Events(p, at, data, acks, sent, acked, anew), mss, close_s, least_s)
    # What follows the last data is its way to the receiver and back, which nothing limits.
    last = int(np.flatnonzero(data)[-1])
    kept = slice(int(np.argmax(known)), last + 1)
    lasts = np.append(np.diff(at), 0.0) / 1e9
    idle, held = (each & ~tight & ~recovery for each in (sends.idle, sends.held))
    rtt = trips.at(at)
    timeline = Timeline(
        source=source,
        start_s=(at[kept] - at[kept][0]) / 1e9,
        lasts_s=lasts[kept],
        flight_bytes=flight[kept],
        window_bytes=window[kept],
        unsent_bytes=np.where(idle & ~held, 0.0, np.nan)[kept],
        rtt_s=rtt[kept],
        acked_bytes=(acked - first_seq)[kept].astype(np.float64),
        lost=lost[kept],
        recovery=recovery[kept],
        held_small=held[kept],
        flat=np.zeros(len(at[kept]), dtype=bool),
        starting=np.zeros(len(at[kept]), dtype=bool),
        cwnd_room_bytes=np.full(len(at[kept]), np.nan),
        buffer_fill=np.full(len(at[kept]), np.nan),
        pacing_bytes_per_s=np.full(len(at[kept]), np.nan),
        unread_bytes=np.full(len(at[kept]), np.nan),
        cpu_wait=np.full(len(at[kept]), np.nan),
    )
    round_s = max(least_s, AT_ONCE_S)
    free = ~(idle | held | recovery | tight)[kept]
    until = growing_until(timeline.start_s, timeline.flight_bytes, timeline.lost, round_s)
    flat = is_flat(timeline.start_s, timeline.flight_bytes, timeline.lost, round_s, mss)
    timeline = replace(timeline, starting=free & (timeline.start_s < until), flat=free & flat)
    return timeline, replace(facts, mss_bytes=mss, data_bytes=int((acked - first_seq)[kept][-1]))


def _as_sent(p: Packets, data: Bools, acks: Bools, behind: Trips) -> tuple[Packets, Bools, Bools]:
    """The packets in the order in which the sender knew of them."""
    times = p.time_ns.copy()
    theirs = ~p.from_sender
    # One after the other, as they were sent.
    late = behind.until(times[theirs].astype(np.float64))
    times[theirs] = np.maximum.accumulate(times[theirs] + (np.nan_to_num(late) * 1e9).astype(np.int64))
    order = np.argsort(times, kind="stable")
    moved = Packets(
        time_ns=times[order],
        from_sender=p.from_sender[order],
        seq=p.seq[order],
        payload_bytes=p.payload_bytes[order],
        ack=p.ack[order],
        window_bytes=p.window_bytes[order],
        flags=p.flags[order],
        again=p.again[order],
    )
    return moved, data[order], acks[order]


@dataclass(frozen=True)
class _Events:
    """Packets in order, and by each: its time, data or ACK, what was sent and acknowledged."""

    packets: Packets
    at: Floats
    data: Bools
    acks: Bools
    sent: Ints
    acked: Ints
    anew: Bools
    """What was in flight before says no longer what the congestion window allows."""


@dataclass(frozen=True)
class _Sends:
    """By event: nothing was there to send until the next new data, or less than a segment waited."""

    idle: Bools
    held: Bools


def _sends(events: _Events, mss: int, close_s: float, least_s: float) -> _Sends:
    p, at, data, acks = events.packets, events.at, events.data, events.acks
    sent, acked = events.sent, events.acked
    before = np.concatenate([[np.iinfo(np.int64).min], sent[:-1]])
    new = np.flatnonzero(data & (sent > before))
    idle, held = np.zeros(len(at), dtype=bool), np.zeros(len(at), dtype=bool)
    if len(new) < 2:
        return _Sends(idle, held)
    last_ack = _filled(np.where(acks, np.arange(len(at)), -1))
    one, other = new[:-1], new[1:]
    gap_s = (at[other] - at[one]) / 1e9
    ack = last_ack[other]
    since_ack_s = np.where(ack >= 0, (at[other] - at[np.maximum(ack, 0)]) / 1e9, np.inf)
    short = p.payload_bytes[one] % mss != 0
    answered = since_ack_s <= close_s
    restarted = np.minimum(since_ack_s, gap_s) > close_s
    able = _able(new, restarted, last_ack, sent - acked, events.anew)
    # An ACK of everything, without data of its own, that came late, set the next one free.
    little = sent[one] - acked[one] <= 2 * mss
    everything = acked[np.maximum(other - 1, 0)] >= sent[one]
    bare = (ack >= 0) & (p.payload_bytes[np.maximum(ack, 0)] == 0)
    waited = short & answered & little & everything & bare & (ack > one) & (gap_s > least_s + DELAYED_S)
    # Each event belongs to the new data before it; what the last one is followed by is not known.
    ends_short = bool(p.payload_bytes[new[-1]] % mss != 0)
    after = np.searchsorted(new, np.arange(len(at)), side="right") - 1
    begun = after >= 0
    idle[begun] = np.append(((short & ~(answered & bare)) | restarted) & ~waited, ends_short)[after[begun]]
    held[begun] = np.append(waited, False)[after[begun]]
    begins = np.full(len(at), -np.inf)
    begins[other[restarted]] = at[other[restarted]]
    lately = at - np.maximum.accumulate(begins) <= ABLE_TRIPS * least_s * 1e9
    idle |= (sent - acked + mss <= able) & lately & ~held
    return _Sends(idle, held)


def _able(new: Ints, restarted: Bools, last_ack: Ints, flight: Ints, anew: Bools) -> Ints:
    """By event: what was once in flight without an ACK having let it out.

    So much the congestion window allows at least, until (``anew``) something is lost or the window is full.
    """
    first = np.append([False], restarted)
    since = np.maximum.accumulate(np.where(first, np.arange(len(new)), -1))
    # What follows belongs to it until an ACK may have let out more.
    freely = (since >= 0) & (last_ack[new[np.maximum(since, 0)]] == last_ack[new])
    found = np.zeros(len(flight), dtype=np.int64)
    found[new] = np.where(freely, flight[new], 0)
    # The greatest of each epoch, which begins far above the one before.
    epoch = np.cumsum(anew).astype(np.int64) << 40
    return np.asarray(np.maximum.accumulate(found + epoch) - epoch)


def _recoveries(again: Bools, sent: Ints, acked: Ints) -> tuple[Bools, Floats]:
    """From a retransmission until what had been sent by then is acknowledged; retransmissions so far."""
    inside = np.zeros(len(sent), dtype=bool)
    until = -1
    for at in np.flatnonzero(again):
        if at < until:
            continue
        until = int(np.searchsorted(acked, sent[at], side="left"))
        inside[at:until] = True
    return inside, np.cumsum(again).astype(np.float64)


def _filled(values: Ints) -> Ints:
    """Each -1 replaced by the last value before it."""
    at = np.maximum.accumulate(np.where(values >= 0, np.arange(len(values)), -1))
    return np.where(at >= 0, values[np.maximum(at, 0)], -1)


def _usual(payloads: Ints) -> int:
    """The most common payload: what a full segment carries."""
    values, counts = np.unique(payloads, return_counts=True)
    return int(values[np.argmax(counts * values)])
