"""Captures of voice for tests, put together byte by byte."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Rtp:
    """One RTP packet on its way."""

    at_us: int
    seq: int
    stamp: int
    payload_type: int = 0
    marker: bool = False
    ssrc: int = 0x1234ABCD
    src: str = "192.0.2.1"
    dst: str = "192.0.2.2"
    src_port: int = 4000
    dst_port: int = 4002
    payload_bytes: int = 160

    @property
    def payload(self) -> bytes:
        second = self.payload_type | (0x80 if self.marker else 0)
        numbers = (0x80, second, self.seq & 0xFFFF, self.stamp & 0xFFFFFFFF, self.ssrc)
        return struct.pack(">BBHII", *numbers) + bytes([0xD5]) * self.payload_bytes

    @property
    def ip(self) -> bytes:
        return udp_over_ip(self.src, self.dst, self.src_port, self.dst_port, self.payload)

    @property
    def frame(self) -> bytes:
        return ethernet(self.ip)


def udp_over_ip(src: str, dst: str, src_port: int, dst_port: int, payload: bytes) -> bytes:
    """An IP packet, checksums left out (RFC 768: 0 is none)."""
    udp = struct.pack(">HHHH", src_port, dst_port, 8 + len(payload), 0) + payload
    ends = (ipaddress.ip_address(src), ipaddress.ip_address(dst))
    if ends[0].version == 6:
        return struct.pack(">IHBB", 6 << 28, len(udp), 17, 64) + ends[0].packed + ends[1].packed + udp
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0x4000, 64, 17, 0)
    return head + ends[0].packed + ends[1].packed + udp


def ethernet(ip: bytes, between: bytes = b"") -> bytes:
    """A frame; ``between`` are tags with their EtherTypes, without that of IP."""
    ethertype = b"\x86\xdd" if ip[0] >> 4 == 6 else b"\x08\x00"
    return bytes.fromhex("020202020202 030303030303") + between + ethertype + ip


def pcap(
    path: Path,
    packets: Iterable[tuple[int, bytes]],
    *,
    link: int = 1,
    order: str = "<",
    nano: bool = False,
    snap: int = 65535,
) -> Path:
    """A pcap file; times in µs since 2023-11-14 22:13:20."""
    magic, unit = (0xA1B23C4D, 1000) if nano else (0xA1B2C3D4, 1)
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, snap, link)]
    for at_us, data in packets:
        seconds, rest = divmod(at_us, 1_000_000)
        kept = data[:snap]
        parts.append(
            struct.pack(f"{order}IIII", 1_700_000_000 + seconds, rest * unit, len(kept), len(data)) + kept
        )
    path.write_bytes(b"".join(parts))
    return path


def pcapng(path: Path, packets: Iterable[tuple[int, bytes]], *, link: int = 1, order: str = "<") -> Path:
    """A pcapng file whose one interface counts ns."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        length = 12 + len(body)
        return struct.pack(f"{order}II", kind, length) + body + struct.pack(f"{order}I", length)

    resolution = struct.pack(f"{order}HHBxxxHH", 9, 1, 9, 0, 0)
    parts = [
        block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1)),
        block(1, struct.pack(f"{order}HHI", link, 0, 0) + resolution),
    ]
    for at_us, data in packets:
        ns = 1_700_000_000_000_000_000 + at_us * 1000
        head = struct.pack(f"{order}IIIII", 0, ns >> 32, ns & 0xFFFFFFFF, len(data), len(data))
        parts.append(block(6, head + data))
    path.write_bytes(b"".join(parts))
    return path


def frames(packets: Iterable[Rtp]) -> list[tuple[int, bytes]]:
    """Frames in the order of their times."""
    return [(packet.at_us, packet.frame) for packet in sorted(packets, key=lambda packet: packet.at_us)]


def talk(
    count: int, *, seq: int = 100, stamp: int = 5000, jitter_us: float = 0, seed: int = 1, **more: object
) -> list[Rtp]:
    """``count`` packets of 20 ms that arrive with exponential delays, in order."""
    late = np.random.default_rng(seed).exponential(1.0, count) * jitter_us
    at_us = np.maximum.accumulate(np.arange(count) * 20_000 + late.astype(np.int64))
    first = Rtp(0, seq, stamp)
    return [
        replace(first, at_us=int(at), seq=seq + i, stamp=stamp + 160 * i, **more)  # type: ignore[arg-type]
        for i, at in enumerate(at_us)
    ]


def without(packets: Sequence[Rtp], lost: Iterable[int]) -> list[Rtp]:
    """The packets, those at these places left out."""
    gone = set(lost)
    return [packet for i, packet in enumerate(packets) if i not in gone]


def later(packet: Rtp, by_us: int) -> Rtp:
    """The packet at another time."""
    return replace(packet, at_us=packet.at_us + by_us)
