"""Datagrams that ask whether an engine is up, and that tell SIPp to hang up."""

from __future__ import annotations

import socket
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
