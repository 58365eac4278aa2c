"""Kazemi, Wijesinha and Karne on IPsec and calls: bandwidth as they count it, and their calls. Pure.

They count IP packets: no Ethernet header, no FCS, neither preamble nor gap. Their figure has no numbers and
names no codec, so the bandwidths here are computed: G.711 in packets of their lengths, a kilobit of 1,000
bits, and authenticators of 96 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weirlab.base.units import bps_from_pps
from weirlab.publications import publication
from weirlab.traffic.calls.codecs import VoiceStream, parse_codec
from weirlab.traffic.encapsulation import packets
from weirlab.traffic.encapsulation.encapsulations import frame_bytes
from weirlab.traffic.encapsulation.packets import VoicePacket
from weirlab.traffic.encapsulation.suites import suite

KEY: Final = "kazemi-ipsec-voip"
MODES: Final = ("clear", "transport", "tunnel")
SUITES: Final = {
    "AES": suite("aes-cbc"),
    "AES-SHA1": suite("aes-cbc-hmac-sha1-96"),
    "AES-MD5": suite("aes-cbc-hmac-md5-96"),
}
"""As the publication calls them."""


@dataclass(frozen=True)
class Cell:
    """A stream in one direction; ``ip_bps`` is what the publication counts, ``wire_bps`` Ethernet's."""

    packet_ms: int
    mode: str
    suite: str
    """Empty in the clear."""
    ip_bytes: int
    ip_bps: float
    frame_bytes: int
    wire_bps: float


def packet_times_ms() -> tuple[int, ...]:
    """The lengths of voice packets that the publication measured."""
    return tuple(publication(KEY).experiments["processing-incoming"].settings["voice_ms"])


def cells() -> tuple[Cell, ...]:
    """By packet time, then by mode, then by suite."""
    made = []
    for packet_ms in packet_times_ms():
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
    """Arrivals of a call, in ms, as published; None for what was not."""

    what: str
    jitter_mean_ms: float
    jitter_max_ms: float | None
    delta_max_ms: float


def quality() -> tuple[Quality, ...]:
    """Between endpoints that bypass the operating system, and between ordinary ones."""
    about = publication(KEY)
    values = about.experiments["call-quality"].values
    return (
        Quality(
            f"two bare PCs ({about.year})",
            values["bare-jitter"].number,
            None,
            values["bare-max-delta"].number,
        ),
        Quality(
            f"two Linux PCs ({about.year})",
            values["linux-mean-jitter"].number,
            values["linux-max-jitter"].number,
            values["linux-max-delta"].number,
        ),
    )


def quality_packet_ns() -> int:
    """Packet time of those calls."""
    return int(publication(KEY).experiments["call-quality"].settings["voice_ms"] * 1e6)
