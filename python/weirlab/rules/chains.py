"""A ruleset as chains of rules, whatever language it was written in."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from weirlab.rules.matching import Match


@dataclass(frozen=True)
class Rule:
    """One rule, or one of the cases of a rule with a verdict map or sets; then all have its number.

    ``packets`` matched it so far, from its counter.
    """

    text: str
    """The rule as written, without counters."""
    match: Match
    verdict: str | None = None
    """What ends the walk of a matching packet, including options (``ACCEPT``,
    ``REJECT --reject-with tcp-reset``); ``RETURN`` ends it in this chain only; None: the walk continues."""
    jump: str | None = None
    """User-defined chain that a matching packet walks next."""
    packets: int | None = None
    """None if nothing counts them."""
    unclear: str = ""
    """What was not understood, or depends on earlier packets; such a rule keeps its place."""
    effects: str = ""
    """What it does to a matching packet beyond its verdict, such as writing a log entry or a mark."""
    pinned: str = ""
    """Why it keeps its place although it is understood."""
    alters: bool = False
    """Whether it may change what later rules compare: it rewrites packets, or is not understood."""
    alters_by_chance: bool = False
    """Whether chance or earlier packets decide if it alters a packet, before its last comparison."""
    line: int = 0
    """Line of the ruleset, counted from 1."""
    number: int = 0
    """Its place in the chain, counted from 1."""
    handle: int | None = None
    """Its handle in nft."""
    comment: str = ""
    conditions: str = ""
    """What it matches on beyond ``match``, all of it properties of the packet at this moment."""
    edges: tuple[tuple[str, int], ...] = ()
    """Values with which its conditions compare fields of :class:`~weirlab.rules.probing.probe.Probe`."""
    untracks: bool = False
    """Whether it keeps connection tracking from what it matches, in a chain that comes before it."""

    @property
    def decides(self) -> bool:
        """Whether it says where a matching packet goes next."""
        return self.verdict is not None or self.jump is not None


@dataclass(frozen=True)
class Chain:
    """Rules in order. ``policy`` applies to packets that no rule stops; None in a user-defined chain."""

    name: str
    rules: tuple[Rule, ...]
    policy: str | None = None
    policy_packets: int | None = None
    """Packets that no rule stopped; None if nothing counts them."""

    @cached_property
    def lines(self) -> tuple[tuple[Rule, ...], ...]:
        """The rules as written: those with the same number are one, with several matches or verdicts."""
        return tuple(tuple(group) for _, group in itertools.groupby(self.rules, key=lambda rule: rule.number))


@dataclass(frozen=True)
class Ruleset:
    """The chains by name, and the one that forwarded packets enter."""

    entry: str
    chains: Mapping[str, Chain]
    language: str
    """``iptables-save`` or ``nft``."""
    table: str = "filter"
    """The chains' table."""
    families: tuple[Literal[4, 6], ...] = (4, 6)
    """IP versions of the packets that enter the chains."""
    hook: str = "forward"
    """Where the base chain is on a forwarded packet's way: ``prerouting``, ``forward`` or ``postrouting``."""
    priority: int = 0
    """Its priority there, as nft counts."""

    def __str__(self) -> str:
        of_table = "" if self.table == "filter" else f" of table {self.table}"
        return f"chain {self.entry}{of_table}"

    @property
    def forward(self) -> Chain:
        """The chain that forwarded packets enter."""
        return self.chains[self.entry]


ChainKey = tuple[str, str]
"""A table and one of its chains."""


def as_written(
    path: Sequence[Ruleset], written: Mapping[ChainKey, Sequence[tuple[int, int | None]]]
) -> list[Ruleset]:
    """``path`` with lines and handles (None: not given) from ``written``, where that has equally many rules.

    A tool lists a loaded ruleset with other lines and handles.
    """

    def renamed(table: str, chain: Chain) -> Chain:
        places = written.get((table, chain.name), ())
        if len(places) != max((rule.number for rule in chain.rules), default=0):
            return replace(chain, rules=tuple(replace(rule, line=0, handle=None) for rule in chain.rules))
        found = ((rule, *places[rule.number - 1]) for rule in chain.rules)
        rules = (replace(rule, line=line, handle=handle) for rule, line, handle in found)
        return replace(chain, rules=tuple(rules))

    return [
        replace(each, chains={name: renamed(each.table, chain) for name, chain in each.chains.items()})
        for each in path
    ]
