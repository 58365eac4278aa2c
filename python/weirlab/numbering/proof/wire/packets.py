"""The content of frames: datagrams from fragments, and messages from TCP connections. Pure.

Hosts and captures may disagree about fragments that overlap: such a datagram is dropped whole (RFC 5722, 3),
as Linux does for IPv4, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final, NamedTuple

from weirlab.numbering.lab.switch import Frame

MOST_OPEN: Final = 64
"""Most datagrams with a missing fragment; beyond that, the oldest is given up."""
LIFE_NS: Final = 30_000_000_000
"""Time after its first fragment when a datagram is given up, as in Linux (``ip_frag_time``)."""
_MOST_BYTES: Final = 65535
_UNIT: Final = 8


class Datagram(NamedTuple):
    """Which datagram a fragment belongs to."""

    source: bytes
    target: bytes
    identification: int
    protocol: int
    """The protocol of IPv4; in IPv6 it does not distinguish datagrams, and is 0."""


class Fragment(NamedTuple):
    """A fragment of a datagram, or a whole datagram."""

    datagram: Datagram
    protocol: int
    """The protocol that the datagram carries; the first fragment decides."""
    offset: int
    """In bytes."""
    more: bool
    """Do other fragments follow?"""
    content: bytes


@dataclass
class _PartialDatagram:
    """A datagram with a missing fragment."""

    begun_ns: int
    parts: list[tuple[int, bytes]] = field(default_factory=list)
    """By offset; no two overlap."""
    protocol: int = 0
    size: int | None = None
    """Known once the last fragment has arrived."""
    there: int = 0
    is_wrong: bool = False
    """Are all further fragments dropped?"""

    def take(self, part: Fragment) -> bool:
        """Add a fragment; returns whether it fits the others. A repeated fragment fits."""
        begin, end = part.offset, part.offset + len(part.content)
        at = bisect_left(self.parts, (begin, b""))
        if at < len(self.parts) and self.parts[at] == (begin, part.content):
            return True
        if begin == end or end > _MOST_BYTES or (part.more and end % _UNIT):
            return False
        if at > 0 and self._end(at - 1) > begin:
            return False
        if at < len(self.parts) and self.parts[at][0] < end:
            return False
        if part.more and self.size is not None and end > self.size:
            return False
        if not part.more:
            if self.size is not None or at < len(self.parts):
                return False
            self.size = end
        if begin == 0:
            self.protocol = part.protocol
        self.parts.insert(at, (begin, part.content))
        self.there += end - begin
        return True

    def _end(self, at: int) -> int:
        return self.parts[at][0] + len(self.parts[at][1])


class Reassembly:
    """Reassembles datagrams; it holds only a few, and none for long."""

    def __init__(self) -> None:
        self._open: dict[Datagram, _PartialDatagram] = {}

    def take(self, at_ns: int, part: Fragment) -> tuple[int, bytes] | None:
        """Protocol and content of the datagram that this fragment completes; None for none."""
        if part.offset == 0 and not part.more:
            # Whole by itself, regardless of others with the same identification (RFC 6946, 4).
            return part.protocol, part.content
        known = self._open.get(part.datagram)
        if known is None or at_ns - known.begun_ns > LIFE_NS:
            self._open.pop(part.datagram, None)
            if len(self._open) >= MOST_OPEN:
                del self._open[next(iter(self._open))]
            known = self._open[part.datagram] = _PartialDatagram(at_ns)
        if known.is_wrong:
            return None
        if not known.take(part):
            known.is_wrong, known.parts = True, []
            return None
        if known.size is None or known.there < known.size:
            return None
        del self._open[part.datagram]
        return known.protocol, b"".join(content for _, content in known.parts)


_UDP: Final = 17
_TCP: Final = 6
_SYN: Final = 0x02
_LENGTH: Final = re.compile(rb"^(?:content-length|l)[ \t]*:[ \t]*(\d+)", re.IGNORECASE | re.MULTILINE)
_WINDOW: Final = 1 << 31
_MORE: Final = 0x2000
_OFFSET: Final = 0x1FFF
"""Of a fragment of IPv4: others follow; where it belongs, in units of 8 bytes (RFC 791, 3.1)."""
_OPTIONS: Final = (0, 43, 60)
_FRAGMENT: Final = 44
"""Extension headers of IPv6: hop by hop, routing, options for the destination; and that of a fragment."""
_TPKT: Final = b"\x03\x00"
"""How a message of H.225.0 or H.245 begins on a connection (RFC 1006, 6); its length follows."""
_TPKT_BYTES: Final = 4


class TransportAddress(NamedTuple):
    """Where a packet comes from or goes to."""

    address: str
    port: int


class Payload(NamedTuple):
    """A datagram's content, or a whole message of SIP, H.225.0 or H.245 from a connection."""

    at_ns: int
    source: TransportAddress
    target: TransportAddress
    content: bytes


class _Packet(NamedTuple):
    source: TransportAddress
    target: TransportAddress
    protocol: int
    content: bytes
    """From the header of UDP or TCP on."""


def as_it_reached(frames: Iterable[Frame], caller: str) -> list[Frame]:
    """``frames``, with those to the caller's address taken where they arrive, not where they are sent.

    Packets that a device drops have then never reached the caller, and delayed packets come later.
    """
    wanted = ip_address(caller)
    length = wanted.max_prefixlen // 8
    begin, kind = (30, b"\x08\x00") if length == 4 else (38, b"\x86\xdd")
    found = []
    for frame in frames:
        is_for_it = frame.content[12:14] == kind and frame.content[begin : begin + length] == wanted.packed
        if is_for_it == frame.delivered:
            found.append(frame._replace(delivered=False))
    return found


def datagrams(frames: Iterable[Frame]) -> Iterator[Payload]:
    """Every datagram that came to the switch."""
    for at_ns, packet in _packets(frames):
        if packet.protocol == _UDP:
            yield _datagram(at_ns, packet)


def payloads(frames: Iterable[Frame]) -> Iterator[Payload]:
    """Every datagram that came to the switch, and every message of a TCP connection, by time."""
    streams: dict[tuple[TransportAddress, TransportAddress], _TcpStream] = {}
    for at_ns, packet in _packets(frames):
        if packet.protocol == _UDP:
            yield _datagram(at_ns, packet)
            continue
        source, target, _, content = packet
        for message in streams.setdefault((source, target), _TcpStream()).take(content):
            yield Payload(at_ns, source, target, message)


def _datagram(at_ns: int, packet: _Packet) -> Payload:
    size = int.from_bytes(packet.content[4:6])
    return Payload(at_ns, packet.source, packet.target, packet.content[8:size])


class _TcpStream:
    """One direction of a connection."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._early: dict[int, bytes] = {}
        """Segments that arrived before their predecessors."""
        self._bytes = b""

    def take(self, segment: bytes) -> Iterator[bytes]:
        """Messages that this segment completes."""
        sequence, flags = int.from_bytes(segment[4:8]), segment[13]
        content = segment[(segment[12] >> 4) * 4 :]
        if flags & _SYN:
            self._next, self._early, self._bytes = (sequence + 1) % (1 << 32), {}, b""
            return
        if not content:
            return
        self._next = sequence if self._next is None else self._next
        self._early[sequence] = content
        while (ready := self._ready(self._next)) is not None:
            sequence, content = ready
            known = (self._next - sequence) % (1 << 32)
            self._bytes += content[known:]
            self._next = (sequence + max(known, len(content))) % (1 << 32)
        yield from self._whole()

    def _ready(self, wanted: int) -> tuple[int, bytes] | None:
        """An early segment that begins at the end of the stream, or before it."""
        for sequence in self._early:
            if (wanted - sequence) % (1 << 32) < _WINDOW:
                return sequence, self._early.pop(sequence)
        return None

    def _whole(self) -> Iterator[bytes]:
        while True:
            if self._bytes[:2] == _TPKT:
                size = int.from_bytes(self._bytes[2:_TPKT_BYTES])
                if len(self._bytes) < max(size, _TPKT_BYTES):
                    return
                yield self._bytes[_TPKT_BYTES:size]
                self._bytes = self._bytes[max(size, _TPKT_BYTES) :]
                continue
            # Line breaks between messages keep connections alive (RFC 5626, 3.5.1).
            self._bytes = self._bytes.lstrip(b"\r\n")
            head, end, rest = self._bytes.partition(b"\r\n\r\n")
            length = _LENGTH.search(head)
            size = int(length[1]) if length else 0
            if not end or len(rest) < size:
                return
            yield head + end + rest[:size]
            self._bytes = rest[size:]


def _packets(frames: Iterable[Frame]) -> Iterator[tuple[int, _Packet]]:
    """UDP and TCP packets that came to the switch, each at the time of its last fragment."""
    reassembly = Reassembly()
    for frame in frames:
        part = None if frame.delivered else _part(frame.content)
        whole = None if part is None else reassembly.take(frame.at_ns, part)
        if part is None or whole is None:
            continue
        protocol, content = whole
        if len(content) < {_UDP: 8, _TCP: 20}.get(protocol, len(content) + 1):
            continue
        here = TransportAddress(str(ip_address(part.datagram.source)), int.from_bytes(content[:2]))
        there = TransportAddress(str(ip_address(part.datagram.target)), int.from_bytes(content[2:4]))
        yield frame.at_ns, _Packet(here, there, protocol, content)


def _part(frame: bytes) -> Fragment | None:
    """The IP packet in an Ethernet frame; None for other frames, and truncated ones."""
    kind, ip = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and len(ip) >= 20:
        size, protocol, place = int.from_bytes(ip[2:4]), ip[9], int.from_bytes(ip[6:8])
        content = ip[(ip[0] & 15) * 4 : size]
        key = Datagram(ip[12:16], ip[16:20], int.from_bytes(ip[4:6]), protocol)
        found = Fragment(key, protocol, (place & _OFFSET) * 8, bool(place & _MORE), content)
    elif kind == b"\x86\xdd" and len(ip) >= 40:
        size = 40 + int.from_bytes(ip[4:6])
        found = _behind_options(ip[8:24], ip[24:40], ip[6], ip[40:size])
    else:
        return None
    return found if len(ip) >= size else None


def _behind_options(source: bytes, target: bytes, protocol: int, content: bytes) -> Fragment:
    """What follows the extension headers of IPv6 (RFC 8200, 4)."""
    while protocol in _OPTIONS and len(content) >= 8:
        protocol, content = content[0], content[(content[1] + 1) * 8 :]
    if protocol != _FRAGMENT or len(content) < 8:
        return Fragment(Datagram(source, target, 0, 0), protocol, 0, False, content)
    place = int.from_bytes(content[2:4])
    key = Datagram(source, target, int.from_bytes(content[4:8]), 0)
    return Fragment(key, content[0], place & 0xFFF8, bool(place & 1), content[8:])
