"""What stands on the left of a comparison in nft, from its JSON (libnftables-json(5))."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.rules import matching
from weirlab.rules.matching import Match, Range, Ranges

_META: Final = frozenset({
    "length", "protocol", "priority", "mark", "iif", "iifname", "iiftype", "oif", "oifname", "oiftype",
    "skuid", "skgid", "nfproto", "l4proto", "rtclassid", "ibriport", "obriport", "ibridgename", "obridgename",
    "ibrname", "obrname", "pkttype", "cpu", "iifgroup", "oifgroup", "cgroup", "secpath", "ipsec", "iifkind",
    "oifkind", "ibrpvid", "ibrvproto", "sdif", "sdifname", "time", "day", "hour", "secmark", "nftrace",
})  # fmt: skip
_CT: Final = frozenset({
    "state", "direction", "status", "mark", "expiration", "helper", "label", "l3proto", "saddr", "daddr",
    "protocol", "proto-src", "proto-dst", "ip saddr", "ip daddr", "ip6 saddr", "ip6 daddr", "bytes",
    "packets", "avgpkt", "zone", "id", "secmark",
})  # fmt: skip
_PURE: Final = frozenset({
    "exthdr", "tcp option", "ip option", "sctp chunk", "dccp option", "rt", "fib", "socket", "osf", "ipsec",
    "symhash",
})  # fmt: skip
"""Expressions whose value depends on the packet, its socket, the routes and the IPsec policies alone."""
_COMPUTED: Final = frozenset({"&", "|", "^", "<<", ">>"})

_PROTOCOLS: Final = {
    "tcp": 6, "udp": 17, "udplite": 136, "dccp": 33, "sctp": 132, "icmp": 1, "icmpv6": 58, "igmp": 2,
}  # fmt: skip
"""Payloads that only packets of one protocol have."""
_VERSIONS: Final = {"ip": 4, "ip6": 6}
_ETHERNET_TYPES: Final = {"ip": 4, "ip6": 6}
_ADDRESSES: Final = {"saddr": "source", "daddr": "destination"}
_PORTS: Final = {"sport": "source_port", "dport": "destination_port"}
_PROBED: Final = {
    "meta mark": "mark", "ip dscp": "dscp", "ip6 dscp": "dscp", "meta length": "length_bytes",
    "ip length": "length_bytes", "ip ttl": "ttl", "ip6 hoplimit": "ttl", "icmp code": "icmp_code",
    "icmpv6 code": "icmp_code", "exthdr hbh": "hop_options", "ip6 nexthdr": "hop_options",
    "ct direction": "reply", "ct original ip saddr": "reply_to", "ct original ip6 saddr": "reply_to",
    "ct original ip daddr": "reply_from", "ct original ip6 daddr": "reply_from",
    "ct reply ip saddr": "reply_from", "ct reply ip6 saddr": "reply_from",
    "ct reply ip daddr": "reply_to", "ct reply ip6 daddr": "reply_to",
}  # fmt: skip
STATE_BITS: Final = {"invalid": 1, "established": 2, "related": 4, "new": 8, "untracked": 64}
"""As in the kernel's ``NF_CT_STATE_BIT``."""
_FLAG_BITS: Final = {**matching.TCP_FLAGS, "ece": matching.TCP_FLAGS["ecn"]}


_BOTH_VERSIONS: Final = ((4, 4), (6, 6))


ANY: Final = Match()


class UnreadableExpression(ValueError):
    """An expression that is not known, or whose value depends on earlier packets."""


@dataclass(frozen=True)
class NftField:
    """What stands on the left of a comparison."""

    words: str
    implied: Match = ANY
    """What packets have that have this field at all."""
    name: str = ""
    """The field of :class:`Match`; empty if that has none."""
    read: Callable[[Any], Range] | None = None
    """Reads a value of a field that consists of ranges."""
    whole: Ranges = ()
    bits: Mapping[str, int] | None = None
    """The names of the bits, of a field that consists of bits."""
    universe: tuple[int, ...] = ()
    """All values of a field that consists of bits."""
    mask: int = -1
    """Bits of the field that are compared."""
    vague: bool = False
    """Whether a comparison may also hold for fewer packets, for it may depend on what JSON does not show."""

    @property
    def probe(self) -> str:
        """The field of a probe that it is, if that is none of :class:`Match`; empty if it is none."""
        return _PROBED.get(self.words, "")


def version_match(version: int) -> Match:
    """All packets of one IP version."""
    whole = (matching.ADDRESSES[version],)
    return Match(source=whole, destination=whole)


def field_of(left: Any) -> NftField:
    match left:
        case {"meta": {"key": str(key), **rest}} if len(left) == 1 and not rest and key in _META:
            return _meta(key)
        case {"payload": dict(payload)} if len(left) == 1:
            return _payload(payload)
        case {"ct": {"key": "state", **rest}} if len(left) == 1 and not rest:
            return NftField("ct state", name="states", bits=STATE_BITS, universe=tuple(STATE_BITS.values()))
        case {"ct": {"key": str(key), **rest}} if len(left) == 1 and set(rest) <= {"dir"} and key in _CT:
            return NftField(" ".join(["ct", *map(str, rest.values()), key]))
        case {"&": [inner, mask]} if len(left) == 1:
            field = field_of(inner)
            if (
                field.bits is not None
                and field.mask == -1
                and (bits := bits_of(mask, field.bits)) is not None
            ):
                return replace(field, mask=bits)
            refuse_unknown(mask)
            return NftField(field.words, field.implied)
        case dict() if len(left) == 1:
            return _other(*next(iter(left.items())))
    raise UnreadableExpression(shown(left))


def _other(kind: str, inside: Any) -> NftField:
    if kind in _COMPUTED and isinstance(inside, list):
        fields = [field_of(part) for part in inside if not isinstance(part, int | str)]
        return NftField(" ".join(field.words for field in fields))
    if kind in _PURE and isinstance(inside, dict):
        plain = [value for value in inside.values() if isinstance(value, str)]
        return NftField(" ".join([kind, *plain]))
    # Without a seed, the kernel takes one at random.
    if kind == "jhash" and isinstance(inside, dict) and "expr" in inside and "seed" in inside:
        parts = inside["expr"]
        listed = parts["concat"] if isinstance(parts, dict) and "concat" in parts else [parts]
        return NftField(" . ".join(["jhash", *(field_of(part).words for part in listed)]))
    raise UnreadableExpression(shown({kind: inside}))


def _meta(key: str) -> NftField:
    words = f"meta {key}"
    match key:
        case "l4proto":
            return NftField(words, name="protocol", read=_protocol, whole=(matching.PROTOCOLS,))
        case "iif" | "iifname":
            return NftField(key, name="inward")
        case "oif" | "oifname":
            return NftField(key, name="outward")
        case "nfproto":
            return NftField(words, name="version", read=_nfproto, whole=_BOTH_VERSIONS)
        case "protocol":
            return NftField(words, name="version", read=_ethernet_type, whole=_BOTH_VERSIONS)
    return NftField(words)


def _payload(payload: dict[str, Any]) -> NftField:
    if set(payload) == {"base", "offset", "len"}:
        return NftField(f"@{payload['base']},{payload['offset']},{payload['len']}")
    if set(payload) != {"protocol", "field"}:
        raise UnreadableExpression(shown({"payload": payload}))
    protocol, field = str(payload["protocol"]), str(payload["field"])
    words = f"{protocol} {field}"
    if protocol in _VERSIONS:
        version = _VERSIONS[protocol]
        implied = version_match(version)
        if field in _ADDRESSES:
            whole = (matching.ADDRESSES[version],)
            return NftField(words, implied, _ADDRESSES[field], read_address, whole)
        # The first next header of IPv6 may be that of an extension.
        if words == "ip protocol":
            return NftField(words, implied, "protocol", _protocol, (matching.PROTOCOLS,))
        return NftField(words, implied)
    number = _PROTOCOLS.get(protocol)
    implied = Match() if number is None else Match(protocol=((number, number),))
    if field in _PORTS and (protocol == "th" or protocol in ("tcp", "udp", "udplite", "sctp", "dccp")):
        return NftField(words, implied, _PORTS[field], _port, (matching.PORTS,))
    if protocol in ("icmp", "icmpv6") and field == "type":
        # Mostly, nft also compares the IP version.
        return NftField(words, implied, "icmp_type", _number, (matching.OCTET,), vague=True)
    if words == "tcp flags":
        return NftField(words, implied, "tcp_flags", bits=_FLAG_BITS, universe=tuple(range(256)))
    return NftField(words, implied)


def bits_of(value: Any, names: Mapping[str, int]) -> int | None:
    match value:
        case bool():
            return None
        case int():
            return value
        case str():
            return names.get(value)
        case list() | {"|": list(_)}:
            parts = [bits_of(each, names) for each in (value if isinstance(value, list) else value["|"])]
            known = [part for part in parts if part is not None]
            return functools.reduce(operator.or_, known, 0) if len(known) == len(parts) else None
    return None


def refuse_unknown(value: Any) -> None:
    """Raise ``UnreadableExpression`` unless ``value`` consists of constants."""
    match value:
        case None | bool() | int() | str():
            return
        case {"prefix": {"addr": str() | int(), "len": int(), **rest}} if len(value) == 1 and not rest:
            return
        case {"range": [low, high]} if len(value) == 1:
            refuse_unknown(low)
            refuse_unknown(high)
            return
        case list() | {"|": list(_)} | {"concat": list(_)} if isinstance(value, list) or len(value) == 1:
            for part in value if isinstance(value, list) else next(iter(value.values())):
                refuse_unknown(part)
            return
    raise UnreadableExpression(shown(value))


def read_address(value: Any) -> Range:
    if not isinstance(value, str):
        raise ValueError(value)
    return matching.network(value)[0]


def _protocol(value: Any) -> Range:
    number = value if isinstance(value, int) else matching.PROTOCOL_NUMBERS[str(value)]
    return number, number


def _port(value: Any) -> Range:
    return _number(value)


def _number(value: Any) -> Range:
    number = int(value)
    return number, number


def _nfproto(value: Any) -> Range:
    version = {"ipv4": 4, "ipv6": 6, 2: 4, 10: 6}[value]
    return version, version


def _ethernet_type(value: Any) -> Range:
    version = _ETHERNET_TYPES[value]
    return version, version


def shown(value: Any) -> str:
    """An expression in a message: its kind, and what it is about."""
    match value:
        case dict() if len(value) == 1:
            kind, inside = next(iter(value.items()))
            about = inside if isinstance(inside, str) else ""
            if isinstance(inside, dict):
                about = " ".join(str(each) for each in inside.values() if isinstance(each, str | int))
            return f"{kind} {about}".strip()
        case str():
            return value.split("\n")[0]
    return type(value).__name__


def constants(value: Any) -> set[int]:
    """The numbers in a value, addresses numbered as in :mod:`weirlab.rules.matching`."""
    match value:
        case bool():
            return {int(value)}
        case int():
            return {value}
        case str():
            try:
                low, high = matching.network(value)[0]
            except ValueError:
                return set()
            return {low, high}
        case list():
            return {number for each in value for number in constants(each)}
        case dict():
            return {number for each in value.values() for number in constants(each)}
    return set()
