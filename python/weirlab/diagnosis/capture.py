"""Captured packets of one direction as a timeline of their sender (``crates/trace/src/timeline``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weirlab.diagnosis.timeline import BlackHole, Drain, Policer, Timeline, Timeouts, TransferFacts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.causes import Source
    from weirlab.diagnosis.timeline import Bools, Floats

    Ints = NDArray[np.int64]

AT_ONCE_S: Final = 0.001
"""An idle host answers within a tenth of this time."""
SILENT: Final = 3.0
"""Multiple of the usual gap between data from which on the bottleneck had nothing to transmit."""
PAUSED: Final = 0.8
"""A silence must be at least this share of the time by which the round trip exceeds the least one."""
OVERFULL: Final = 1.25
"""Data in flight as a multiple of the window: more than a sender ever sends, however roughly it is known."""
OFTEN: Final = 0.1
"""Share of the time with a full window."""
TIMESTAMP_BYTES: Final = 12
CLOCK_NS: Final = 10_000_000
"""A tick of most clocks of time stamps, and what hosts and paths scatter."""
SMALL: Final = 0.5
"""Share of the largest window: below it, the receiver has not read what arrived."""
SOON: Final = 0.25
"""Share of the wait for a request within which, beyond a round trip, an answer follows it."""
_OPENS: Final = 2 | 4
"""SYN, whose window is not scaled, and RST, which has none."""
_FLAWS: Final = {
    "no_acks": "the capture does not have the receiver's ACKs, perhaps because of its filter",
    "clock": "the times of packets go back again and again, so they do not show when packets passed",
    "too_much": "more data was in flight than the receiver's window allowed, so the capture does not have "
    "all ACKs",
    "jump": "sequence numbers jump by more than any window allows, so packets are damaged or forged",
}


@dataclass(frozen=True)
class SackBlocks:
    """What the receiver reported by SACK, duplicates left out: when, from where and up to where."""

    time_ns: Ints
    left: Ints
    right: Ints


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
    blocks: SackBlocks | None = None


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

    def least(self, within_ns: int) -> RttSeries:
        """The least round trip of each ``within_ns``: a single ACK may have been delayed on purpose."""
        from weirlab import _engine

        return RttSeries(self.time_ns, _engine.least_rtts(self.time_ns, self.rtt_ns, within_ns))


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
    from weirlab import _engine

    facts = replace(facts, unread_s=_unread_s(packets) if scaled else 0.0)
    columns = dict(vars(packets))
    blocks = columns.pop("blocks")
    asks = _asks(packets, trips)
    overdue = None if source != "receiver" or echoes is None else overdue_acks(packets, echoes)
    # The engine empties the columns once it has the packets, and nothing else should hold them.
    del packets
    nowhere = np.empty(0, np.int64)
    found: dict[str, Any] | None = _engine.sender_timeline(
        columns,
        place=source,
        mss_bytes=facts.mss_bytes,
        min_rtt_s=facts.min_rtt_s,
        scaled=scaled,
        blocks=(nowhere, nowhere, nowhere) if blocks is None else (blocks.time_ns, blocks.left, blocks.right),
        trips=(trips.time_ns, trips.rtt_ns),
        behind=(behind.time_ns, behind.rtt_ns),
        echoes=(nowhere, nowhere) if echoes is None else (echoes.time_ns, echoes.rtt_ns),
    )
    if found is None:
        return None
    flaw, known, idle = found.pop("flaw"), found.pop("timeouts"), found.pop("idle")
    if overdue is not None:
        until_ns = found["begun_ns"] + 1e9 * (found["start_s"] + found["lasts_s"])
        idle = idle & ~overdue[1][np.searchsorted(overdue[0], until_ns).clip(max=len(overdue[0]) - 1)]
    policer, drain = found.pop("policer"), found.pop("drain")
    if source != "sender":
        found["window_bytes"] = _believable(found["window_bytes"], found["flight_bytes"], found["lasts_s"])
    facts = replace(
        facts,
        mss_bytes=found.pop("mss_bytes"),
        min_rtt_s=found.pop("min_rtt_s"),
        blur_s=found.pop("blur_s"),
        flaw=facts.flaw if flaw is None else _FLAWS[flaw],
        timeouts=None if known is None else _timeouts(*known),
        policer=None if policer is None else Policer(*policer),
        drain=None if drain is None else Drain(*drain),
        asks=len(asks[0]),
    )
    # Columns that captures cannot fill take no memory.
    unknown = np.broadcast_to(np.nan, len(idle))
    timeline = Timeline(
        source=source,
        unsent_bytes=np.where(idle, 0.0, np.nan),
        cwnd_room_bytes=unknown,
        buffer_fill=unknown,
        pacing_bytes_per_s=unknown,
        estimate_bytes_per_s=unknown,
        unread_bytes=unknown,
        cpu_wait=unknown,
        asked=_asked(asks, found["begun_ns"], found["start_s"], found["lasts_s"]),
        **found,
    )
    return timeline, facts


def overdue_acks(packets: ConnectionPackets, echoes: RttSeries) -> tuple[Ints, Bools] | None:
    """At the receiver: when data came that echoes its time stamps, and whether an ACK that had been sent long
    before was still unknown to the sender when that data left: then ACKs or data wait on their way, and a gap
    before that data need be no pause of the application.
    """
    acks_ns = np.sort(packets.time_ns[~packets.from_sender])
    if not len(acks_ns) or not len(echoes.time_ns):
        return None
    known_ns = echoes.time_ns - echoes.rtt_ns + CLOCK_NS
    due = np.searchsorted(acks_ns, echoes.time_ns - echoes.rtt_ns.min() - CLOCK_NS, side="right")
    return echoes.time_ns, np.asarray((due > 0) & (acks_ns[np.maximum(due, 1) - 1] > known_ns))


def _asks(packets: ConnectionPackets, trips: RttSeries) -> tuple[Ints, Ints]:
    """When the sender fell silent until the receiver had sent a request, and when the last of that came.

    The first data of the receiver in a silence is a request if the sender's next data follows it soon. While
    the sender pauses for another reason, the receiver's heartbeats go on, and nothing follows the first soon.
    """
    data = packets.payload_bytes > 0
    ours = np.sort(packets.time_ns[packets.from_sender & data & ~packets.again])
    theirs = np.sort(packets.time_ns[~packets.from_sender & data])
    behind = np.searchsorted(ours, theirs, side="right")
    between = (behind > 0) & (behind < len(ours))
    theirs, behind = theirs[between], behind[between]
    begins = np.flatnonzero(np.diff(behind, prepend=0))
    silent, first, next_ns = ours[behind[begins] - 1], theirs[begins], ours[behind[begins]]
    trip_ns = np.nan_to_num(trips.at(first.astype(np.float64)) * 1e9).astype(np.int64)
    # A request may be several segments.
    last = theirs[np.searchsorted(theirs, np.minimum(first + trip_ns, next_ns), side="right") - 1]
    soon = next_ns - last <= trip_ns + SOON * (last - silent)
    return silent[soon], last[soon]


def _asked(asks: tuple[Ints, Ints], begun_ns: float, start_s: Floats, lasts_s: Floats) -> Floats | None:
    """The share of each piece of time that lies between the two times of one of ``asks``."""
    if not len(asks[0]):
        return None
    edges_s = (np.column_stack(asks).ravel() - begun_ns) / 1e9
    until = np.concatenate([[0.0], np.cumsum(np.diff(edges_s) * (np.arange(len(edges_s) - 1) % 2 == 0))])
    spent_s = np.interp(start_s + lasts_s, edges_s, until) - np.interp(start_s, edges_s, until)
    return np.asarray(np.divide(spent_s, lasts_s, out=np.zeros(len(lasts_s)), where=lasts_s > 0).clip(0, 1))


def _unread_s(packets: ConnectionPackets) -> float:
    """From the last data until a window shows that the receiver has read it, if the window was small."""
    data, theirs = (
        packets.from_sender & (packets.payload_bytes > 0),
        ~packets.from_sender & (packets.flags & _OPENS == 0),
    )
    if not data.any() or not theirs.any():
        return 0.0
    last_ns = int(packets.time_ns[data].max())
    time_ns, ack, window = (each[theirs] for each in (packets.time_ns, packets.ack, packets.window_bytes))
    after = (time_ns > last_ns) & (ack >= (packets.seq + packets.payload_bytes)[data].max())
    most = window.max()
    if not after.any() or window[after][0] >= SMALL * most:
        return 0.0
    read_ns = time_ns[after & (window >= window[after][0] + SMALL * most)]
    return float(read_ns[0] - last_ns) / 1e9 if len(read_ns) else 0.0


def _believable(window_bytes: Floats, flight_bytes: Floats, lasts_s: Floats) -> Floats:
    """The windows; only closed ones if more than they allow seems to be in flight: ACKs came sooner then."""
    full = (window_bytes > 0) & (flight_bytes >= window_bytes)
    over = full & (flight_bytes > OVERFULL * window_bytes)
    if not lasts_s[over].sum() > OFTEN * lasts_s[full].sum():
        return window_bytes
    return np.where(window_bytes > 0, np.nan, window_bytes)


def _timeouts(
    number: int, tails: int, ignored: int, longest_s: float, hole: tuple[int, int, int, bool] | None
) -> Timeouts:
    return Timeouts(number, tails, ignored, longest_s, None if hole is None else BlackHole(*hole))
