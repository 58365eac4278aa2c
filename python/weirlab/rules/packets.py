"""Sets of packets as products of ranges: what a rule matches of them, and what it leaves.

A set is a :class:`~weirlab.rules.matching.Match` whose fields are all set: ranges for every field but
the ICMP type, one connection state, and the two interfaces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from weirlab.rules import matching
from weirlab.rules.matching import Interface, Match

FIELDS: Final = ("destination", "destination_port", "protocol", "source", "source_port")
"""Fields by which a set can be split; those that most often distinguish rules come first."""

TCP_FLAGS: Final = frozenset({"ACK", "PSH"})
"""Flags of every TCP segment of test traffic; none opens a connection."""

_WHOLE: Final = {
    "source": (0, matching.ADDRESSES[6][1]),
    "destination": (0, matching.ADDRESSES[6][1]),
    "protocol": matching.PROTOCOLS,
    "source_port": matching.PORTS,
    "destination_port": matching.PORTS,
}


def reversed_packets(some: Match, state: str) -> Match:
    """The packets that answer ``some``."""
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
    """Those of ``some`` that ``rule`` matches; None if it matches none."""
    if misfit(some, rule):
        return None
    return narrowed(some, rule)


def narrowed(some: Match, to: Match) -> Match:
    """``some`` restricted to the ranges that it shares with ``to``."""
    ranges: dict[str, Any] = {
        name: matching.intersection(getattr(some, name), getattr(to, name)) for name in FIELDS
    }
    return replace(some, **ranges)


def left(some: Match, rule: Match) -> Iterator[Match]:
    """Those of ``some`` that ``rule`` does not match, given that it matches some; as disjoint sets."""
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
    """The field that keeps all packets of ``some`` from matching ``rule``; empty if some match."""
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
    """``possible``, but with the usual values in fields not ``freed`` if ``rule`` matches some of them."""
    chosen: dict[str, Any] = {}
    for name in FIELDS:
        asked = None if rule is None else getattr(rule, name)
        free = name in freed or matching.ranges_disjoint(getattr(usual, name), asked)
        chosen[name] = getattr(possible if free else usual, name)
    return replace(possible, **chosen)


def instance(interface: Interface) -> str:
    """A name that the interface match covers, ignoring inversion."""
    return f"{interface.name}0" if interface.prefix else interface.name
