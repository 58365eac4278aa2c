"""The published table of bandwidth, by its definition, and the same on Ethernet. Pure.

N. Kazemi, A. L. Wijesinha and R. Karne ("Evaluation of IPsec Overhead for VoIP using a Bare PC") count
IP packets: no Ethernet header, no FCS, neither preamble nor gap; G.711 in packets of 10 to 60 ms; a
kilobit of 1,000 bits. Their authenticators are cut to 96 bits, so that SHA-1 and MD5 take the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weirlab.base.units import bps_from_pps
from weirlab.traffic.calls.codecs import VoiceStream, parse_codec
from weirlab.traffic.encapsulation import packets
from weirlab.traffic.encapsulation.frames import frame_bytes
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.encapsulation.suites import suite

PACKET_TIMES_MS: Final = (10, 20, 30, 40, 50, 60)
MODES: Final = ("clear", "transport", "tunnel")
SUITES: Final = {
    "AES": suite("aes-cbc"),
    "AES-SHA1": suite("aes-cbc-hmac-sha1-96"),
    "AES-MD5": suite("aes-cbc-hmac-md5-96"),
}
"""As the publication calls them."""


@dataclass(frozen=True)
class Cell:
    """A stream in one direction; ``ip_bps`` is the published quantity, ``wire_bps`` Ethernet's."""

    packet_ms: int
    mode: str
    suite: str
    """Empty in the clear."""
    ip_bytes: int
    ip_bps: float
    frame_bytes: int
    wire_bps: float


def cells() -> tuple[Cell, ...]:
    """By packet time, then by mode, then by suite."""
    made = []
    for packet_ms in PACKET_TIMES_MS:
        stream = parse_codec(f"g711:{packet_ms}ms")
        voice = VoicePacket(stream.payload_bytes)
        made.append(_cell(packet_ms, "clear", "", packets.clear(voice), stream))
        for mode, formula in (("transport", packets.esp_transport), ("tunnel", packets.esp_tunnel)):
            for name, each in SUITES.items():
                made.append(_cell(packet_ms, mode, name, formula(voice, each), stream))
    return tuple(made)


def _cell(packet_ms: int, mode: str, name: str, parts: packets.Parts, stream: VoiceStream) -> Cell:
    ip_bytes = packets.total(parts)
    frame = frame_bytes(ip_bytes)
    return Cell(
        packet_ms=packet_ms,
        mode=mode,
        suite=name,
        ip_bytes=ip_bytes,
        ip_bps=ip_bytes * 8 * stream.rate_pps,
        frame_bytes=frame,
        wire_bps=bps_from_pps(stream.rate_pps, frame),
    )


@dataclass(frozen=True)
class Quality:
    """Arrivals of a call with packets of 20 ms, in ms, as published; None for what was not."""

    what: str
    jitter_mean_ms: float
    jitter_max_ms: float | None
    delta_max_ms: float


QUALITY: Final = (
    Quality("two bare PCs (2009)", 0.1, None, 20.0),
    Quality("two Linux PCs (2009)", 8.0, 10.0, 40.0),
)
"""Between endpoints that bypass the operating system, and between ordinary ones."""
QUALITY_PACKET_NS: Final = 20_000_000
"""Packet time of those calls."""
