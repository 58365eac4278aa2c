"""Call signalling of H.225.0 (7.3) as plain values: messages of Q.931, and what H.225.0 adds. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weirlab.base import extras
from weirlab.numbering.gatekeeper.datagrams import PROTOCOL, first_number, identifier, packed, unpacked
from weirlab.numbering.gatekeeper.ras import Address, NoMessage
from weirlab.numbering.telephone import h245
from weirlab.numbering.telephone.h245 import Channel

ALERTING, PROCEEDING, SETUP, CONNECT = 0x01, 0x02, 0x05, 0x07
RELEASE, FACILITY = 0x5A, 0x62
TITLES: Final = {
    ALERTING: "Alerting", PROCEEDING: "Call Proceeding", 0x03: "Progress", SETUP: "Setup", CONNECT: "Connect",
    RELEASE: "Release Complete", FACILITY: "Facility", 0x7B: "Information", 0x7D: "Status",
    0x75: "Status Inquiry", 0x6E: "Notify",
}  # fmt: skip
"""Message types (Q.931, table 4-2)."""

NORMAL, BUSY, NO_USER, NO_ANSWER, REJECTED = 16, 17, 18, 19, 21
NO_CIRCUIT, FAILURE, NO_RESOURCE, NO_CODEC, EXPIRED = 34, 41, 47, 65, 102
"""Causes (Q.850, table 1)."""

_DISCRIMINATOR: Final = 0x08
"""Q.931, 4.2."""
_REFERENCE_BYTES: Final = 2
"""H.225.0, 7.2.2."""
_FROM_CALLEE: Final = 0x8000
_SINGLE: Final = 0x80
"""Set in information elements of one octet; and in the last octet of a group."""

_BEARER, _CAUSE, _CALLED, _USER = 0x04, 0x08, 0x70, 0x7E
_SPEECH: Final = bytes((0x80, 0x90, 0xA5))
"""Speech at 64 kbit/s, by H.221 and H.242 as H.225.0, 7.2.2.1, has it."""
_NUMBER: Final = 0x81
"""Type of number unknown, in the plan of E.164."""
_PER: Final = 0x05
"""User information in X.208 and X.209 (H.225.0, 7.2.2.31)."""


@dataclass(frozen=True)
class Q931Message:
    """A message of call signalling without the meaning of its user information."""

    kind: int
    """Message type."""
    reference: int
    """Of the call, 1 to 32767."""
    from_callee: bool = False
    called: str = ""
    """Digits; empty if the message does not say."""
    cause: int = 0
    """Of a release; 0 if the message does not say."""
    user: bytes = b""
    """What H.225.0 adds, in PER; empty for nothing."""


def read_q931(content: bytes) -> Q931Message:
    """The message of a TPKT; raises ``NoMessage`` for anything else."""
    head = bytes((_DISCRIMINATOR, _REFERENCE_BYTES))
    if content[:2] != head or len(content) < 5 or content[4] not in TITLES:
        raise NoMessage("no message of Q.931")
    number = int.from_bytes(content[2:4])
    called, cause, user = "", 0, b""
    for kind, value in _elements(content[5:]):
        if kind == _CALLED:
            called = value[1:].decode("ascii", "replace")
        elif kind == _CAUSE and len(value) > 1:
            # What is wrong stands behind octets that are continued (Q.850, 2.1).
            at = next((i for i, octet in enumerate(value) if octet & _SINGLE), 0) + 1
            cause = value[at] & 0x7F if at < len(value) else 0
        elif kind == _USER:
            user = value[1:]
    return Q931Message(content[4], number & ~_FROM_CALLEE, bool(number & _FROM_CALLEE), called, cause, user)


def written_q931(message: Q931Message) -> bytes:
    """The content of its TPKT."""
    number = message.reference | (_FROM_CALLEE if message.from_callee else 0)
    parts = [struct.pack(">BBHB", _DISCRIMINATOR, _REFERENCE_BYTES, number, message.kind)]
    if message.kind == SETUP:
        parts.append(_element(_BEARER, _SPEECH))
    if message.cause:
        parts.append(_element(_CAUSE, bytes((_SINGLE, _SINGLE | message.cause))))
    if message.called:
        parts.append(_element(_CALLED, bytes((_NUMBER,)) + message.called.encode("ascii")))
    if message.user:
        parts.append(struct.pack(">BHB", _USER, 1 + len(message.user), _PER) + message.user)
    return b"".join(parts)


def _element(kind: int, value: bytes) -> bytes:
    return bytes((kind, len(value))) + value


def _elements(content: bytes) -> Iterator[tuple[int, bytes]]:
    """Information elements (Q.931, 4.5.1); user-user has a length of two octets (H.225.0, 7.2.2.31)."""
    at = 0
    while at < len(content):
        kind = content[at]
        if kind & _SINGLE:
            at += 1
            continue
        width = 2 if kind == _USER else 1
        size = int.from_bytes(content[at + 1 : at + 1 + width])
        at += 1 + width
        yield kind, content[at : at + size]
        at += size


class TpktReader:
    """TPKTs (RFC 1006, 6) out of the bytes of a connection."""

    _HEAD: Final = 4
    _VERSION: Final = b"\x03"

    def __init__(self) -> None:
        self._bytes = b""

    def take(self, content: bytes) -> Iterator[bytes]:
        """Messages that these bytes complete; raises ``NoMessage`` if they are not TPKTs."""
        self._bytes += content
        while self._bytes:
            size = int.from_bytes(self._bytes[2 : self._HEAD])
            if self._bytes[:1] != self._VERSION or (len(self._bytes) >= self._HEAD and size < self._HEAD):
                raise NoMessage(f"no TPKT: {self._bytes[:8].hex(' ')}")
            if len(self._bytes) < max(size, self._HEAD):
                return
            whole, self._bytes = self._bytes[self._HEAD : size], self._bytes[size:]
            yield whole


def tpkt(content: bytes) -> bytes:
    """A TPKT."""
    return struct.pack(">BBH", 3, 0, 4 + len(content)) + content


_asn1 = extras.VOICE.deferred("pycrate_asn1dir.H225")

TERMINAL: Final = {"terminal": {}, "mc": False, "undefinedNode": False}
"""What a telephone is (EndpointType)."""

_BODIES: Final = {
    SETUP: "setup", PROCEEDING: "callProceeding", ALERTING: "alerting",
    CONNECT: "connect", RELEASE: "releaseComplete",
}  # fmt: skip
_EXTENSIONS: Final = {"multipleCalls": False, "maintainConnection": False}


@dataclass(frozen=True)
class H225Message:
    """A message between the two ends of a call."""

    kind: int
    """Message type of Q.931."""
    reference: int
    from_callee: bool = False
    call: str = ""
    """The call's identifier, 32 hexadecimal digits; empty if the message does not say."""
    number: str = ""
    """Called, digits."""
    cause: int = 0
    control: Address | None = None
    """Where the sender waits for a connection of H.245."""
    channels: tuple[Channel, ...] = ()
    """Proposed, or accepted, in fast connect."""
    source: Address | None = None
    """Where the caller takes calls itself."""
    alias: str = ""
    """What the caller is called."""

    @property
    def title(self) -> str:
        """``Setup 420224355289``, ``Release Complete cause 16``."""
        more = self.number or (f"cause {self.cause}" if self.cause else "")
        return f"{TITLES[self.kind]} {more}".rstrip()


def read(content: bytes) -> H225Message:
    """The message of a TPKT; raises ``NoMessage``."""
    message = read_q931(content)
    found = _body(message.user) if message.user else {}
    control = unpacked(found.get("h245Address"))
    # Before version 2, a call had the identifier of its conference alone.
    call = identifier(found) or bytes(found.get("conferenceID", b"")).hex()
    if message.kind == SETUP and not call:
        raise NoMessage("a Setup that does not identify its call")
    return H225Message(
        message.kind,
        message.reference,
        message.from_callee,
        call,
        message.called or first_number(found.get("destinationAddress", [])),
        message.cause,
        control,
        tuple(h245.proposal(each) for each in found.get("fastStart", ())),
        unpacked(found.get("sourceCallSignalAddress")),
        next((str(value) for kind, value in found.get("sourceAddress", []) if kind == "h323-ID"), ""),
    )


def written(signal: H225Message) -> bytes:
    """The content of its TPKT."""
    schema = _asn1.H323_MESSAGES.H323_UserInformation
    body = (_BODIES[signal.kind], _fields(signal))
    schema.set_val({"h323-uu-pdu": {"h323-message-body": body, "h245Tunnelling": False}})
    user: bytes = schema.to_aper()
    called = signal.number if signal.kind == SETUP else ""
    return written_q931(
        Q931Message(signal.kind, signal.reference, signal.from_callee, called, signal.cause, user)
    )


def _body(user: bytes) -> Mapping[str, Any]:
    schema = _asn1.H323_MESSAGES.H323_UserInformation
    try:
        schema.from_aper(user)
        _, found = schema.get_val()["h323-uu-pdu"]["h323-message-body"]
    except Exception as error:
        # Every exception of a decoder of foreign bytes means the same.
        raise NoMessage(f"no user information of H.225.0: {type(error).__name__}") from None
    return found if isinstance(found, dict) else {}


def _fields(signal: H225Message) -> dict[str, Any]:
    known: dict[str, Any] = {"protocolIdentifier": PROTOCOL}
    if signal.call:
        known["callIdentifier"] = {"guid": bytes.fromhex(signal.call)}
    if signal.control is not None:
        known["h245Address"] = packed(signal.control)
    if signal.channels:
        known["fastStart"] = [h245.proposed(channel) for channel in signal.channels]
    if signal.kind == SETUP:
        known |= {
            "sourceInfo": TERMINAL,
            "destinationAddress": [("dialledDigits", signal.number)],
            "activeMC": False,
            "conferenceID": bytes.fromhex(signal.call),
            "conferenceGoal": ("create", 0),
            "callType": ("pointToPoint", 0),
            "mediaWaitForConnect": False,
            "canOverlapSend": False,
            **_EXTENSIONS,
        }
        if signal.alias:
            known["sourceAddress"] = [("h323-ID", signal.alias)]
        if signal.source is not None:
            known["sourceCallSignalAddress"] = packed(signal.source)
    elif signal.kind == CONNECT:
        known |= {"destinationInfo": TERMINAL, "conferenceID": bytes.fromhex(signal.call), **_EXTENSIONS}
    elif signal.kind in (PROCEEDING, ALERTING):
        known |= {"destinationInfo": TERMINAL, **_EXTENSIONS}
    return known
