"""Which packets pass a ruleset, derived from the rules alone.

Sets of packets walk the chains as a packet would. If a rule matches part of a set, the set is split,
and its parts walk on separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from weirlab.rules.chains import Rule, Ruleset
from weirlab.rules.matching import ALL_STATES, UNTRACKED, Match
from weirlab.rules.packets import Family, PacketSet, left, taken

MAX_STEPS: Final = 60_000
"""Comparisons of sets with rules after which a search gives up."""

TRACKING: Final = -200
"""Priority at which connections are tracked (NF_IP_PRI_CONNTRACK of linux/netfilter_ipv4.h)."""

_ACCEPTED: Final = ("accept", "ACCEPT")
_DROPPED: Final = ("drop", "DROP", "reject", "REJECT")


class Doubt(IntEnum):
    """Which rules that may or may not match packets can be on their way."""

    NONE = 0
    """None: the way is certain."""
    PASSED = 1
    """Rules that are taken not to match: those on the way to the wanted rule, and itself, do match."""
    ANYWHERE = 2


@dataclass(frozen=True)
class VerdictPlace:
    """Where a packet meets its verdict: a rule of a chain, or the policy of a base chain (rule None)."""

    table: str
    chain: str
    rule: Rule | None = None
    policy: str = ""

    def __str__(self) -> str:
        table = "" if self.table == "filter" else f" of table {self.table}"
        if self.rule is None:
            return f"policy of {self.chain}{table}"
        return f"{self.chain} rule {self.rule.number}{table}"

    @property
    def verdict(self) -> str:
        return (self.policy if self.rule is None else self.rule.verdict) or ""

    @property
    def packets(self) -> int:
        """What its counter says; 0 if it has none."""
        return 0 if self.rule is None else self.rule.packets or 0

    @property
    def accepts(self) -> bool:
        return self.verdict.split(" ")[0] in _ACCEPTED

    @property
    def drops(self) -> bool:
        """Whether packets end here and are not forwarded."""
        return self.verdict.split(" ")[0] in _DROPPED

    def is_at(self, other: VerdictPlace) -> bool:
        """Whether it is the same rule (whatever the element of a verdict map), or the same policy."""
        own = None if self.rule is None else self.rule.number
        its = None if other.rule is None else other.rule.number
        return (self.table, self.chain, own) == (other.table, other.chain, its)


@dataclass(frozen=True)
class WalkResult:
    """A set of packets at the end of its walk."""

    packets: PacketSet
    ends: tuple[VerdictPlace, ...]
    """Where each base chain accepted the set; in the last chain, where it met its verdict. None if no base
    chain is for its IP version."""
    compared: int
    """Rules with which each packet is compared."""
    doubts: tuple[VerdictPlace, ...] = ()
    """Rules that may or may not match: those on the way to the wanted rule are assumed to match, others not
    to."""

    @property
    def accepted(self) -> bool:
        return not self.ends or self.ends[-1].accepts

    def reaches(self, wanted: VerdictPlace | None) -> bool:
        """Whether the packets are accepted, at ``wanted`` if that is given; or dropped there, if it drops."""
        if wanted is None:
            return self.accepted
        if wanted.drops:
            return bool(self.ends) and self.ends[-1].is_at(wanted)
        return self.accepted and any(end.is_at(wanted) for end in self.ends)


@dataclass(frozen=True)
class _WalkState:
    packets: PacketSet
    path: tuple[Ruleset, ...]
    """The base chains that are left to walk, the present one first."""
    frames: tuple[tuple[str, int], ...]
    """The chains being walked and the next rule in each, from 0."""
    ends: tuple[VerdictPlace, ...] = ()
    doubts: tuple[VerdictPlace, ...] = ()
    compared: int = 0


class Walker:
    """Lets sets of packets walk ``path``: base chains in the order in which a packet traverses them."""

    def __init__(self, path: Sequence[Ruleset]) -> None:
        self._path = path

    def passages(
        self, packets: PacketSet, wanted: VerdictPlace | None = None, doubt: Doubt = Doubt.NONE
    ) -> Iterator[WalkResult]:
        """The ends of all parts of ``packets``, the likeliest to end as ``wanted`` first.

        Parameters
        ----------
        wanted:
            Where the packets should be accepted, or dropped; None for accepted anywhere.
        doubt:
            Which rules that may or may not match the packets can be on their way.
        """
        towards = _Goal(wanted, self._leading(wanted), doubt)
        path = self.path_of(packets.family)
        stack: list[_WalkState | WalkResult] = [
            _WalkState(packets, path, ((path[0].entry, 0),)) if path else WalkResult(packets, (), 0)
        ]
        for _ in range(MAX_STEPS):
            if not stack:
                return
            now = stack.pop()
            if isinstance(now, WalkResult):
                yield now
            else:
                stack += reversed(list(self._step(now, towards)))

    def cases(self, wanted: VerdictPlace | None) -> list[Match]:
        """What packets match that reach ``wanted``: of a rule with several elements, one after the other."""
        if wanted is None or wanted.rule is None:
            return [Match()]
        rules = next(each for each in self._path if each.table == wanted.table).chains[wanted.chain].rules
        matches = [
            rule.match
            for rule in rules
            if rule.number == wanted.rule.number and rule.verdict == wanted.rule.verdict
        ]
        # Packets become untracked on their way.
        return [
            replace(match, states=ALL_STATES) if UNTRACKED in match.states else match for match in matches
        ]

    def path_of(self, family: Family) -> tuple[Ruleset, ...]:
        """The base chains that packets of this IP version walk."""
        return tuple(ruleset for ruleset in self._path if family in ruleset.families)

    def _step(self, now: _WalkState, goal: _Goal) -> Iterator[_WalkState | WalkResult]:
        ruleset = now.path[0]
        name, i = now.frames[-1]
        rules = ruleset.chains[name].rules
        if i < len(rules):
            yield from self._at_rule(now, VerdictPlace(ruleset.table, name, rules[i]), rules[i], goal)
        elif len(now.frames) > 1:
            yield replace(now, frames=now.frames[:-1])
        else:
            # The policy is that of the base chain, whatever chain a goto led to.
            policy = ruleset.forward.policy or "accept"
            yield self._ended(now, VerdictPlace(ruleset.table, ruleset.entry, None, policy))

    def _at_rule(
        self, now: _WalkState, place: VerdictPlace, rule: Rule, goal: _Goal
    ) -> Iterator[_WalkState | WalkResult]:
        """What happens to the packets at ``rule``, in the order in which to follow the outcomes."""
        i = now.frames[-1][1]
        rules = now.path[0].chains[place.chain].rules
        # The elements of a verdict map are one rule.
        counts = i == 0 or rules[i - 1].number != rule.number
        frames = (*now.frames[:-1], (place.chain, i + 1))
        on = replace(now, frames=frames, compared=now.compared + counts)
        calls = rule.jump in now.path[0].chains
        untracks = rule.untracks and now.path[0].priority < TRACKING
        idle = rule.verdict is None and not calls and not untracks
        inside = None if idle else taken(now.packets, rule.match)
        if inside is None:
            yield on
            return
        if untracks:
            inside = replace(inside, state=UNTRACKED)
        likely = goal.likes(place, rule, calls)
        outside = [replace(on, packets=rest) for rest in left(now.packets, rule.match)]
        if not (rule.unclear or rule.conditions):
            matched = self._matched(replace(on, packets=inside), place, rule, calls)
            yield from [matched, *outside] if likely else [*outside, matched]
            return
        yield from outside
        doubted = replace(on, packets=inside, doubts=(*now.doubts, place))
        if likely and goal.doubt == Doubt.ANYWHERE:
            yield self._matched(doubted, place, rule, calls)
        if goal.doubt >= Doubt.PASSED and not goal.is_at(place):
            yield doubted

    def _matched(
        self, on: _WalkState, place: VerdictPlace, rule: Rule, calls: bool
    ) -> _WalkState | WalkResult:
        """Where a matching packet goes; ``on`` is where it would go otherwise."""
        if calls and rule.jump is not None:
            frames = on.frames[:-1] if rule.verdict is not None else on.frames
            return replace(on, frames=(*frames, (rule.jump, 0)))
        if rule.verdict is None:
            return on
        if place.verdict.lower() == "return":
            if len(on.frames) > 1:
                return replace(on, frames=on.frames[:-1])
            past = len(on.path[0].chains[place.chain].rules)
            return replace(on, frames=((place.chain, past),))
        return self._ended(on, place)

    def _ended(self, now: _WalkState, place: VerdictPlace) -> _WalkState | WalkResult:
        ends, after = (*now.ends, place), now.path[1:]
        if place.accepts and after:
            return replace(now, path=after, frames=((after[0].entry, 0),), ends=ends)
        return WalkResult(now.packets, ends, now.compared, now.doubts)

    def _leading(self, wanted: VerdictPlace | None) -> frozenset[str]:
        """The chains from which jumps lead to ``wanted``, its own included."""
        if wanted is None:
            return frozenset()
        found = {wanted.chain}
        chains = [
            chain for each in self._path if each.table == wanted.table for chain in each.chains.values()
        ]
        while new := {c.name for c in chains if any(r.jump in found for r in c.rules)} - found:
            found |= new
        return frozenset(found)


@dataclass(frozen=True)
class _Goal:
    wanted: VerdictPlace | None
    leading: frozenset[str]
    doubt: Doubt

    def is_at(self, place: VerdictPlace) -> bool:
        return self.wanted is not None and place.is_at(self.wanted)

    def likes(self, place: VerdictPlace, rule: Rule, calls: bool) -> bool:
        """Whether a packet that matches here is on its way to where it is wanted."""
        if self.wanted is None:
            return calls or place.accepts
        return rule.jump in self.leading if calls else place.is_at(self.wanted)
