"""One question of the domain name system: does this server answer for that zone?"""

from __future__ import annotations

import struct
from typing import Final

_HEADER: Final = struct.Struct(">HHHHHH")
_SOA: Final = 6
_IN: Final = 1
_ANSWER: Final = 0x8000
_AUTHORITATIVE: Final = 0x0400
_CODE: Final = 0x000F


def question(zone: str, number: int) -> bytes:
    """Who begins ``zone`` (RFC 1035, 4.1)? ``number`` is that of the query."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in zone.strip(".").split("."))
    return _HEADER.pack(number, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", _SOA, _IN)


def answers(datagram: bytes, number: int) -> bool:
    """Does ``datagram`` answer the query with that number, with authority?"""
    if len(datagram) < _HEADER.size:
        return False
    found, flags, _, count, _, _ = _HEADER.unpack_from(datagram)
    wanted = _ANSWER | _AUTHORITATIVE
    return bool(found == number and flags & wanted == wanted and flags & _CODE == 0 and count > 0)
