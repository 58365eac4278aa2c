"""Messages between H.323 gatekeepers, gateways and telephones (H.225.0 RAS), as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

PORT: Final = 1719
"""Where gatekeepers wait for requests."""


class NoMessage(ValueError):
    """The datagram is not a known message."""


class Address(NamedTuple):
    """A transport address."""

    host: str
    port: int


@dataclass(frozen=True)
class RasMessage:
    """What all messages have in common."""

    NAME: ClassVar[str]
    """The name in ASN.1: that of the class, with a small first letter."""

    number: int
    """requestSeqNum, 1 to 65535; an answer has that of its request."""

    def __init_subclass__(cls) -> None:
        cls.NAME = cls.__name__[:1].lower() + cls.__name__[1:]


@dataclass(frozen=True)
class GatekeeperRequest(RasMessage):
    """GRQ: asks for a gatekeeper."""


@dataclass(frozen=True)
class GatekeeperConfirm(RasMessage):
    """GCF: names the gatekeeper."""

    gatekeeper: str
    ras: Address


@dataclass(frozen=True)
class RegistrationRequest(RasMessage):
    """RRQ: registers an endpoint, or renews its registration."""

    signalling: Address | None
    """Where calls are taken."""
    aliases: tuple[str, ...]
    """Numbers and names, without their types."""
    endpoint: str
    """The identifier that the gatekeeper gave; empty for none."""
    keeps_alive: bool
    """Is it only a renewal (keepAlive)?"""
    ras: Address | None = None
    """Where answers go; None if the message does not say."""


@dataclass(frozen=True)
class RegistrationConfirm(RasMessage):
    """RCF: the endpoint is registered."""

    gatekeeper: str
    endpoint: str
    live_s: int
    """For how long."""


@dataclass(frozen=True)
class RegistrationReject(RasMessage):
    """RRJ: the endpoint is not registered."""

    reason: str


@dataclass(frozen=True)
class UnregistrationRequest(RasMessage):
    """URQ: ends a registration."""

    endpoint: str
    signalling: Address | None


@dataclass(frozen=True)
class UnregistrationConfirm(RasMessage):
    """Noted."""


@dataclass(frozen=True)
class AdmissionRequest(RasMessage):
    """ARQ: asks for permission to call a number, or to take a call."""

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
class AdmissionConfirm(RasMessage):
    """ACF: permission, with the address to call."""

    bandwidth: int
    destination: Address
    digits: str = ""
    """The number to call, if it is another one."""


@dataclass(frozen=True)
class AdmissionReject(RasMessage):
    """ARJ: no permission."""

    reason: str


@dataclass(frozen=True)
class DisengageRequest(RasMessage):
    """DRQ: the call is over."""

    endpoint: str = ""
    call: str = ""
    """The call's identifier."""
    reference: int = 0


@dataclass(frozen=True)
class DisengageConfirm(RasMessage):
    """Noted."""


@dataclass(frozen=True)
class BandwidthRequest(RasMessage):
    """BRQ: asks for bandwidth."""

    bandwidth: int


@dataclass(frozen=True)
class BandwidthConfirm(RasMessage):
    """BCF: the bandwidth is granted."""

    bandwidth: int


@dataclass(frozen=True)
class LocationRequest(RasMessage):
    """LRQ: a gatekeeper asks its neighbour for the location of a number."""

    digits: str
    reply: Address
    """Where the answer goes."""
    hops: int = 0
    """Gatekeepers to which it may still be passed on; 0 if it does not say."""
    callers: tuple[str, ...] = ()
    """Aliases of the caller, if the gatekeeper knows them."""


@dataclass(frozen=True)
class LocationConfirm(RasMessage):
    """LCF: the location."""

    signalling: Address
    ras: Address


@dataclass(frozen=True)
class LocationReject(RasMessage):
    """LRJ: there is no location."""

    reason: str


@dataclass(frozen=True)
class InfoRequestResponse(RasMessage):
    """IRR: the status of a call, which an endpoint also sends unsolicited."""

    endpoint: str
    needs_response: bool
    """The endpoint waits for an answer (needResponse)."""


@dataclass(frozen=True)
class InfoRequestAck(RasMessage):
    """Noted."""


@dataclass(frozen=True)
class InfoRequestNak(RasMessage):
    """It cannot be taken."""

    reason: str


KINDS: Final = tuple(RasMessage.__subclasses__())
