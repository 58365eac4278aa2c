"""How many calls a line carries.

On the wire a frame takes its own bytes (FCS included), a preamble of 8 B and a gap of 12 B
(IEEE 802.3, clause 4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from weirlab.base.units import bps_from_pps, pps_from_bps
from weirlab.traffic.calls import control
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.calls.transport import calls_per_packet, frame_bytes

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
