"""How speech is packed: RTP, IAX2 mini frames, IAX2 trunk frames; what fits and what does not.

Frames are sizes of Ethernet frames with FCS, as everywhere. RTP has 12 B before the speech (RFC 3550
section 5.1), an IAX2 mini frame 4 B, a trunk frame 8 B and then 4 B per call (RFC 5456 section 8.1)
and 2 B at its end (``signalling.iax2.TRUNK_TAIL_BYTES``).
"""

from __future__ import annotations

import re
from typing import Final, Literal

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.base.units import FCS_BYTES, MIN_FRAME_BYTES
from weirlab.traffic.calls.codecs import (
    ETHERNET_BYTES,
    IP_BYTES,
    RTP_BYTES,
    UDP_BYTES,
    VoiceStream,
    describe_codec,
    parse_codec,
)
from weirlab.traffic.calls.signalling import PROBE_BYTES
from weirlab.traffic.calls.signalling.iax2 import FORMATS, MINI_BYTES, trunk_bytes

Transport = Literal["rtp", "iax2", "iax2-trunk"]
TRANSPORTS: Final[tuple[Transport, ...]] = ("rtp", "iax2", "iax2-trunk")

TITLES: Final[dict[Transport, str]] = {"rtp": "RTP", "iax2": "IAX2", "iax2-trunk": "IAX2 trunks"}

MAX_ETHERNET_BYTES: Final = 1518
"""Ethernet without jumbo frames: 1500 B of IP."""

_TRANSPORT: Final = re.compile(r"(?P<name>[a-z0-9-]+)(?:\*(?P<calls>\d{1,9}))?")


def parse_transport(text: str) -> tuple[Transport, int | None]:
    """Read a transport; ``iax2-trunk*8`` says how many calls share a packet.

    Raises
    ------
    InputError
        There is no such transport, or it carries one call per packet.
    """
    match = _TRANSPORT.fullmatch(text.strip().lower().replace(" ", ""))
    name = next((t for t in TRANSPORTS if match and t == match["name"]), None)
    if match is None or name is None:
        raise InputError(
            f"transport {quoted(text)} not understood; accepted are {', '.join(TRANSPORTS)}, and "
            "'iax2-trunk*8' for 8 calls in a packet"
        )
    if match["calls"] is None:
        return name, None
    if name != "iax2-trunk":
        raise InputError(f"transport {quoted(text)}: only iax2-trunk puts several calls into one packet")
    return name, int(match["calls"])


def behind_udp_bytes(stream: VoiceStream, transport: Transport, calls: int = 1) -> int:
    """Bytes behind UDP: headers of the transport and a packet time of ``calls`` calls."""
    match transport:
        case "rtp":
            return RTP_BYTES + stream.payload_bytes
        case "iax2":
            return MINI_BYTES + stream.payload_bytes
        case "iax2-trunk":
            return trunk_bytes(calls, stream.payload_bytes)


def frame_bytes(stream: VoiceStream, transport: Transport, calls: int = 1) -> int:
    """Ethernet frame with FCS that carries a packet time of ``calls`` calls, padded to 64 B."""
    return framed_bytes(behind_udp_bytes(stream, transport, calls), stream.ip)


def framed_bytes(udp_payload_bytes: int, ip: Literal[4, 6] = 4) -> int:
    """Ethernet frame with FCS around a UDP payload."""
    headers = ETHERNET_BYTES + IP_BYTES[ip] + UDP_BYTES
    return max(headers + udp_payload_bytes + FCS_BYTES, MIN_FRAME_BYTES)


def trunk_room(stream: VoiceStream) -> int:
    """How many calls fit into one trunk frame of at most 1518 B; 0 if not even one."""
    room = MAX_ETHERNET_BYTES - ETHERNET_BYTES - IP_BYTES[stream.ip] - UDP_BYTES - FCS_BYTES
    none, one = (trunk_bytes(calls, stream.payload_bytes) for calls in (0, 1))
    return (room - none) // (one - none)


def calls_per_packet(stream: VoiceStream, transport: Transport, trunk_calls: int | None = None) -> int:
    """1, or for trunks ``trunk_calls``; None means as many as fit."""
    if transport != "iax2-trunk":
        return 1
    return trunk_room(stream) if trunk_calls is None else trunk_calls


def check(stream: VoiceStream, transport: Transport, trunk_calls: int | None = None) -> None:
    """Raise ``InputError`` for the impossible: no such format, too large a frame, too many calls in it."""
    what = f"{describe_codec(stream)} over {TITLES[transport]}"
    if transport != "rtp" and stream.codec.name not in FORMATS:
        raise InputError(
            f"{what}: IAX2 has no number for {stream.codec.title} (RFC 5456, 8.7); use RTP, or one of "
            f"{', '.join(FORMATS)}"
        )
    if trunk_calls is not None and transport != "iax2-trunk":
        raise InputError(f"{what}: only iax2-trunk puts several calls into one packet")
    if trunk_calls is not None and trunk_calls < 1:
        raise InputError(f"{what}: {trunk_calls} calls in a trunk; 1 or more are possible")
    calls = max(calls_per_packet(stream, transport, trunk_calls), 1)
    frame = frame_bytes(stream, transport, calls)
    if frame > MAX_ETHERNET_BYTES:
        room = trunk_room(stream)
        way_out = (
            f"at most {room} calls fit into a packet"
            if transport == "iax2-trunk" and room
            else "shorten the packet time"
        )
        raise InputError(
            f"{what}: frames of {frame:,} B are longer than Ethernet's {MAX_ETHERNET_BYTES:,} B; {way_out}"
        )


def check_sendable(stream: VoiceStream) -> None:
    """Raise ``InputError`` if packets have no room for the probe that tells them apart."""
    if stream.payload_bytes >= PROBE_BYTES:
        return
    codec = stream.codec
    packet_ms = stream.packet_ms
    while codec.payload_bytes * packet_ms / codec.frame_ms < PROBE_BYTES:
        packet_ms += codec.frame_ms
    # Not every codec takes every number of frames.
    longer = next(ms for n in range(100) if (ms := _possible(stream, packet_ms + n * codec.frame_ms)))
    raise InputError(
        f"{stream.title} carry {stream.payload_bytes} B of speech; packets that are sent need room for "
        f"{PROBE_BYTES} B, which show the loss and delay of every packet. Packets of {longer:g} ms "
        "have it; shorter ones can be calculated, not sent"
    )


def _possible(stream: VoiceStream, packet_ms: float) -> float | None:
    try:
        text = f"{stream.codec.name}:{packet_ms:g}ms"
        return parse_codec(text).packet_ms
    except InputError:
        return None
