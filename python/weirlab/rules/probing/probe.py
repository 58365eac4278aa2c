"""A packet that tries out rules: its fields, its bytes, and whether a rule's match covers it."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from weirlab.rules import matching
from weirlab.rules.packets import Family

TCP: Final = 6
UDP: Final = 17
ICMP: Final[dict[Family, int]] = {4: 1, 6: 58}
_UDPLITE: Final = 136
_SCTP: Final = 132
_DCCP: Final = 33
_HOP_BY_HOP: Final = 0
_ETHERNET_TYPE: Final[dict[Family, int]] = {4: 0x0800, 6: 0x86DD}
_HEADER_BYTES: Final[dict[Family, int]] = {4: 20, 6: 40}

DEVICE_MAC: Final = bytes.fromhex("025700000001")
"""Of every interface of the filter."""
_SENDER_MAC: Final = bytes.fromhex("0258")
"""Beginning of the source address; what follows asks for a mark, or to be left untracked."""


@dataclass(frozen=True)
class Probe:
    """One packet. Addresses are numbered as in :mod:`weirlab.rules.matching`."""

    family: Family
    source: int
    destination: int
    protocol: int
    source_port: int
    """Also the identifier of an ICMP echo."""
    destination_port: int
    icmp_type: int
    icmp_code: int
    tcp_flags: int
    inward: str
    outward: str
    state: str
    """The state that its connection should have."""
    mark: int = 0
    """The packet's mark when it arrives."""
    dscp: int = 0
    ttl: int = 64
    length_bytes: int = 0
    """Of the IP packet, if that is longer than its headers."""
    hop_options: bool = False
    """Whether hop-by-hop options stand between the headers of IPv6 and of the transport protocol."""
    reply: int = 0
    """1 for a packet from the side that did not begin the connection."""

    def __str__(self) -> str:
        ports = f" port {self.source_port} -> {self.destination_port}"
        if self.protocol == ICMP[self.family]:
            ports = f" type {self.icmp_type}"
        return (
            f"protocol {self.protocol} from {matching.address(self.source)} to "
            f"{matching.address(self.destination)}{ports}, {self.inward} to {self.outward}, {self.state}"
        )

    @cached_property
    def transport(self) -> bytes:
        """The headers and payload behind those of IP; their checksum is wrong if the state is INVALID."""
        body = self._transport(0)
        offset = {TCP: 16, UDP: 6, _UDPLITE: 6, ICMP[self.family]: 2}.get(self.protocol)
        if offset is None:
            return body
        pseudo = b"" if self.protocol == ICMP[4] else self._pseudo_header(len(body))
        found = checksum(pseudo + body) or 0xFFFF
        return self._transport(found ^ 0x5555 if self.state == "INVALID" else found)

    def frame(self, mark_number: int) -> bytes:
        """The Ethernet frame; ``mark_number`` names the mark to the filter's first chain."""
        untracked = self.state == "UNTRACKED"
        source = _SENDER_MAC + bytes([untracked, 0]) + struct.pack("!H", mark_number)
        return DEVICE_MAC + source + struct.pack("!H", _ETHERNET_TYPE[self.family]) + self._packet()

    def _packet(self) -> bytes:
        body = self.transport
        source, destination = (matching.address(each).packed for each in (self.source, self.destination))
        if self.family == 4:
            fields = (0x45, self.dscp << 2, 20 + len(body), 1, 0, self.ttl, self.protocol)
            head = struct.pack("!BBHHHBBH", *fields, 0) + source + destination
            return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + body
        first = self.protocol
        if self.hop_options:
            # One option PadN fills the header (RFC 8200, 4.2).
            body = bytes([self.protocol, 0, 1, 4, 0, 0, 0, 0]) + body
            first = _HOP_BY_HOP
        words = 6 << 28 | self.dscp << 22
        return struct.pack("!IHBB", words, len(body), first, self.ttl) + source + destination + body

    def _transport(self, found: int) -> bytes:
        fill = bytes(max(0, self.length_bytes - _HEADER_BYTES[self.family] - 8 * self.hop_options - 8))
        ports = struct.pack("!HH", self.source_port, self.destination_port)
        if self.protocol == TCP:
            return ports + struct.pack("!IIBBHHH", 1, 1, 0x50, self.tcp_flags, 8192, found, 0) + fill[12:]
        if self.protocol == UDP:
            return ports + struct.pack("!HH", 8 + len(fill), found) + fill
        if self.protocol == _UDPLITE:
            return ports + struct.pack("!HH", 0, found) + fill
        if self.protocol == _SCTP:
            return ports + struct.pack("!II", 1, 0) + b"\x01\x00\x00\x14" + bytes(16)
        if self.protocol == _DCCP:
            return ports + struct.pack("!BBHBBH", 4, 0, 0, 1, 0, 0) + bytes(8)
        if self.protocol == ICMP[self.family]:
            return struct.pack("!BBHHH", self.icmp_type, self.icmp_code, found, self.source_port, 1) + fill
        return ports + bytes(16) + fill[12:]

    def _pseudo_header(self, length: int) -> bytes:
        source, destination = (matching.address(each).packed for each in (self.source, self.destination))
        if self.family == 4:
            return source + destination + struct.pack("!BBH", 0, self.protocol, length)
        return source + destination + struct.pack("!II", length, self.protocol)


def checksum(data: bytes) -> int:
    """RFC 1071."""
    if len(data) % 2:
        data += b"\0"
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
