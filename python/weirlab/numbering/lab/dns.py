"""A DNS query for the SOA of a zone: does this server answer for it, and with which serial?"""

from __future__ import annotations

import struct
from typing import Final

_HEADER: Final = struct.Struct(">HHHHHH")
_SOA: Final = 6
_IN: Final = 1
_ANSWER: Final = 0x8000
_AUTHORITATIVE: Final = 0x0400
_CODE: Final = 0x000F
_POINTER: Final = 0xC0


def question(zone: str, number: int) -> bytes:
    """A query for the SOA record of ``zone`` (RFC 1035, 4.1); ``number`` is its ID."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in zone.strip(".").split("."))
    return _HEADER.pack(number, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", _SOA, _IN)


def answers(datagram: bytes, number: int) -> bool:
    """Is ``datagram`` an authoritative answer to the query with that ID?"""
    if len(datagram) < _HEADER.size:
        return False
    found, flags, _, count, _, _ = _HEADER.unpack_from(datagram)
    wanted = _ANSWER | _AUTHORITATIVE
    return bool(found == number and flags & wanted == wanted and flags & _CODE == 0 and count > 0)


def serial(datagram: bytes, number: int) -> int | None:
    """The zone's serial in an answer to the query with that ID; None if there is none."""
    if not answers(datagram, number):
        return None
    try:
        # The question: a name, type and class.
        at = _behind_name(datagram, _HEADER.size) + 4
        at = _behind_name(datagram, at)
        kind, _, _, length = struct.unpack_from(">HHIH", datagram, at)
        if kind != _SOA or at + 10 + length > len(datagram):
            return None
        at = _behind_name(datagram, _behind_name(datagram, at + 10))
        return int(struct.unpack_from(">I", datagram, at)[0])
    except (struct.error, IndexError):
        return None


def _behind_name(datagram: bytes, at: int) -> int:
    """The end of the name that begins at ``at`` (RFC 1035, 4.1.4); ``IndexError`` if it has none."""
    while length := datagram[at]:
        if length >= _POINTER:
            return at + 2
        at += 1 + length
    return at + 1
