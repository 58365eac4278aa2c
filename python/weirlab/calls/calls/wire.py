"""What calls take on the wire: sizes, gaps, rates, and how many a line carries. Computed, nothing is sent.

Woernhard 2006 leaves out preamble and gap, and takes a gigabit as 2^30 bits: as many whole packets as fit,
with FCS, and as many calls as whole streams fit into these. His sizes are without FCS.

On the wire a frame takes its own bytes (FCS included), a preamble of 8 B and a gap of 12 B
(IEEE 802.3, clause 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Final

from weirlab.base.errors import InputError
from weirlab.base.units import FCS_BYTES, NS_PER_S, WIRE_OVERHEAD_BYTES, bps_from_pps, pps_from_bps
from weirlab.publications import publication
from weirlab.traffic.calls import control
from weirlab.traffic.calls.codecs import ETHERNET_BYTES, IP_BYTES, UDP_BYTES, describe_codec
from weirlab.traffic.calls.media import CONVERSATION_ACTIVITY, MONOLOGUE_ACTIVITY
from weirlab.traffic.calls.spec import CallClass, Calls, describe, validate
from weirlab.traffic.calls.transport import behind_udp_bytes, calls_per_packet, frame_bytes

KIND: Final = "calls"


@dataclass(frozen=True)
class WireLoad:
    """Packets in one direction or in both.

    ``frame_bps`` counts frames with FCS, ``wire_bps`` preamble and gap between frames as well.
    """

    rate_pps: float
    frame_bps: float
    wire_bps: float

    @classmethod
    def of(cls, rate_pps: float, size: int) -> WireLoad:
        """``rate_pps`` frames of ``size`` bytes."""
        return cls(rate_pps, rate_pps * size * 8, bps_from_pps(rate_pps, size))

    def times(self, factor: float) -> WireLoad:
        return WireLoad(self.rate_pps * factor, self.frame_bps * factor, self.wire_bps * factor)

    def plus(self, other: WireLoad) -> WireLoad:
        return WireLoad(
            self.rate_pps + other.rate_pps, self.frame_bps + other.frame_bps, self.wire_bps + other.wire_bps
        )

    def document(self, duration_s: float) -> dict[str, float]:
        """With the gap between packets and how many there are in ``duration_s``."""
        gap_ns = NS_PER_S / self.rate_pps if self.rate_pps else float("nan")
        return {"gap_ns": gap_ns, **asdict(self), "packets": round(self.rate_pps * duration_s)}


@dataclass(frozen=True)
class ClassSheet:
    """What the calls of one kind take."""

    kind: CallClass
    calls: float
    """How many of all."""
    calls_per_packet: int
    frame_bytes: int
    """With FCS."""
    header_bytes: dict[str, int]
    media: WireLoad
    """Per direction."""
    control: WireLoad
    """RTCP per direction; zero without RTCP."""
    line: LineCapacity
    published: PublishedLine

    def document(self, duration_s: float) -> dict[str, Any]:
        stream = self.kind.stream
        return {
            "codec": describe_codec(stream),
            "title": stream.title,
            "transport": self.kind.transport,
            "share": self.kind.share,
            "calls": self.calls,
            "packet_ms": stream.packet_ms,
            "payload_bytes": stream.payload_bytes,
            "calls_per_packet": self.calls_per_packet,
            "header_bytes": {**self.header_bytes, "total": sum(self.header_bytes.values())},
            "frame_bytes": self.frame_bytes,
            "frame_bytes_without_fcs": self.frame_bytes - FCS_BYTES,
            "wire_bytes": self.frame_bytes + WIRE_OVERHEAD_BYTES,
            "per_direction": self.media.document(duration_s),
            "rtcp_per_direction": self.control.document(duration_s) if self.control.rate_pps else None,
            "line": asdict(self.line),
            "published": asdict(self.published),
        }


@dataclass(frozen=True)
class CallSheet:
    """What calls take on the wire, computed."""

    calls: Calls
    duration_s: float
    line_bps: float
    classes: tuple[ClassSheet, ...]
    line_calls: int
    """How many calls in these proportions the line carries, control packets included."""

    @property
    def directions(self) -> int:
        return 2 if self.calls.directions == "both" else 1

    @property
    def activity(self) -> float:
        """Share of the time in which speech is sent; 1 without silences."""
        if not self.calls.spurts:
            return 1.0
        return CONVERSATION_ACTIVITY if self.directions == 2 else MONOLOGUE_ACTIVITY

    @property
    def media(self) -> WireLoad:
        """Speech in one direction, while everybody talks."""
        return _sum(each.media for each in self.classes)

    @property
    def control(self) -> WireLoad:
        """RTCP in one direction."""
        return _sum(each.control for each in self.classes)

    @property
    def mean_frame_bytes(self) -> float:
        """Of frames with speech, FCS included."""
        return self.media.frame_bps / self.media.rate_pps / 8

    @property
    def published(self) -> tuple[int, int]:
        """Packets/s and calls in these proportions of a line by the published definition."""
        if len(self.classes) == 1:
            only = self.classes[0].published
            return only.max_pps, only.calls
        max_pps = int(published_bytes_per_s() // self.mean_frame_bytes)
        return max_pps, int(max_pps * self.calls.count // self.media.rate_pps)

    @property
    def line_share(self) -> float:
        """Part of the line that they take in a direction, RTCP included."""
        return self.media.plus(self.control).wire_bps / self.line_bps

    def document(self) -> dict[str, Any]:
        total = self.media.times(self.directions)
        silences = {
            "activity": self.activity,
            "mean_per_direction": self.media.times(self.activity).document(self.duration_s),
            "mean_total": total.times(self.activity).document(self.duration_s),
        }
        return {
            "kind": KIND,
            "description": describe(self.calls),
            "calls": self.calls.count,
            "directions": self.calls.directions,
            "duration_s": self.duration_s,
            "mean_frame_bytes": self.mean_frame_bytes,
            "classes": [each.document(self.duration_s) for each in self.classes],
            "per_direction": self.media.document(self.duration_s),
            "total": total.document(self.duration_s),
            **(silences if self.calls.spurts else {}),
            "rtcp_per_direction": self.control.document(self.duration_s) if self.control.rate_pps else None,
            "line": {
                "line_bps": self.line_bps,
                "calls_with_control": self.line_calls,
                "share": self.line_share,
            },
            "published": dict(zip(("max_pps", "calls"), self.published, strict=True)),
        }


def calls_sheet(calls: Calls, *, duration_s: float, line_bps: float) -> CallSheet:
    """Compute what ``calls`` take; nothing is sent.

    Raises
    ------
    InputError
        The calls or their duration are impossible.
    """
    validate(calls)
    if not 0 < duration_s < float("inf"):
        raise InputError(f"duration of {duration_s:g} s: it must be above 0 s")
    return CallSheet(
        calls,
        duration_s,
        line_bps,
        tuple(_class_sheet(kind, calls, line_bps) for kind in calls.classes),
        line_calls(calls, line_bps),
    )


def _class_sheet(kind: CallClass, calls: Calls, line_bps: float) -> ClassSheet:
    stream, count = kind.stream, kind.share * calls.count
    per_packet = calls_per_packet(stream, kind.transport, kind.trunk_calls)
    size = frame_bytes(stream, kind.transport, per_packet)
    control_pps = 0.0
    if calls.rtcp and kind.transport == "rtp":
        directions = 2 if calls.directions == "both" else 1
        control_pps = count / control.interval_s(stream, directions=directions, least_s=calls.rtcp_min_s)
    behind_udp = behind_udp_bytes(stream, kind.transport, per_packet)
    return ClassSheet(
        kind,
        count,
        per_packet,
        size,
        {
            "ethernet": ETHERNET_BYTES,
            "ip": IP_BYTES[stream.ip],
            "udp": UDP_BYTES,
            kind.transport: behind_udp - per_packet * stream.payload_bytes,
        },
        WireLoad.of(count * stream.rate_pps / per_packet, size),
        WireLoad.of(control_pps, control.frame_bytes(stream.ip)),
        line(kind, line_bps, rtcp=calls.rtcp, rtcp_min_s=calls.rtcp_min_s),
        published_line(kind),
    )


def _sum(loads: Iterable[WireLoad]) -> WireLoad:
    total = WireLoad(0.0, 0.0, 0.0)
    for load in loads:
        total = total.plus(load)
    return total


@dataclass(frozen=True)
class PublishedLine:
    """A row of the table; ``frame_bytes`` is without FCS."""

    frame_bytes: int
    max_pps: int
    calls: int


@cache
def published_bytes_per_s() -> int:
    """Bytes of the published gigabit in a second."""
    return int(publication("woernhard-2006").experiments["codec-table"].settings["gigabit_bytes_per_s"])


def published_line(kind: CallClass) -> PublishedLine:
    """The row of calls like ``kind``; trunks are counted in the same way, though the table has none."""
    per_packet = calls_per_packet(kind.stream, kind.transport, kind.trunk_calls)
    size = frame_bytes(kind.stream, kind.transport, per_packet)
    max_pps = published_bytes_per_s() // size
    streams = math.floor(max_pps / kind.stream.rate_pps * (1 + 1e-12))
    return PublishedLine(size - FCS_BYTES, max_pps, streams * per_packet)


LINES: Final[tuple[str, ...]] = ("10Mbit/s", "100Mbit/s", "1Gbit/s", "10Gbit/s", "25Gbit/s", "100Gbit/s")


@dataclass(frozen=True)
class LineCapacity:
    """What a line carries of one kind of call.

    A two-way call has one stream in each direction, and a full-duplex link has the line rate in each:
    ``calls`` is the number for one-way and for two-way calls alike, ``max_pps`` is per direction,
    ``both_pps`` the rate of a device that forwards both directions.
    """

    line_bps: float
    frame_bytes: int
    """With FCS."""
    max_pps: float
    both_pps: float
    calls: int
    calls_with_control: int
    """With the RTCP packets of each stream on the line; the same as ``calls`` if there are none."""


def line(kind: CallClass, line_bps: float, *, rtcp: bool = True, rtcp_min_s: float = 5.0) -> LineCapacity:
    """What an Ethernet line of ``line_bps`` carries of calls like ``kind``."""
    per_packet = calls_per_packet(kind.stream, kind.transport, kind.trunk_calls)
    size = frame_bytes(kind.stream, kind.transport, per_packet)
    max_pps = pps_from_bps(line_bps, size)
    calls = _whole(max_pps / kind.stream.rate_pps) * per_packet
    control_bps = _control_bps(kind, rtcp_min_s) if rtcp else 0.0
    call_bps = bps_from_pps(kind.stream.rate_pps, size) + control_bps
    return LineCapacity(
        line_bps=line_bps,
        frame_bytes=size,
        max_pps=max_pps,
        both_pps=2 * max_pps,
        calls=calls,
        calls_with_control=_whole(line_bps / call_bps) if control_bps else calls,
    )


def line_calls(calls: Calls, line_bps: float) -> int:
    """How many calls in the proportions of ``calls`` an Ethernet line carries, RTCP included."""
    bps = 0.0
    for kind in calls.classes:
        per_packet = calls_per_packet(kind.stream, kind.transport, kind.trunk_calls)
        size = frame_bytes(kind.stream, kind.transport, per_packet)
        bps += kind.share * bps_from_pps(kind.stream.rate_pps / per_packet, size)
        bps += kind.share * (_control_bps(kind, calls.rtcp_min_s) if calls.rtcp else 0.0)
    return _whole(line_bps / bps)


def _control_bps(kind: CallClass, rtcp_min_s: float) -> float:
    """Wire rate of the control packets of one direction of one call."""
    if kind.transport != "rtp":
        return 0.0
    pps = 1 / control.interval_s(kind.stream, directions=2, least_s=rtcp_min_s)
    return bps_from_pps(pps, control.frame_bytes(kind.stream.ip))


def _whole(calls: float) -> int:
    # A line that is exactly full carries its last call despite rounding.
    return math.floor(calls * (1 + 1e-12))
