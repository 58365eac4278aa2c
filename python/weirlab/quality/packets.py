"""Every recorded packet of the media flows in its place, including those that never arrived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import TrialError
from weirlab.quality import segments
from weirlab.quality.segments import I64
from weirlab.records import FlowTable, PacketLog

BOOL = npt.NDArray[np.bool_]

LOST: Final = -1
"""Arrival time of a packet that did not arrive."""


@dataclass(frozen=True)
class PacketWindow:
    """The packets sent from ``from_ns`` until before ``to_ns``, CLOCK_MONOTONIC."""

    from_ns: int
    to_ns: int


@dataclass(frozen=True)
class StreamPackets:
    """Packets by stream, and in the order in which they were sent within each.

    Shapes: (streams,), ``start`` (streams + 1,): packets of stream ``i`` are rows ``start[i]`` to
    ``start[i + 1]``; per packet (packets,); ``arrived`` (arrivals,).
    """

    flow: I64
    """Flow of each stream, index into the flow table."""
    start: I64
    packet_ns: I64
    """Packet time of each stream."""
    sent_ns: I64
    """For lost packets from their neighbours: interpolated by sequence number, extrapolated by packet time
    at the ends."""
    arrival_ns: I64
    """Of the first copy; ``LOST`` if none arrived."""
    copies: npt.NDArray[np.uint32]
    """Copies beyond the first."""
    reordered: BOOL
    """Arrived after one that was sent later (RFC 4737)."""
    arrived: I64
    """Rows of the packets that arrived, by stream, in order of arrival."""
    arrived_start: I64
    """Where the streams start in ``arrived``."""
    timed: I64
    """Those of ``arrived`` whose own time of sending is known: only they give a delay."""
    timed_start: I64
    """Where the streams start in ``timed``."""

    @property
    def lost(self) -> BOOL:
        return np.asarray(self.arrival_ns == LOST)

    def within(self, window: PacketWindow | None) -> BOOL:
        """Which packets were sent in the window."""
        if window is None:
            return np.ones(len(self.sent_ns), dtype=np.bool_)
        return (self.sent_ns >= window.from_ns) & (self.sent_ns < window.to_ns)


def media_flows(log: PacketLog, flows: FlowTable) -> I64:
    """Flows that carried media in the recorded window."""
    return np.flatnonzero(log.call_flows.carries_media & (flows.sent > 0)).astype(np.int64)


def unroll(log: PacketLog, flows: FlowTable) -> StreamPackets:
    """Put the arrivals of a log into the places of the sent packets.

    Raises
    ------
    TrialError
        The log is incomplete, or has packets that were not sent in the recorded window.
    """
    if log.missed:
        raise TrialError(
            f"{log.missed:,} arrivals found no room in the packet log, so it says nothing about the "
            "quality of calls; make fewer calls or a shorter trial"
        )
    flow = media_flows(log, flows)
    stream_of = np.full(len(flows.sent), -1, dtype=np.int64)
    stream_of[flow] = np.arange(len(flow))
    start = segments.starts(flows.sent[flow].astype(np.int64))
    packet_ns = log.call_flows.packet_ns[flow].astype(np.int64)

    stream = stream_of[log.flow]
    media = stream >= 0
    stream = stream[media]
    place = log.seq[media].astype(np.int64) - log.first_seq.astype(np.int64)[flow][stream]
    if place.size and not np.all((place >= 0) & (place < np.diff(start)[stream])):
        wrong = int(np.flatnonzero((place < 0) | (place >= np.diff(start)[stream]))[0])
        raise TrialError(
            f"flow {int(flow[stream[wrong]])}: packet {int(log.seq[media][wrong])} is in the packet log, but "
            f"was not sent in the recorded window; the log does not belong to this flow table"
        )
    arrivals = PacketArrivals(
        stream=stream,
        row=start[stream] + place,
        sent_ns=log.sent_ns[media].astype(np.int64),
        arrival_ns=log.arrival_ns[media].astype(np.int64),
    )
    return place_all(arrivals, flow=flow, start=start, packet_ns=packet_ns)


@dataclass(frozen=True)
class PacketArrivals:
    """One element per packet that arrived, in order of arrival."""

    stream: I64
    row: I64
    """The packet's place among all that were sent, stream after stream."""
    sent_ns: I64
    arrival_ns: I64
    timed: BOOL | None = None
    """False if ``sent_ns`` is unknown and has to come from the neighbours; None: known everywhere."""


def place_all(came_in: PacketArrivals, *, flow: I64, start: I64, packet_ns: I64) -> StreamPackets:
    """Packets of streams from their arrivals.

    Streams are of ``flow``, begin at the rows ``start`` and have a packet every ``packet_ns``.
    """
    stream, row, timed = came_in.stream, came_in.row, came_in.timed
    n, arrivals = int(start[-1]), len(row)
    # If an index occurs twice, the last assignment wins: backwards, that is the first copy.
    first = np.full(n, -1, dtype=np.int64)
    first[row[::-1]] = np.arange(arrivals - 1, -1, -1)
    came = first >= 0
    copies = np.maximum(np.bincount(row, minlength=n) - 1, 0).astype(np.uint32)

    sent = np.zeros(n, dtype=np.int64)
    arrival = np.full(n, LOST, dtype=np.int64)
    sent[came] = came_in.sent_ns[first[came]]
    arrival[came] = came_in.arrival_ns[first[came]]

    known = came
    if timed is not None:
        known = came.copy()
        known[came] = timed[first[came]]
    original = np.flatnonzero(first[row] == np.arange(arrivals))
    # A stable sort of 16-bit numbers is a radix sort, several times faster.
    key = stream[original].astype(np.uint16) if len(start) <= 1 << 16 else stream[original]
    arrived = row[original[np.argsort(key, kind="stable")]]
    arrived_start = segments.starts(segments.total(came.astype(np.int64), start))
    tells = known[arrived]
    return StreamPackets(
        flow=flow,
        start=start,
        packet_ns=packet_ns,
        sent_ns=_interpolated(sent, known, start, packet_ns),
        arrival_ns=arrival,
        copies=copies,
        reordered=_reordered(arrived, arrived_start, n),
        arrived=arrived,
        arrived_start=arrived_start,
        timed=arrived[tells],
        timed_start=segments.starts(segments.total(tells.astype(np.int64), arrived_start)),
    )


def _reordered(arrived: I64, arrived_start: I64, n: int) -> BOOL:
    """RFC 4737, 3.3: less than the greatest sequence number before it.

    Rows ascend with the sequence number, and from stream to stream, so the greatest row so far
    restarts with each stream by itself.
    """
    found = np.zeros(n, dtype=np.bool_)
    if len(arrived):
        found[arrived[arrived < np.maximum.accumulate(arrived)]] = True
    return found


def _interpolated(sent: I64, is_known: BOOL, start: I64, packet_ns: I64) -> I64:
    """Sent times with the unknown ones filled in."""
    missing, known = np.flatnonzero(~is_known), np.flatnonzero(is_known)
    if not len(missing):
        return sent
    filled = sent.copy()
    stream = np.searchsorted(start, missing, side="right") - 1
    packet = packet_ns[stream]
    if not len(known):
        # Nothing at all arrived: time counts from the start of each stream.
        filled[missing] = (missing - start[stream]) * packet
        return filled
    after = np.searchsorted(known, missing)
    before = known[np.maximum(after - 1, 0)]
    behind = known[np.minimum(after, len(known) - 1)]
    has_before = (after > 0) & (before >= start[stream])
    has_behind = (after < len(known)) & (behind < start[stream + 1])
    both = has_before & has_behind
    share = (missing - before) / np.maximum(behind - before, 1)
    between = sent[before] + np.rint(share * (sent[behind] - sent[before])).astype(np.int64)
    filled[missing] = np.select(
        [both, has_before, has_behind],
        [
            between,
            sent[before] + (missing - before) * packet,
            sent[behind] - (behind - missing) * packet,
        ],
        # A stream of which nothing arrived: as if it had begun with the first recorded packet.
        default=int(sent[known].min()) + (missing - start[stream]) * packet,
    )
    return filled
