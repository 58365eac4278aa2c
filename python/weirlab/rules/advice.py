"""Which rules to move where, and how far packets then walk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from weirlab.rules.chains import Chain, Ruleset
from weirlab.rules.ordering import MAX_RULES, exchangeable, improve, moved
from weirlab.rules.walking import Walk, walk

WORTH: Final = 1e-3
"""A chain is left alone if a better order saves less than this share of all comparisons."""


MOST_FREED: Final = 8
"""How many of the rules that keep their place are examined one by one, busiest first: each takes reordering
a whole chain again."""


@dataclass(frozen=True)
class Kept:
    """A rule that keeps its place because it depends on more than the packet, or was not understood."""

    chain: str
    place: int
    """In its chain, from 1."""
    why: str
    freed_mean_position: float | None = None
    """Mean position in the better order if this rule could move as well, were it not for ``why``; None if not
    examined."""

    @property
    def text(self) -> str:
        """``FORWARD rule 3: ...``."""
        return f"{self.chain} rule {self.place}: {self.why}"


@dataclass(frozen=True)
class Move:
    """Rule ``text`` stands at ``place`` in its chain and should stand at ``new_place``; counted from 1."""

    chain: str
    place: int
    new_place: int
    text: str
    share: float
    """Share of all forwarded packets that the rule stops."""


@dataclass(frozen=True)
class ChainAdvice:
    """A chain's new order: ``order[k]`` is the present place, from 0, of the rule that comes k-th."""

    chain: str
    order: tuple[int, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Advice:
    """What a better order of rules gains."""

    before: Walk
    after: Walk
    """Predicted from the counters; overlapping rules with the same verdict may make it better still."""
    rules: Ruleset
    """The rules in the new order."""
    chains: tuple[ChainAdvice, ...]
    """The chains whose order changes."""
    kept: tuple[Kept, ...]
    """Rules that keep their place, and what freeing each of them would gain."""
    notes: tuple[str, ...]

    @property
    def moves(self) -> list[Move]:
        """All moves, those of the busiest rules first."""
        return sorted((m for chain in self.chains for m in chain.moves), key=lambda m: -m.share)


def advise(rules: Ruleset) -> Advice:
    """Find a better order for the rules of the chain for forwarded packets and of the chains that it calls.

    Raises ``InputError`` if all counters are zero or chains call each other in a circle.
    """
    before = walk(rules)
    notes = list(before.notes)
    kept: list[Kept] = []
    changed: list[ChainAdvice] = []
    better = rules
    for name in before.chains:
        chain = rules.chains[name]
        kept += [Kept(name, i, r.unclear) for i, r in enumerate(chain.rules, 1) if r.unclear]
        if len(chain.rules) < 2:
            continue
        if len(chain.rules) > MAX_RULES:
            notes.append(
                f"chain {name} has {len(chain.rules):,} rules; only chains up to {MAX_RULES:,} are reordered"
            )
            continue
        order = improve(before.chains[name].left, exchangeable(chain.rules))
        trial = replace(better, chains={**better.chains, name: _ordered(chain, order)})
        saved = walk(better).mean_position - walk(trial).mean_position
        if saved > WORTH * before.mean_position:
            better = trial
            changed.append(ChainAdvice(name, tuple(order), _moves(chain, order, before)))
    return Advice(
        before, walk(better), better, tuple(changed), _freed(rules, better, before, kept), tuple(notes)
    )


def _freed(rules: Ruleset, better: Ruleset, before: Walk, kept: list[Kept]) -> tuple[Kept, ...]:
    """``kept`` with the mean position that each rule would give if it alone could move as well."""
    now = walk(better).mean_position

    def without(one: Kept) -> Kept:
        chain, left = rules.chains[one.chain], before.chains[one.chain].left
        if not 2 <= len(chain.rules) <= MAX_RULES:
            return one
        order = improve(left, exchangeable(chain.rules, freed=one.place - 1))
        chains = {**better.chains, one.chain: _ordered(chain, order)}
        return replace(one, freed_mean_position=min(walk(replace(better, chains=chains)).mean_position, now))

    def packets(one: Kept) -> int:
        return rules.chains[one.chain].rules[one.place - 1].packets

    chosen = set(sorted(kept, key=packets, reverse=True)[:MOST_FREED])
    return tuple(without(one) if one in chosen else one for one in kept)


def _ordered(chain: Chain, order: list[int]) -> Chain:
    return replace(chain, rules=tuple(chain.rules[i] for i in order))


def _moves(chain: Chain, order: list[int], before: Walk) -> tuple[Move, ...]:
    left = before.chains[chain.name].left
    place = {rule: k for k, rule in enumerate(order, 1)}
    return tuple(
        Move(chain.name, rule + 1, place[rule], chain.rules[rule].text, left[rule] / before.packets)
        for rule in moved(order)
    )
