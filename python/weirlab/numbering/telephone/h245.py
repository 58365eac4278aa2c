"""Messages of H.245 that a telephone needs, as plain values. Pure: bytes in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final

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
class Capabilities:
    """What the sender can hear (TerminalCapabilitySet)."""

    number: int
    codecs: tuple[str, ...]


@dataclass(frozen=True)
class CapabilitiesAck:
    """Understood."""

    number: int


@dataclass(frozen=True)
class Determination:
    """Who is the master?"""

    kind: int
    number: int


@dataclass(frozen=True)
class DeterminationAck:
    """You are, or I am."""

    you_are_master: bool


@dataclass(frozen=True)
class OpenChannel:
    """A channel is to be opened from the sender."""

    channel: Channel


@dataclass(frozen=True)
class OpenChannelAck:
    """It is open."""

    number: int
    media: Address | None
    control: Address | None = None


@dataclass(frozen=True)
class OpenChannelReject:
    """It is not."""

    number: int


@dataclass(frozen=True)
class CloseChannel:
    """A channel ends."""

    number: int


@dataclass(frozen=True)
class CloseChannelAck:
    """It has ended."""

    number: int


@dataclass(frozen=True)
class RoundTrip:
    """RTDSE: asks whether the other end is there."""

    number: int


@dataclass(frozen=True)
class RoundTripAnswer:
    """RTDSE: the answer to a round-trip request."""

    number: int


@dataclass(frozen=True)
class EndSession:
    """Nothing more will come."""


@dataclass(frozen=True)
class UnknownControl:
    """A message that a telephone needs not understand."""

    name: str


Message = (
    Capabilities
    | CapabilitiesAck
    | Determination
    | DeterminationAck
    | OpenChannel
    | OpenChannelAck
    | OpenChannelReject
    | CloseChannel
    | CloseChannelAck
    | RoundTrip
    | RoundTripAnswer
    | EndSession
    | UnknownControl
)

TITLES: Final[Mapping[type[Message], str]] = {
    Capabilities: "TCS",
    CapabilitiesAck: "TCS Ack",
    Determination: "MSD",
    DeterminationAck: "MSD Ack",
    OpenChannel: "OLC",
    OpenChannelAck: "OLC Ack",
    OpenChannelReject: "OLC Reject",
    CloseChannel: "CLC",
    CloseChannelAck: "CLC Ack",
    RoundTrip: "RTDR",
    RoundTripAnswer: "RTDR Ack",
    EndSession: "End Session",
}


def read(content: bytes) -> Message:
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


def written(message: Message) -> bytes:
    """The content of its TPKT."""
    schema = _asn1.MULTIMEDIA_SYSTEM_CONTROL.MultimediaSystemControlMessage
    schema.set_val(_said(message))
    encoded: bytes = schema.to_aper()
    return encoded


def title(message: Message) -> str:
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
    return f"{TITLES[type(message)]} {more}".rstrip()


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


def _meant(name: str, found: Any) -> Message:
    number = found.get("forwardLogicalChannelNumber", 0) if isinstance(found, dict) else 0
    match name:
        case "terminalCapabilitySet":
            return Capabilities(found["sequenceNumber"], _codecs(found.get("capabilityTable", ())))
        case "terminalCapabilitySetAck":
            return CapabilitiesAck(found["sequenceNumber"])
        case "masterSlaveDetermination":
            return Determination(found["terminalType"], found["statusDeterminationNumber"])
        case "masterSlaveDeterminationAck":
            return DeterminationAck(found["decision"][0] == "master")
        case "openLogicalChannel":
            return OpenChannel(_channel(found))
        case "openLogicalChannelAck":
            match found.get("forwardMultiplexAckParameters"):
                case ("h2250LogicalChannelAckParameters", dict() as more):
                    media, control = more.get("mediaChannel"), more.get("mediaControlChannel")
                    return OpenChannelAck(number, _unpacked(media), _unpacked(control))
            return OpenChannelAck(number, None)
        case "openLogicalChannelReject":
            return OpenChannelReject(number)
        case "closeLogicalChannel":
            return CloseChannel(number)
        case "closeLogicalChannelAck":
            return CloseChannelAck(number)
        case "roundTripDelayRequest":
            return RoundTrip(found["sequenceNumber"])
        case "roundTripDelayResponse":
            return RoundTripAnswer(found["sequenceNumber"])
        case "endSessionCommand":
            return EndSession()
    return UnknownControl(name)


def _said(message: Message) -> tuple[str, tuple[str, Any]]:
    match message:
        case Capabilities():
            return "request", ("terminalCapabilitySet", _capable(message))
        case CapabilitiesAck(number):
            return "response", ("terminalCapabilitySetAck", {"sequenceNumber": number})
        case Determination(kind, number):
            determined = {"terminalType": kind, "statusDeterminationNumber": number}
            return "request", ("masterSlaveDetermination", determined)
        case DeterminationAck(you_are_master):
            decision = {"decision": ("master" if you_are_master else "slave", 0)}
            return "response", ("masterSlaveDeterminationAck", decision)
        case OpenChannel(channel):
            return "request", ("openLogicalChannel", _opened(channel))
        case OpenChannelAck():
            return "response", ("openLogicalChannelAck", _acknowledged(message))
        case OpenChannelReject(number):
            refused = {"forwardLogicalChannelNumber": number, "cause": ("dataTypeNotSupported", 0)}
            return "response", ("openLogicalChannelReject", refused)
        case CloseChannel(number):
            closed = {"forwardLogicalChannelNumber": number, "source": ("lcse", 0)}
            return "request", ("closeLogicalChannel", closed)
        case CloseChannelAck(number):
            return "response", ("closeLogicalChannelAck", {"forwardLogicalChannelNumber": number})
        case RoundTrip(number):
            return "request", ("roundTripDelayRequest", {"sequenceNumber": number})
        case RoundTripAnswer(number):
            return "response", ("roundTripDelayResponse", {"sequenceNumber": number})
        case EndSession():
            return "command", ("endSessionCommand", ("disconnect", 0))
        case UnknownControl(name):
            raise TypeError(f"a telephone does not send {name}")


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
    parameters: dict[str, Any] = {"sessionID": _SESSION}
    if channel.media is not None:
        parameters["mediaChannel"] = _packed(channel.media)
    if channel.control is not None:
        parameters["mediaControlChannel"] = _packed(channel.control)
    speech = {
        "dataType": ("audioData", CODECS[channel.codec]),
        "multiplexParameters": ("h2250LogicalChannelParameters", parameters),
    }
    number = {"forwardLogicalChannelNumber": channel.number}
    if not channel.reverse:
        return {**number, "forwardLogicalChannelParameters": speech}
    nothing = {"dataType": ("nullData", 0), "multiplexParameters": ("none", 0)}
    return {
        **number,
        "forwardLogicalChannelParameters": nothing,
        "reverseLogicalChannelParameters": speech,
    }


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


def _acknowledged(message: OpenChannelAck) -> dict[str, Any]:
    parameters: dict[str, Any] = {"sessionID": _SESSION}
    if message.media is not None:
        parameters["mediaChannel"] = _packed(message.media)
    if message.control is not None:
        parameters["mediaControlChannel"] = _packed(message.control)
    return {
        "forwardLogicalChannelNumber": message.number,
        "forwardMultiplexAckParameters": ("h2250LogicalChannelAckParameters", parameters),
    }


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
