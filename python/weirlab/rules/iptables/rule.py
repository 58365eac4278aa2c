"""One rule in the format of iptables-save."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.rules import matching
from weirlab.rules.chains import Rule
from weirlab.rules.iptables.modules import (
    BARE,
    COUNTING,
    DROPPING,
    EFFECTS,
    IMPLIED,
    LEAVING,
    PURE,
    SETS,
    VERDICTS,
)
from weirlab.rules.matching import ALL_STATES, Interface, Match, Ranges

_PROBED: Final = {
    "--mark": "mark", "--dscp": "dscp", "--length": "length_bytes", "--ttl-eq": "ttl", "--ttl-lt": "ttl",
    "--ttl-gt": "ttl", "--hl-eq": "ttl", "--hl-lt": "ttl", "--hl-gt": "ttl",
    "--ctorigsrc": "reply_to", "--ctorigdst": "reply_from", "--ctreplsrc": "reply_from",
    "--ctrepldst": "reply_to",
}  # fmt: skip
"""Options that compare fields of a probe that :class:`Match` lacks."""
_WORD: Final = re.compile(r'(?:[^\s"]|"(?:\\.|[^"\\])*")+', re.S)
_QUOTATION: Final = re.compile(r'"((?:\\.|[^"\\])*)"', re.S)
_ESCAPED: Final = re.compile(r"\\(.)", re.S)
_OPEN_QUOTE: Final = re.compile(r'(?:[^"]|"(?:\\.|[^"\\])*")*"(?:\\.|[^"\\])*\\?', re.S)
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]{1,8}|[1-9]\d{0,9}|0")
_ANY_ICMP: Final = "255"

# Their one argument may look like an option.
_QUOTED: Final = frozenset({"--comment", "--string", "--hex-string", "--log-prefix", "--nflog-prefix"})

_LONG: Final = {
    "--source": "-s", "--src": "-s", "--destination": "-d", "--dst": "-d", "--protocol": "-p",
    "--in-interface": "-i", "--out-interface": "-o", "--match": "-m", "--jump": "-j", "--goto": "-g",
    "--fragment": "-f", "--source-port": "--sport", "--destination-port": "--dport",
    "--source-ports": "--sports", "--destination-ports": "--dports", "--state": "--ctstate",
    "--icmpv6-type": "--icmp-type",
}  # fmt: skip


@dataclass(frozen=True)
class _Option:
    name: str
    values: tuple[str, ...]
    inverted: bool

    @property
    def words(self) -> str:
        return " ".join(["!"] * self.inverted + [self.name, *self.values])

    @property
    def value(self) -> str:
        """The only value; raises ``ValueError`` if there is not exactly one."""
        (value,) = self.values
        return value


@dataclass
class _Parts:
    """A rule as it is being read."""

    fields: dict[str, Ranges | None] = field(default_factory=dict)
    states: frozenset[str] = ALL_STATES
    inward: Interface | None = None
    outward: Interface | None = None
    modules: list[str] = field(default_factory=list)
    target: str | None = None
    goto: bool = False
    target_options: list[str] = field(default_factory=list)
    comment: str = ""
    conditions: list[str] = field(default_factory=list)
    edges: list[tuple[str, int]] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)


def parse_rule(rest: str, packets: int | None, chains: Container[str], where: str, line: int) -> Rule:
    """The rule after ``-A CHAIN``; raises ``InputError`` if its quotes are not closed.

    ``chains`` are those that it may jump to.
    """
    try:
        words = restore_words(rest)
    except ValueError as error:
        raise InputError(f"{where}: rule {quoted(rest)} cannot be read: {error}") from error
    parts = _Parts()
    for option in _options(words):
        try:
            _take(parts, option)
        except (ValueError, IndexError, KeyError):
            parts.unclear.append(f"{option.words} is not understood")
    jump, verdict, effects, pinned, alters = None, None, "", "", False
    untracks = parts.target == "NOTRACK" or (parts.target, *parts.target_options) == ("CT", "--notrack")
    if untracks:
        pinned, alters = "it takes packets out of connection tracking", True
    elif parts.target is not None and parts.target in chains:
        jump, verdict = parts.target, "GOTO" if parts.goto else None
    elif parts.target in VERDICTS | LEAVING:
        verdict = " ".join([parts.target or "", *parts.target_options])
    elif parts.target in EFFECTS:
        effects = parts.target or ""
    elif parts.target is not None:
        alters = True
        parts.unclear.append(f"target {parts.target} is not known or changes what other rules compare")
    if "set" in parts.modules:
        effects = ", ".join(filter(None, (effects, "counters of a set")))
        if [name for name in parts.modules if name != "comment"][-1] != "set":
            pinned = "other comparisons come after the set, which may count packets"
    match = Match(**parts.fields, states=parts.states, inward=parts.inward, outward=parts.outward)
    return Rule(
        rest,
        match,
        verdict,
        jump,
        packets,
        unclear="; ".join(parts.unclear),
        effects=effects,
        pinned=pinned,
        untracks=untracks,
        alters=alters,
        line=line,
        comment=parts.comment,
        conditions=", ".join(parts.conditions),
        edges=tuple(parts.edges),
    )


def restore_words(text: str) -> list[str]:
    """The words of a line as iptables-restore reads it: only double quotes quote, and a backslash only
    escapes between them (``add_param_to_argv`` of ``xshared.c``).

    Raises ``ValueError`` if a quote is not closed.
    """
    if _OPEN_QUOTE.fullmatch(text):
        raise ValueError("No closing quotation")
    return [_QUOTATION.sub(lambda found: _ESCAPED.sub(r"\1", found[1]), word) for word in _WORD.findall(text)]


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
    if inverted:
        yield _Option("!", (), False)


def _take(parts: _Parts, option: _Option) -> None:
    name = option.name
    match name:
        case "-j" | "-g":
            parts.target, parts.goto = option.value, name == "-g"
        case "-m":
            _module(parts, option.value)
        case "-s":
            _address(parts, "source", option)
        case "-d":
            _address(parts, "destination", option)
        case "-p":
            _protocol(parts, option)
        case "-i":
            parts.inward = _interface(option)
        case "-o":
            parts.outward = _interface(option)
        case "-f" if not option.values:
            parts.conditions.append(option.words)
        case _ if any(name in PURE.get(module, ()) for module in parts.modules):
            _compare(parts, option)
        case _ if name in SETS and "set" in parts.modules:
            parts.conditions.append(option.words)
        case _ if parts.target is not None and name.startswith("-"):
            parts.target_options += ["!"] * option.inverted + [name, *option.values]
        case _ if set(parts.modules) <= PURE.keys() | {"set"}:
            # Otherwise it belongs to a match that is not known, and that is noted.
            raise ValueError(option.words)


def _module(parts: _Parts, name: str) -> None:
    parts.modules.append(name)
    if name in BARE:
        parts.conditions.append(f"-m {name}")
    if name in COUNTING:
        parts.unclear.append(f"match {name} depends on earlier packets")
    elif name not in PURE and name != "set":
        parts.unclear.append(f"match {name} is not known")


def _compare(parts: _Parts, option: _Option) -> None:
    """An option of a match that depends on the packet alone."""
    match option.name:
        case "--comment":
            parts.comment = option.value
        case _ if not DROPPING.isdisjoint(parts.modules):
            parts.conditions.append(option.words)
        case "--src-range":
            _address(parts, "source", option)
        case "--dst-range":
            _address(parts, "destination", option)
        case "--sport" | "--sports":
            _ports(parts, "source_port", option)
        case "--dport" | "--dports":
            _ports(parts, "destination_port", option)
        case "--icmp-type":
            _icmp(parts, option)
        case "--ctstate":
            _states(parts, option)
        case "--syn":
            _flags(parts, "FIN,SYN,RST,ACK", "SYN", option.inverted)
        case "--tcp-flags":
            mask, value = option.values
            _flags(parts, mask, value, option.inverted)
        case _:
            parts.conditions.append(option.words)
            if option.name in _PROBED:
                parts.edges += [(_PROBED[option.name], number) for number in _numbers(option)]


def _numbers(option: _Option) -> list[int]:
    """The numbers among the values, addresses numbered as in :mod:`weirlab.rules.matching`."""
    if option.name.startswith(("--ctorig", "--ctrepl")):
        return list(matching.network(option.value)[0])
    return [int(number, 0) for value in option.values for number in _NUMBER.findall(value)]


def _flags(parts: _Parts, mask: str, value: str, inverted: bool) -> None:
    compared, wanted = _flag_bits(mask), _flag_bits(value)
    found = [octet for octet in range(256) if (octet & compared == wanted) != inverted]
    _narrow(parts, "tcp_flags", [(octet, octet) for octet in found], matching.OCTET, inverted=False)


def _flag_bits(text: str) -> int:
    names = text.lower().split(",")
    if names == ["none"]:
        return 0
    # ALL are the six of RFC 793.
    six = ("fin", "syn", "rst", "psh", "ack", "urg")
    if any(name not in six for name in names) and names != ["all"]:
        raise ValueError(text)
    return sum(matching.TCP_FLAGS[name] for name in (six if names == ["all"] else set(names)))


def _address(parts: _Parts, name: str, option: _Option) -> None:
    ranges, version = matching.network(option.value)
    _narrow(parts, name, (ranges,), matching.ADDRESSES[version], option.inverted)


def _narrow(
    parts: _Parts, name: str, ranges: Sequence[matching.Range], whole: matching.Range, inverted: bool
) -> None:
    found = matching.union(ranges)
    if inverted:
        found = matching.complement(found, whole)
    parts.fields[name] = matching.intersection(parts.fields.get(name), found)


def _protocol(parts: _Parts, option: _Option) -> None:
    name = option.value.lower()
    if name in ("all", "0"):
        return
    if name in IMPLIED and not option.inverted:
        parts.modules.append(IMPLIED[name])
    number = matching.numbers(name, matching.PROTOCOL_NUMBERS)
    _narrow(parts, "protocol", (number,), matching.PROTOCOLS, option.inverted)


def _ports(parts: _Parts, name: str, option: _Option) -> None:
    ranges = [matching.numbers(part) for part in option.value.split(",")]
    _narrow(parts, name, ranges, matching.PORTS, option.inverted)


def _icmp(parts: _Parts, option: _Option) -> None:
    """Read a numeric type, as iptables-save writes it; names and codes are not interpreted."""
    text, _, code = option.value.partition("/")
    if text.isdigit() and text != _ANY_ICMP and not option.inverted:
        _narrow(parts, "icmp_type", ((int(text), int(text)),), matching.OCTET, inverted=False)
    if code.isdigit():
        parts.edges.append(("icmp_code", int(code)))
    if code or not text.isdigit() or option.inverted:
        parts.conditions.append(option.words)


def _states(parts: _Parts, option: _Option) -> None:
    named = frozenset(option.value.upper().split(","))
    if named <= ALL_STATES:
        parts.states &= ALL_STATES - named if option.inverted else named
    else:
        # SNAT and DNAT are no states of their own.
        parts.conditions.append(option.words)


def _interface(option: _Option) -> Interface:
    return matching.interface([option.value], "+", inverted=option.inverted)
