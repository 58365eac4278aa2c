"""How long calls heard nothing around an event, and whether they came back. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weirlab.quality.packets import StreamPackets
from weirlab.quality.segments import I64, owner
from weirlab.records import F64

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
