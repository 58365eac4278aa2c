"""A rule of nft from the JSON of its statements (libnftables-json(5))."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab.rules.chains import Rule
from weirlab.rules.matching import Match, both, is_exact
from weirlab.rules.nft.fields import UnreadableExpression, shown, version_match
from weirlab.rules.nft.matches import (
    MOST_CASES,
    Elements,
    NftComparison,
    compare,
    lookup,
)
from weirlab.rules.packets import Family

_EFFECTS: Final = frozenset({
    "log", "dup", "last", "ct helper", "ct timeout", "ct expectation", "secmark", "reset",
})  # fmt: skip
"""Statements that neither decide nor change what any rule compares by the fields of :class:`Match`."""
ENDS_TRACE: Final = "ends the kernel's trace"
"""The effect of ``meta nftrace set 0``."""
_REJECTED: Final[dict[str, Family]] = {"icmp": 4, "icmpv6": 6}
"""IP versions of messages with which only packets of this version are rejected."""
_STATEFUL: Final = frozenset({"limit", "quota", "ct count", "meter", "set", "map"})
_WRITABLE: Final = {
    "meta": frozenset({"mark", "priority", "nftrace", "secmark"}),
    "ct": frozenset({"mark", "label", "secmark", "event"}),
    "payload": frozenset({"dscp", "ecn", "ttl", "hoplimit", "flowlabel"}),
    "tcp option": frozenset({"size"}),
}
"""What may be written without a change to the fields of :class:`Match`."""


@dataclass(frozen=True)
class Objects:
    """What the rules of a table refer to by name."""

    counters: Mapping[str, int | None] = field(default_factory=dict)
    """Packets by counter; None if several rules use it."""
    elements: Elements = field(default_factory=dict)
    counting: Mapping[str, str] = field(default_factory=dict)
    """What sets and maps do when a packet is looked up in them, if anything."""


@dataclass
class _StatementReader:
    cases: list[Match] = field(default_factory=lambda: [Match()])
    outcomes: list[tuple[NftComparison, str | None, str | None]] = field(default_factory=list)
    """Verdict and jump, and the packets for which a map has them."""
    conditions: dict[str, None] = field(default_factory=dict)
    edges: dict[tuple[str, int], None] = field(default_factory=dict)
    effects: dict[str, None] = field(default_factory=dict)
    unclear: dict[str, None] = field(default_factory=dict)
    pinned: dict[str, None] = field(default_factory=dict)
    counted: str = ""
    packets: int | None = None
    untracks: bool = False
    alters: bool = False
    by_chance: bool = False
    alters_by_chance: bool = False
    drops: bool = False


def rules(expressions: Sequence[Any], objects: Objects, condition: str = "", **about: Any) -> list[Rule]:
    """The rule with these statements; several with the same number if it has several matches or verdicts.

    ``condition`` is a comparison that is not among the statements; ``about`` are further fields of
    :class:`Rule`.
    """
    reading = _StatementReader(conditions={condition: None} if condition else {})
    for statement in expressions:
        if not isinstance(statement, dict) or len(statement) != 1:
            reading.unclear[f"'{shown(statement)}' is not understood"] = None
            reading.alters = True
            continue
        kind, inside = next(iter(statement.items()))
        try:
            _take(reading, kind, inside, objects)
        except (UnreadableExpression, ValueError, TypeError, KeyError, AttributeError) as error:
            about_it = str(error) if isinstance(error, UnreadableExpression) else shown(statement)
            reading.unclear[f"'{about_it}' is not understood"] = None
            # A comparison changes nothing.
            reading.alters |= kind not in ("match", "vmap")
    return list(_rules(reading, about))


def _rules(reading: _StatementReader, about: Mapping[str, Any]) -> Iterator[Rule]:
    for comparison, verdict, jump in reading.outcomes or [(NftComparison(), None, None)]:
        conditions = dict(reading.conditions)
        pairs = list(itertools.product(reading.cases, comparison.cases))
        cases = [both(a, b) for a, b in pairs]
        if not all(is_exact(a, b) for a, b in pairs):
            conditions["interfaces"] = None
        if comparison.condition:
            conditions[comparison.condition] = None
        for match in cases:
            yield Rule(
                match=match,
                verdict=verdict,
                jump=jump,
                packets=reading.packets,
                unclear="; ".join(reading.unclear),
                effects=", ".join(reading.effects),
                pinned="; ".join(reading.pinned),
                untracks=reading.untracks,
                alters=reading.alters,
                alters_by_chance=reading.alters_by_chance,
                conditions=", ".join(conditions),
                edges=(*reading.edges, *comparison.edges),
                **about,
            )


def _take(reading: _StatementReader, kind: str, inside: Any, objects: Objects) -> None:
    match kind:
        case "match":
            _after_effects(reading)
            reading.by_chance |= "numgen" in inside["left"] or inside["left"] == {"meta": {"key": "random"}}
            found = compare(inside["left"], inside["op"], inside["right"], objects.elements)
            _narrow(reading, _now(reading, found))
            _look_up(reading, inside["right"], objects)
        case "vmap":
            _after_effects(reading)
            _map(reading, inside, objects)
            _look_up(reading, inside["data"], objects)
        case "counter":
            _count(reading, inside, objects)
        case "accept" | "drop" | "return":
            _decide(reading, kind, None)
        case "reject":
            how = [str(inside[key]) for key in ("type", "expr") if key in inside] if inside else []
            _decide(reading, " ".join(["reject", *(["with", *how] if how else [])]), None)
            if how and how[0] in _REJECTED and reading.effects:
                # nft compares the IP version first, unless a statement before has done so where it stands.
                reading.conditions["meta nfproto"] = None
            elif how and how[0] in _REJECTED:
                reading.cases = [both(case, version_match(_REJECTED[how[0]])) for case in reading.cases]
            elif how and how[0] == "tcp reset":
                # nft also compares the protocol, which JSON does not show.
                reading.conditions["meta l4proto"] = None
        case "jump" | "goto":
            _decide(reading, *_outcome(kind, inside))
        case "queue":
            reading.effects[kind] = None
            _decide(reading, kind, None)
        case "continue":
            return
        case "notrack":
            reading.untracks = reading.alters = True
            reading.pinned["it takes packets out of connection tracking"] = None
        case "mangle" if _harmless(inside["key"]):
            traced_on = inside["key"] != {"meta": {"key": "nftrace"}} or inside["value"] == 1
            reading.effects[f"writes {shown(inside['key'])}" if traced_on else ENDS_TRACE] = None
            if not _has_value(inside["value"]):
                reading.conditions["what it writes"] = None
            if next(iter(inside["key"])) not in ("meta", "ct"):
                # A packet without this field ends the rule here.
                reading.conditions[shown(inside["key"])] = None
        case "mangle":
            reading.unclear[f"it writes {shown(inside['key'])}, which other rules may compare"] = None
            reading.alters = True
        case _ if kind in _EFFECTS:
            reading.effects[kind] = None
            if kind == "reset" or (isinstance(inside, dict) and "map" in inside):
                reading.conditions[kind] = None
        case _ if kind in _STATEFUL:
            reading.by_chance = True
            reading.drops |= kind == "ct count"
            reading.unclear[f"'{kind}' depends on earlier packets"] = None
        case _:
            raise UnreadableExpression(shown({kind: inside}))


def _decide(reading: _StatementReader, verdict: str | None, jump: str | None) -> None:
    if reading.outcomes:
        raise UnreadableExpression("a verdict after another")
    reading.outcomes.append((NftComparison(), verdict, jump))


def _outcome(kind: str, inside: Any) -> tuple[str | None, str | None]:
    """Verdict and jump, as in :class:`Rule`."""
    if kind in ("jump", "goto"):
        return ("GOTO" if kind == "goto" else None), str(inside["target"])
    if kind in ("accept", "drop", "return", "continue"):
        return (None if kind == "continue" else kind), None
    raise UnreadableExpression(kind)


def _narrow(reading: _StatementReader, found: NftComparison) -> None:
    pairs = list(itertools.product(reading.cases, found.cases))
    if found.condition:
        reading.conditions[found.condition] = None
    reading.edges |= dict.fromkeys(found.edges)
    if not all(is_exact(a, b) for a, b in pairs):
        reading.conditions["interfaces"] = None
    if len(pairs) > MOST_CASES:
        reading.conditions["several sets"] = None
    else:
        reading.cases = [both(a, b) for a, b in pairs]


def _now(reading: _StatementReader, found: NftComparison) -> NftComparison:
    """A comparison by what packets were; of a rule that has rewritten them, nothing is known of that, and one
    that cannot count a packet's connection drops it before it compares more."""
    if reading.alters:
        return NftComparison(condition="what it has rewritten")
    return NftComparison(condition="what comes after ct count") if reading.drops else found


def _map(reading: _StatementReader, inside: Any, objects: Objects) -> None:
    """A verdict map: as many outcomes as it has elements, the wildcard last."""
    key, data = inside["key"], inside["data"]
    if isinstance(data, str):
        listed = objects.elements.get(data.removeprefix("@"))
        if listed is None:
            reading.unclear[f"the elements of {data} may change"] = None
            _decide(reading, "vmap", None)
            return
    else:
        listed = data["set"]
    if reading.outcomes:
        raise UnreadableExpression("a verdict after another")
    found = []
    for value, outcome in listed:
        kind, target = next(iter(outcome.items()))
        # An element may have a counter of its own.
        bare = value["elem"]["val"] if isinstance(value, dict) and "elem" in value else value
        found.append(
            (bare == "*", (_now(reading, lookup(key, bare, objects.elements)), *_outcome(kind, target)))
        )
    reading.outcomes += [outcome for _, outcome in sorted(found, key=lambda each: each[0])]


def _count(reading: _StatementReader, inside: Any, objects: Objects) -> None:
    reading.counted = "counter"
    match inside:
        case {"packets": packets} if is_count(packets):
            # Behind a verdict map, it counts what the map decides nothing about.
            reading.packets = None if reading.outcomes else packets
        case None:
            return
        case str():
            reading.effects[f"counter {inside}"] = None
            if reading.packets is None and not reading.outcomes:
                reading.packets = objects.counters.get(inside)
        case _:
            reading.effects["counters of a map"] = None
            # A packet without an element ends the rule here.
            reading.conditions["counters of a map"] = None


def is_count(value: object) -> bool:
    """Whether a counter of the kernel can have this value."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**64


def _after_effects(reading: _StatementReader) -> None:
    """Note that what follows is not compared before the statements so far take effect."""
    if reading.counted:
        reading.packets = None
    reading.alters_by_chance |= reading.alters and reading.by_chance
    for before in (*([reading.counted] if reading.counted else []), *reading.effects):
        reading.pinned[f"'{before}' stands before a comparison, so it also affects other packets"] = None


def _look_up(reading: _StatementReader, right: Any, objects: Objects) -> None:
    """What looking up a named set does to that set."""
    if not isinstance(right, str) or not right.startswith("@"):
        return
    kind = objects.counting.get(right[1:])
    if kind == "counter":
        reading.effects[f"counters of {right}"] = None
    elif kind:
        reading.unclear[f"'{kind}' of {right} depends on earlier packets"] = None


def _has_value(value: Any) -> bool:
    """Whether every packet has what a statement writes; one without it ends the rule there."""
    match value:
        case None | bool() | int() | str():
            return True
        case list():
            return all(map(_has_value, value))
        case {"meta": {"key": "mark" | "priority" | "cpu"}} | {"numgen": _}:
            return True
        case dict():
            return set(value) <= {"&", "|", "^", "<<", ">>"} and all(map(_has_value, value.values()))
    return False


def _harmless(key: Any) -> bool:
    """Whether writing to ``key`` leaves the fields of :class:`Match` as they are."""
    if not isinstance(key, dict) or len(key) != 1:
        return False
    kind, inside = next(iter(key.items()))
    if kind not in _WRITABLE or not isinstance(inside, dict):
        return False
    if kind == "payload" and inside.get("protocol") not in ("ip", "ip6"):
        return False
    if not set(inside) <= {"key", "dir", "protocol", "field", "name"}:
        return False
    return (inside.get("key") or inside.get("field")) in _WRITABLE[kind]
