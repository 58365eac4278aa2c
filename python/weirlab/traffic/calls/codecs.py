"""Codecs: what their packets look like on the wire, and how many there are.

A voice stream is RTP over UDP over IP in Ethernet frames. Headers: RTP 12 B (RFC 3550),
UDP 8 B, IP 20 B or 40 B, Ethernet 14 B, and the frame check sequence, 4 B, which frame
sizes here always include.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.base.units import FCS_BYTES, MAX_FRAME_BYTES, MIN_FRAME_BYTES

RTP_BYTES: Final = 12
UDP_BYTES: Final = 8
IP_BYTES: Final[dict[Literal[4, 6], int]] = {4: 20, 6: 40}
ETHERNET_BYTES: Final = 14


@dataclass(frozen=True)
class Codec:
    """A speech codec: it produces ``payload_bytes`` every ``frame_ms``; a packet has whole frames."""

    name: str
    title: str
    frame_ms: float
    payload_bytes: float
    packet_ms: float
    """Usual packet time."""
    source: str
    payload_type: int = 0
    """In RTP headers: the static one of RFC 3551 table 4, or its own one of the dynamic range."""
    encoding: str = ""
    """As in ``a=rtpmap`` of SDP: name and RTP clock rate, ``PCMU/8000``."""
    wideband: bool = False
    """Carries more than the telephone band."""
    filler: str = "00"
    """Bytes in hex, repeated to fill packets: silence, if the codec has a simple code for it."""

    @property
    def bit_rate_bps(self) -> float:
        """Of the payload alone."""
        return self.payload_bytes * 8e3 / self.frame_ms

    @property
    def rtp_clock_hz(self) -> int:
        """Rate at which RTP time stamps count; for G.722 half its sample rate (RFC 3551, 4.5.2)."""
        return int(self.encoding.split("/")[1])


# A frame of silence.
_GSM_SILENCE: Final = "d820a2e15a" + "50004924924924" * 4

# RFC 3551 section 4.5 gives frames and payloads of all but the last three. Where it leaves the payload
# type open, each codec has its own, so that a mix of codecs cannot be misread.
CODECS: Final[tuple[Codec, ...]] = (
    Codec("g711", "G.711", 1, 8, 20, "RFC 3551, 4.5.14", 0, "PCMU/8000", filler="ff"),
    Codec("g722", "G.722", 1, 8, 20, "RFC 3551, 4.5.2", 9, "G722/8000", wideband=True),
    # A G.726 code word of ones is the smallest step.
    Codec("g726-16", "G.726 at 16 kbit/s", 1, 2, 20, "RFC 3551, 4.5.4", 96, "G726-16/8000", filler="ff"),
    Codec("g726-24", "G.726 at 24 kbit/s", 1, 3, 20, "RFC 3551, 4.5.4", 97, "G726-24/8000", filler="ff"),
    Codec("g726-32", "G.726 at 32 kbit/s", 1, 4, 20, "RFC 3551, 4.5.4", 98, "G726-32/8000", filler="ff"),
    Codec("g726-40", "G.726 at 40 kbit/s", 1, 5, 20, "RFC 3551, 4.5.4", 99, "G726-40/8000", filler="ff"),
    Codec("g729", "G.729", 10, 10, 20, "RFC 3551, 4.5.6", 18, "G729/8000"),
    Codec("g723.1-6.3", "G.723.1 at 6.3 kbit/s", 30, 24, 30, "RFC 3551, 4.5.3", 4, "G723/8000"),
    Codec("g723.1-5.3", "G.723.1 at 5.3 kbit/s", 30, 20, 30, "RFC 3551, 4.5.3", 4, "G723/8000"),
    Codec("gsm", "GSM full rate", 20, 33, 20, "RFC 3551, 4.5.8", 3, "GSM/8000", filler=_GSM_SILENCE),
    Codec("ilbc-20", "iLBC, 20 ms frames", 20, 38, 20, "RFC 3951", 102, "iLBC/8000"),
    Codec("ilbc-30", "iLBC, 30 ms frames", 30, 50, 30, "RFC 3951", 103, "iLBC/8000"),
    # 32 kbit/s lies in the middle of what RFC 6716 section 2.1.1 gives for full-band speech.
    Codec(
        "opus", "Opus", 2.5, 10, 20, "RFC 6716, 2.1.1; RFC 7587", 111, "opus/48000/2", wideband=True
    ),
)  # fmt: skip
"""Every codec; Opus alone has no bit rate of its own."""

ALIASES: Final[dict[str, str]] = {
    "gsm-fast": "gsm:20ms",
    "gsm-slow": "gsm:40ms",
    "g726": "g726-32",
    "g723.1": "g723.1-6.3",
    "ilbc": "ilbc-30",
}
"""Other names; GSM fast and slow are those of the published table of calls per line."""

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
        """Ethernet frame with FCS, padded to Ethernet's minimum."""
        headers = ETHERNET_BYTES + IP_BYTES[self.ip] + UDP_BYTES + RTP_BYTES
        return max(headers + self.payload_bytes + FCS_BYTES, MIN_FRAME_BYTES)

    @property
    def rate_pps(self) -> float:
        """Packets per second while someone speaks; silence suppression is not assumed."""
        return 1e3 / self.packet_ms

    @property
    def packet_ns(self) -> int:
        """Packet time in ns, which is whole for every codec."""
        return round(self.packet_ms * 1e6)

    @property
    def stamp_units(self) -> int:
        """By how much RTP time stamps of consecutive packets differ."""
        return round(self.codec.rtp_clock_hz * self.packet_ms / 1e3)

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
        There is no such codec, or it does not have this bit rate or packet time.
    """
    plain = text.strip().lower().replace(" ", "").replace("g.7", "g7")
    plain = ALIASES.get(plain, plain)
    match = _TEXT.fullmatch(plain)
    if match and match["name"] in ALIASES and ":" not in ALIASES[match["name"]]:
        match = _TEXT.fullmatch(ALIASES[match["name"]] + plain.removeprefix(match["name"]))
    codec = next((c for c in CODECS if match and c.name == match["name"]), None)
    if match is None or codec is None:
        known = ", ".join(c.name for c in CODECS)
        raise InputError(f"codec {quoted(text)} not understood; codecs are {known}; forms are {ACCEPTED}")
    if match["rate"]:
        codec = _at_rate(codec, float(match["rate"]) * (1e3 if match["kilo"] else 1), text)
    packet_ms = float(match["packet"]) if match["packet"] else codec.packet_ms
    frames = packet_ms / codec.frame_ms
    if packet_ms > _LONGEST_MS or frames < 1 or frames != round(frames):
        raise InputError(
            f"codec {quoted(text)}: packets of {codec.title} last a multiple of {codec.frame_ms:g} ms, "
            f"at most {_LONGEST_MS} ms"
        )
    if codec.name == "opus" and packet_ms not in _OPUS_PACKETS_MS:
        listed = ", ".join(f"{ms:g}" for ms in _OPUS_PACKETS_MS)
        raise InputError(f"codec {quoted(text)}: packets of Opus last {listed} ms")
    stream = VoiceStream(codec, packet_ms, ip)
    if stream.frame_bytes > MAX_FRAME_BYTES:
        raise InputError(
            f"codec {quoted(text)} would need frames of {stream.frame_bytes} B; shorten the packets"
        )
    return stream


def describe_codec(stream: VoiceStream) -> str:
    """The text that :func:`parse_codec` reads back as ``stream``."""
    usual = next(codec for codec in CODECS if codec.name == stream.codec.name)
    rate = "" if stream.codec == usual else f"@{stream.codec.bit_rate_bps:.12g}bit/s"
    packet = "" if stream.packet_ms == usual.packet_ms else f":{stream.packet_ms:g}ms"
    return f"{stream.codec.name}{rate}{packet}"


def _at_rate(codec: Codec, bit_rate_bps: float, text: str) -> Codec:
    if codec.name != "opus":
        raise InputError(
            f"codec {quoted(text)}: {codec.title} has {codec.bit_rate_bps:g} bit/s; only Opus has a choice"
        )
    low, high = _OPUS_BPS
    if not low <= bit_rate_bps <= high:
        raise InputError(f"codec {quoted(text)}: Opus has {low:,} to {high:,} bit/s (RFC 6716)")
    return replace(
        codec,
        title=f"Opus at {bit_rate_bps / 1e3:g} kbit/s",
        payload_bytes=bit_rate_bps * codec.frame_ms / 8e3,
    )


# RFC 6716 table 2: full-band CELT frames of up to 20 ms, wide-band SILK frames above.
_OPUS_CONFIG = {2.5: 28, 5.0: 29, 10.0: 30, 20.0: 31, 40.0: 10, 60.0: 11}
_OPUS_FRAME_MS = 20.0
_OPUS_FRAME_BYTES = 1275
"""No frame is longer (section 3.4, R2)."""


def silence(stream: VoiceStream) -> bytes:
    """A packet of ``stream`` without speech.

    If the codec has no simple code for silence, these are zeros: right in length, and for Opus in
    what the first byte says about frames (RFC 6716 section 3), but not meant to be played.
    """
    size = stream.payload_bytes
    if stream.codec.name == "opus":
        return _opus(stream.packet_ms, size)
    filler = bytes.fromhex(stream.codec.filler)
    return (filler * -(-size // len(filler)))[:size]


def _opus(packet_ms: float, size: int) -> bytes:
    if packet_ms in _OPUS_CONFIG and size - 1 <= _OPUS_FRAME_BYTES:
        return bytes([_OPUS_CONFIG[packet_ms] << 3]) + bytes(size - 1)
    # Code 3 with lengths: several frames, of 20 ms here, the last one taking the rest.
    frames = round(packet_ms / _OPUS_FRAME_MS)
    length = (size - 2) // frames - 2
    lengths = _opus_length(length) * (frames - 1)
    head = bytes([_OPUS_CONFIG[_OPUS_FRAME_MS] << 3 | 3, 1 << 7 | frames]) + lengths
    return head + bytes(size - len(head))


def _opus_length(length: int) -> bytes:
    """RFC 6716 section 3.2.1."""
    if length < 252:
        return bytes([length])
    return bytes([252 + length % 4, (length - 252) // 4])
