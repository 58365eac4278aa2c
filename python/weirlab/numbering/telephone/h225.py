"""Call signalling of H.225.0 (7.3) as plain values: Q.931 and what H.225.0 adds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from weirlab.base import extras
from weirlab.numbering.gatekeeper.datagrams import PROTOCOL, first_number, identifier, packed, unpacked
from weirlab.numbering.gatekeeper.ras import Address, NoMessage
from weirlab.numbering.telephone import h245, q931
from weirlab.numbering.telephone.h245 import Channel

_asn1 = extras.VOICE.deferred("pycrate_asn1dir.H225")

TERMINAL: Final = {"terminal": {}, "mc": False, "undefinedNode": False}
"""What a telephone is (EndpointType)."""

_BODIES: Final = {
    q931.SETUP: "setup", q931.PROCEEDING: "callProceeding", q931.ALERTING: "alerting",
    q931.CONNECT: "connect", q931.RELEASE: "releaseComplete",
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
        return f"{q931.TITLES[self.kind]} {more}".rstrip()


def read(content: bytes) -> H225Message:
    """The message of a TPKT; raises ``NoMessage``."""
    message = q931.read(content)
    found = _body(message.user) if message.user else {}
    control = unpacked(found.get("h245Address"))
    # Before version 2, a call had the identifier of its conference alone.
    call = identifier(found) or bytes(found.get("conferenceID", b"")).hex()
    if message.kind == q931.SETUP and not call:
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
    called = signal.number if signal.kind == q931.SETUP else ""
    return q931.written(
        q931.Q931Message(signal.kind, signal.reference, signal.from_callee, called, signal.cause, user)
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
    match signal.kind:
        case q931.SETUP:
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
        case q931.CONNECT:
            known |= {"destinationInfo": TERMINAL, "conferenceID": bytes.fromhex(signal.call), **_EXTENSIONS}
        case q931.PROCEEDING | q931.ALERTING:
            known |= {"destinationInfo": TERMINAL, **_EXTENSIONS}
    return known
