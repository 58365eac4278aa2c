"""What packets a rule can match, as ranges of header fields: enough to prove two rules disjoint.

A field that a rule does not look at, or that is not understood, has its full range, so that
proofs err on the safe side only.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

Range = tuple[int, int]
"""First and last value, both included."""
Ranges = tuple[Range, ...]
"""Sorted, not overlapping."""

PORTS: Final[Range] = (0, 65535)
PROTOCOLS: Final[Range] = (0, 255)
OCTET: Final[Range] = (0, 255)
"""ICMP types, and the octet of TCP flags."""
_OFFSET: Final = {4: 0, 6: 2**32}
ADDRESSES: Final[dict[int, Range]] = {4: (0, 2**32 - 1), 6: (2**32, 2**32 + 2**128 - 1)}
"""IPv6 addresses are numbered from the end of IPv4, so the two are disjoint."""

UNTRACKED: Final = "UNTRACKED"
STATES: Final = ("INVALID", "NEW", "ESTABLISHED", "RELATED", UNTRACKED)
"""States of a tracked connection; a packet has exactly one. (SNAT and DNAT are not among them.)"""
ALL_STATES: Final = frozenset(STATES)
KNOWN_STATES: Final = frozenset({"ESTABLISHED", "RELATED"})
"""Of packets of known connections."""

TCP_FLAGS: Final = {
    "fin": 0x01, "syn": 0x02, "rst": 0x04, "psh": 0x08, "ack": 0x10, "urg": 0x20, "ecn": 0x40, "cwr": 0x80,
}  # fmt: skip
"""Bits of the flags in their octet (RFC 9293, 3.1)."""

PROTOCOL_NUMBERS: Final = {
    "icmp": 1, "igmp": 2, "ipip": 4, "tcp": 6, "udp": 17, "dccp": 33, "ipv6": 41, "gre": 47, "esp": 50,
    "ah": 51, "icmpv6": 58, "ipv6-icmp": 58, "icmp6": 58, "ospf": 89, "pim": 103, "vrrp": 112,
    "sctp": 132, "udplite": 136,
}  # fmt: skip


@dataclass(frozen=True)
class Interface:
    """A match on an interface's name: one of ``names``, or one that begins with one of ``prefixes``;
    ``inverted``: any other name."""

    names: frozenset[str] = frozenset()
    prefixes: frozenset[str] = frozenset()
    inverted: bool = False


def interface(patterns: Iterable[str], wildcard: str, *, inverted: bool = False) -> Interface:
    """The match on any of ``patterns``; one that ends with ``wildcard`` (``+``, ``*``) is a prefix."""
    listed = list(patterns)
    return Interface(
        frozenset(each for each in listed if not each.endswith(wildcard)),
        frozenset(each.removesuffix(wildcard) for each in listed if each.endswith(wildcard)),
        inverted,
    )


@dataclass(frozen=True)
class Match:
    """A superset of the packets that a rule matches; None for a field means any value."""

    source: Ranges | None = None
    destination: Ranges | None = None
    protocol: Ranges | None = None
    source_port: Ranges | None = None
    destination_port: Ranges | None = None
    icmp_type: Ranges | None = None
    states: frozenset[str] = ALL_STATES
    inward: Interface | None = None
    outward: Interface | None = None
    tcp_flags: Ranges | None = None
    """Values of the octet that holds the flags; see ``TCP_FLAGS``."""


RANGED: Final = (
    "source",
    "destination",
    "protocol",
    "source_port",
    "destination_port",
    "icmp_type",
    "tcp_flags",
)
"""The fields of :class:`Match` that are ranges; None means any value."""


def both(a: Match, b: Match) -> Match:
    """The packets that are in ``a`` and in ``b``; or more, if an interface can be described only so."""
    ranges = {
        name: intersection(getattr(a, name), getattr(b, name))
        for name in RANGED
        if getattr(b, name) is not None
    }
    return replace(
        a,
        states=a.states & b.states,
        inward=_shared(a.inward, b.inward)[0],
        outward=_shared(a.outward, b.outward)[0],
        **ranges,
    )


def is_exact(a: Match, b: Match) -> bool:
    """Whether :func:`both` is exactly the packets in ``a`` and in ``b``."""
    return _shared(a.inward, b.inward)[1] and _shared(a.outward, b.outward)[1]


def _shared(a: Interface | None, b: Interface | None) -> tuple[Interface | None, bool]:
    """A match on the names that both match, and whether it matches no others."""
    if a is None or b is None:
        return (b if a is None else a), True
    if a.inverted and b.inverted:
        return Interface(a.names | b.names, a.prefixes | b.prefixes, inverted=True), True
    if a.inverted or b.inverted:
        not_these, these = (a, b) if a.inverted else (b, a)
        names = frozenset(name for name in these.names if named(not_these, name))
        prefixes = frozenset(
            prefix for prefix in these.prefixes if not prefix.startswith(tuple(not_these.prefixes))
        )
        left = {*not_these.names, *not_these.prefixes}
        return Interface(names, prefixes), not any(each.startswith(tuple(prefixes)) for each in left)
    names = frozenset(name for name in a.names | b.names if named(a, name) and named(b, name))
    longer = {x for x in a.prefixes if x.startswith(tuple(b.prefixes))}
    longer |= {y for y in b.prefixes if y.startswith(tuple(a.prefixes))}
    return Interface(names, frozenset(longer)), True


def disjoint(a: Match, b: Match) -> bool:
    """Whether no packet can match both. False if that cannot be proved.

    Only packets of some protocols have ports or ICMP types; a rule with a port matches
    no others, so different ports suffice.
    """
    if not a.states & b.states:
        return True
    if interfaces_disjoint(a.inward, b.inward) or interfaces_disjoint(a.outward, b.outward):
        return True
    return any(ranges_disjoint(getattr(a, name), getattr(b, name)) for name in RANGED)


def ranges_disjoint(a: Ranges | None, b: Ranges | None) -> bool:
    """Whether two sets of values have nothing in common."""
    if a is None or b is None:
        return False
    i = j = 0
    while i < len(a) and j < len(b):
        if a[i][1] < b[j][0]:
            i += 1
        elif b[j][1] < a[i][0]:
            j += 1
        else:
            return False
    return True


def interfaces_disjoint(a: Interface | None, b: Interface | None) -> bool:
    """Whether no name can match both."""
    if a is None or b is None or (a.inverted and b.inverted):
        return False
    if a.inverted or b.inverted:
        not_these, these = (a, b) if a.inverted else (b, a)
        return all(_listed(not_these, name) for name in these.names) and all(
            prefix.startswith(tuple(not_these.prefixes)) for prefix in these.prefixes
        )
    return not (
        any(_listed(b, name) for name in a.names)
        or any(_listed(a, name) for name in b.names)
        or any(x.startswith(y) or y.startswith(x) for x in a.prefixes for y in b.prefixes)
    )


def named(interface: Interface | None, name: str) -> bool:
    """Whether the interface called ``name`` matches."""
    return interface is None or _listed(interface, name) != interface.inverted


def _listed(interface: Interface, name: str) -> bool:
    """Whether ``name`` is among the names, ignoring inversion."""
    return name in interface.names or name.startswith(tuple(interface.prefixes))


def values(wanted: Iterable[int]) -> Ranges:
    """Single values as ranges."""
    return union((value, value) for value in wanted)


def covers(ranges: Ranges | None, value: int) -> bool:
    """Whether ``value`` is in ``ranges``."""
    return ranges is None or any(low <= value <= high for low, high in ranges)


def union(ranges: Iterable[Range]) -> Ranges:
    """The ranges sorted and merged."""
    merged: list[Range] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges, whole: Range) -> Ranges:
    """All of ``whole`` that is not in ``ranges``."""
    left: list[Range] = []
    at = whole[0]
    for low, high in ranges:
        if at > whole[1]:
            break
        if low > at:
            left.append((at, min(low - 1, whole[1])))
        at = max(at, high + 1)
    if at <= whole[1]:
        left.append((at, whole[1]))
    return tuple(left)


def intersection(a: Ranges | None, b: Ranges | None) -> Ranges | None:
    """Values in both; None means all."""
    if a is None or b is None:
        return b if a is None else a
    common = [(max(x[0], y[0]), min(x[1], y[1])) for x in a for y in b if max(x[0], y[0]) <= min(x[1], y[1])]
    return union(common)


def network(text: str) -> tuple[Range, int]:
    """Parse ``10.0.0.0/8``, ``10.0.0.0/255.0.0.0``, ``2001:db8::1`` or ``10.0.0.1-10.0.0.9`` into addresses
    and IP version; raises ``ValueError`` for anything else.
    """
    if "-" in text:
        first, last = (ipaddress.ip_address(part) for part in text.split("-", 1))
        if first.version != last.version or int(first) > int(last):
            raise ValueError(text)
        offset = _OFFSET[first.version]
        return (int(first) + offset, int(last) + offset), first.version
    found = ipaddress.ip_network(text, strict=False)
    offset = _OFFSET[found.version]
    return (int(found.network_address) + offset, int(found.broadcast_address) + offset), found.version


def networks(texts: Iterable[str]) -> Ranges:
    """The addresses in all of ``texts``, each as in :func:`network`."""
    return union(network(text)[0] for text in texts)


def summary(ends: tuple[str, str]) -> list[str]:
    """The networks that make up the addresses from the first to the last."""
    first, last = (ipaddress.ip_address(address) for address in ends)
    return [str(each) for each in ipaddress.summarize_address_range(first, last)]


def address(value: int) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The address that ``value`` in a range stands for."""
    if value <= ADDRESSES[4][1]:
        return ipaddress.IPv4Address(value)
    return ipaddress.IPv6Address(value - _OFFSET[6])


def numbers(text: str, names: dict[str, int] | None = None, separator: str = ":") -> Range:
    """Parse ``80``, ``1024:65535``, ``:1023`` or a name in ``names``; raises ``ValueError`` for all else."""
    if names and text.lower() in names:
        value = names[text.lower()]
        return (value, value)
    if separator in text:
        low, high = text.split(separator, 1)
        found = (int(low) if low else PORTS[0], int(high) if high else PORTS[1])
    else:
        found = (int(text), int(text))
    if found[0] > found[1]:
        raise ValueError(text)
    return found
