"""Packets at the boundaries of what rules match: inside, and just outside in one field after the other."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.rules import matching
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import ALL_STATES, STATES, Interface, Match, Range, Ranges, both
from weirlab.rules.packets import Family
from weirlab.rules.probing.probe import ICMP, TCP, UDP, Probe

MOST_EDGES: Final = 12
"""Most ranges of one match whose ends are tried."""
MOST_WAYS: Final = 3
"""Most ways into a chain that are tried for each of its rules."""
MOST_OUTSIDE: Final = 24
"""Most packets just outside of a rule."""
MOST_INTERFACES: Final = 40
MOST_BETWEEN: Final = 400
MOST_OFTEN: Final = 12

_SOURCE: Final[dict[Family, int]] = {
    4: matching.network("198.18.1.1")[0][0],
    6: matching.network("2001:2:0:1::101")[0][0],
}
_DESTINATION: Final[dict[Family, int]] = {
    4: matching.network("198.19.1.1")[0][0],
    6: matching.network("2001:2:0:2::101")[0][0],
}
_LARGEST_BYTES: Final = 1500

_WHOLE: Final[dict[str, Range]] = {
    "protocol": matching.PROTOCOLS,
    "source_port": matching.PORTS,
    "destination_port": matching.PORTS,
    "icmp_type": matching.OCTET,
    "tcp_flags": matching.OCTET,
}
_LIMITS: Final[dict[str, Range]] = {
    "mark": (0, 2**32 - 1),
    "dscp": (0, 63),
    "ttl": (2, 255),
    "length_bytes": (0, _LARGEST_BYTES),
    "icmp_code": (0, 255),
    "hop_options": (0, 1),
    "reply": (0, 1),
}
"""Values of fields that only conditions compare (:attr:`Rule.edges`)."""

_REPLIES: Final = {"reply_from": "source", "reply_to": "destination"}
"""Addresses by which rules compare the connection: those of its answers, from the other side."""

MOST_KNOWN: Final = 8
"""Most different choices of a rule's edges."""

Values = dict[str, Any]
Edges = tuple[Values | None, Values]
"""Values inside of a match, None if there are none, and just outside."""


@dataclass(frozen=True)
class _Place:
    """A rule, and what packets match that come to it."""

    chain: Chain
    line: tuple[Rule, ...]
    ways: tuple[Match, ...]


def names_of(rulesets: Sequence[Ruleset]) -> list[str]:
    """Interface names that the rules tell apart, and two that none of them mentions."""
    mentioned = [
        side
        for ruleset in rulesets
        for chain in ruleset.chains.values()
        for rule in chain.rules
        for side in (rule.match.inward, rule.match.outward)
        if side is not None
    ]
    names: dict[str, None] = {}
    for each in mentioned:
        names |= dict.fromkeys(sorted(each.names))
        names |= dict.fromkeys(f"{prefix}0"[:15] for prefix in sorted(each.prefixes) if prefix)
    kept = [name for name in names if _is_name(name)][:MOST_INTERFACES]
    return [*kept, *(f"weir{i}" for i in range(2))]


def _is_name(name: str) -> bool:
    return (
        name != "lo" and len(name) <= 15 and name.isascii() and all(c.isalnum() or c in "._-" for c in name)
    )


class Probes:
    """Probes for the rules of one base chain and the chains that it calls, the same on every machine."""

    def __init__(self, ruleset: Ruleset, names: Sequence[str], stateful: bool) -> None:
        self._ruleset = ruleset
        self._names = names
        self._states = STATES if stateful else ("NEW",)
        self._random = random.Random(5)
        self._known: dict[tuple[int, int], list[Edges]] = {}
        """Some results for a rule and a way to it, which differ by chance."""
        ways = self._ways()
        self._places = {
            (name, line[0].number): _Place(chain, line, tuple(ways[name]))
            for name, chain in ruleset.chains.items()
            if name in ways
            for line in chain.lines
        }

    def at_rules(self) -> Iterator[Probe]:
        """Inside of every rule, and just outside of it in each field that it compares."""
        for place in self._places.values():
            for case in place.line:
                for way in place.ways:
                    inside, outside = self._edges_of(case, way)
                    if inside is None:
                        continue
                    base = {name: values[0] for name, values in inside.items()}
                    yield self._probe(base)
                    others = [
                        {**base, name: value}
                        for edges in (inside, outside)
                        for name, values in edges.items()
                        for value in values
                        if value != base.get(name)
                    ]
                    if len(others) > MOST_OUTSIDE:
                        others = self._random.sample(others, MOST_OUTSIDE)
                    yield from map(self._probe, others)

    def between(self, chain: str, pairs: Sequence[tuple[int, int]]) -> Iterator[Probe]:
        """Where two rules of a chain overlap, or nearly do; the fewer pairs, the more packets for each."""
        often = min(MOST_OFTEN, 1 + MOST_BETWEEN // max(len(pairs), 1))
        for first, second in itertools.chain.from_iterable(itertools.repeat(pairs, often)):
            one, other = self._places[chain, first], self._places[chain, second]
            a, b = self._random.choice(one.line), self._random.choice(other.line)
            way = self._random.choice(one.ways)
            inside, _ = self._edges_of(a, way)
            also, _ = self._edges_of(b, way)
            if inside is None or also is None:
                continue
            common, _ = self._edges(a, both(both(way, a.match), b.match))
            if common is not None:
                yield self._probe(self._some(common))
            names = [*inside, *(name for name in also if name not in inside)]
            yield self._probe(
                {
                    name: self._random.choice(
                        self._random.choice([v for v in (inside, also) if name in v])[name]
                    )
                    for name in names
                }
            )

    def anywhere(self) -> Iterator[Probe]:
        """Mixtures of the fields of several rules, without end."""
        places = list(self._places.values())
        while places:
            mixed: Values = {}
            for place in self._random.sample(places, min(len(places), self._random.randint(1, 4))):
                case = self._random.choice(place.line)
                edges, _ = self._edges_of(case, self._random.choice(place.ways))
                mixed |= self._some(edges or {})
            yield self._probe(mixed)

    def _ways(self) -> dict[str, list[Match]]:
        """What packets match that come to each chain that is called."""
        found: dict[str, list[Match]] = {self._ruleset.entry: [Match()]}
        todo = [self._ruleset.entry]
        while todo:
            name = todo.pop(0)
            for rule in self._ruleset.chains[name].rules:
                target = rule.jump
                if target is None or target not in self._ruleset.chains:
                    continue
                ways = found.setdefault(target, [])
                if len(ways) < MOST_WAYS:
                    ways += [both(way, rule.match) for way in found[name]][: MOST_WAYS - len(ways)]
                    todo.append(target)
        return found

    def _edges_of(self, case: Rule, way: Match) -> Edges:
        """As :meth:`_edges`, of a rule that packets reach that match ``way``."""
        known = self._known.setdefault((id(case), id(way)), [])
        if len(known) < MOST_KNOWN:
            known.append(self._edges(case, both(way, case.match)))
            return known[-1]
        return self._random.choice(known)

    def _edges(self, case: Rule, match: Match) -> Edges:
        """Values inside of ``match``, None if there are none, and just outside; only of fields compared."""
        inside: Values = {}
        outside: Values = {}
        family = self._family(match)
        if family is None:
            return None, {}
        inside["family"] = [family]
        for name in matching.RANGED:
            ranges: Ranges | None = getattr(match, name)
            if ranges is None:
                continue
            whole = matching.ADDRESSES[family] if name in ("source", "destination") else _WHOLE[name]
            clipped = matching.intersection(ranges, (whole,)) or ()
            if not clipped:
                return None, {}
            if clipped != (whole,):
                inside[name], outside[name] = _ends(clipped, whole, self._random)
        if match.states != ALL_STATES and len(self._states) > 1:
            inside["state"] = [state for state in self._states if state in match.states]
            outside["state"] = [state for state in self._states if state not in match.states]
        for side in ("inward", "outward"):
            interface: Interface | None = getattr(match, side)
            if interface is not None:
                inside[side] = [name for name in self._names if matching.named(interface, name)]
                outside[side] = [name for name in self._names if not matching.named(interface, name)]
        if any(not values for values in inside.values()):
            return None, {}
        for name, value in case.edges:
            if name in _REPLIES:
                if matching.covers((matching.ADDRESSES[family],), value):
                    inside |= {_REPLIES[name]: [value], "reply": [1]}
                continue
            low, high = _LIMITS[name]
            if high == 1:
                # Whatever value the condition names, it is about having it or not.
                value = 1
            # On which side of the value a packet is inside is not known.
            near = (min(max(value, low), high), value + 1, value - 1, 0)
            inside.setdefault(name, []).extend(each for each in near if low <= each <= high)
        return inside, outside

    def _family(self, match: Match) -> Family | None:
        families: list[Family] = [
            family
            for family in self._ruleset.families
            if all(
                ranges is None or matching.intersection(ranges, (matching.ADDRESSES[family],))
                for ranges in (match.source, match.destination)
            )
        ]
        return self._random.choice(families) if families else None

    def _some(self, edges: Mapping[str, Sequence[Any]]) -> Values:
        return {name: self._random.choice(values) for name, values in edges.items()}

    def _probe(self, values: Values) -> Probe:
        """A packet with these values, and usual ones in all other fields."""
        family: Family = values.get("family", self._ruleset.families[0])
        given = {name: value for name, value in values.items() if name != "family"}
        for name in ("source", "destination"):
            low, high = matching.ADDRESSES[family]
            if name in given and not low <= given[name] <= high:
                del given[name]
        protocol = given.get("protocol")
        if protocol is None:
            protocol = ICMP[family] if "icmp_type" in given else TCP if "tcp_flags" in given else UDP
        names = [name for name in self._names if name.startswith("weir")]
        usual: Values = {
            "source": _SOURCE[family],
            "destination": _DESTINATION[family],
            "protocol": protocol,
            "source_port": 40000,
            "destination_port": 40001,
            "icmp_type": 8 if family == 4 else 128,
            "icmp_code": 0,
            "tcp_flags": matching.TCP_FLAGS["syn"],
            "inward": names[0],
            "outward": names[-1],
            "state": "NEW",
        }
        usual |= given
        usual["hop_options"] = bool(usual.get("hop_options")) and family == 6
        if usual.setdefault("reply", 0):
            usual["state"] = "ESTABLISHED"
        return Probe(family=family, **usual)


def _ends(ranges: Ranges, whole: Range, chance: random.Random) -> tuple[list[int], list[int]]:
    """The ends of some of the ranges, and the values next to them that are outside."""
    chosen = ranges
    if len(ranges) > MOST_EDGES:
        chosen = tuple(sorted([ranges[0], ranges[-1], *chance.sample(ranges[1:-1], MOST_EDGES - 2)]))
    inside = list(dict.fromkeys(end for each in chosen for end in each))
    near = dict.fromkeys(value for low, high in chosen for value in (low - 1, high + 1))
    outside = [
        value for value in near if whole[0] <= value <= whole[1] and not matching.covers(ranges, value)
    ]
    chance.shuffle(inside)
    return inside, outside
