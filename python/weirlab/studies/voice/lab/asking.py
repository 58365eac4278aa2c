"""One datagram to an engine and its answer: is it there?"""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Final

from weirlab.studies.voice.lab.endpoints import bracketed

ANSWER_S: Final = 0.5
"""An engine that is there answers sooner."""


def asked(where: str, port: int, datagram: bytes) -> bytes | None:
    """The answer to a datagram; None if there is none soon. Call inside a host."""
    family = socket.AF_INET6 if ":" in where else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.settimeout(ANSWER_S)
        with suppress(OSError):
            asking.connect((where, port))
            asking.send(datagram)
            return asking.recv(1 << 16)
    return None


def options(where: str, port: int) -> bytes:
    """Are you there (RFC 3261, 11)? Answered to where it comes from (RFC 3581)."""
    host = bracketed(where)
    lines = (
        f"OPTIONS sip:{host}:{port} SIP/2.0", f"Via: SIP/2.0/UDP {host};branch=z9hG4bKweir;rport",
        f"From: <sip:weir@{host}>;tag=weir", f"To: <sip:{host}:{port}>", "Call-ID: weir", "CSeq: 1 OPTIONS",
        "Max-Forwards: 1", "Content-Length: 0",
    )  # fmt: skip
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
