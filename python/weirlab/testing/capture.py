"""Packets and capture files built byte by byte, with correct checksums."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, TypeAlias

Packet: TypeAlias = tuple[int, bytes]
"""Time of capture, ns since 1970, and an Ethernet frame."""

TCP: Final = 6
_MAC_A: Final = bytes.fromhex("020000000001")
_MAC_B: Final = bytes.fromhex("020000000002")
_PCAP_NS: Final = 0xA1B23C4D
_ETHERNET: Final = 1


def checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071)."""
    words = struct.unpack(f">{(len(data) + 1) // 2}H", data + bytes(len(data) % 2))
    total: int = sum(words)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def tcp_checksum(src: str, dst: str, segment: bytes) -> int:
    """The checksum of a TCP segment whose checksum field is 0 (RFC 9293, 3.1; RFC 8200, 8.1)."""
    ends = ipaddress.ip_address(src).packed + ipaddress.ip_address(dst).packed
    tail = struct.pack(">HBB", 0, 0, TCP) if len(ends) > 8 else struct.pack(">BB", 0, TCP)
    length = struct.pack(">I" if len(ends) > 8 else ">H", len(segment))
    pseudo = ends + length + tail if len(ends) > 8 else ends + tail + length
    return checksum(pseudo + segment)


def ip_packet(src: str, dst: str, payload: bytes, *, ip_id: int = 0, ecn: int = 0) -> bytes:
    """An IPv4 or IPv6 packet with TCP, depending on the addresses."""
    ends = (ipaddress.ip_address(src), ipaddress.ip_address(dst))
    addresses = ends[0].packed + ends[1].packed
    if ends[0].version == 6:
        return struct.pack(">IHBB", 6 << 28 | ecn << 20, len(payload), TCP, 64) + addresses + payload
    return _ipv4(addresses, payload, ip_id, ecn, 0x4000)


def _ipv4(addresses: bytes, payload: bytes, ip_id: int, ecn: int, offset: int) -> bytes:
    fields = (0x45, ecn, 20 + len(payload), ip_id & 0xFFFF, offset, 64, TCP)
    head = struct.pack(">BBHHHBB", *fields)
    total = checksum(head + b"\0\0" + addresses)
    return head + struct.pack(">H", total) + addresses + payload


def fragments(packet: bytes, mtu_bytes: int) -> Iterator[bytes]:
    """An IPv4 packet as fragments of at most ``mtu_bytes`` (RFC 791, 3.2); a short one as it is."""
    if len(packet) <= mtu_bytes:
        yield packet
        return
    ip_id, payload = struct.unpack(">H", packet[4:6])[0], packet[20:]
    step = (mtu_bytes - 20) // 8 * 8
    for at in range(0, len(payload), step):
        more = 0x2000 if at + step < len(payload) else 0
        piece = payload[at : at + step]
        yield _ipv4(packet[12:20], piece, ip_id, packet[1] & 3, more | at // 8)


def frame(ip: bytes, *, from_a: bool = True, vlans: Sequence[int] = ()) -> bytes:
    """An Ethernet frame, without padding; ``vlans`` outermost first (802.1Q, within 802.1ad if two)."""
    ends = _MAC_B + _MAC_A if from_a else _MAC_A + _MAC_B
    tags = b"".join(
        struct.pack(">HH", 0x8100 if i == len(vlans) - 1 else 0x88A8, vlan) for i, vlan in enumerate(vlans)
    )
    return ends + tags + (b"\x86\xdd" if ip[0] >> 4 == 6 else b"\x08\x00") + ip


def pcap(packets: Iterable[Packet], *, snap_bytes: int = 262_144) -> bytes:
    """A capture file (pcap, ns) of Ethernet frames in the order given."""
    parts = [struct.pack("<IHHiIII", _PCAP_NS, 2, 4, 0, 0, snap_bytes, _ETHERNET)]
    for time_ns, data in packets:
        kept = data[:snap_bytes]
        parts.append(struct.pack("<IIII", *divmod(time_ns, 1_000_000_000), len(kept), len(data)) + kept)
    return b"".join(parts)


def write_pcap(path: Path, packets: Iterable[Packet], *, snap_bytes: int = 262_144) -> Path:
    """Write :func:`pcap` to a file and return its path."""
    path.write_bytes(pcap(packets, snap_bytes=snap_bytes))
    return path
