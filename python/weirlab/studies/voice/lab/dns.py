"""One question of the domain name system: does this server answer for that zone?"""

from __future__ import annotations

import struct
from typing import Final, Literal

_HEADER: Final = struct.Struct(">HHHHHH")
_SOA: Final = 6
_IN: Final = 1
_ANSWER: Final = 0x8000
_AUTHORITATIVE: Final = 0x0400
_CODES: Final = {0: "NOERROR", 1: "FORMERR", 2: "SERVFAIL", 3: "NXDOMAIN", 5: "REFUSED", 9: "NOTAUTH"}


def question(zone: str, number: int) -> bytes:
    """Who begins ``zone`` (RFC 1035, 4.1)? ``number`` is that of the query."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in zone.strip(".").split("."))
    return _HEADER.pack(number, 0, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", _SOA, _IN)


def verdict(datagram: bytes, number: int) -> str | Literal[True] | None:
    """True for an answer with authority, else the name of its code; None for no answer to that query."""
    if len(datagram) < _HEADER.size:
        return None
    found, flags, _, answers, _, _ = _HEADER.unpack_from(datagram)
    if found != number or not flags & _ANSWER:
        return None
    code = flags & 0xF
    if code == 0 and answers and flags & _AUTHORITATIVE:
        return True
    return _CODES.get(code, f"code {code}") if code else "no authority"
