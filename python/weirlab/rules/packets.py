"""Sets of packets as products of ranges: what a rule takes of them, and what it leaves.

A set is a :class:`~weirlab.rules.matching.Match` whose fields are all named: ranges for every field but
the ICMP type, one connection state, and the two interfaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from weirlab.rules import matching
from weirlab.rules.matching import Interface, Match

FIELDS: Final = ("destination", "destination_port", "protocol", "source", "source_port")
"""What a set can be split by; what tells rules apart most often comes first."""

TCP_FLAGS: Final = frozenset({"ACK", "PSH"})
"""Of every TCP segment that is sent: none of them opens a connection."""

_WHOLE: Final = {
    "source": (0, matching.ADDRESSES[6][1]),
    "destination": (0, matching.ADDRESSES[6][1]),
    "protocol": matching.PROTOCOLS,
    "source_port": matching.PORTS,
    "destination_port": matching.PORTS,
}


def reversed_packets(some: Match, state: str) -> Match:
    """What answers ``some``."""
    return Match(
        source=some.destination,
        destination=some.source,
        protocol=some.protocol,
        source_port=some.destination_port,
        destination_port=some.source_port,
        states=frozenset({state}),
        inward=some.outward,
        outward=some.inward,
    )


def taken(some: Match, rule: Match) -> Match | None:
    """Those of ``some`` that ``rule`` matches; None where it matches none."""
    if misfit(some, rule):
        return None
    return narrowed(some, rule)


def narrowed(some: Match, to: Match) -> Match:
    """``some`` with the ranges that it has in common with ``to``."""
    ranges: dict[str, Any] = {
        name: matching.intersection(getattr(some, name), getattr(to, name)) for name in FIELDS
    }
    return replace(some, **ranges)


def left(some: Match, rule: Match) -> Iterator[Match]:
    """Those of ``some`` that ``rule`` does not match, where it matches some: disjoint sets."""
    rest = some
    for name in FIELDS:
        wanted, have = getattr(rule, name), getattr(rest, name)
        if wanted is None:
            continue
        outside: dict[str, Any] = {
            name: matching.intersection(have, matching.complement(wanted, _WHOLE[name]))
        }
        if outside[name]:
            yield replace(rest, **outside)
            inside: dict[str, Any] = {name: matching.intersection(have, wanted)}
            rest = replace(rest, **inside)


def misfit(some: Match, rule: Match) -> str:
    """The field for which no packet of ``some`` can match ``rule``; empty where some do."""
    if not some.states & rule.states:
        return "state"
    if some.inward is not None and not matching.named(rule.inward, some.inward.name):
        return "inward"
    if some.outward is not None and not matching.named(rule.outward, some.outward.name):
        return "outward"
    for name in FIELDS:
        if matching.ranges_disjoint(getattr(some, name), getattr(rule, name)):
            return name
    if rule.icmp_type is not None:
        return "protocol"
    if rule.tcp_flags is not None and not rule.tcp_flags.holds(TCP_FLAGS):
        return "tcp_flags"
    return ""


def preferred(possible: Match, usual: Match, rule: Match | None, freed: Sequence[str]) -> Match:
    """``possible``, but in fields that are not ``freed`` what is usual, if ``rule`` takes some of that."""
    chosen: dict[str, Any] = {}
    for name in FIELDS:
        asked = None if rule is None else getattr(rule, name)
        free = name in freed or matching.ranges_disjoint(getattr(usual, name), asked)
        chosen[name] = getattr(possible if free else usual, name)
    return replace(possible, **chosen)


def instance(interface: Interface) -> str:
    """A name that the interface has, inversion apart."""
    return f"{interface.name}0" if interface.prefix else interface.name
