"""Messages of H.225.0 RAS (ITU-T H.225.0, 7.7 to 7.15) as datagrams. Pure: bytes in, values out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from ipaddress import ip_address
from typing import Any, Final

from weirlab.base import extras
from weirlab.numbering.gatekeeper import ras
from weirlab.numbering.gatekeeper.ras import Address, NoMessage, RasMessage

_h225 = extras.VOICE.deferred("pycrate_asn1dir.H225")

PROTOCOL: Final = (0, 0, 8, 2250, 0, 4)
"""H.225.0 version 4, as the root of its object identifiers."""

_VENDOR: Final = {"t35CountryCode": 181, "t35Extension": 0, "manufacturerCode": 0}
"""That of a manufacturer without a number; the code of a country (T.35) is mandatory."""

_INFORMATION: Final = (
    "setup", "callProceeding", "connect", "alerting", "information", "releaseComplete", "facility",
    "progress", "empty",
)  # fmt: skip
"""Call signalling messages of which a gatekeeper could ask for copies."""

_EXTENDED: Final = 0x02
"""In the first octet of every request: there are extension additions."""
_ADMISSION_BITS: Final = 2
_DISENGAGE_BITS: Final = 3
"""Of the last octet of a root: two truth values; a reason."""
_FALSE: Final = b"\0"

_BY_NAME: Final = {kind.NAME: kind for kind in ras.KINDS}


def read(datagram: bytes) -> RasMessage:
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
        # Every exception of a decoder of foreign bytes means the same.
        raise NoMessage(f"no message of H.225.0 RAS: {type(error).__name__}") from None
    kind = _BY_NAME.get(name)
    if kind is None:
        raise NoMessage(f"{name} is not known here")
    make: Callable[..., RasMessage] = kind
    try:
        return make(**{field.name: _READ[field.name](found) for field in fields(kind)})
    except (KeyError, ValueError, TypeError) as error:
        raise NoMessage(f"{name} without what it needs: {error}") from None


def written(message: RasMessage) -> bytes:
    """The datagram of a message."""
    schema = _h225.H323_MESSAGES.RasMessage
    schema.set_val((message.NAME, {"requestSeqNum": message.number, **_fields(message)}))
    encoded: bytes = schema.to_aper()
    match message:
        case ras.AdmissionRequest():
            added = {0: bytes((0x80 * message.maps,)), 1: _guid(message.call), 9: _FALSE}
            return _extended(encoded, _ADMISSION_BITS, added)
        case ras.DisengageRequest():
            return _extended(encoded, _DISENGAGE_BITS, {0: _guid(message.call)})
    return encoded


def _guid(call: str) -> bytes:
    """A CallIdentifier."""
    return _FALSE + bytes.fromhex(call)


def _extended(root: bytes, bits: int, added: Mapping[int, bytes]) -> bytes:
    """A message with extension additions by their ranks (X.691, 19.7 to 19.9).

    pycrate 0.8 aligns the first one wrongly behind a root that does not end at an octet; ``bits`` of the last
    octet are used.
    """
    head = bytes((root[0] | _EXTENDED, *root[1:]))
    count = max(added) + 1
    present = sum(1 << (count - 1 - rank) for rank in added)
    size = 8 * (len(head) - 1) + bits + 7 + count
    number = (((int.from_bytes(head) >> (8 - bits)) << 7 | (count - 1)) << count) | present
    pad = -size % 8
    values = (bytes((len(each),)) + each for _, each in sorted(added.items()))
    return (number << pad).to_bytes((size + pad) // 8) + b"".join(values)


def _fields(message: RasMessage) -> dict[str, Any]:
    match message:
        case ras.GatekeeperConfirm():
            known = {"gatekeeperIdentifier": message.gatekeeper, "rasAddress": packed(message.ras)}
            return {"protocolIdentifier": PROTOCOL, **known}
        case ras.RegistrationConfirm():
            return {
                "protocolIdentifier": PROTOCOL,
                "callSignalAddress": [],
                "gatekeeperIdentifier": message.gatekeeper,
                "endpointIdentifier": message.endpoint,
                "timeToLive": message.live_s,
                "willRespondToIRR": True,
                "maintainConnection": False,
            }
        case ras.RegistrationReject():
            return {"protocolIdentifier": PROTOCOL, "rejectReason": (message.reason, 0)}
        case ras.AdmissionConfirm():
            mapped = {"destinationInfo": [("dialledDigits", message.digits)]} if message.digits else {}
            return {
                "bandWidth": message.bandwidth,
                "callModel": ("direct", 0),
                "destCallSignalAddress": packed(message.destination),
                **mapped,
                "willRespondToIRR": True,
                "uuiesRequested": dict.fromkeys(_INFORMATION, False),
            }
        case ras.AdmissionReject() | ras.LocationReject():
            return {"rejectReason": (message.reason, 0)}
        case ras.InfoRequestNak():
            return {"nakReason": (message.reason, 0)}
        case ras.BandwidthConfirm():
            return {"bandWidth": message.bandwidth}
        case ras.LocationRequest():
            asked = {"destinationInfo": [("dialledDigits", message.digits)]}
            hops = {"hopCount": message.hops} if message.hops else {}
            source = {"sourceInfo": _names(message.callers)} if message.callers else {}
            return {**asked, "replyAddress": packed(message.reply), **source, **hops}
        case ras.LocationConfirm():
            return {"callSignalAddress": packed(message.signalling), "rasAddress": packed(message.ras)}
        case ras.UnregistrationConfirm() | ras.DisengageConfirm() | ras.InfoRequestAck():
            return {}
        case _:
            return _asked(message)


def _asked(message: RasMessage) -> dict[str, Any]:
    """What a telephone asks."""
    match message:
        case ras.RegistrationRequest():
            given = {"endpointIdentifier": message.endpoint} if message.endpoint else {}
            return {
                "protocolIdentifier": PROTOCOL,
                "discoveryComplete": False,
                "callSignalAddress": _listed(message.signalling),
                "rasAddress": _listed(message.ras),
                "terminalType": {"terminal": {}, "mc": False, "undefinedNode": False},
                "terminalAlias": _names(message.aliases),
                "endpointVendor": {"vendor": _VENDOR},
                "keepAlive": message.keeps_alive,
                "willSupplyUUIEs": False,
                "maintainConnection": False,
                **given,
            }
        case ras.UnregistrationRequest():
            given = {"endpointIdentifier": message.endpoint} if message.endpoint else {}
            return {"callSignalAddress": _listed(message.signalling), **given}
        case ras.AdmissionRequest():
            asked: dict[str, Any] = {}
            if message.digits:
                asked["destinationInfo"] = [("dialledDigits", message.digits)]
            if message.destination is not None:
                asked["destCallSignalAddress"] = packed(message.destination)
            return {
                "callType": ("pointToPoint", 0),
                "endpointIdentifier": message.endpoint,
                **asked,
                "srcInfo": _names(message.callers),
                "bandWidth": message.bandwidth,
                "callReferenceValue": message.reference,
                "conferenceID": bytes.fromhex(message.call),
                "activeMC": False,
                "answerCall": message.answers,
            }
        case ras.DisengageRequest():
            return {
                "endpointIdentifier": message.endpoint,
                "conferenceID": bytes.fromhex(message.call),
                "callReferenceValue": message.reference,
                "disengageReason": ("normalDrop", 0),
            }
        case _:
            raise TypeError(f"nobody here sends {message.NAME}")


def _names(aliases: Sequence[str]) -> list[tuple[str, str]]:
    return [("dialledDigits" if alias.isdigit() else "h323-ID", alias) for alias in aliases]


def _listed(address: Address | None) -> list[tuple[str, dict[str, Any]]]:
    return [] if address is None else [packed(address)]


def packed(address: Address) -> tuple[str, dict[str, Any]]:
    packed = ip_address(address.host).packed
    kind = "ipAddress" if len(packed) == 4 else "ip6Address"
    return kind, {"ip": packed, "port": address.port}


def unpacked(found: object) -> Address | None:
    """None for an address of another network than the Internet."""
    match found:
        case ("ipAddress" | "ip6Address", {"ip": bytes() as packed, "port": int() as port}):
            return Address(str(ip_address(packed)), port)
    return None


def _needed(found: object) -> Address:
    address = unpacked(found)
    if address is None:
        raise ValueError("an address that is none of the Internet")
    return address


def first_number(aliases: Sequence[tuple[str, object]]) -> str:
    """The first number among aliases, without a +."""
    named = (str(value) for kind, value in aliases if kind == "dialledDigits")
    return next(named, "").lstrip("+")


def _texts(aliases: Sequence[tuple[str, object]]) -> tuple[str, ...]:
    return tuple(value for _, value in aliases if isinstance(value, str))


def _place(found: Any) -> Address | None:
    """Of a request, a list of addresses; of an answer, one."""
    if not isinstance(found, list):
        return _needed(found)
    return next((address for each in found if (address := unpacked(each)) is not None), None)


def identifier(found: Mapping[str, Any]) -> str:
    """A call's identifier in what pycrate decodes; empty for none."""
    return bytes(found.get("callIdentifier", {}).get("guid", b"")).hex()


_READ: Final[dict[str, Callable[[Mapping[str, Any]], object]]] = {
    "number": lambda found: int(found["requestSeqNum"]),
    "gatekeeper": lambda found: str(found.get("gatekeeperIdentifier", "")),
    "ras": lambda found: _place(found["rasAddress"]),
    "signalling": lambda found: _place(found.get("callSignalAddress", [])),
    "aliases": lambda found: _texts(found.get("terminalAlias", [])),
    "endpoint": lambda found: str(found.get("endpointIdentifier", "")),
    "keeps_alive": lambda found: bool(found.get("keepAlive", False)),
    "live_s": lambda found: int(found.get("timeToLive", 0)),
    "reason": lambda found: str((found.get("rejectReason") or found["nakReason"])[0]),
    "needs_response": lambda found: bool(found.get("needResponse", False)),
    "digits": lambda found: first_number(found.get("destinationInfo", [])),
    "answers": lambda found: bool(found["answerCall"]),
    "bandwidth": lambda found: int(found["bandWidth"]),
    "destination": lambda found: unpacked(found.get("destCallSignalAddress")),
    "maps": lambda found: bool(found.get("canMapAlias", False)),
    "reply": lambda found: _needed(found["replyAddress"]),
    "hops": lambda found: int(found.get("hopCount", 0)),
    "call": identifier,
    "reference": lambda found: int(found["callReferenceValue"]),
    "callers": lambda found: _texts(found.get("srcInfo") or found.get("sourceInfo", [])),
}
"""How each field is found in what pycrate decodes."""
