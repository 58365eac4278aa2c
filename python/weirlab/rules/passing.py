"""Which packets pass a ruleset, derived from the rules alone.

Sets of packets walk the chains as a packet would. If a rule matches part of a set, the set is split,
and its parts walk on separately.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.rules.chains import Rule, Ruleset
from weirlab.rules.matching import Match
from weirlab.rules.packets import left, taken

MAX_STEPS: Final = 60_000
"""Comparisons of sets with rules after which a search gives up."""

_ACCEPTED: Final = ("accept", "ACCEPT")


@dataclass(frozen=True)
class Place:
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
    def accepts(self) -> bool:
        return self.verdict.split(" ")[0] in _ACCEPTED

    def is_at(self, other: Place) -> bool:
        """Whether it is the same rule (whatever the element of a verdict map), or the same policy."""
        own = None if self.rule is None else self.rule.number
        its = None if other.rule is None else other.rule.number
        return (self.table, self.chain, own) == (other.table, other.chain, its)


@dataclass(frozen=True)
class Passage:
    """A set of packets at the end of its walk."""

    packets: Match
    ends: tuple[Place, ...]
    """Where each base chain accepted the set; in the last chain, where it met its verdict."""
    doubts: tuple[Place, ...] = ()
    """Rules that may or may not match: those on the way to the wanted rule are assumed to match, others not
    to."""

    @property
    def accepted(self) -> bool:
        return self.ends[-1].accepts

    def reaches(self, wanted: Place | None) -> bool:
        """Whether the packets are accepted, at ``wanted`` if that is given."""
        return self.accepted and (wanted is None or any(end.is_at(wanted) for end in self.ends))


@dataclass(frozen=True)
class _Walking:
    packets: Match
    base: int
    """Number of the base chain on the path."""
    frames: tuple[tuple[str, int], ...]
    """The chains being walked and the next rule in each, from 0."""
    ends: tuple[Place, ...] = ()
    doubts: tuple[Place, ...] = ()


class Walker:
    """Lets sets of packets walk ``path``: base chains in the order in which a packet traverses them."""

    def __init__(self, path: Sequence[Ruleset]) -> None:
        self._path = path

    def passages(
        self, packets: Match, wanted: Place | None = None, *, doubtful: bool = False
    ) -> Iterator[Passage]:
        """The ends of all parts of ``packets``, the likeliest to end as ``wanted`` first.

        Parameters
        ----------
        wanted:
            Where the packets should be accepted; None for anywhere.
        doubtful:
            Whether packets may continue past a rule that may or may not match them.
        """
        towards = _Goal(wanted, self._leading(wanted), doubtful)
        stack: list[_Walking | Passage] = [_Walking(packets, 0, ((self._path[0].entry, 0),))]
        for _ in range(MAX_STEPS):
            if not stack:
                return
            now = stack.pop()
            if isinstance(now, Passage):
                yield now
            else:
                stack += reversed(list(self._step(now, towards)))

    def _step(self, now: _Walking, goal: _Goal) -> Iterator[_Walking | Passage]:
        ruleset = self._path[now.base]
        name, i = now.frames[-1]
        rules = ruleset.chains[name].rules
        if i < len(rules):
            yield from self._at_rule(now, Place(ruleset.table, name, rules[i]), rules[i], goal)
        elif len(now.frames) > 1:
            yield replace(now, frames=now.frames[:-1])
        else:
            # The policy is that of the base chain, whatever chain a goto led to.
            policy = ruleset.forward.policy or "accept"
            yield self._ended(now, Place(ruleset.table, ruleset.entry, None, policy))

    def _at_rule(self, now: _Walking, place: Place, rule: Rule, goal: _Goal) -> Iterator[_Walking | Passage]:
        """What happens to the packets at ``rule``, in the order in which to follow the outcomes."""
        on = replace(now, frames=(*now.frames[:-1], (place.chain, now.frames[-1][1] + 1)))
        calls = rule.jump in self._path[now.base].chains
        inside = None if rule.verdict is None and not calls else taken(now.packets, rule.match)
        if inside is None:
            yield on
            return
        likely = goal.likes(place, rule, calls)
        outside = [replace(on, packets=rest) for rest in left(now.packets, rule.match)]
        if not (rule.unclear or rule.conditions):
            matched = self._matched(replace(on, packets=inside), place, rule, calls)
            yield from [matched, *outside] if likely else [*outside, matched]
            return
        yield from outside
        doubted = replace(on, packets=inside, doubts=(*now.doubts, place))
        if likely and (goal.doubtful or goal.is_at(place)):
            yield self._matched(doubted, place, rule, calls)
        if goal.doubtful and not goal.is_at(place):
            yield doubted

    def _matched(self, on: _Walking, place: Place, rule: Rule, calls: bool) -> _Walking | Passage:
        """Where a matching packet goes; ``on`` is where it would go otherwise."""
        if calls and rule.jump is not None:
            frames = on.frames[:-1] if rule.verdict is not None else on.frames
            return replace(on, frames=(*frames, (rule.jump, 0)))
        if place.verdict.lower() == "return":
            if len(on.frames) > 1:
                return replace(on, frames=on.frames[:-1])
            past = len(self._path[on.base].chains[place.chain].rules)
            return replace(on, frames=((place.chain, past),))
        return self._ended(on, place)

    def _ended(self, now: _Walking, place: Place) -> _Walking | Passage:
        ends = (*now.ends, place)
        if place.accepts and now.base + 1 < len(self._path):
            after = now.base + 1
            return replace(now, base=after, frames=((self._path[after].entry, 0),), ends=ends)
        return Passage(now.packets, ends, now.doubts)

    def _leading(self, wanted: Place | None) -> frozenset[str]:
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
    wanted: Place | None
    leading: frozenset[str]
    doubtful: bool

    def is_at(self, place: Place) -> bool:
        return self.wanted is not None and place.is_at(self.wanted)

    def likes(self, place: Place, rule: Rule, calls: bool) -> bool:
        """Whether a packet that matches here is on its way to where it is wanted."""
        if self.wanted is None:
            return calls or place.accepts
        return rule.jump in self.leading if calls else place.is_at(self.wanted)
