"""Sets of packets as products of values: what a rule matches of them, and what it leaves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from weirlab.base.errors import InputError
from weirlab.rules import matching
from weirlab.rules.matching import Interface, Match, Range, Ranges

Family = Literal[4, 6]

FIELDS: Final = ("destination", "destination_port", "protocol", "source", "source_port")
"""Fields of ranges by which a set can be split; those that most often distinguish rules come first."""

SIDES: Final = ("inward", "outward")
"""Fields of interface names by which a set can be split."""

TCP_FLAGS: Final = matching.TCP_FLAGS["ack"] | matching.TCP_FLAGS["psh"]
"""Flags of every TCP segment of test traffic; none opens a connection."""

_AS_NETWORK: Final = 4
"""From this many addresses up, the first and last stay unused: they may be network and broadcast address."""

_WHOLE: Final = {
    "source": (0, matching.ADDRESSES[6][1]),
    "destination": (0, matching.ADDRESSES[6][1]),
    "protocol": matching.PROTOCOLS,
    "source_port": matching.PORTS,
    "destination_port": matching.PORTS,
}


@dataclass(frozen=True)
class PacketSet:
    """All packets of one IP version with a value from each field, in one state of their connection."""

    source: Ranges
    destination: Ranges
    protocol: Ranges
    source_port: Ranges
    destination_port: Ranges
    state: str
    inward: tuple[str, ...]
    """Names that the interface may have on which they arrive, the preferred ones first."""
    outward: tuple[str, ...]

    @property
    def family(self) -> Family:
        """Their IP version."""
        return 4 if self.source[0][0] <= matching.ADDRESSES[4][1] else 6

    @property
    def interfaces(self) -> tuple[str, str] | None:
        """The first names for the two interfaces that differ; None if there are none."""
        return next(
            ((inward, outward) for inward in self.inward for outward in self.outward if inward != outward),
            None,
        )


def reversed_packets(some: PacketSet, state: str) -> PacketSet:
    """The packets that answer ``some``."""
    return PacketSet(
        source=some.destination,
        destination=some.source,
        protocol=some.protocol,
        source_port=some.destination_port,
        destination_port=some.source_port,
        state=state,
        inward=some.outward,
        outward=some.inward,
    )


def with_ports(packets: PacketSet, ports: Range) -> PacketSet:
    """``packets`` with these ports; both sides of a call use the same ones."""
    return replace(packets, source_port=(ports,), destination_port=(ports,))


def host_ranges(source: Ranges, destination: Ranges, most: int) -> tuple[Range, Range]:
    """A range of each, of at most so many addresses, without common ones."""
    first, second = _hosts(widest(source)), _hosts(widest(destination))
    if first[1] < second[0] or second[1] < first[0]:
        return _first(first, most), _first(second, most)
    low, high = max(first[0], second[0]), min(first[1], second[1])
    if low == high:
        raise InputError(
            f"the rule only matches packets from {matching.address(low)} to itself: no test traffic can match"
        )
    middle = (low + high) // 2
    return _first((low, middle), most), _first((middle + 1, high), most)


def widest(ranges: Ranges) -> Range:
    """The range with most values."""
    return max(ranges, key=lambda each: each[1] - each[0])


def _hosts(addresses: Range) -> Range:
    first, last = addresses
    return (first + 1, last - 1) if last - first + 1 >= _AS_NETWORK else addresses


def _first(addresses: Range, most: int) -> Range:
    return addresses[0], min(addresses[1], addresses[0] + most - 1)


def taken(some: PacketSet, rule: Match) -> PacketSet | None:
    """Those of ``some`` that ``rule`` matches; None if it matches none."""
    if misfit(some, rule):
        return None
    found = narrowed(some, rule)
    return found if found.interfaces else None


def narrowed(some: PacketSet, to: Match) -> PacketSet:
    """``some`` restricted to the values that it shares with ``to``, which are some in each field."""
    values: dict[str, Any] = {
        name: matching.intersection(getattr(some, name), getattr(to, name)) for name in FIELDS
    }
    return replace(between(some, to), **values)


def between(some: PacketSet, to: Match) -> PacketSet:
    """``some`` restricted to the interfaces that ``to`` matches."""
    names: dict[str, Any] = {side: _matched(getattr(some, side), getattr(to, side)) for side in SIDES}
    return replace(some, **names)


def left(some: PacketSet, rule: Match) -> Iterator[PacketSet]:
    """Those of ``some`` that ``rule`` does not match, given that it matches some; as disjoint sets."""
    rest = some
    for name in (*SIDES, *FIELDS):
        wanted, have = getattr(rule, name), getattr(rest, name)
        if wanted is None:
            continue
        inside: Any
        outside: Any
        if name in SIDES:
            inside = _matched(have, wanted)
            outside = tuple(each for each in have if each not in inside)
        else:
            inside = matching.intersection(have, wanted)
            outside = matching.intersection(have, matching.complement(wanted, _WHOLE[name]))
        if outside:
            other = replace(rest, **{name: outside})
            if other.interfaces:
                yield other
            rest = replace(rest, **{name: inside})


def misfit(some: PacketSet, rule: Match) -> str:
    """The field that keeps all packets of ``some`` from matching ``rule``; empty if some match."""
    if some.state not in rule.states:
        return "state"
    for side in SIDES:
        if not _matched(getattr(some, side), getattr(rule, side)):
            return side
    for name in FIELDS:
        if matching.ranges_disjoint(getattr(some, name), getattr(rule, name)):
            return name
    if rule.icmp_type is not None:
        return "protocol"
    if not matching.covers(rule.tcp_flags, TCP_FLAGS):
        return "tcp_flags"
    return ""


def preferred(possible: PacketSet, usual: PacketSet, rule: Match, freed: Sequence[str]) -> PacketSet:
    """``possible``, but with the usual values in fields not ``freed`` if ``rule`` matches some of them."""
    chosen: dict[str, Any] = {}
    for name in FIELDS:
        free = name in freed or matching.ranges_disjoint(getattr(usual, name), getattr(rule, name))
        chosen[name] = getattr(possible if free else usual, name)
    return replace(possible, **chosen)


def _matched(names: tuple[str, ...], interface: Interface | None) -> tuple[str, ...]:
    return tuple(name for name in names if matching.named(interface, name))
