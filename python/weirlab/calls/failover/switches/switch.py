"""The numbers of one switch, from the packets of its trial. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.event import Occurrence
from weirlab.calls.failover.switches.plan import IN_FLIGHT_NS, SwitchWindows, Timing, windows
from weirlab.quality.assess import call_table
from weirlab.quality.jitterbuffer import USUAL, Buffers
from weirlab.quality.packets import PacketWindow, StreamPackets, unroll
from weirlab.quality.segments import I64, owner
from weirlab.records import F64, CallTable, EngineResult
from weirlab.traffic.calls.spec import Calls

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CallGaps:
    """One row per stream (call and direction), shapes (streams,).

    Times count from the event. The gap is the longest time between two arrivals that ends after the
    event and begins while the pair switches; of a stream that never came back it lasts until the end
    of the trial, and ``ends_ns`` is NaN. A stream that had not ``begun`` before the event has no gap (NaN).
    """

    call: I64
    back: Bools
    packet_ns: F64
    gap_ns: F64
    begins_ns: F64
    ends_ns: F64
    begun: Bools
    alive: Bools
    """Something arrived in the last part of the trial."""

    @property
    def excess_ns(self) -> F64:
        """What the gap has beyond the time between two packets."""
        return np.asarray(np.maximum(self.gap_ns - self.packet_ns, 0.0))

    @property
    def survived(self) -> Bools:
        """Streams that were heard before the event and at the end."""
        return np.asarray(self.begun & self.alive)

    @property
    def dead(self) -> Bools:
        """Streams that were heard before the event and not at the end."""
        return np.asarray(self.begun & ~self.alive)


@dataclass(frozen=True)
class CallOutage:
    """The longest time in which no packet of any call arrived in one direction while the pair switched.

    Times count from the event; ``ends_ns`` is NaN where nothing ever arrived again.
    """

    gap_ns: float
    begins_ns: float
    ends_ns: float


def call_gaps(
    packets: StreamPackets,
    call: I64,
    back: Bools,
    event_ns: int,
    end_ns: int,
    last_part_ns: int,
    until_ns: float = math.inf,
) -> CallGaps:
    """The gap of every stream around ``event_ns``.

    Parameters
    ----------
    call, back:
        Call and direction of each stream, shapes (streams,).
    event_ns, end_ns:
        The event and the end of the trial, on the clock of the packets.
    last_part_ns:
        Streams heard within this time before the end are alive.
    until_ns:
        What begins later, counted from the event, is no longer the switch's doing.
    """
    start = packets.arrived_start
    heard = np.flatnonzero(np.diff(start))
    first, last = start[:-1][heard], start[1:][heard] - 1
    at = packets.arrival_ns[packets.arrived] - event_ns
    end = end_ns - event_ns

    # Until the next arrival of the stream; after the last one until the end, if more was sent.
    until = np.append(at[1:], end)
    until[last] = np.maximum(at[last], end)
    width = until - at
    complete = ~packets.lost[packets.start[1:][heard] - 1]
    width[last[complete]] = -1
    width[(until <= 0) | (at > until_ns)] = -1

    streams = len(start) - 1
    begun, alive = np.zeros(streams, np.bool_), np.zeros(streams, np.bool_)
    begun[heard] = at[first] < 0
    alive[heard] = at[last] >= end - last_part_ns

    gap, begins, ends = (np.full(streams, np.nan) for _ in range(3))
    best = _widest(width, start, heard)
    seen = heard[(best >= 0) & begun[heard]]
    place = best[(best >= 0) & begun[heard]]
    gap[seen], begins[seen] = width[place], at[place]
    ends[seen] = np.where(np.isin(place, last), np.nan, until[place])
    return CallGaps(call, back, packets.packet_ns.astype(np.float64), gap, begins, ends, begun, alive)


def _widest(width: I64, start: I64, heard: I64) -> I64:
    """Where the widest gap of each stream in ``heard`` is, the first of equals; -1 without one."""
    best = np.full(len(heard), -1, np.int64)
    if len(heard):
        widest = np.maximum.reduceat(width, start[:-1][heard])
        row = np.repeat(np.arange(len(heard)), np.diff(start)[heard])
        hits = np.flatnonzero((width == widest[row]) & (width >= 0))[::-1]
        best[row[hits]] = hits  # The first of equals is written last.
    return best


def outage(
    packets: StreamPackets, chosen: Bools, event_ns: int, end_ns: int, until_ns: float = math.inf
) -> CallOutage:
    """The longest time without any arrival in the ``chosen`` streams; times as for :func:`call_gaps`."""
    stream = owner(packets.arrived_start)
    at = np.sort(packets.arrival_ns[packets.arrived[chosen[stream]]] - event_ns)
    end = end_ns - event_ns
    at = at[at <= end]
    if len(at) == 0:
        return CallOutage(math.nan, math.nan, math.nan)
    until = np.append(at[1:], end)
    width = np.where((until > 0) & (at <= until_ns), until - at, -1)
    i = int(np.argmax(width))
    return CallOutage(float(width[i]), float(at[i]), math.nan if i == len(at) - 1 else float(until[i]))


BIN_NS: Final = 5_000_000
FROM_NS: Final = -2_000_000_000
TO_NS: Final = 12_000_000_000


@dataclass(frozen=True)
class SwitchSeries:
    """One row per direction and bin, shapes (rows,); ``start_ns`` counts from the event."""

    back: npt.NDArray[np.bool_]
    start_ns: I64
    sent: I64
    """Departed in the bin."""
    received: I64
    """Arrived in the bin; second copies left out."""
    lost: I64
    """Departed in the bin and never arrived."""
    delay_max_ns: F64
    """Of what arrived in the bin; NaN where nothing did."""


def around(
    packets: StreamPackets,
    back: npt.NDArray[np.bool_],
    event_ns: int,
    from_ns: int = FROM_NS,
    to_ns: int = TO_NS,
    bin_ns: int = BIN_NS,
) -> SwitchSeries:
    """Count both directions in bins of ``bin_ns`` between ``from_ns`` and ``to_ns`` from the event.

    ``back`` has the direction of each stream, shape (streams,).
    """
    bins = -(-(to_ns - from_ns) // bin_ns)
    lost, way = packets.lost, back[owner(packets.start)]
    departed = (packets.sent_ns - event_ns - from_ns) // bin_ns
    arrived = np.where(lost, -1, (packets.arrival_ns - event_ns - from_ns) // bin_ns)
    delay = (packets.arrival_ns - packets.sent_ns).astype(np.float64)
    start = from_ns + np.arange(bins, dtype=np.int64) * bin_ns
    parts = [
        _direction(departed[way == side], arrived[way == side], lost[way == side], delay[way == side], bins)
        for side in (False, True)
        if bool((back == side).any())
    ]
    directions = [side for side in (False, True) if bool((back == side).any())]
    sent, received, gone, longest = (np.concatenate(part) for part in zip(*parts, strict=True))
    return SwitchSeries(
        back=np.repeat(np.asarray(directions, np.bool_), bins),
        start_ns=np.tile(start, len(directions)),
        sent=sent.astype(np.int64),
        received=received.astype(np.int64),
        lost=gone.astype(np.int64),
        delay_max_ns=longest,
    )


def _direction(
    departed: I64, arrived: I64, lost: npt.NDArray[np.bool_], delay: F64, bins: int
) -> tuple[F64, F64, F64, F64]:
    """Sent, received, lost and longest delay of one direction, shapes (bins,)."""
    went, came = (departed >= 0) & (departed < bins), (arrived >= 0) & (arrived < bins)
    longest = np.full(bins, -1.0)
    np.maximum.at(longest, arrived[came], delay[came])
    return (
        _count(departed[went], bins),
        _count(arrived[came], bins),
        _count(departed[went & lost], bins),
        np.where(longest < 0, np.nan, longest),
    )


def _count(places: I64, bins: int) -> F64:
    return np.bincount(places, minlength=bins).astype(np.float64)


GOOD_MOS: Final = 3.6
"""Below it some users are dissatisfied (ITU-T G.107 annex B, R below 70)."""


@dataclass(frozen=True)
class CallPhases:
    """What was heard before, while and after the pair switched; tables row by row like the gaps."""

    before: CallTable
    affected: CallTable
    during: CallTable
    after: CallTable | None
    """None where not all was over before the end."""


@dataclass(frozen=True)
class SwitchMeasurement:
    """Everything measured around one event; only packets that carry speech count."""

    gaps: CallGaps
    outages: dict[bool, CallOutage]
    """By direction: False forward, True back."""
    heard: CallPhases
    packets: StreamPackets
    series: SwitchSeries
    windows: SwitchWindows
    event_ns: int
    end_ns: int
    sent_pps: float

    @property
    def outage_ns(self) -> float:
        """The longer of both directions' longest times without any arrival."""
        return max((found.gap_ns for found in self.outages.values()), default=math.nan)

    @property
    def resumed_ns(self) -> float:
        """From the event until packets arrived again in both directions; NaN if they never did."""
        ends = [found.ends_ns for found in self.outages.values()]
        return max(ends) if ends and all(map(math.isfinite, ends)) else math.nan

    def lost(self, back: bool | None = None) -> int:
        """Packets lost that departed from the event on (or shortly before), in one direction or both."""
        lost = self.packets.lost & ~self.earlier
        if back is not None:
            lost &= self.gaps.back[owner(self.packets.start)] == back
        return int(lost.sum())

    @property
    def earlier(self) -> Bools:
        """Which packets departed too early for the event to lose them."""
        return np.asarray(self.packets.sent_ns < self.event_ns - IN_FLIGHT_NS)

    @property
    def lost_before(self) -> int:
        """Packets lost before anything happened."""
        return int((self.packets.lost & self.earlier).sum())

    @property
    def sender_late_ns(self) -> float:
        """By how much a stream fell behind its pace at most while the pair switched.

        Told by the packets that arrived: what was lost in between has no time of departure of its own.
        """
        packets = self.packets
        over_ns = self.resumed_ns if math.isfinite(self.resumed_ns) else self.end_ns - self.event_ns
        came = np.flatnonzero(~packets.lost)
        stream = owner(packets.start)[came]
        at = packets.sent_ns[came] - self.event_ns
        behind = np.diff(at) - np.diff(came) * packets.packet_ns[stream[1:]]
        # A little longer: what departs late arrives late, and so makes the interruption longer.
        meant = (at[1:] >= -IN_FLIGHT_NS) & (at[1:] < over_ns + IN_FLIGHT_NS)
        meant &= stream[1:] == stream[:-1]
        return float(behind[meant].max()) if meant.any() else 0.0

    @property
    def glitch_ms(self) -> float:
        """Lost packets over the rate: the length of the interruption as Woernhard 2006 gives it."""
        return self.lost() / self.sent_pps * 1e3


def examine(
    result: EngineResult, calls: Calls, found: Occurrence, timing: Timing, buffers: Buffers = USUAL
) -> SwitchMeasurement:
    """Take the numbers around ``found`` from the log of ``result``.

    Raises
    ------
    TrialError
        The log is incomplete.
    """
    log, event = result.packets, found.event
    if log is None or event is None:
        raise ValueError("a switch needs the log of all packets and an event")
    event_ns, end_ns = event.began_ns, result.record_end_ns
    packets = unroll(log, result.flows)
    call, back = log.call_flows.call[packets.flow].astype(np.int64), log.call_flows.back[packets.flow]
    last_part_ns = round(timing.last_part_s * NS_PER_S)
    until_ns = found.switched_by_ns(timing)
    gaps = call_gaps(packets, call, back, event_ns, end_ns, last_part_ns, until_ns)
    outages = {
        side: outage(packets, back == side, event_ns, end_ns, until_ns)
        for side in (False, True)
        if bool((back == side).any())
    }
    parts = windows(
        float(result.record_start_ns - event_ns),
        float(end_ns - event_ns),
        _back_at(gaps),
        timing.affected_s * NS_PER_S,
    )
    table = {
        name: call_table(
            log, result.flows, calls, buffers, window=PacketWindow(*parts.absolute(window, event_ns))
        )
        for name, window in parts.named().items()
        if window[1] > window[0]
    }
    return SwitchMeasurement(
        gaps=gaps,
        outages=outages,
        heard=CallPhases(table["before"], table["affected"], table["during"], table.get("after")),
        packets=packets,
        series=around(packets, back, event_ns),
        windows=parts,
        event_ns=event_ns,
        end_ns=end_ns,
        sent_pps=len(packets.sent_ns) / result.record_s,
    )


def _back_at(gaps: CallGaps) -> float:
    """When the last stream was back that came back; 0 where no gap was longer than usual."""
    # Two packet times: one packet lost, or none and the event between two packets.
    broken = gaps.survived & (gaps.gap_ns > 2 * gaps.packet_ns) & np.isfinite(gaps.ends_ns)
    return float(gaps.ends_ns[broken].max()) if broken.any() else 0.0


def quantile(values: F64, q: float) -> float:
    """Quantile of what is known among ``values``; NaN where nothing is."""
    known = values[np.isfinite(values)]
    return float(np.quantile(known, q)) if len(known) else math.nan
