"""What an expression of nft compares with what, from its JSON (libnftables-json(5)).

A comparison is read into the matches of which one must hold, and a condition: what it compares beyond them.
A condition only depends on the packet and on what the kernel knows of it, so that it does no harm if nobody
knows when it holds. Whatever is not listed here raises ``UnreadableExpression``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.rules import matching
from weirlab.rules.matching import Match, Range, Ranges, both, is_exact
from weirlab.rules.nft.fields import (
    ANY,
    STATE_BITS,
    NftField,
    UnreadableExpression,
    bits_of,
    constants,
    field_of,
    read_address,
    refuse_unknown,
    shown,
    version_match,
)

MOST_EDGES: Final = 8
"""Most values at which probes try a condition."""
MOST_CASES: Final = 64
"""Most matches that a comparison is read into; beyond, it is a condition."""


@dataclass(frozen=True)
class NftComparison:
    """The packets for which a comparison holds: those of any of ``cases`` that meet the ``condition``."""

    cases: tuple[Match, ...] = (ANY,)
    condition: str = ""
    edges: tuple[tuple[str, int], ...] = ()
    """As in :class:`~weirlab.rules.chains.Rule`."""


Elements = Mapping[str, Sequence[Any]]
"""The elements of named sets, as far as they are known and used."""

_SIGNS: Final = frozenset({"==", "!=", "<", ">", "<=", ">=", "in", "!"})


def compare(left: Any, sign: str, right: Any, elements: Elements) -> NftComparison:
    """The packets for which ``left sign right`` holds; raises ``UnreadableExpression``."""
    found = _compare(left, sign, right, elements)
    return replace(found, edges=_edges(left, right)) if found.condition else found


def _edges(left: Any, right: Any) -> tuple[tuple[str, int], ...]:
    """Values of probes at which the comparison may change."""
    inside = left
    while isinstance(inside, dict) and set(inside) <= {"&", "|", "^", "<<", ">>"}:
        inside = next(iter(inside.values()))[0]
    parts = inside["concat"] if isinstance(inside, dict) and "concat" in inside else [inside]
    names = [probe for part in parts if (probe := field_of(part).probe)]
    values = sorted(constants(right) | constants(left))[:MOST_EDGES]
    return tuple((name, value) for name in names for value in values)


def _compare(left: Any, sign: str, right: Any, elements: Elements) -> NftComparison:
    if sign not in _SIGNS:
        raise UnreadableExpression(f"operator {sign}")
    if isinstance(left, dict) and set(left) == {"concat"} and isinstance(left["concat"], list):
        fields = [field_of(part) for part in left["concat"]]
    else:
        fields = [field_of(left)]
    implied = Match()
    for field in fields:
        implied = both(implied, field.implied)
    words = " . ".join(field.words for field in fields)
    known = list(_values(right, elements))
    if any(value is None for value in known):
        return NftComparison((implied,), words)
    if len(fields) > 1:
        return _concatenated(fields, sign, known, implied, words)
    if fields[0].bits is not None:
        return _bitwise(fields[0], sign, known)
    if not fields[0].name:
        return NftComparison((implied,), words)
    if fields[0].read is None:
        return _interfaces(fields[0], sign, known, words)
    return _ranged(fields[0], sign, known, words)


def lookup(key: Any, value: Any, elements: Elements) -> NftComparison:
    """The packets that a map finds under ``value``."""
    return compare(key, "==", {"set": [value]}, elements)


def _values(right: Any, elements: Elements) -> Iterator[Any]:
    """The values on the right of a comparison; None for one that is not known."""
    match right:
        case str() if right.startswith("@"):
            yield from (_bare(each) for each in elements[right[1:]]) if right[1:] in elements else (None,)
        case {"set": list(listed)} if len(right) == 1:
            for each in listed:
                refuse_unknown(_bare(each))
                yield _bare(each)
        case {"set": _} if len(right) == 1:
            yield _bare(right["set"])
        case _:
            refuse_unknown(right)
            yield right


def _bare(element: Any) -> Any:
    """An element without its counter, timeout and comment."""
    match element:
        case {"elem": {"val": value, **rest}} if not set(rest) - {"comment", "timeout", "expires", "counter"}:
            return value
        case {"elem": _}:
            raise UnreadableExpression(shown(element))
    return element


def _ranged(field: NftField, sign: str, values: Sequence[Any], words: str) -> NftComparison:
    """A field that consists of ranges; values with unknown names are left to the condition."""
    implied = field.implied
    try:
        found = matching.union(
            part for value in values for part in ([*field.whole] if value == "*" else [_range(field, value)])
        )
    except (ValueError, TypeError, KeyError):
        return NftComparison((implied,), words)
    match sign:
        case "!=":
            found = _outside(found, field.whole)
        case "<" | ">" | "<=" | ">=":
            found = matching.intersection(_beyond(sign, found), field.whole) or ()
        case "in" | "!":
            return NftComparison((implied,), words)
    cases = [both(implied, each) for each in _with(field.name, found)]
    return NftComparison(tuple(cases), words if field.vague else "")


def _with(name: str, found: Ranges) -> list[Match]:
    if name == "version":
        versions = [version for version in (4, 6) if matching.covers(found, version)]
        return [version_match(version) for version in versions] or [Match(source=())]
    ranges: dict[str, Any] = {name: found}
    return [Match(**ranges)]


def _range(field: NftField, value: Any) -> Range:
    assert field.read is not None
    match value:
        case {"range": [low, high]}:
            found = field.read(low)[0], field.read(high)[1]
        case {"prefix": {"addr": str(address), "len": int(length)}} if field.read is read_address:
            found = matching.network(f"{address}/{length}")[0]
        case bool() | list() | dict() | None:
            raise ValueError(value)
        case _:
            found = field.read(value)
    if not any(low <= found[0] <= found[1] <= high for low, high in field.whole):
        raise ValueError(value)
    return found


def _outside(found: Ranges, whole: Ranges) -> Ranges:
    return matching.union(part for each in whole for part in matching.complement(found, each))


def _beyond(sign: str, found: Ranges) -> Ranges:
    if len(found) != 1 or found[0][0] != found[0][1]:
        raise UnreadableExpression(f"{sign} several values")
    value = found[0][0]
    ends = {"<": (0, value - 1), "<=": (0, value), ">": (value + 1, 2**160), ">=": (value, 2**160)}
    low, high = ends[sign]
    return ((low, high),) if low <= high else ()


def _bitwise(field: NftField, sign: str, values: Sequence[Any]) -> NftComparison:
    """A field that consists of bits: every value that it can have is tried."""
    assert field.bits is not None
    wanted = [bits_of(value, field.bits) for value in values]
    bits = [each for each in wanted if each is not None]
    holds: dict[str, Callable[[int], bool]] = {
        "==": lambda value: value in bits,
        "!=": lambda value: value not in bits,
        "in": lambda value: bool(value & bits[0]),
        "!": lambda value: not value & bits[0],
    }
    if sign not in holds or None in wanted or (sign in ("in", "!") and len(wanted) != 1):
        return NftComparison((field.implied,), field.words)
    found = [value for value in field.universe if holds[sign](value & field.mask)]
    if field.name == "states":
        states = frozenset(name.upper() for name, bit in STATE_BITS.items() if bit in found)
        return NftComparison((replace(field.implied, states=states),))
    return NftComparison((both(field.implied, Match(tcp_flags=matching.values(found))),))


def _interfaces(field: NftField, sign: str, values: Sequence[Any], words: str) -> NftComparison:
    names = [value for value in values if isinstance(value, str) and value and "\\" not in value]
    if sign not in ("==", "!=") or len(names) != len(values):
        return NftComparison((field.implied,), words)
    found = matching.interface(names, "*", inverted=sign == "!=")
    return NftComparison((Match(inward=found) if field.name == "inward" else Match(outward=found),))


def _concatenated(
    fields: Sequence[NftField], sign: str, values: Sequence[Any], implied: Match, words: str
) -> NftComparison:
    """Several fields at once: a case, or several, for each combination of values."""
    if sign != "==" or not 0 < len(values) <= MOST_CASES:
        return NftComparison((implied,), words)
    found: list[Match] = []
    conditions: dict[str, None] = {}
    for value in values:
        if value == "*":
            return NftComparison((implied,), words)
        if not isinstance(value, dict) or len(value.get("concat", ())) != len(fields):
            raise UnreadableExpression(shown(value))
        cases = [implied]
        for field, part in zip(fields, value["concat"], strict=True):
            one = _single(field, part)
            conditions |= {one.condition: None} if one.condition else {}
            pairs = list(itertools.product(cases, one.cases))
            if not all(is_exact(a, b) for a, b in pairs):
                return NftComparison((implied,), words)
            cases = [both(a, b) for a, b in pairs]
        found += cases
    if len(found) > MOST_CASES:
        return NftComparison((implied,), words)
    return NftComparison(tuple(found), " ".join(conditions))


def _single(field: NftField, value: Any) -> NftComparison:
    if field.bits is not None:
        return _bitwise(field, "==", [value])
    if not field.name:
        return NftComparison((field.implied,), field.words)
    if field.read is None:
        return _interfaces(field, "==", [value], field.words)
    return _ranged(field, "==", [value], field.words)
