"""Messages between H.323 gatekeepers, gateways and telephones (H.225.0 RAS), as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple


class NoMessage(ValueError):
    """The datagram is not a known message."""


class Address(NamedTuple):
    """A transport address."""

    host: str
    port: int


@dataclass(frozen=True)
class Message:
    """What all messages have in common."""

    NAME: ClassVar[str]
    """The name in ASN.1."""

    number: int
    """requestSeqNum, 1 to 65535; an answer has that of its request."""


@dataclass(frozen=True)
class GatekeeperRequest(Message):
    """Who is my gatekeeper?"""

    NAME = "gatekeeperRequest"


@dataclass(frozen=True)
class GatekeeperConfirm(Message):
    """I am."""

    NAME = "gatekeeperConfirm"

    gatekeeper: str
    ras: Address


@dataclass(frozen=True)
class RegistrationRequest(Message):
    """Here I am, or here I still am."""

    NAME = "registrationRequest"

    signalling: Address | None
    """Where calls are taken."""
    aliases: tuple[str, ...]
    """Numbers and names, without telling which is which."""
    endpoint: str
    """The identifier that the gatekeeper gave; empty for none."""
    keeps_alive: bool
    """Only that it still is there."""
    ras: Address | None = None
    """Where answers go; None where the message does not say."""


@dataclass(frozen=True)
class RegistrationConfirm(Message):
    """You are registered."""

    NAME = "registrationConfirm"

    gatekeeper: str
    endpoint: str
    live_s: int
    """For how long."""


@dataclass(frozen=True)
class RegistrationReject(Message):
    """You are not."""

    NAME = "registrationReject"

    reason: str


@dataclass(frozen=True)
class UnregistrationRequest(Message):
    """Here I am no more."""

    NAME = "unregistrationRequest"

    endpoint: str
    signalling: Address | None


@dataclass(frozen=True)
class UnregistrationConfirm(Message):
    """Noted."""

    NAME = "unregistrationConfirm"


@dataclass(frozen=True)
class AdmissionRequest(Message):
    """May I call this number, or take this call?"""

    NAME = "admissionRequest"

    endpoint: str
    digits: str
    """Of the number called; empty for none."""
    answers: bool
    """The callee asks."""
    bandwidth: int
    """In 100 bit/s."""
    destination: Address | None
    maps: bool
    """It can call another number than the one it asks for (canMapAlias)."""
    call: str = ""
    """The call's identifier, 32 hexadecimal digits; empty if the message does not say."""
    reference: int = 0
    """Of the call, in its signalling."""
    callers: tuple[str, ...] = ()
    """Numbers and names of who calls."""


@dataclass(frozen=True)
class AdmissionConfirm(Message):
    """You may, at this address."""

    NAME = "admissionConfirm"

    bandwidth: int
    destination: Address
    digits: str = ""
    """The number to call, if it is another one."""


@dataclass(frozen=True)
class AdmissionReject(Message):
    """You may not."""

    NAME = "admissionReject"

    reason: str


@dataclass(frozen=True)
class DisengageRequest(Message):
    """The call is over."""

    NAME = "disengageRequest"

    endpoint: str = ""
    call: str = ""
    """The call's identifier."""
    reference: int = 0


@dataclass(frozen=True)
class DisengageConfirm(Message):
    """Noted."""

    NAME = "disengageConfirm"


@dataclass(frozen=True)
class BandwidthRequest(Message):
    """May the call take so much?"""

    NAME = "bandwidthRequest"

    bandwidth: int


@dataclass(frozen=True)
class BandwidthConfirm(Message):
    """It may."""

    NAME = "bandwidthConfirm"

    bandwidth: int


@dataclass(frozen=True)
class LocationRequest(Message):
    """Where does this number lead? A gatekeeper asks its neighbour."""

    NAME = "locationRequest"

    digits: str
    reply: Address
    """Where the answer goes."""
    hops: int = 0
    """Gatekeepers that it may still be passed on to; 0 if it does not tell."""
    callers: tuple[str, ...] = ()
    """Who wants to call there, if the gatekeeper knows."""


@dataclass(frozen=True)
class LocationConfirm(Message):
    """To this address."""

    NAME = "locationConfirm"

    signalling: Address
    ras: Address


@dataclass(frozen=True)
class LocationReject(Message):
    """Nowhere."""

    NAME = "locationReject"

    reason: str


@dataclass(frozen=True)
class InfoRequestResponse(Message):
    """How a call stands; an endpoint tells it without being asked, too."""

    NAME = "infoRequestResponse"

    endpoint: str
    needs_response: bool
    """The endpoint waits for an answer (needResponse)."""


@dataclass(frozen=True)
class InfoRequestAck(Message):
    """Noted."""

    NAME = "infoRequestAck"


@dataclass(frozen=True)
class InfoRequestNak(Message):
    """It cannot be taken."""

    NAME = "infoRequestNak"

    reason: str


KINDS: Final[tuple[type[Message], ...]] = (
    GatekeeperRequest, GatekeeperConfirm, RegistrationRequest, RegistrationConfirm, RegistrationReject,
    UnregistrationRequest, UnregistrationConfirm, AdmissionRequest, AdmissionConfirm, AdmissionReject,
    DisengageRequest, DisengageConfirm, BandwidthRequest, BandwidthConfirm, LocationRequest, LocationConfirm,
    LocationReject, InfoRequestResponse, InfoRequestAck, InfoRequestNak,
)  # fmt: skip
