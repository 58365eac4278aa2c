"""Datagrams that ask whether an engine or a name server is up, and that tell SIPp to hang up."""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

ANSWER_S: Final = 0.5
"""Time limit for the answer of an engine that is up."""


def asked(where: str, port: int, datagram: bytes) -> bytes | None:
    """The answer to a datagram; None on timeout. Call inside a host."""
    family = socket.AF_INET6 if ":" in where else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(ANSWER_S)
        with suppress(OSError):
            asking.connect((where, port))
            asking.send(datagram)
            return asking.recv(1 << 16)
    return None


def options(where: str, port: int) -> bytes:
    """An OPTIONS request (RFC 3261, 11), answered to its source port (RFC 3581)."""
    host = bracketed(where)
    lines = (
        f"OPTIONS sip:{host}:{port} SIP/2.0", f"Via: SIP/2.0/UDP {host};branch=z9hG4bKweir;rport",
        f"From: <sip:weir@{host}>;tag=weir", f"To: <sip:{host}:{port}>", "Call-ID: weir", "CSeq: 1 OPTIONS",
        "Max-Forwards: 1", "Content-Length: 0",
    )  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def send(where: str, port: int, datagrams: Sequence[bytes]) -> None:
    """Send datagrams that get no answer. Call inside a host."""
    family = socket.AF_INET6 if ":" in where else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as telling:
        for datagram in datagrams:
            telling.sendto(datagram, (where, port))


def info(where: str, port: int, call: str) -> bytes:
    """An INFO request within the call with that Call-ID (RFC 6086)."""
    host = bracketed(where)
    lines = (
        f"INFO sip:{host}:{port} SIP/2.0", f"Via: SIP/2.0/UDP {host};branch=z9hG4bK{call}",
        f"From: <sip:weir@{host}>;tag=weir", f"To: <sip:{host}:{port}>;tag=weir", f"Call-ID: {call}",
        "CSeq: 1 INFO", "Max-Forwards: 1", "Content-Length: 0",
    )  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def bracketed(where: str) -> str:
    """An address as written in a URI."""
    return f"[{where}]" if ":" in where else where


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
