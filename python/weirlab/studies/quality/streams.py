"""The voice streams of a capture, as the engine found them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from ipaddress import ip_address
from typing import Any

from weirlab.trace.quantities import NOTHING


@dataclass(frozen=True)
class VoiceStream:
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
    payload_type: int
    payload_types: tuple[tuple[int, int, str], ...]
    strays: int
    first_ns: int
    last_ns: int
    loss_estimated: bool
    """Whether loss is estimated from gaps in the time stamps, for lack of sequence numbers."""
    loss_known: bool
    """False if there are neither sequence numbers nor time stamps of the speech."""

    @property
    def title(self) -> str:
        """``192.0.2.1:4000 > 192.0.2.2:4002``."""
        return f"{_end(self.src, self.src_port)} > {_end(self.dst, self.dst_port)}"

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
            same == address or plain == _end(address, port) for address, port in ends
        )


def voice_stream(number: int, found: Mapping[str, Any]) -> VoiceStream:
    known = {field.name: found[field.name] for field in fields(VoiceStream) if field.name in found}
    types = tuple(tuple(one) for one in found["payload_types"])
    return VoiceStream(
        **known | {"number": number, "payload_types": types, "loss_known": found["lost"] is not None}
    )


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _address(text: str) -> str | None:
    try:
        return str(ip_address(text.strip("[]")))
    except ValueError:
        return None
