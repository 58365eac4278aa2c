"""Reads the output of ``nft list ruleset``, with or without ``-a``, as far as it is a list of plain rules.

Sets, maps and expressions beyond addresses, ports, protocols, interfaces and states are not
interpreted: they only narrow what a rule matches, so no proof relies on them. Rules with
verdict maps, limits and the like keep their place and are reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from weirlab.errors import InputError
from weirlab.rules import matching
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import ALL_STATES, Interface, Match, Ranges

_COMMENT: Final = re.compile(r'^((?:[^"#]|"[^"]*")*?)\s*#.*$')
"""A comment begins at the first number sign outside of quotes."""
_TABLE: Final = re.compile(r"table\s+(?P<family>\S+)\s+(?P<name>\S+)\s*\{")
_BLOCK: Final = re.compile(r"(?P<kind>chain|set|map|counter|flowtable|quota|limit)\s+(?P<name>\S+)\s*\{")
_BASE: Final = re.compile(r"type\s+filter\s+hook\s+(?P<hook>\S+).*?policy\s+(?P<policy>\w+)")
_HOOK: Final = re.compile(r"type\s+(?P<type>\S+)\s+hook\s+(?P<hook>\S+).*?priority\s+(?P<priority>[^;]+);")
_HANDLE: Final = re.compile(r"#\s*handle\s+(\d+)\s*$")
_ELEMENTS: Final = re.compile(r"elements\s*=\s*\{(?P<listed>[^}]*)\}", re.DOTALL)
_PRIORITIES: Final = {"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100}
"""Names of priorities as in nft(8)."""
_TOKEN: Final = re.compile(r'"[^"]*"|\{|\}|,|[^\s{},]+')

_VERDICTS: Final = frozenset({"accept", "drop", "reject", "return", "queue"})
_COUNTING: Final = frozenset({"limit", "quota", "connlimit", "meter", "numgen", "update", "add", "over"})
_HOOKS: Final = ("prerouting", "forward", "postrouting")
"""Hooks that a forwarded packet passes, in order."""
_STATEMENTS: Final = frozenset({"log", "notrack"})
"""Words that neither narrow what a rule matches nor end the walk."""
_FAMILIES: Final[dict[str, tuple[Literal[4, 6], ...]]] = {"ip": (4,), "ip6": (6,), "inet": (4, 6)}
_TRANSPORT: Final = frozenset({"tcp", "udp", "udplite", "sctp", "dccp", "th"})


@dataclass
class _Reading:
    """A rule as it is being read."""

    fields: dict[str, Ranges | None] = field(default_factory=dict)
    states: frozenset[str] = ALL_STATES
    inward: Interface | None = None
    outward: Interface | None = None
    packets: int | None = None
    comment: str = ""
    conditions: list[str] = field(default_factory=list)
    verdict: str | None = None
    jump: str | None = None
    unclear: list[str] = field(default_factory=list)


def parse_nftables(text: str, where: str = "the ruleset") -> Ruleset:
    """Read the first table with a base chain at the hook ``forward``.

    Raises ``InputError`` if there is none, or none of its rules has a counter.
    """
    tables = list(_tables(text, where))
    candidates = [(entry, table) for table in tables for entry in table.entries("forward")]
    if not candidates:
        raise InputError(f"{where} has no chain of type filter at the hook forward")
    entry, first = candidates[0]
    notes = [
        f"chain {other} of table {table.title} is also walked but was left out" for other, table in candidates
    ]
    counted = [rule for chain in first.chains.values() for rule in chain.rules]
    if not any(rule.packets for rule in counted):
        raise InputError(
            f"{where}: no rule has counted a packet; put 'counter' into the rules, before the verdict"
        )
    return Ruleset(entry, first.chains, "nft", (*_uncounted(first.chains), *notes[1:]))


def nftables_path(text: str, where: str = "the ruleset") -> list[Ruleset]:
    """Read the base chains that forwarded packets walk, in order; rules need no counters.

    Unlike :func:`parse_nftables`, this expands the elements of sets and verdict maps: a verdict map becomes a
    rule per element, and these share the number of the original rule.

    Raises ``InputError`` for a ruleset that cannot be read.
    """
    found = [
        (_HOOKS.index(base.hook), base.priority, i, base, table)
        for i, table in enumerate(_tables(text, where, listed=True))
        for base in table.bases
        if base.hook in _HOOKS
    ]
    return [
        Ruleset(
            base.chain,
            table.chains,
            "nft",
            table=table.title,
            families=_FAMILIES[table.family],
            hook=base.hook,
            priority=base.priority,
        )
        for *_, base, table in sorted(found, key=lambda each: each[:3])
    ]


@dataclass(frozen=True)
class _Base:
    """A base chain: where it hooks in."""

    chain: str
    hook: str
    priority: int


@dataclass
class _Table:
    """A table as it is being read."""

    title: str
    family: str
    chains: dict[str, Chain] = field(default_factory=dict)
    bases: list[_Base] = field(default_factory=list)
    elements: dict[str, list[str]] = field(default_factory=dict)
    """Elements, as tokens, of sets and maps that list all of theirs as single values; by name."""

    def entries(self, hook: str) -> list[str]:
        return [base.chain for base in self.bases if base.hook == hook]


def _uncounted(chains: dict[str, Chain]) -> list[str]:
    named = [
        f"{chain.name} rule {i}"
        for chain in chains.values()
        for i, rule in enumerate(chain.rules, 1)
        if "counter" not in rule.text.split() and (rule.verdict or rule.jump)
    ]
    return [f"rules without counter count as never matched: {', '.join(named)}"] if named else []


def _tables(text: str, where: str, *, listed: bool = False) -> Iterator[_Table]:
    """The tables for IP; ``listed``: with the elements of sets and maps in place of their names."""
    table: _Table | None = None
    block: str | None = None
    depth, inside = 0, ("", "")
    rules: list[Rule] = []
    count = 0
    policy: str | None = None
    for number, line in enumerate(text.splitlines(), 1):
        plain = _COMMENT.sub(r"\1", line).strip()
        if not plain:
            continue
        if table is None:
            if match := _TABLE.match(plain):
                table = _Table(f"{match['family']} {match['name']}", match["family"])
            continue
        if depth:
            inside = (inside[0], f"{inside[1]} {plain}")
            depth += plain.count("{") - plain.count("}")
            if not depth and (elements := _elements(inside[1])) is not None:
                table.elements[inside[0]] = elements
            continue
        if block is None:
            if plain == "}":
                if table.family in _FAMILIES:
                    yield table
                table = None
            elif match := _BLOCK.match(plain):
                if match["kind"] == "chain":
                    block, rules, policy, count = match["name"], [], None, 0
                else:
                    depth, inside = plain.count("{") - plain.count("}"), (match["name"], "")
            continue
        if plain == "}":
            table.chains[block] = Chain(block, tuple(rules), policy)
            block = None
        elif plain.startswith("type "):
            if base := _BASE.match(plain):
                policy = base["policy"]
                table.bases.append(_Base(block, base["hook"], _priority(plain)))
        elif not plain.startswith(("policy ", "comment ")):
            count += 1
            handle = _HANDLE.search(line)
            read = (
                _cases(plain, number, table.elements)
                if listed
                else [_rule(_TOKEN.findall(plain), plain, number)]
            )
            rules += [replace(rule, number=count, handle=int(handle[1]) if handle else None) for rule in read]
    if table is not None:
        raise InputError(f"{where} ends inside table {table.title.split()[1]}")


def _priority(text: str) -> int:
    """Priority of a base chain, from ``filter``, ``-150`` or ``mangle + 5``."""
    match = _HOOK.match(text)
    words = match["priority"].replace("+", " ").replace("- ", "-").split() if match else []
    return sum(_PRIORITIES[word] if word in _PRIORITIES else int(word) for word in words)


def _elements(block: str) -> list[str] | None:
    """The elements of a set or map as tokens, commas in between; None if they are not all known."""
    match = _ELEMENTS.search(block)
    if match is None or "dynamic" in block or " . " in block:
        return [] if match is None and "dynamic" not in block else None
    # Of an element with a counter, timeout or comment, only the value and what it maps to count.
    tokens: list[str] = []
    for part in match["listed"].split(","):
        words = part.split()
        mapped = words[words.index(":") :] if ":" in words else []
        tokens += ([","] if tokens else []) + words[:1] + mapped
    return tokens


def _cases(text: str, line: int, elements: dict[str, list[str]]) -> list[Rule]:
    """A rule with the elements of its sets filled in; for a verdict map, a rule per element."""
    tokens: list[str] = []
    for token in _TOKEN.findall(text):
        known = elements.get(token.removeprefix("@")) if token.startswith("@") else None
        tokens += [token] if known is None else ["{", *known, "}"]
    if "vmap" not in tokens:
        return [_rule(tokens, text, line)]
    at = tokens.index("vmap")
    if tokens[at + 1 : at + 2] != ["{"] or "." in tokens[:at] or "}" not in tokens[at:]:
        return [_rule(tokens, text, line)]
    end = tokens.index("}", at)
    found: list[Rule] = []
    part: list[str] = []
    for token in [*tokens[at + 2 : end], ","]:
        if token != ",":
            part.append(token)
            continue
        if ":" in part:
            value, verdict = part[: part.index(":")], part[part.index(":") + 1 :]
            # The wildcard matches what no other element does.
            asked = tokens[:at] + value if value != ["*"] else tokens[: at - 2]
            found.append(_rule([*asked, *verdict, *tokens[end + 1 :]], text, line))
        part = []
    return sorted(found, key=lambda rule: rule.match == Match())


def _rule(tokens: list[str], text: str, line: int) -> Rule:
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
    return Rule(
        text,
        Match(
            **reading.fields,
            states=reading.states,
            inward=reading.inward,
            outward=reading.outward,
            tcp_flags=None,
        ),
        reading.verdict,
        reading.jump,
        reading.packets or 0,
        "; ".join(dict.fromkeys(reading.unclear)),
        line,
        comment=reading.comment,
        conditions=" ".join(reading.conditions),
        untracks="notrack" in tokens,
    )


def _take(reading: _Reading, tokens: list[str], i: int) -> int:
    """Read the expression at token ``i``; returns where the next one begins."""
    word = tokens[i]
    if word in _COUNTING:
        reading.unclear.append(f"'{word}' is not understood or depends on earlier packets")
        return i + 1
    if word == "counter":
        if tokens[i + 1 : i + 2] == ["packets"]:
            reading.packets = int(tokens[i + 2])
            return i + 5
        return i + 1
    if word == "comment":
        reading.comment = tokens[i + 1].strip('"')
        return i + 2
    if word in ("prefix", "level", "group", "snaplen", "queue-threshold"):
        return i + 2
    if word == "flags" and tokens[i - 1] != "tcp":
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
    if word not in _STATEMENTS:
        reading.conditions.append(word)
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
        reading.conditions.append(" ".join(tokens[i - 2 : after]))
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
    else:
        reading.conditions.append(" ".join(tokens[i - 2 : after]))
    return after


def _interface(reading: _Reading, tokens: list[str], i: int) -> int:
    values, after, inverted = _listed(tokens, i + 1)
    if not any(value.startswith(("@", ".")) for value in values):
        found = matching.interface([value.strip('"') for value in values], "*", inverted=inverted)
        if tokens[i].startswith("iif"):
            reading.inward = found
        else:
            reading.outward = found
    else:
        reading.conditions.append(" ".join(tokens[i:after]))
    return after
