"""RTCP: how often each side of a call sends control packets, and what they say (RFC 3550 section 6).

All control packets together may take 5 % of the session bandwidth, lower layers down to IP included
(section 6.2). A call is a session of two members of whom both or one send, so both share
the bandwidth equally, and each sends on average every
``max(least, 2 * size / (0.05 * bandwidth))`` seconds (section 6.3.1).

Every compound packet ends with an APP packet named ``WEIR`` (RFC 3550 section 6.7), whose data end
with the probe; receivers that do not know the name ignore it.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.units import FCS_BYTES, NS_PER_S
from weirlab.traffic.calls.codecs import ETHERNET_BYTES, IP_BYTES, RTP_BYTES, UDP_BYTES, VoiceStream
from weirlab.traffic.calls.signalling import ORIGIN_UNIX_S, PROBE_BYTES
from weirlab.traffic.calls.transport import framed_bytes

SENDER_REPORT: Final = 200
SOURCE_DESCRIPTION: Final = 202
APP: Final = 204
_CNAME: Final = 1

FRAME_BYTES: Final = 128
"""Usual size of a control packet's Ethernet frame, FCS included."""

_SR_BYTES: Final = 28
_BLOCK_BYTES: Final = 24
_SDES_HEAD_BYTES: Final = 10  # header, SSRC, type and length of the item
_APP_BYTES: Final = 12 + PROBE_BYTES + 2  # APP data are whole words of 32 bit

# NTP counts from 1900.
_NTP_ORIGIN_S: Final = ORIGIN_UNIX_S + 2_208_988_800


@dataclass(frozen=True)
class Report:
    """A reception report block (RFC 3550 section 6.4.1) about the stream of ``ssrc``.

    ``loss_ratio`` (0-1) is that since the last report; ``delay_since_ms`` counts from the last
    sender report of that stream, which said ``last_sr_ms`` (time of the schedule; None: none yet).
    """

    ssrc: int
    loss_ratio: float = 0.0
    lost: int = 0
    highest_sequence: int = 0
    jitter_units: int = 0
    last_sr_ms: float | None = None
    delay_since_ms: float = 0.0


@dataclass(frozen=True)
class SenderInfo:
    """What a sender reports about itself (RFC 3550 section 6.4.1)."""

    at_ms: float = 0.0
    """Departure, in the time of the schedule; becomes the NTP time stamp."""
    rtp_stamp: int = 0
    """The same instant on the clock of the RTP time stamps."""
    packets: int = 0
    """RTP packets sent so far."""
    octets: int = 0
    """Octets of speech sent so far."""


NOTHING_SENT: Final = SenderInfo()


def compound(
    ssrc: int,
    cname: str,
    info: SenderInfo = NOTHING_SENT,
    *,
    reports: tuple[Report, ...] = (),
    size_bytes: int | None = None,
) -> bytes:
    """The bytes behind UDP; the last 18 of them are zero and for the probe.

    Parameters
    ----------
    ssrc, cname
        Whose report it is; ``cname`` such as ``c17@198.18.0.5`` in ASCII, at most 255 characters.
    info
        When it is sent, and what was sent before.
    reports
        Reports about received streams, at most 31.
    size_bytes
        Wanted size, see :func:`compound_bytes`; a larger APP packet fills it. None: as small as possible.

    Raises
    ------
    InputError
        The packet does not fit into ``size_bytes``, or that is not a multiple of 4.
    """
    sr = _words(
        SENDER_REPORT,
        len(reports),
        struct.pack(
            ">IQIII",
            ssrc,
            _ntp(info.at_ms),
            info.rtp_stamp & 0xFFFFFFFF,
            info.packets & 0xFFFFFFFF,
            info.octets & 0xFFFFFFFF,
        )
        + b"".join(map(_block, reports)),
    )
    name = cname.encode("ascii")
    item = struct.pack(">IBB", ssrc, _CNAME, len(name)) + name
    # A chunk ends with one to four zero bytes (RFC 3550 section 6.5).
    sdes = _words(SOURCE_DESCRIPTION, 1, item + bytes(4 - len(item) % 4))
    least = len(sr) + len(sdes) + _APP_BYTES
    size = least if size_bytes is None else size_bytes
    if size < least or size % 4:
        raise InputError(
            f"control packets of {size} B: RTCP needs a multiple of 4, and here at least {least} B "
            f"(sender report, {len(reports)} report blocks, CNAME of {len(name)} characters, probe)"
        )
    app = _words(APP, 0, struct.pack(">I", ssrc) + b"WEIR" + bytes(_APP_BYTES - 12 + size - least))
    return sr + sdes + app


def compound_bytes(
    cname_length: int, frame_bytes: int = FRAME_BYTES, *, reports: int = 0, ip: Literal[4, 6] = 4
) -> int:
    """Size behind UDP that comes closest to an Ethernet frame of ``frame_bytes`` from below.

    If that is too small for the packet's parts, the smallest size that holds them.
    """
    room = frame_bytes - FCS_BYTES - ETHERNET_BYTES - IP_BYTES[ip] - UDP_BYTES
    sdes = -(-(_SDES_HEAD_BYTES + cname_length + 1) // 4) * 4
    least = _SR_BYTES + _BLOCK_BYTES * reports + sdes + _APP_BYTES
    return max(room // 4 * 4, least)


def _words(kind: int, count: int, content: bytes) -> bytes:
    """One RTCP packet; its length field counts words of 32 bit without the first."""
    return struct.pack(">BBH", 0x80 | count, kind, len(content) // 4) + content


def _block(report: Report) -> bytes:
    last, delay = 0, 0
    if report.last_sr_ms is not None:
        last = _ntp(report.last_sr_ms) >> 16 & 0xFFFFFFFF
        delay = round(report.delay_since_ms * 65.536)
    fraction = min(int(report.loss_ratio * 256), 255)
    return struct.pack(
        ">IIIIII",
        report.ssrc,
        fraction << 24 | min(report.lost, 0x7FFFFF),
        report.highest_sequence & 0xFFFFFFFF,
        report.jitter_units,
        last,
        delay,
    )


def _ntp(at_ms: float) -> int:
    """64-bit NTP time stamp, 32 bits of it fraction."""
    return (_NTP_ORIGIN_S << 32) + round(at_ms / 1e3 * (1 << 32)) & 0xFFFFFFFFFFFFFFFF


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
            size = max(_UDP_PAYLOAD_BYTES, compound_bytes(len(cnames[side]), 0))
            whole = compound(int(ssrc[side]), cnames[side], size_bytes=size)
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
