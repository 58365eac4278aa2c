"""Reads the output of ``iptables-save -c`` and ``ip6tables-save -c``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from weirlab.errors import InputError
from weirlab.quoting import quoted
from weirlab.rules import matching
from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.matching import ALL_STATES, Interface, Match, Ranges, TcpFlags

ENTRY: Final = "FORWARD"

TERMINATING: Final = frozenset({"ACCEPT", "DROP", "REJECT", "QUEUE", "NFQUEUE", "RETURN"})
PASSING: Final = frozenset({
    "AUDIT", "CHECKSUM", "CLASSIFY", "CONNMARK", "CONNSECMARK", "CT", "DSCP", "ECN", "HL", "LED", "LOG",
    "MARK", "NFLOG", "NOTRACK", "RATEEST", "SECMARK", "SET", "TCPMSS", "TCPOPTSTRIP", "TEE", "TOS", "TRACE",
    "TTL", "ULOG",
})  # fmt: skip
"""Targets after which the packet continues to the next rule."""

# These depend on one packet only, not on anything that other rules leave behind.
_PURE: Final = frozenset({
    "addrtype", "ah", "bpf", "comment", "connmark", "conntrack", "dccp", "dscp", "ecn", "esp", "eui64",
    "frag", "hbh", "helper", "hl", "icmp", "icmp6", "ipv6header", "iprange", "length", "mac",
    "mark", "mh", "multiport", "osf", "owner", "physdev", "pkttype", "policy", "realm", "rpfilter", "rt",
    "sctp", "set", "socket", "state", "string", "tcp", "tcpmss", "time", "tos", "ttl", "u32", "udp",
})  # fmt: skip
_COUNTING: Final = frozenset({
    "cluster", "connbytes", "connlimit", "dnat", "hashlimit", "limit", "nfacct", "quota", "rateest", "recent",
    "statistic",
})  # fmt: skip

_ANY_ICMP: Final = "255"
_TCP_FLAGS: Final = frozenset({"FIN", "SYN", "RST", "PSH", "ACK", "URG"})

FORWARDED: Final = (
    ("raw", "PREROUTING"),
    ("mangle", "PREROUTING"),
    ("mangle", "FORWARD"),
    ("filter", ENTRY),
    ("mangle", "POSTROUTING"),
)
"""Tables and chains that a forwarded packet walks, in order; without address translation."""

_PRIORITIES: Final = {"raw": -300, "mangle": -150, "filter": 0}

_LINE: Final = re.compile(r"(?:\[(?P<packets>\d+):\d+\]\s+)?-A\s+(?P<chain>\S+)\s*(?P<rest>.*)")
_CHAIN: Final = re.compile(r":(?P<name>\S+)\s+(?P<policy>\S+)(?:\s+\[(?P<packets>\d+):\d+\])?")

# Their one argument may look like an option.
_QUOTED: Final = frozenset({"--comment", "--string", "--hex-string", "--log-prefix", "--nflog-prefix"})

_LONG: Final = {
    "--source": "-s", "--src": "-s", "--destination": "-d", "--dst": "-d", "--protocol": "-p",
    "--in-interface": "-i", "--out-interface": "-o", "--match": "-m", "--jump": "-j", "--goto": "-g",
    "--source-port": "--sport", "--destination-port": "--dport", "--source-ports": "--sports",
    "--destination-ports": "--dports", "--state": "--ctstate", "--icmpv6-type": "--icmp-type",
}  # fmt: skip


@dataclass(frozen=True)
class _Option:
    name: str
    values: tuple[str, ...]
    inverted: bool


@dataclass
class _Parts:
    """A rule as it is being read."""

    fields: dict[str, Ranges | None] = field(default_factory=dict)
    states: frozenset[str] = ALL_STATES
    inward: Interface | None = None
    outward: Interface | None = None
    target: str | None = None
    goto: bool = False
    target_options: list[str] = field(default_factory=list)
    comment: str = ""
    flags: TcpFlags | None = None
    conditions: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def parse_iptables(text: str, where: str = "the ruleset") -> Ruleset:
    """Read the table filter; forwarded packets enter its chain FORWARD.

    Raises ``InputError`` if there is no such chain, a rule has no counter or cannot be read.
    """
    tables = _tables(text, where, counted=True)
    if ENTRY not in tables.get("filter", {}):
        raise InputError(
            f"{where} has no chain {ENTRY} in a table filter; give the output of iptables-save -c"
        )
    return Ruleset(ENTRY, tables["filter"], "iptables-save")


def iptables_path(text: str, where: str = "the ruleset") -> list[Ruleset]:
    """Read the base chains that forwarded packets walk, in order; rules need no counters.

    Raises ``InputError`` for rules that cannot be read.
    """
    tables = _tables(text, where, counted=False)
    return [
        Ruleset(
            entry,
            tables[table],
            "iptables-save",
            table=table,
            hook=entry.lower(),
            priority=_PRIORITIES[table],
        )
        for table, entry in FORWARDED
        if entry in tables.get(table, {})
    ]


def _tables(text: str, where: str, *, counted: bool) -> dict[str, dict[str, Chain]]:
    """The chains by table and name; ``counted``: only the table filter, whose rules need counters."""
    rules: dict[str, dict[str, list[Rule]]] = {}
    policies: dict[str, dict[str, tuple[str | None, int | None]]] = {}
    table = ""
    # Chains are declared before their rules, so that a target can be told from a chain.
    for number, line in enumerate(text.splitlines(), 1):
        plain = line.strip()
        if plain.startswith("*"):
            table = plain[1:]
            rules.setdefault(table, {})
            policies.setdefault(table, {})
        elif not table or (counted and table != "filter"):
            continue
        elif plain.startswith(":"):
            match = _CHAIN.fullmatch(plain)
            if match is None:
                raise InputError(f"{where}:{number}: chain {quoted(plain)} not understood")
            policy = None if match["policy"] == "-" else match["policy"]
            packets = int(match["packets"]) if match["packets"] and policy else None
            policies[table][match["name"]] = (policy, packets)
            rules[table][match["name"]] = []
        elif match := _LINE.fullmatch(plain):
            if match["chain"] not in rules[table]:
                raise InputError(f"{where}:{number}: chain {match['chain']} is not declared above")
            if counted and match["packets"] is None:
                raise InputError(
                    f"{where}:{number}: the rule has no counter; save the rules with iptables-save -c"
                )
            chain = rules[table][match["chain"]]
            read = _rule(
                match["rest"], int(match["packets"] or 0), policies[table], f"{where}:{number}", number
            )
            chain.append(replace(read, number=len(chain) + 1))
    return {
        table: {name: Chain(name, tuple(listed), *policies[table][name]) for name, listed in chains.items()}
        for table, chains in rules.items()
    }


def reordered(text: str, orders: Mapping[str, Sequence[int]]) -> str:
    """``text`` with the rules of the chains in ``orders`` in the new order, everything else unchanged.

    ``orders[chain][k]`` is the present place, from 0, of the rule that comes k-th.
    """
    lines = text.splitlines(keepends=True)
    places: dict[str, list[int]] = {name: [] for name in orders}
    table = ""
    for i, line in enumerate(lines):
        if line.startswith("*"):
            table = line[1:].strip()
        match = _LINE.fullmatch(line.strip()) if table == "filter" else None
        if match and match["chain"] in places:
            places[match["chain"]].append(i)
    result = list(lines)
    for name, order in orders.items():
        for at, source in zip(places[name], order, strict=True):
            result[at] = lines[places[name][source]].rstrip("\r\n") + "\n"
    return "".join(result)


def _rule(rest: str, packets: int, chains: Mapping[str, object], where: str, line: int) -> Rule:
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise InputError(f"{where}: rule {quoted(rest)} cannot be read: {error}") from error
    parts = _Parts()
    for option in _options(words):
        try:
            _take(parts, option)
        except (ValueError, IndexError):
            parts.unclear.append(f"{option.name} {' '.join(option.values)} is not understood")
    jump, verdict = None, None
    if parts.target in chains:
        jump, verdict = parts.target, "GOTO" if parts.goto else None
    elif parts.target in TERMINATING:
        verdict = " ".join([parts.target or "", *parts.target_options])
    elif parts.target is not None and parts.target not in PASSING:
        parts.unclear.append(f"target {parts.target} is not known")
    match = Match(
        **parts.fields,
        states=parts.states,
        inward=parts.inward,
        outward=parts.outward,
        tcp_flags=parts.flags,
    )
    return Rule(
        rest,
        match,
        verdict,
        jump,
        packets,
        "; ".join(parts.unclear),
        line,
        comment=parts.comment,
        conditions=", ".join(parts.conditions),
        untracks=parts.target == "NOTRACK" or "--notrack" in parts.target_options,
    )


def _options(words: list[str]) -> Iterator[_Option]:
    i, inverted = 0, False
    while i < len(words):
        if words[i] == "!":
            inverted = True
            i += 1
            continue
        name = _LONG.get(words[i], words[i])
        end = i + 1
        if name in _QUOTED:
            end += 1
        else:
            while end < len(words) and not words[end].startswith("-") and words[end] != "!":
                end += 1
        yield _Option(name, tuple(words[i + 1 : end]), inverted)
        i, inverted = end, False


def _take(parts: _Parts, option: _Option) -> None:
    name, values = option.name, option.values
    match name:
        case "-j" | "-g":
            parts.target, parts.goto = values[0], name == "-g"
        case "-m":
            if values[0] in _COUNTING:
                parts.unclear.append(f"match {values[0]} depends on earlier packets")
            elif values[0] not in _PURE:
                parts.unclear.append(f"match {values[0]} is not known")
        case "-s" | "--src-range":
            _address(parts, "source", option)
        case "-d" | "--dst-range":
            _address(parts, "destination", option)
        case "-p":
            if values[0] != "all":
                _narrow(parts, "protocol", (_protocol(values[0]),), matching.PROTOCOLS, option.inverted)
        case "--sport" | "--sports":
            _ports(parts, "source_port", option)
        case "--dport" | "--dports":
            _ports(parts, "destination_port", option)
        case "--icmp-type":
            _icmp(parts, option)
        case "--ctstate":
            parts.states &= _states(option)
            if not frozenset(values[0].upper().split(",")) <= ALL_STATES:
                parts.conditions.append(_words(option))
        case "--syn":
            flags = TcpFlags(frozenset({"FIN", "SYN", "RST", "ACK"}), frozenset({"SYN"}), option.inverted)
            parts.flags = _only_flags(parts, flags)
        case "--tcp-flags":
            mask, value = _flags(values[0]), _flags(values[1])
            parts.flags = _only_flags(parts, TcpFlags(mask, value, option.inverted))
        case "--comment":
            parts.comment = values[0]
        case "-i":
            parts.inward = _interface(option)
        case "-o":
            parts.outward = _interface(option)
        case _ if parts.target is not None:
            parts.target_options += ["!"] * option.inverted + [name, *values]
        case _:
            parts.conditions.append(_words(option))


def _words(option: _Option) -> str:
    return " ".join(["!"] * option.inverted + [option.name, *option.values])


def _flags(text: str) -> frozenset[str]:
    names = frozenset(text.upper().split(",")) - {"NONE"}
    return _TCP_FLAGS if "ALL" in names else names


def _only_flags(parts: _Parts, flags: TcpFlags) -> TcpFlags:
    if parts.flags is not None:
        raise ValueError("two matches on flags")
    return flags


def _address(parts: _Parts, name: str, option: _Option) -> None:
    ranges, version = matching.network(option.values[0])
    _narrow(parts, name, (ranges,), matching.ADDRESSES[version], option.inverted)


def _narrow(
    parts: _Parts, name: str, ranges: Sequence[matching.Range], whole: matching.Range, inverted: bool
) -> None:
    found = matching.union(ranges)
    if inverted:
        found = matching.complement(found, whole)
    parts.fields[name] = matching.intersection(parts.fields.get(name), found)


def _protocol(text: str) -> matching.Range:
    return matching.numbers(text, matching.PROTOCOL_NUMBERS)


def _ports(parts: _Parts, name: str, option: _Option) -> None:
    ranges = [matching.numbers(part) for part in option.values[0].split(",")]
    _narrow(parts, name, ranges, matching.PORTS, option.inverted)


def _icmp(parts: _Parts, option: _Option) -> None:
    """Read a numeric type, as iptables-save writes it; names and codes are not interpreted."""
    text, _, code = option.values[0].partition("/")
    if text.isdigit() and text != _ANY_ICMP and not option.inverted:
        _narrow(parts, "icmp_type", ((int(text), int(text)),), matching.ICMP, inverted=False)
    if code or not text.isdigit():
        parts.conditions.append(_words(option))


def _states(option: _Option) -> frozenset[str]:
    named = frozenset(option.values[0].upper().split(","))
    if not named <= ALL_STATES:
        return ALL_STATES
    return ALL_STATES - named if option.inverted else named


def _interface(option: _Option) -> Interface:
    return matching.interface(option.values[:1], "+", inverted=option.inverted)
