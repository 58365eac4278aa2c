"""The voice streams of a capture, as the engine found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_address
from typing import Any, Final

from weirlab.trace.quantities import NOTHING

_MOST_BPS: Final = 520_000
"""Opus takes at most 510 kbit/s (RFC 6716); uncompressed stereo of studios takes more."""
_SHOWS_RATE_NS: Final = 500_000_000
"""Speech that was held up comes faster for a moment."""
_LARGE_BYTES: Final = 500
"""Mean payload of packets of an unknown codec that shows their rate in a stream of any length."""

_NO_VOICE: Final = frozenset({"t38", "t140", "red-t140", "clearmode"})
"""Encodings of a fax (RFC 4612), of text (RFC 4103), and of data in a channel for speech (RFC 4040)."""


@dataclass(frozen=True)
class CaptureStream:
    """One stream as the capture has it."""

    number: int
    """In the order of first packets, from 1."""
    protocol: str
    src: str
    src_port: int
    dst: str
    dst_port: int
    ssrc: int
    """Source call number, in IAX2."""
    vlan: str
    interface: str
    part: int
    """How often the source had restarted before."""
    media: str
    codec: str
    """Encoding name; empty if unknown."""
    known_by: str
    clock_hz: int
    """Rate at which its time stamps run."""
    nominal_hz: int
    """Rate at which they should run; 0 if unknown."""
    payload_type: int
    payload_types: tuple[tuple[int, int, str], ...]
    encrypted: bool
    """SRTP."""
    strays: int
    begins: str
    """``first``; ``restart`` of the source; ``codec``: it changed its codec."""
    lead: int
    """Packets lost between those of the codec before and its own; part of the losses."""
    repeats: int
    """Packets of telephone events that their sender repeated with the same number."""
    still: int
    """Silences in which its time stamps stood still."""
    pauses: int
    pauses_ns: int
    not_sent: int
    """Numbers that it skipped in these pauses, while another source was heard, or on hold."""
    far_end: Mapping[str, Any] | None
    """What its receiver reported by RTCP: ``loss_ratio``, ``round_trip_mean_ns``, ``claim`` and more."""
    packets: int
    payload_bytes: int
    first_ns: int
    last_ns: int
    loss_estimated: bool
    """Whether loss is estimated from gaps in the time stamps, for lack of sequence numbers."""
    loss_known: bool
    """False if there are neither sequence numbers nor time stamps of the speech, or if the capture misses
    packets."""
    missed: str
    """How it is known that the capture itself misses packets: ``sparse``, it has hardly any of the numbers;
    ``gaps``, hardly anything else was captured in these; ``reports``, its receiver missed far fewer. Empty if
    nothing shows that."""
    expected: int
    """Numbers from the first to the last."""

    @property
    def title(self) -> str:
        """``192.0.2.1:4000 > 192.0.2.2:4002``."""
        return f"{end(self.src, self.src_port)} > {end(self.dst, self.dst_port)}"

    @property
    def full_title(self) -> str:
        """The title with what distinguishes it from other streams between these ends."""
        vlan = f" VLAN {self.vlan}" if self.vlan else ""
        interface = f" if {self.interface}" if self.interface != "0" else ""
        part = f", part {self.part + 1}" if self.part else ""
        return f"{self.title}{vlan}{interface}{part}"

    @property
    def source(self) -> str:
        """``0x1234abcd``, ``call 7``."""
        return f"call {self.ssrc}" if self.protocol == "iax2" else f"0x{self.ssrc:08x}"

    @property
    def is_voice(self) -> bool:
        """False for pictures, faxes, text, telephone events without speech, and more than a codec needs."""
        is_other = self.media == "video" or self.codec.lower() in _NO_VOICE or self.has_only_events
        return not (is_other or self._bit_rate_bps > _MOST_BPS)

    @property
    def has_only_events(self) -> bool:
        """Whether there are telephone events and no speech."""
        return self.codec.lower() == "telephone-event"

    @property
    def _bit_rate_bps(self) -> float:
        """Of the payload; 0 for a stream that is too short to show it."""
        lasts_ns = self.last_ns - self.first_ns
        is_large = not self.codec and self.payload_bytes >= _LARGE_BYTES * self.packets
        least_ns = 1 if is_large else _SHOWS_RATE_NS
        return self.payload_bytes * 8e9 / lasts_ns if lasts_ns >= least_ns else 0.0

    @property
    def codec_title(self) -> str:
        """The codec, or else the payload type."""
        return self.codec or (f"type {self.payload_type}" if self.protocol == "rtp" else NOTHING)

    def is_meant(self, text: str) -> bool:
        """Whether ``text`` (number, SSRC, address, address with port) names this stream."""
        plain = text.strip().lower()
        if plain.startswith("0x"):
            return len(plain) > 2 and plain[2:].lstrip("0") == f"{self.ssrc:x}".lstrip("0")
        ends = ((self.src, self.src_port), (self.dst, self.dst_port))
        same = _address(plain)
        return plain == str(self.number) or any(
            same == address or plain == end(address, port) for address, port in ends
        )


def voice_stream(number: int, found: Mapping[str, Any]) -> CaptureStream:
    known = {field.name: found[field.name] for field in fields(CaptureStream) if field.name in found}
    types = tuple(tuple(one) for one in found["payload_types"])
    return CaptureStream(
        **known | {"number": number, "payload_types": types, "loss_known": found["lost"] is not None}
    )


def end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        return None
