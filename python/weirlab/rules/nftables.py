"""Reads what ``nft list ruleset`` writes, with or without ``-a``, as far as it is a list of plain rules.

Sets, maps and expressions beyond addresses, ports, protocols, interfaces and states are not
interpreted: they only ever narrow what a rule matches, so that no proof relies on them. Rules
with verdict maps, limits and the like keep their place and are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from weirlab.errors import InputError
from weirlab.rules import matching
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import ALL_STATES, Interface, Match, Ranges

_COMMENT: Final = re.compile(r'^((?:[^"#]|"[^"]*")*?)\s*#.*$')
"""A comment begins at the first number sign outside of quotes."""
_TABLE: Final = re.compile(r"table\s+(?P<family>\S+)\s+(?P<name>\S+)\s*\{")
_BLOCK: Final = re.compile(r"(?P<kind>chain|set|map|counter|flowtable|quota|limit)\s+(?P<name>\S+)\s*\{")
_BASE: Final = re.compile(r"type\s+filter\s+hook\s+(?P<hook>\S+).*?policy\s+(?P<policy>\w+)")
_TOKEN: Final = re.compile(r'"[^"]*"|\{|\}|,|[^\s{},]+')

_VERDICTS: Final = frozenset({"accept", "drop", "reject", "return", "queue"})
_COUNTING: Final = frozenset({"limit", "quota", "connlimit", "meter", "numgen", "update", "add", "over"})
_FAMILIES: Final = frozenset({"ip", "ip6", "inet"})
_TRANSPORT: Final = frozenset({"tcp", "udp", "udplite", "sctp", "dccp", "th"})


@dataclass
class _Reading:
    """A rule as it is being read."""

    fields: dict[str, Ranges | None] = field(default_factory=dict)
    states: frozenset[str] = ALL_STATES
    inward: Interface | None = None
    outward: Interface | None = None
    packets: int | None = None
    verdict: str | None = None
    jump: str | None = None
    unclear: list[str] = field(default_factory=list)


def parse_nftables(text: str, where: str = "the ruleset") -> Ruleset:
    """Read the first table with a base chain at the hook ``forward``.

    Raises ``InputError`` if there is none, or none of its rules has a counter.
    """
    notes: list[str] = []
    candidates: list[tuple[str, dict[str, Chain]]] = []
    for title, chains, entries in _tables(text, where):
        candidates += [(entry, chains) for entry in entries]
        notes += [f"chain {e} of table {title} is also walked and was left out" for e in entries]
    if not candidates:
        raise InputError(f"{where} has no chain of type filter at the hook forward")
    entry, chains = candidates[0]
    counted = [rule for chain in chains.values() for rule in chain.rules]
    if not any(rule.packets for rule in counted):
        raise InputError(
            f"{where}: no rule has counted a packet; put 'counter' into the rules, before the verdict"
        )
    return Ruleset(entry, chains, "nft", (*_uncounted(chains), *notes[1:]))


def _uncounted(chains: dict[str, Chain]) -> list[str]:
    named = [
        f"{chain.name} rule {i}"
        for chain in chains.values()
        for i, rule in enumerate(chain.rules, 1)
        if "counter" not in rule.text.split() and (rule.verdict or rule.jump)
    ]
    return [f"rules without counter count as never matched: {', '.join(named)}"] if named else []


def _tables(text: str, where: str) -> Iterator[tuple[str, dict[str, Chain], list[str]]]:
    table = block = None
    depth = 0
    chains: dict[str, Chain] = {}
    rules: list[Rule] = []
    policy: str | None = None
    entries: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        plain = _COMMENT.sub(r"\1", line).strip()
        if not plain:
            continue
        if table is None:
            if match := _TABLE.match(plain):
                table, chains, entries = match, {}, []
            continue
        if depth:
            depth += plain.count("{") - plain.count("}")
            continue
        if block is None:
            if plain == "}":
                if table["family"] in _FAMILIES:
                    yield f"{table['family']} {table['name']}", chains, entries
                table = None
            elif match := _BLOCK.match(plain):
                if match["kind"] == "chain":
                    block, rules, policy = match["name"], [], None
                else:
                    depth = plain.count("{") - plain.count("}")
            continue
        if plain == "}":
            chains[block] = Chain(block, tuple(rules), policy)
            block = None
        elif plain.startswith("type "):
            if base := _BASE.match(plain):
                policy = base["policy"]
                entries += [block] * (base["hook"] == "forward")
        elif not plain.startswith(("policy ", "comment ")):
            rules.append(_rule(plain, number))
    if table is not None:
        raise InputError(f"{where} ends inside table {table['name']}")


def _rule(text: str, line: int) -> Rule:
    tokens = _TOKEN.findall(text)
    reading = _Reading()
    if "vmap" in tokens:
        reading.unclear.append("a verdict map is not understood")
        tokens = tokens[: tokens.index("vmap") - 1]
    i = 0
    while i < len(tokens):
        try:
            i = _take(reading, tokens, i)
        except (ValueError, IndexError):
            reading.unclear.append(f"'{' '.join(tokens[i : i + 3])}' is not understood")
            i += 1
    match = Match(**reading.fields, states=reading.states, inward=reading.inward, outward=reading.outward)
    unclear = "; ".join(dict.fromkeys(reading.unclear))
    return Rule(text, match, reading.verdict, reading.jump, reading.packets or 0, unclear, line)


def _take(reading: _Reading, tokens: list[str], i: int) -> int:
    """Take what begins at token ``i``; returns where the next begins."""
    word = tokens[i]
    if word in _COUNTING:
        reading.unclear.append(f"'{word}' is not understood or depends on the packets before")
        return i + 1
    if word == "counter":
        if tokens[i + 1 : i + 2] == ["packets"]:
            reading.packets = int(tokens[i + 2])
            return i + 5
        return i + 1
    if word in ("comment", "prefix"):
        return i + 2
    if word in ("jump", "goto"):
        reading.jump = tokens[i + 1]
        reading.verdict = "GOTO" if word == "goto" else None
        return i + 2
    if word in _VERDICTS:
        end = tokens.index("comment", i) if "comment" in tokens[i:] else len(tokens)
        reading.verdict = " ".join(tokens[i:end])
        return end
    if word in ("iifname", "oifname", "iif", "oif"):
        return _interface(reading, tokens, i)
    two = " ".join(tokens[i : i + 2])
    if two in ("ip saddr", "ip6 saddr", "ip daddr", "ip6 daddr"):
        name = "source" if "saddr" in two else "destination"
        whole = matching.ADDRESSES[6 if word == "ip6" else 4]
        return _values(reading, name, tokens, i + 2, _addresses, whole)
    if two in ("meta l4proto", "ip protocol", "ip6 nexthdr"):
        return _values(reading, "protocol", tokens, i + 2, _protocols, matching.PROTOCOLS)
    if two == "ct state":
        return _states(reading, tokens, i + 2)
    if word in _TRANSPORT and tokens[i + 1] in ("sport", "dport"):
        if word != "th":
            _narrow(reading, "protocol", (_protocols(word),))
        name = "source_port" if tokens[i + 1] == "sport" else "destination_port"
        return _values(reading, name, tokens, i + 2, _ports, matching.PORTS)
    return i + 1


def _listed(tokens: list[str], i: int) -> tuple[list[str], int, bool]:
    """The values at ``i``, where the next token is, and whether they are inverted."""
    inverted = tokens[i] == "!="
    i += inverted
    if tokens[i] != "{":
        values = [tokens[i]]
        i += 1
        while tokens[i : i + 1] == [","]:
            values.append(tokens[i + 1])
            i += 2
        return values, i, inverted
    end = tokens.index("}", i)
    return [token for token in tokens[i + 1 : end] if token != ","], end + 1, inverted


def _values(
    reading: _Reading,
    name: str,
    tokens: list[str],
    i: int,
    read: Callable[[str], matching.Range],
    whole: matching.Range,
) -> int:
    values, after, inverted = _listed(tokens, i)
    if any(value.startswith(("@", "$")) for value in values):
        return after
    found = matching.union(read(value) for value in values)
    if inverted:
        found = matching.complement(found, whole)
    _narrow(reading, name, found)
    return after


def _narrow(reading: _Reading, name: str, ranges: Ranges) -> None:
    reading.fields[name] = matching.intersection(reading.fields.get(name), ranges)


def _addresses(text: str) -> matching.Range:
    return matching.network(text)[0]


def _protocols(text: str) -> matching.Range:
    return matching.numbers(text, matching.PROTOCOL_NUMBERS, separator="-")


def _ports(text: str) -> matching.Range:
    return matching.numbers(text, separator="-")


def _states(reading: _Reading, tokens: list[str], i: int) -> int:
    values, after, inverted = _listed(tokens, i)
    named = frozenset(value.upper() for value in values)
    if named <= ALL_STATES:
        reading.states &= ALL_STATES - named if inverted else named
    return after


def _interface(reading: _Reading, tokens: list[str], i: int) -> int:
    values, after, inverted = _listed(tokens, i + 1)
    if len(values) == 1 and not values[0].startswith("@"):
        name = values[0].strip('"')
        found = Interface(name.removesuffix("*"), name.endswith("*"), inverted)
        if tokens[i].startswith("iif"):
            reading.inward = found
        else:
            reading.outward = found
    return after
