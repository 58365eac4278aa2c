"""Messages of H.245 that a telephone needs, as plain values. Pure: bytes in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, ClassVar, Final

from weirlab.base import extras
from weirlab.numbering.gatekeeper.ras import Address, NoMessage

_asn1 = extras.VOICE.deferred("pycrate_asn1dir.H225")

_PROTOCOL: Final = (0, 0, 8, 245, 0, 7)
"""H.245 version 7, as the root of its object identifiers."""

_GSM: Final = {"audioUnitSize": 33, "comfortNoise": False, "scrambled": False}
CODECS: Final[Mapping[str, tuple[str, object]]] = {
    "alaw": ("g711Alaw64k", 20),
    "ulaw": ("g711Ulaw64k", 20),
    "g722": ("g722-64k", 20),
    "g729": ("g729", 2),
    "gsm": ("gsmFullRate", _GSM),
}
"""Audio capabilities by the names of codecs, with the most that a packet holds: 20 ms."""

_NAMES: Final = {name: codec for codec, (name, _) in CODECS.items()}

_NOTHING: Final = {"centralizedControl", "distributedControl", "centralizedAudio", "distributedAudio"}
_MULTIPOINT: Final = {
    "multicastCapability": False,
    "multiUniCastConference": False,
    "mediaDistributionCapability": [
        dict.fromkeys((*sorted(_NOTHING), "centralizedVideo", "distributedVideo"), False)
    ],
}
_MULTIPLEX: Final = {
    "maximumAudioDelayJitter": 60,
    "receiveMultipointCapability": _MULTIPOINT,
    "transmitMultipointCapability": _MULTIPOINT,
    "receiveAndTransmitMultipointCapability": _MULTIPOINT,
    "mcCapability": {"centralizedConferenceMC": False, "decentralizedConferenceMC": False},
    "rtcpVideoControlCapability": False,
    "mediaPacketizationCapability": {"h261aVideoPacketization": False},
}
"""No conferences."""

_SESSION: Final = 1
"""That of audio (H.245, B.3.1)."""


@dataclass(frozen=True)
class Channel:
    """A logical channel for speech, as its proposer describes it."""

    number: int
    codec: str
    """Empty for one that is not known here."""
    reverse: bool = False
    """It leads to the proposer; only in fast connect (H.323, 8.1.7)."""
    media: Address | None = None
    """Where its RTP packets go."""
    control: Address | None = None
    """Where RTCP packets about it go."""


@dataclass(frozen=True)
class ControlMessage:
    """What all messages have in common."""

    GROUP: ClassVar[str]
    """``request``, ``response`` or ``command``."""
    NAME: ClassVar[str]
    """The name in ASN.1."""
    TITLE: ClassVar[str]


@dataclass(frozen=True)
class NumberedMessage(ControlMessage):
    """A message that says nothing but a number, besides what is always the same."""

    FIELD: ClassVar[str] = "forwardLogicalChannelNumber"
    """The number's name in ASN.1."""
    ALWAYS: ClassVar[Mapping[str, object]] = {}

    number: int


@dataclass(frozen=True)
class Capabilities(ControlMessage):
    """What the sender can hear (TerminalCapabilitySet)."""

    GROUP, NAME, TITLE = "request", "terminalCapabilitySet", "TCS"

    number: int
    codecs: tuple[str, ...]


@dataclass(frozen=True)
class CapabilitiesAck(NumberedMessage):
    """Understood."""

    GROUP, NAME, TITLE = "response", "terminalCapabilitySetAck", "TCS Ack"
    FIELD = "sequenceNumber"


@dataclass(frozen=True)
class Determination(ControlMessage):
    """Who is the master?"""

    GROUP, NAME, TITLE = "request", "masterSlaveDetermination", "MSD"

    kind: int
    number: int


@dataclass(frozen=True)
class DeterminationAck(ControlMessage):
    """You are, or I am."""

    GROUP, NAME, TITLE = "response", "masterSlaveDeterminationAck", "MSD Ack"

    you_are_master: bool


@dataclass(frozen=True)
class OpenChannel(ControlMessage):
    """A channel is to be opened from the sender."""

    GROUP, NAME, TITLE = "request", "openLogicalChannel", "OLC"

    channel: Channel


@dataclass(frozen=True)
class OpenChannelAck(ControlMessage):
    """It is open."""

    GROUP, NAME, TITLE = "response", "openLogicalChannelAck", "OLC Ack"

    number: int
    media: Address | None
    control: Address | None = None


@dataclass(frozen=True)
class OpenChannelReject(NumberedMessage):
    """It is not."""

    GROUP, NAME, TITLE = "response", "openLogicalChannelReject", "OLC Reject"
    ALWAYS = {"cause": ("dataTypeNotSupported", 0)}


@dataclass(frozen=True)
class CloseChannel(NumberedMessage):
    """A channel ends."""

    GROUP, NAME, TITLE = "request", "closeLogicalChannel", "CLC"
    ALWAYS = {"source": ("lcse", 0)}


@dataclass(frozen=True)
class CloseChannelAck(NumberedMessage):
    """It has ended."""

    GROUP, NAME, TITLE = "response", "closeLogicalChannelAck", "CLC Ack"


@dataclass(frozen=True)
class RoundTrip(NumberedMessage):
    """RTDSE: asks whether the other end is there."""

    GROUP, NAME, TITLE = "request", "roundTripDelayRequest", "RTDR"
    FIELD = "sequenceNumber"


@dataclass(frozen=True)
class RoundTripAnswer(NumberedMessage):
    """RTDSE: the answer to a round-trip request."""

    GROUP, NAME, TITLE = "response", "roundTripDelayResponse", "RTDR Ack"
    FIELD = "sequenceNumber"


@dataclass(frozen=True)
class EndSession(ControlMessage):
    """Nothing more will come."""

    GROUP, NAME, TITLE = "command", "endSessionCommand", "End Session"


@dataclass(frozen=True)
class UnknownControl(ControlMessage):
    """A message that a telephone needs not understand."""

    name: str


_NUMBERED: Final = {kind.NAME: kind for kind in NumberedMessage.__subclasses__()}


def read(content: bytes) -> ControlMessage:
    """The message of a TPKT; raises ``NoMessage``."""
    schema = _asn1.MULTIMEDIA_SYSTEM_CONTROL.MultimediaSystemControlMessage
    try:
        schema.from_aper(content)
        kind, chosen = schema.get_val()
    except Exception as error:
        # Every exception of a decoder of foreign bytes means the same.
        raise NoMessage(f"no message of H.245: {type(error).__name__}") from None
    if not isinstance(chosen, tuple):
        # A kind of later versions of H.245, in bytes.
        return UnknownControl(kind)
    name, found = chosen
    try:
        return _meant(name, found)
    except (KeyError, ValueError, TypeError) as error:
        raise NoMessage(f"{name} without what it needs: {error}") from None


def written(message: ControlMessage) -> bytes:
    """The content of its TPKT."""
    schema = _asn1.MULTIMEDIA_SYSTEM_CONTROL.MultimediaSystemControlMessage
    schema.set_val((message.GROUP, (message.NAME, _content(message))))
    encoded: bytes = schema.to_aper()
    return encoded


def title(message: ControlMessage) -> str:
    """``OLC alaw``, ``TCS alaw ulaw``."""
    match message:
        case UnknownControl(name):
            return name
        case Capabilities(_, codecs):
            more = " ".join(codecs)
        case OpenChannel(channel):
            more = channel.codec
        case _:
            more = ""
    return f"{message.TITLE} {more}".rstrip()


def proposal(content: bytes) -> Channel:
    """A channel out of the ``fastStart`` of H.225.0; raises ``NoMessage``."""
    schema = _asn1.MULTIMEDIA_SYSTEM_CONTROL.OpenLogicalChannel
    try:
        schema.from_aper(content)
        return _channel(schema.get_val())
    except Exception as error:
        raise NoMessage(f"no logical channel: {type(error).__name__}") from None


def proposed(channel: Channel) -> bytes:
    """A channel for the ``fastStart`` of H.225.0."""
    schema = _asn1.MULTIMEDIA_SYSTEM_CONTROL.OpenLogicalChannel
    schema.set_val(_opened(channel))
    encoded: bytes = schema.to_aper()
    return encoded


def _meant(name: str, found: Any) -> ControlMessage:
    match name:
        case Capabilities.NAME:
            return Capabilities(found["sequenceNumber"], _codecs(found.get("capabilityTable", ())))
        case Determination.NAME:
            return Determination(found["terminalType"], found["statusDeterminationNumber"])
        case DeterminationAck.NAME:
            return DeterminationAck(found["decision"][0] == "master")
        case OpenChannel.NAME:
            return OpenChannel(_channel(found))
        case OpenChannelAck.NAME:
            number = found["forwardLogicalChannelNumber"]
            match found.get("forwardMultiplexAckParameters"):
                case ("h2250LogicalChannelAckParameters", dict() as more):
                    media, control = more.get("mediaChannel"), more.get("mediaControlChannel")
                    return OpenChannelAck(number, _unpacked(media), _unpacked(control))
            return OpenChannelAck(number, None)
        case EndSession.NAME:
            return EndSession()
    if (kind := _NUMBERED.get(name)) is not None:
        return kind(found[kind.FIELD])
    return UnknownControl(name)


def _content(message: ControlMessage) -> Any:
    """What ASN.1 has below the name of a message."""
    match message:
        case NumberedMessage():
            return {message.FIELD: message.number, **message.ALWAYS}
        case Capabilities():
            return _capable(message)
        case Determination(kind, number):
            return {"terminalType": kind, "statusDeterminationNumber": number}
        case DeterminationAck(you_are_master):
            return {"decision": ("master" if you_are_master else "slave", 0)}
        case OpenChannel(channel):
            return _opened(channel)
        case OpenChannelAck(number, media, control):
            parameters = _parameters(media, control)
            return {
                "forwardLogicalChannelNumber": number,
                "forwardMultiplexAckParameters": ("h2250LogicalChannelAckParameters", parameters),
            }
        case EndSession():
            return "disconnect", 0
    raise TypeError(f"a telephone does not send {title(message)}")


def _capable(message: Capabilities) -> dict[str, Any]:
    entries = [
        {"capabilityTableEntryNumber": number, "capability": ("receiveAudioCapability", CODECS[codec])}
        for number, codec in enumerate(message.codecs, 1)
    ]
    any_of = [entry["capabilityTableEntryNumber"] for entry in entries]
    return {
        "sequenceNumber": message.number,
        "protocolIdentifier": _PROTOCOL,
        "multiplexCapability": ("h2250Capability", _MULTIPLEX),
        "capabilityTable": entries,
        "capabilityDescriptors": [{"capabilityDescriptorNumber": 0, "simultaneousCapabilities": [any_of]}],
    }


def _codecs(table: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """The codecs that the sender of a table hears, in its order."""
    found = []
    for entry in table:
        match entry.get("capability"):
            case ("receiveAudioCapability" | "receiveAndTransmitAudioCapability", (str() as name, _)):
                found.append(_NAMES.get(name, ""))
    return tuple(dict.fromkeys(filter(None, found)))


def _opened(channel: Channel) -> dict[str, Any]:
    parameters = _parameters(channel.media, channel.control)
    speech = {
        "dataType": ("audioData", CODECS[channel.codec]),
        "multiplexParameters": ("h2250LogicalChannelParameters", parameters),
    }
    number = {"forwardLogicalChannelNumber": channel.number}
    if not channel.reverse:
        return {**number, "forwardLogicalChannelParameters": speech}
    nothing = {"dataType": ("nullData", 0), "multiplexParameters": ("none", 0)}
    return {**number, "forwardLogicalChannelParameters": nothing, "reverseLogicalChannelParameters": speech}


def _channel(found: Mapping[str, Any]) -> Channel:
    reverse = found.get("reverseLogicalChannelParameters")
    parameters = reverse if reverse is not None else found["forwardLogicalChannelParameters"]
    codec = ""
    match parameters["dataType"]:
        case ("audioData", (str() as name, _)):
            codec = _NAMES.get(name, "")
    media = control = None
    match parameters.get("multiplexParameters"):
        case ("h2250LogicalChannelParameters", dict() as more):
            media, control = _unpacked(more.get("mediaChannel")), _unpacked(more.get("mediaControlChannel"))
    return Channel(found["forwardLogicalChannelNumber"], codec, reverse is not None, media, control)


def _parameters(media: Address | None, control: Address | None) -> dict[str, Any]:
    known = {"mediaChannel": media, "mediaControlChannel": control}
    places = {name: _packed(place) for name, place in known.items() if place is not None}
    return {"sessionID": _SESSION, **places}


def _packed(address: Address) -> tuple[str, Any]:
    packed = ip_address(address.host).packed
    kind = "iPAddress" if len(packed) == 4 else "iP6Address"
    return "unicastAddress", (kind, {"network": packed, "tsapIdentifier": address.port})


def _unpacked(found: object) -> Address | None:
    """None for no address, or one of another network than the Internet."""
    match found:
        case (
            "unicastAddress",
            ("iPAddress" | "iP6Address", {"network": bytes() as packed, "tsapIdentifier": int() as port}),
        ):
            return Address(str(ip_address(packed)), port)
    return None
