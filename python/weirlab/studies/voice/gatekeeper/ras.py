"""Messages of H.225.0 RAS (ITU-T H.225.0, 7.7 to 7.13) as plain values. Pure: bytes in, values out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from ipaddress import ip_address
from typing import Any, ClassVar, Final, NamedTuple

from weirlab import extras

_h225 = extras.VOICE.deferred("pycrate_asn1dir.H225")

PORT: Final = 1719
"""Where gatekeepers wait for requests."""

_PROTOCOL: Final = (0, 0, 8, 2250, 0, 4)
"""H.225.0 version 4, as the root of its object identifiers."""

_INFORMATION: Final = (
    "setup", "callProceeding", "connect", "alerting", "information", "releaseComplete", "facility",
    "progress", "empty",
)  # fmt: skip
"""Call signalling messages of which a gatekeeper could ask for copies."""


class NoMessage(ValueError):
    """The datagram is no message that is known here."""


class Address(NamedTuple):
    """A transport address."""

    host: str
    port: int


@dataclass(frozen=True)
class Message:
    """What all have in common."""

    NAME: ClassVar[str]
    """As ASN.1 has it."""

    number: int
    """requestSeqNum, 1 to 65535: an answer has that of its request."""


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


KINDS: Final[tuple[type[Message], ...]] = (
    GatekeeperRequest, GatekeeperConfirm, RegistrationRequest, RegistrationConfirm, RegistrationReject,
    UnregistrationRequest, UnregistrationConfirm, AdmissionRequest, AdmissionConfirm, AdmissionReject,
    DisengageRequest, DisengageConfirm, BandwidthRequest, BandwidthConfirm, LocationRequest, LocationConfirm,
    LocationReject,
)  # fmt: skip

_BY_NAME: Final = {kind.NAME: kind for kind in KINDS}


def read(datagram: bytes) -> Message:
    """The message of a datagram.

    Raises
    ------
    NoMessage
        It is none, or one that is not known here.
    MissingCapability
        pycrate is not installed.
    """
    schema = _h225.H323_MESSAGES.RasMessage
    try:
        schema.from_aper(datagram)
        name, found = schema.get_val()
    except Exception as error:
        # Whatever a decoder of foreign bytes raises says the same.
        raise NoMessage(f"no message of H.225.0 RAS: {type(error).__name__}") from None
    kind = _BY_NAME.get(name)
    if kind is None:
        raise NoMessage(f"{name} is not known here")
    make: Callable[..., Message] = kind
    try:
        return make(**{field.name: _READ[field.name](found) for field in fields(kind)})
    except (KeyError, ValueError, TypeError) as error:
        raise NoMessage(f"{name} without what it needs: {error}") from None


def written(message: Message) -> bytes:
    """The datagram of a message that a gatekeeper sends."""
    schema = _h225.H323_MESSAGES.RasMessage
    schema.set_val((message.NAME, {"requestSeqNum": message.number, **_fields(message)}))
    encoded: bytes = schema.to_aper()
    return encoded


def _fields(message: Message) -> dict[str, Any]:
    match message:
        case GatekeeperConfirm():
            known = {"gatekeeperIdentifier": message.gatekeeper, "rasAddress": _packed(message.ras)}
            return {"protocolIdentifier": _PROTOCOL, **known}
        case RegistrationConfirm():
            return {
                "protocolIdentifier": _PROTOCOL,
                "callSignalAddress": [],
                "gatekeeperIdentifier": message.gatekeeper,
                "endpointIdentifier": message.endpoint,
                "timeToLive": message.live_s,
                "willRespondToIRR": False,
                "maintainConnection": False,
            }
        case RegistrationReject():
            return {"protocolIdentifier": _PROTOCOL, "rejectReason": (message.reason, 0)}
        case AdmissionConfirm():
            mapped = {"destinationInfo": [("dialledDigits", message.digits)]} if message.digits else {}
            return {
                "bandWidth": message.bandwidth,
                "callModel": ("direct", 0),
                "destCallSignalAddress": _packed(message.destination),
                **mapped,
                "willRespondToIRR": False,
                "uuiesRequested": dict.fromkeys(_INFORMATION, False),
            }
        case AdmissionReject() | LocationReject():
            return {"rejectReason": (message.reason, 0)}
        case BandwidthConfirm():
            return {"bandWidth": message.bandwidth}
        case LocationRequest():
            asked = {"destinationInfo": [("dialledDigits", message.digits)]}
            hops = {"hopCount": message.hops} if message.hops else {}
            return {**asked, "replyAddress": _packed(message.reply), **hops}
        case LocationConfirm():
            return {"callSignalAddress": _packed(message.signalling), "rasAddress": _packed(message.ras)}
        case UnregistrationConfirm() | DisengageConfirm():
            return {}
        case _:
            raise TypeError(f"a gatekeeper does not send {message.NAME}")


def _packed(address: Address) -> tuple[str, dict[str, Any]]:
    packed = ip_address(address.host).packed
    kind = "ipAddress" if len(packed) == 4 else "ip6Address"
    return kind, {"ip": packed, "port": address.port}


def _unpacked(found: object) -> Address | None:
    """None for an address of another network than the Internet."""
    match found:
        case ("ipAddress" | "ip6Address", {"ip": bytes() as packed, "port": int() as port}):
            return Address(str(ip_address(packed)), port)
    return None


def _needed(found: object) -> Address:
    address = _unpacked(found)
    if address is None:
        raise ValueError("an address that is none of the Internet")
    return address


def _first(found: Sequence[object]) -> Address | None:
    return next((address for each in found if (address := _unpacked(each)) is not None), None)


def _digits(aliases: Sequence[tuple[str, object]]) -> str:
    """The first number among aliases, without a +."""
    named = (str(value) for kind, value in aliases if kind == "dialledDigits")
    return next(named, "").lstrip("+")


def _texts(aliases: Sequence[tuple[str, object]]) -> tuple[str, ...]:
    return tuple(value for _, value in aliases if isinstance(value, str))


def _signalling(found: Mapping[str, Any]) -> Address | None:
    """Of a request, a list of addresses; of a LocationConfirm, one."""
    listed = found.get("callSignalAddress", [])
    return _first(listed) if isinstance(listed, list) else _needed(listed)


_READ: Final[dict[str, Callable[[Mapping[str, Any]], object]]] = {
    "number": lambda found: int(found["requestSeqNum"]),
    "gatekeeper": lambda found: str(found.get("gatekeeperIdentifier", "")),
    "ras": lambda found: _needed(found["rasAddress"]),
    "signalling": _signalling,
    "aliases": lambda found: _texts(found.get("terminalAlias", [])),
    "endpoint": lambda found: str(found.get("endpointIdentifier", "")),
    "keeps_alive": lambda found: bool(found.get("keepAlive", False)),
    "live_s": lambda found: int(found.get("timeToLive", 0)),
    "reason": lambda found: str(found["rejectReason"][0]),
    "digits": lambda found: _digits(found.get("destinationInfo", [])),
    "answers": lambda found: bool(found["answerCall"]),
    "bandwidth": lambda found: int(found["bandWidth"]),
    "destination": lambda found: _unpacked(found.get("destCallSignalAddress")),
    "maps": lambda found: bool(found.get("canMapAlias", False)),
    "reply": lambda found: _needed(found["replyAddress"]),
    "hops": lambda found: int(found.get("hopCount", 0)),
}
"""How each field is found in what pycrate decodes."""
