"""Calls as traffic: what a codec's packets look like on the wire, and how many there are.

A voice stream is RTP over UDP over IP in Ethernet frames. Headers: RTP 12 B (RFC 3550),
UDP 8 B, IP 20 B or 40 B, Ethernet 14 B, and the frame check sequence, 4 B, which frame
sizes here always include.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from weirlab.errors import InputError
from weirlab.units import FCS_BYTES, MAX_FRAME_BYTES, MIN_FRAME_BYTES

RTP_BYTES: Final = 12
UDP_BYTES: Final = 8
IP_BYTES: Final[dict[Literal[4, 6], int]] = {4: 20, 6: 40}
ETHERNET_BYTES: Final = 14


@dataclass(frozen=True)
class Codec:
    """A speech codec: every ``frame_ms`` it gives ``payload_bytes``; a packet holds whole frames."""

    name: str
    title: str
    frame_ms: float
    payload_bytes: float
    packet_ms: float
    """Usual packet time."""
    source: str

    @property
    def bit_rate_bps(self) -> float:
        """Of the payload alone."""
        return self.payload_bytes * 8e3 / self.frame_ms


# RFC 3551 section 4.5 gives frames and payloads of all but the last three.
CODECS: Final[tuple[Codec, ...]] = (
    Codec("g711", "G.711", 1, 8, 20, "RFC 3551, 4.5.14"),
    Codec("g722", "G.722", 1, 8, 20, "RFC 3551, 4.5.2"),
    Codec("g726-32", "G.726 at 32 kbit/s", 1, 4, 20, "RFC 3551, 4.5.4"),
    Codec("g729", "G.729", 10, 10, 20, "RFC 3551, 4.5.6"),
    Codec("g723.1-6.3", "G.723.1 at 6.3 kbit/s", 30, 24, 30, "RFC 3551, 4.5.3"),
    Codec("g723.1-5.3", "G.723.1 at 5.3 kbit/s", 30, 20, 30, "RFC 3551, 4.5.3"),
    Codec("gsm", "GSM full rate", 20, 33, 20, "RFC 3551, 4.5.8"),
    Codec("ilbc-20", "iLBC, 20 ms frames", 20, 38, 20, "RFC 3951"),
    Codec("ilbc-30", "iLBC, 30 ms frames", 30, 50, 30, "RFC 3951"),
    # 32 kbit/s lies in the middle of what RFC 6716 section 2.1.1 gives for full-band speech.
    Codec("opus", "Opus", 2.5, 10, 20, "RFC 6716, 2.1.1; RFC 7587"),
)
"""Every codec; Opus alone has no bit rate of its own."""

_OPUS_BPS: Final = (6_000, 510_000)
_OPUS_PACKETS_MS: Final = (2.5, 5, 10, 20, 40, 60, 80, 100, 120)
_LONGEST_MS: Final = 200

_TEXT: Final = re.compile(
    r"(?P<name>[a-z0-9.\-]+?)(?:@(?P<rate>\d+(?:\.\d+)?)(?P<kilo>k?)(?:bit/s|bps)?)?"
    r"(?::(?P<packet>\d+(?:\.\d+)?)(?:ms)?)?"
)

ACCEPTED: Final = "'g711', 'g729:40ms' (packet time), 'opus@24kbit/s' or 'opus@24kbit/s:60ms'"


@dataclass(frozen=True)
class VoiceStream:
    """One direction of a call."""

    codec: Codec
    packet_ms: float
    ip: Literal[4, 6] = 4

    @property
    def payload_bytes(self) -> int:
        """Speech per packet; Opus at an odd bit rate is rounded up."""
        return math.ceil(self.codec.payload_bytes * self.packet_ms / self.codec.frame_ms - 1e-9)

    @property
    def frame_bytes(self) -> int:
        """Ethernet frame with FCS, padded to the least that Ethernet takes."""
        headers = ETHERNET_BYTES + IP_BYTES[self.ip] + UDP_BYTES + RTP_BYTES
        return max(headers + self.payload_bytes + FCS_BYTES, MIN_FRAME_BYTES)

    @property
    def rate_pps(self) -> float:
        """Packets per second while someone speaks; silence suppression is not counted on."""
        return 1e3 / self.packet_ms

    @property
    def title(self) -> str:
        """``G.711 in packets of 20 ms``."""
        return f"{self.codec.title} in packets of {self.packet_ms:g} ms"

    def calls_pps(self, calls: float, directions: int = 2) -> float:
        """Packets per second of ``calls`` calls; a two-way call is two streams."""
        return calls * directions * self.rate_pps


def parse_codec(text: str, ip: Literal[4, 6] = 4) -> VoiceStream:
    """Read a codec with its packet time, and for Opus its bit rate.

    Raises
    ------
    InputError
        There is no such codec, or it does not come at this bit rate or in such packets.
    """
    plain = text.strip().lower().replace(" ", "").replace("g.7", "g7")
    match = _TEXT.fullmatch(plain)
    codec = next((c for c in CODECS if match and c.name == match["name"]), None)
    if match is None or codec is None:
        known = ", ".join(c.name for c in CODECS)
        raise InputError(f"codec '{text}' not understood; codecs are {known}; forms are {ACCEPTED}")
    if match["rate"]:
        codec = _at_rate(codec, float(match["rate"]) * (1e3 if match["kilo"] else 1), text)
    packet_ms = float(match["packet"]) if match["packet"] else codec.packet_ms
    frames = packet_ms / codec.frame_ms
    if packet_ms > _LONGEST_MS or frames < 1 or frames != round(frames):
        raise InputError(
            f"codec '{text}': packets of {codec.title} last a multiple of {codec.frame_ms:g} ms, "
            f"at most {_LONGEST_MS} ms"
        )
    if codec.name == "opus" and packet_ms not in _OPUS_PACKETS_MS:
        listed = ", ".join(f"{ms:g}" for ms in _OPUS_PACKETS_MS)
        raise InputError(f"codec '{text}': packets of Opus last {listed} ms")
    stream = VoiceStream(codec, packet_ms, ip)
    if stream.frame_bytes > MAX_FRAME_BYTES:
        raise InputError(f"codec '{text}' would need frames of {stream.frame_bytes} B; shorten the packets")
    return stream


def _at_rate(codec: Codec, bit_rate_bps: float, text: str) -> Codec:
    if codec.name != "opus":
        raise InputError(
            f"codec '{text}': {codec.title} has {codec.bit_rate_bps:g} bit/s; only Opus has a choice"
        )
    low, high = _OPUS_BPS
    if not low <= bit_rate_bps <= high:
        raise InputError(f"codec '{text}': Opus has {low:,} to {high:,} bit/s (RFC 6716)")
    return replace(
        codec,
        title=f"Opus at {bit_rate_bps / 1e3:g} kbit/s",
        payload_bytes=bit_rate_bps * codec.frame_ms / 8e3,
    )
