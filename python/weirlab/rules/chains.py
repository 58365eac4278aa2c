"""A ruleset as chains of rules, whatever language it was written in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from weirlab.rules.matching import Match


@dataclass(frozen=True)
class Rule:
    """One rule; ``packets`` that matched it so far, from its counter."""

    text: str
    """The rule as written, without counters."""
    match: Match
    verdict: str | None = None
    """What ends the walk of a matching packet, including options (``ACCEPT``,
    ``REJECT --reject-with tcp-reset``); ``RETURN`` ends it in this chain only; None: the walk continues."""
    jump: str | None = None
    """User-defined chain that a matching packet walks next."""
    packets: int = 0
    unclear: str = ""
    """What was not understood, or depends on earlier packets; such a rule keeps its place."""
    line: int = 0
    """Line of the ruleset, counted from 1."""
    number: int = 0
    """Its place in the chain, counted from 1."""
    handle: int | None = None
    """Its handle in nft."""
    comment: str = ""
    conditions: str = ""
    """What it matches on beyond ``match``."""
    untracks: bool = False
    """Whether it keeps connection tracking from what it matches, in a chain that comes before it."""


@dataclass(frozen=True)
class Chain:
    """Rules in order. ``policy`` applies to packets that no rule stops; None in a user-defined chain."""

    name: str
    rules: tuple[Rule, ...]
    policy: str | None = None
    policy_packets: int | None = None
    """Packets that no rule stopped; None if nothing counts them."""


@dataclass(frozen=True)
class Ruleset:
    """The chains by name, and the one that forwarded packets enter."""

    entry: str
    chains: Mapping[str, Chain]
    language: str
    """``iptables-save`` or ``nft``."""
    notes: tuple[str, ...] = field(default=())
    """What was left out."""
    table: str = "filter"
    """The chains' table."""
    families: tuple[Literal[4, 6], ...] = (4, 6)
    """IP versions of the packets that enter the chains."""
    hook: str = "forward"
    """Where the base chain is on a forwarded packet's way: ``prerouting``, ``forward`` or ``postrouting``."""
    priority: int = 0
    """Its priority there, as nft counts."""

    @property
    def forward(self) -> Chain:
        """The chain that forwarded packets enter."""
        return self.chains[self.entry]


def as_in(path: Sequence[Ruleset], written: Sequence[Ruleset]) -> list[Ruleset]:
    """``path`` with the lines and handles of ``written``, in chains with equally many rules in both.

    A tool lists a loaded ruleset with other lines and handles.
    """
    known = {(each.table, chain.name): chain.rules for each in written for chain in each.chains.values()}

    def renamed(table: str, chain: Chain) -> Chain:
        others = known.get((table, chain.name), ())
        if [rule.number for rule in others] != [rule.number for rule in chain.rules]:
            return replace(chain, rules=tuple(replace(rule, line=0, handle=None) for rule in chain.rules))
        pairs = zip(chain.rules, others, strict=True)
        rules = (replace(rule, line=other.line, handle=other.handle) for rule, other in pairs)
        return replace(chain, rules=tuple(rules))

    return [
        replace(each, chains={name: renamed(each.table, chain) for name, chain in each.chains.items()})
        for each in path
    ]
