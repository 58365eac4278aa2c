"""Sets of addresses and ports, from the output of ``ipset save``, for ``-m set`` in rules of iptables."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.rules import matching
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import Match, Ranges

MOST_CASES: Final = 256
"""Most elements of a set with several dimensions that become cases of a rule."""

_UNDERSTOOD: Final = frozenset({"ip", "net", "port"})
_METHODS: Final = frozenset({"hash", "bitmap"})
_CHANGING: Final = frozenset({"markmask", "bitmask"})
"""Options of a set that change what an element means."""
_BITS: Final = re.compile(r"[0-9]{1,3}")
_MATCH_SET: Final = re.compile(r"(?P<not>! )?--match-set (?P<name>\S+) (?P<sides>[a-z,]+)(?= -|$)")
_ADDRESSES: Final = (matching.ADDRESSES[4][0], matching.ADDRESSES[6][1])
_SIDES: Final = {
    ("ip", "src"): "source", ("net", "src"): "source", ("ip", "dst"): "destination",
    ("net", "dst"): "destination", ("port", "src"): "source_port", ("port", "dst"): "destination_port",
}  # fmt: skip


@dataclass(frozen=True)
class _Element:
    """One value per dimension, and the protocol of a port; ``excludes``: it is an exception (``nomatch``)."""

    values: tuple[matching.Range, ...]
    protocol: matching.Range | None = None
    excludes: bool = False


@dataclass
class IpSet:
    """A set as it is being read."""

    dimensions: tuple[str, ...]
    """``ip``, ``net`` or ``port``; empty if the set is not understood, or lists other sets."""
    netmask: int | None = None
    elements: list[_Element] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    """Names of sets, of a list of sets."""

    def whole(self) -> Ranges:
        """All values of a set with one dimension."""
        found: Ranges = ()
        # The most specific network decides, as in the kernel.
        for each in sorted(self.elements, key=lambda element: element.values[0][0] - element.values[0][1]):
            if each.excludes:
                kept = matching.complement(each.values, _ADDRESSES)
                found = matching.intersection(found, kept) or ()
            else:
                found = matching.union((*found, *each.values))
        return found


def parse_sets(text: str, where: str = "the sets") -> dict[str, IpSet]:
    """Read the output of ``ipset save``; elements that are not understood make their set so.

    Raises ``InputError`` for lines that are neither a set nor an element.
    """
    found: dict[str, IpSet] = {}
    for number, line in enumerate(text.splitlines(), 1):
        try:
            words = shlex.split(line)
        except ValueError:
            words = [line]
        if not words or words[0].startswith("#"):
            continue
        match words:
            case ["create" | "-N", name, kind, *options]:
                found[name] = IpSet(_dimensions(kind, options), _netmask(options))
            case ["add" | "-A", name, element, *options] if name in found:
                _add(found[name], element, options)
            case ["flush" | "-F" | "COMMIT", *_]:
                pass
            case _:
                raise InputError(
                    f"{where}:{number}: {quoted(line)} neither creates a set nor adds to one that is created "
                    "above; give the output of ipset save"
                )
    return found


def with_sets(path: Sequence[Ruleset], sets: Mapping[str, IpSet]) -> list[Ruleset]:
    """``path`` with rules that match what is in ``sets`` where they name one that is understood; a rule may
    get several cases."""

    def resolved(chain: Chain) -> Chain:
        return replace(chain, rules=tuple(case for rule in chain.rules for case in _cases(rule, sets)))

    return [
        replace(each, chains={name: resolved(chain) for name, chain in each.chains.items()}) for each in path
    ]


def _dimensions(kind: str, options: Sequence[str]) -> tuple[str, ...]:
    method, _, listed = kind.partition(":")
    names = tuple(listed.split(","))
    known = method in _METHODS and set(names) <= _UNDERSTOOD and not _CHANGING & set(options)
    return names if known else ()


def _netmask(options: Sequence[str]) -> int | None:
    at = options.index("netmask") + 1 if "netmask" in options else 0
    return int(options[at]) if 0 < at < len(options) and _BITS.fullmatch(options[at]) else None


def _add(to: IpSet, text: str, options: Sequence[str]) -> None:
    if not to.dimensions:
        to.members.append(text)
        return
    try:
        to.elements.append(_element(to, text, excludes="nomatch" in options))
    except ValueError:
        to.dimensions = ()


def _element(of: IpSet, text: str, *, excludes: bool) -> _Element:
    protocol: matching.Range | None = None
    values: list[matching.Range] = []
    for kind, value in zip(of.dimensions, text.split(","), strict=True):
        if kind != "port":
            masked = value if of.netmask is None or "/" in value else f"{value}/{of.netmask}"
            values.append(matching.network(masked)[0])
            continue
        name, colon, port = value.rpartition(":")
        if colon:
            protocol = matching.numbers(name, matching.PROTOCOL_NUMBERS)
        values.append(matching.numbers(port, separator="-"))
    return _Element(tuple(values), protocol, excludes)


def _cases(rule: Rule, sets: Mapping[str, IpSet]) -> Iterator[Rule]:
    """``rule`` for each combination of what its sets match."""
    rest = rule.conditions.split(", ")
    options: list[list[Match]] = []
    for found in _MATCH_SET.finditer(rule.text):
        words = " ".join(found[0].split())
        matches = _matches(sets, found["name"], found["sides"].split(","), inverted=found["not"] is not None)
        if matches is not None and words in rest:
            rest.remove(words)
            options.append(matches)
    if not options or math.prod(map(len, options)) > MOST_CASES:
        yield rule
        return
    matched: list[Match] = []
    for chosen in product(*options):
        both: Match | None = rule.match
        for each in chosen:
            both = None if both is None else _both(both, each)
        matched += [] if both is None else [both]
    # A rule that matches nothing is still compared.
    for match in matched or [replace(rule.match, source=())]:
        yield replace(rule, match=match, conditions=", ".join(filter(None, rest)))


def _matches(
    sets: Mapping[str, IpSet], name: str, sides: Sequence[str], *, inverted: bool
) -> list[Match] | None:
    """What packets that match the set have, case by case; None if that is not understood."""
    known = sets.get(name)
    if known is None:
        return None
    if known.members:
        # Lists have no lists in them, nor themselves.
        if any(sets[member].members for member in known.members if member in sets):
            return None
        listed = [_matches(sets, member, sides, inverted=False) for member in known.members]
        if inverted or any(each is None for each in listed):
            return None
        return [match for each in listed if each is not None for match in each]
    if len(known.dimensions) > len(sides) or not known.dimensions:
        return None
    fields = [_SIDES.get(pair) for pair in zip(known.dimensions, sides, strict=False)]
    if None in fields:
        return None
    if len(fields) == 1 and all(element.protocol is None for element in known.elements):
        values = known.whole()
        if inverted:
            values = matching.complement(values, matching.PORTS if "port" in known.dimensions else _ADDRESSES)
        return [_match({str(fields[0]): values})]
    if inverted or len(known.elements) > MOST_CASES or any(each.excludes for each in known.elements):
        return None
    return [_match(_of_element(element, list(map(str, fields)))) for element in known.elements]


def _of_element(element: _Element, fields: Sequence[str]) -> dict[str, Ranges]:
    found: dict[str, Ranges] = dict(zip(fields, ((value,) for value in element.values), strict=True))
    if element.protocol is not None:
        found["protocol"] = (element.protocol,)
    return found


def _match(values: Mapping[str, Any]) -> Match:
    return Match(**values)


def _both(a: Match, b: Match) -> Match | None:
    """What matches both, of which ``b`` has ranges only; None if nothing does."""
    names = ("source", "destination", "protocol", "source_port", "destination_port")
    values: dict[str, Any] = {
        name: matching.intersection(getattr(a, name), getattr(b, name)) for name in names
    }
    return None if () in values.values() else replace(a, **values)
