"""What frames carry: datagrams, and the messages of TCP connections, put together. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from typing import Final, NamedTuple

from weirlab.studies.voice.lab.seen import Frame

_UDP: Final = 17
_TCP: Final = 6
_SYN: Final = 0x02
_LENGTH: Final = re.compile(rb"^(?:content-length|l)[ \t]*:[ \t]*(\d+)", re.IGNORECASE | re.MULTILINE)
_WINDOW: Final = 1 << 31
_TPKT: Final = b"\x03\x00"
"""How a message of H.225.0 or H.245 begins on a connection (RFC 1006, 6); its length follows."""
_TPKT_BYTES: Final = 4


class Place(NamedTuple):
    """Where a packet comes from or goes to."""

    address: str
    port: int


class Payload(NamedTuple):
    """A datagram's content, or a whole message of SIP, H.225.0 or H.245 out of a connection."""

    at_ns: int
    source: Place
    target: Place
    content: bytes


class _Packet(NamedTuple):
    source: Place
    target: Place
    protocol: int
    content: bytes
    """From the header of UDP or TCP on."""


def as_it_reached(frames: Iterable[Frame], caller: str) -> list[Frame]:
    """``frames`` with those for the caller, an address, taken where they reach it, not where they are sent.

    What a device between them drops then never reached the caller, and what it delays came later.
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
    for frame in frames:
        packet = None if frame.delivered else _packet(frame.content)
        if packet is not None and packet.protocol == _UDP:
            size = int.from_bytes(packet.content[4:6])
            yield Payload(frame.at_ns, packet.source, packet.target, packet.content[8:size])


def payloads(frames: Iterable[Frame]) -> Iterator[Payload]:
    """Every datagram that came to the switch, and every message of a TCP connection, by time."""
    streams: dict[tuple[Place, Place], _Stream] = {}
    for frame in frames:
        packet = None if frame.delivered else _packet(frame.content)
        if packet is None:
            continue
        source, target, protocol, content = packet
        if protocol == _UDP:
            yield Payload(frame.at_ns, source, target, content[8 : int.from_bytes(content[4:6])])
            continue
        for message in streams.setdefault((source, target), _Stream()).take(content):
            yield Payload(frame.at_ns, source, target, message)


class _Stream:
    """One direction of a connection."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._early: dict[int, bytes] = {}
        """Segments that came before those that they follow."""
        self._bytes = b""

    def take(self, segment: bytes) -> Iterator[bytes]:
        """Messages that are whole with this segment."""
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
        """A segment that begins where the stream ends, or before that."""
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


def _packet(frame: bytes) -> _Packet | None:
    """A UDP or TCP packet over Ethernet; None for another frame, or a fragment."""
    kind, ip = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and len(ip) >= 20 and not int.from_bytes(ip[6:8]) & 0x3FFF:
        protocol, source, target = ip[9], ip[12:16], ip[16:20]
        content = ip[(ip[0] & 15) * 4 : int.from_bytes(ip[2:4])]
    elif kind == b"\x86\xdd" and len(ip) >= 40:
        protocol, source, target = ip[6], ip[8:24], ip[24:40]
        content = ip[40 : 40 + int.from_bytes(ip[4:6])]
    else:
        return None
    if len(content) < {_UDP: 8, _TCP: 20}.get(protocol, len(content) + 1):
        return None
    here = Place(str(ip_address(source)), int.from_bytes(content[:2]))
    there = Place(str(ip_address(target)), int.from_bytes(content[2:4]))
    return _Packet(here, there, protocol, content)
