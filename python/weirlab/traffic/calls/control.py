"""RTCP: how often each side of a call sends control packets, and what they say (RFC 3550 section 6).

All control packets together may take 5 % of the session bandwidth, lower layers down to IP included
(section 6.2). A call is a session of two members of whom both or one send, so both share
the bandwidth equally, and each sends on average every
``max(least, 2 * size / (0.05 * bandwidth))`` seconds (section 6.3.1).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.units import NS_PER_S
from weirlab.traffic.calls.codecs import IP_BYTES, RTP_BYTES, UDP_BYTES, VoiceStream
from weirlab.traffic.calls.signalling import rtcp
from weirlab.traffic.calls.transport import framed_bytes

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

PACKET_BYTES: Final = 128
"""A control packet over IPv4, IP included."""

_UDP_PAYLOAD_BYTES: Final = PACKET_BYTES - IP_BYTES[4] - UDP_BYTES
_MEMBERS: Final = 2
_SHARE: Final = 0.05

# Section 6.3.1: a sender draws 0.5 to 1.5 times the mean. It draws again when the time has come, and
# waits longer if the new draw is later (6.3.6), so its final wait is the last of an ascending run of
# draws. For u uniform in 0 to 1 that has the distribution 1 + (u - 1) e^u, and 0.5 + u the mean e - 1.5,
# by which the standard therefore divides.
_DRAW: Final[F64] = np.linspace(0.0, 1.0, 8193)
_BELOW: Final[F64] = 1 + (_DRAW - 1) * np.exp(_DRAW)
_COMPENSATION: Final = math.e - 1.5

# Sender report, the first part of a packet (section 6.4.1): NTP time, RTP time, packets, octets.
_FIELDS: Final = struct.Struct(">QIII")
_FIELDS_AT: Final = 8


def frame_bytes(ip: Literal[4, 6]) -> int:
    """Ethernet frame with FCS of a control packet."""
    return framed_bytes(_UDP_PAYLOAD_BYTES, ip)


def session_bytes_per_s(stream: VoiceStream, directions: int) -> float:
    """Session bandwidth in bytes/s: RTP of all senders, down to IP."""
    packet = IP_BYTES[stream.ip] + UDP_BYTES + RTP_BYTES + stream.payload_bytes
    return directions * stream.rate_pps * packet


def interval_s(stream: VoiceStream, directions: int, least_s: float) -> float:
    """Mean time between the control packets of one side of a call."""
    packet = IP_BYTES[stream.ip] + UDP_BYTES + _UDP_PAYLOAD_BYTES
    fair_s = _MEMBERS * packet / (_SHARE * session_bytes_per_s(stream, directions))
    return max(fair_s, least_s)


def waits(shape: tuple[int, ...], rng: np.random.Generator) -> F64:
    """Times between control packets in units of their mean."""
    drawn: F64 = 0.5 + np.interp(rng.random(shape), _BELOW, _DRAW)
    return drawn / _COMPENSATION


@dataclass(frozen=True)
class ControlPackets:
    """Control packets; shapes (packets,). ``side`` is the row in the arguments of :func:`departures`."""

    side: I64
    due_ns: I64


def departures(
    begin_ns: I64,
    end_ns: I64,
    mean_ns: I64,
    begins: npt.NDArray[np.bool_],
    horizon_ns: int,
    rng: np.random.Generator,
) -> ControlPackets:
    """When control packets leave, before ``horizon_ns``; arguments have shape (sides,).

    A side that ``begins`` a call sends its first one after half the usual time (section 6.3.2); when the
    others last sent one is unknown.
    """
    n = len(begin_ns)
    if n == 0:
        return ControlPackets(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    # Long enough ago that the times between packets no longer depend on their start.
    lead = np.where(begins, 0.0, 4 + rng.random(n))
    stop_ns = np.minimum(end_ns, horizon_ns)
    wanted = float(np.max((stop_ns - begin_ns) / mean_ns + lead, initial=0.0))
    columns = math.ceil(wanted + 4 * math.sqrt(wanted)) + 6
    spans = waits((n, columns), rng)
    while float(spans.sum(axis=1).min()) < wanted:
        columns *= 2
        spans = waits((n, columns), rng)
    spans[begins, 0] /= 2
    due = np.rint((np.cumsum(spans, axis=1) - lead[:, None]) * mean_ns[:, None]).astype(np.int64)
    due += begin_ns[:, None]
    side, packet = np.nonzero((due >= begin_ns[:, None]) & (due < stop_ns[:, None]))
    return ControlPackets(side, due[side, packet])


def payloads(
    reports: ControlPackets,
    ssrc: npt.NDArray[np.uint32],
    cnames: list[str],
    stamp: I64,
    packets: I64,
    octets: I64,
) -> list[bytes]:
    """Bytes behind UDP of each packet, with room for the probe at the end.

    ``ssrc`` and ``cnames`` are those of the sides; ``stamp`` (RTP time of the instant), ``packets`` and
    ``octets`` (sent so far) those of the packets. The packets of a side differ only in these and the time,
    so each side's packet is built once.
    """
    built: dict[int, tuple[bytes, int, bytes]] = {}
    out = []
    ntp = np.rint(reports.due_ns * ((1 << 32) / NS_PER_S)).astype(np.int64)
    rows = zip(
        reports.side.tolist(), ntp.tolist(), stamp.tolist(), packets.tolist(), octets.tolist(), strict=True
    )
    for side, since, rtp_time, sent, spoken in rows:
        if side not in built:
            size = max(_UDP_PAYLOAD_BYTES, rtcp.compound_bytes(len(cnames[side]), 0))
            whole = rtcp.compound(int(ssrc[side]), cnames[side], size_bytes=size)
            (start, *_) = _FIELDS.unpack_from(whole, _FIELDS_AT)
            built[side] = whole[:_FIELDS_AT], start, whole[_FIELDS_AT + _FIELDS.size :]
        head, start, tail = built[side]
        fields = _FIELDS.pack(
            (start + since) & 0xFFFFFFFFFFFFFFFF,
            rtp_time & 0xFFFFFFFF,
            sent & 0xFFFFFFFF,
            spoken & 0xFFFFFFFF,
        )
        out.append(head + fields + tail)
    return out
