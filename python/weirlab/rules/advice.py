"""Which rules to move where, and how far packets then walk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from weirlab.rules.chains import Chain, Ruleset
from weirlab.rules.ordering import MAX_RULES, exchangeable, improve, moved
from weirlab.rules.walking import Walk, walk

WORTH: Final = 1e-3
"""A chain is left alone if a better order saves less than this share of all comparisons."""


@dataclass(frozen=True)
class Move:
    """Rule ``text`` stands at ``place`` in its chain and should stand at ``new_place``; counted from 1."""

    chain: str
    place: int
    new_place: int
    text: str
    share: float
    """Of all forwarded packets, those that the rule stops."""


@dataclass(frozen=True)
class ChainAdvice:
    """A chain's new order: ``order[k]`` is the present place, from 0, of the rule that comes k-th."""

    chain: str
    order: tuple[int, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True)
class Advice:
    """What a better order of rules wins."""

    before: Walk
    after: Walk
    """As told by the counters: with overlapping rules of one verdict it may turn out better still."""
    rules: Ruleset
    """In the new order."""
    chains: tuple[ChainAdvice, ...]
    """Those whose order changes."""
    unclear: tuple[str, ...]
    """Rules that keep their place, and why."""
    notes: tuple[str, ...]

    @property
    def moves(self) -> list[Move]:
        """All moves, the one of most packets first."""
        return sorted((m for chain in self.chains for m in chain.moves), key=lambda m: -m.share)


def advise(rules: Ruleset) -> Advice:
    """A better order of the chain for forwarded packets and of those that it calls.

    Raises ``InputError`` if the counters are all zero or chains call each other in a circle.
    """
    before = walk(rules)
    notes = list(before.notes)
    unclear: list[str] = []
    changed: list[ChainAdvice] = []
    better = rules
    for name in before.chains:
        chain = rules.chains[name]
        unclear += [f"{name} rule {i}: {r.unclear}" for i, r in enumerate(chain.rules, 1) if r.unclear]
        if len(chain.rules) < 2:
            continue
        if len(chain.rules) > MAX_RULES:
            notes.append(
                f"chain {name} has {len(chain.rules):,} rules; an order is looked for up to {MAX_RULES:,}"
            )
            continue
        order = improve(before.chains[name].left, exchangeable(chain.rules))
        trial = replace(better, chains={**better.chains, name: _ordered(chain, order)})
        saved = walk(better).mean_position - walk(trial).mean_position
        if saved > WORTH * before.mean_position:
            better = trial
            changed.append(ChainAdvice(name, tuple(order), _moves(chain, order, before)))
    return Advice(before, walk(better), better, tuple(changed), tuple(unclear), tuple(notes))


def _ordered(chain: Chain, order: list[int]) -> Chain:
    return replace(chain, rules=tuple(chain.rules[i] for i in order))


def _moves(chain: Chain, order: list[int], before: Walk) -> tuple[Move, ...]:
    left = before.chains[chain.name].left
    place = {rule: k for k, rule in enumerate(order, 1)}
    return tuple(
        Move(chain.name, rule + 1, place[rule], chain.rules[rule].text, left[rule] / before.packets)
        for rule in moved(order)
    )
