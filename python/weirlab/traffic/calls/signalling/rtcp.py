"""Control packets beside RTP (RFC 3550 section 6): sender report, CNAME and Weir's own APP packet.

Every compound packet ends with an APP packet named ``WEIR`` (RFC 3550 section 6.7), whose data end
with the probe; receivers that do not know the name ignore it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Literal

from weirlab.base.errors import InputError
from weirlab.base.units import FCS_BYTES
from weirlab.traffic.calls.codecs import ETHERNET_BYTES, IP_BYTES, UDP_BYTES
from weirlab.traffic.calls.signalling import ORIGIN_UNIX_S, PROBE_BYTES

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
