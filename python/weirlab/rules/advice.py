"""Which rules to move where, and how far packets then walk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.costs import KnownAdvice, RuleCost, SetAdvice, by_matches, costs, known_first, sets
from weirlab.rules.ordering import (
    MAX_RULES,
    BestOrder,
    Bool,
    exchangeable,
    improve,
    keeping,
    move_gains,
    moved,
    shorten,
    single_gains,
)
from weirlab.rules.walking import Walk, called, forwarding_rulesets, sum_of_walks, walk

WORTH: Final = 1e-3
"""A chain is left alone if a better order saves less than this share of all comparisons."""
REVIEWABLE: Final = 10
"""Moves that somebody reviews."""
MOST_GAIN: Final = 0.9
"""Share of the best orders' gain, in all chains, for which fewer moves are advised, if they take more than
these."""

MOST_FREED: Final = 8
"""How many of the rules that keep their place are examined one by one, busiest first: each takes reordering
a whole chain again."""
NO_COUNTER: Final = "no counter says how many packets it matches; give it one"

_Saving = TypeVar("_Saving", SetAdvice, KnownAdvice)


@dataclass(frozen=True)
class FixedRule:
    """A rule that keeps its place because it depends on more than the packet, or was not understood."""

    chain: str
    place: int
    """In its chain, from 1."""
    why: str
    freed_mean_position: float | None = None
    """Mean position in the best order if this rule could move as well, were it not for ``why``; of rules
    without a counter: all in this chain, if they match few packets. None if not examined."""
    counted_mean_position: float | None = None
    """The same if the rules without a counter in this chain had one as well; None if that gains no more."""

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
    saved: float | None = None
    """Comparisons per forwarded packet; None if only all moves together are known to gain something."""


@dataclass(frozen=True)
class ChainAdvice:
    """A chain's new order: ``order[k]`` is the present place, from 0, of the rule that comes k-th."""

    ruleset: Ruleset
    """The rules in the present order."""
    chain: str
    name: str
    """The chain in messages, with its IP version where there are several."""
    order: tuple[int, ...]
    moves: tuple[Move, ...]

    @property
    def lines(self) -> tuple[tuple[Rule, ...], ...]:
        """The rules in the present order, with their cases."""
        return self.ruleset.chains[self.chain].lines


@dataclass(frozen=True)
class Advice:
    """What a better order of rules gains."""

    before: Walk
    after: Walk
    """Predicted from the counters; overlapping rules with the same verdict may make it better still."""
    present: tuple[Ruleset, ...]
    """The rules in the present order: one ruleset, or one for each IP version."""
    rules: tuple[Ruleset, ...]
    """The same in the new order."""
    chains: tuple[ChainAdvice, ...]
    """The chains whose order changes."""
    kept: tuple[FixedRule, ...]
    """Rules that keep their place, and what freeing each of them would gain."""
    notes: tuple[str, ...]
    untried: tuple[str, ...] = ()
    """Chains that are too long to be reordered."""
    costs: tuple[RuleCost, ...] = ()
    """Every rule, those that match most packets first."""
    best: tuple[int, float] | None = None
    """Moves and mean position of the best order, if it is another than the advised one."""
    left_out: tuple[Ruleset, ...] = ()
    """Chains with rules that the packets also walk."""

    @property
    def moves(self) -> list[Move]:
        """All moves, those that gain most first; then those of the busiest rules."""
        return sorted(
            (move for chain in self.chains for move in chain.moves),
            key=lambda move: (-(move.saved or 0.0), -move.share),
        )

    @property
    def best_mean_position(self) -> float:
        """With all moves."""
        return self.after.mean_position if self.best is None else self.best[1]

    @property
    def sets(self) -> list[SetAdvice]:
        """Rules that a set could replace, those that would save most first."""
        return self._saving(sets)

    @property
    def known_first(self) -> list[KnownAdvice]:
        """Rules for established connections that stand behind others, those that would save most first."""
        return self._saving(known_first)

    def _saving(self, find: Callable[[Ruleset, float], Iterable[_Saving]]) -> list[_Saving]:
        versioned = len(self.present) > 1
        found = [
            replace(one, chain=_shown(rules, one.chain, versioned))
            for rules in self.present
            for one in find(rules, self.before.packets)
        ]
        return sorted(found, key=lambda one: -one.saved)

    def without_order(self) -> Advice:
        """The present order, and no other."""
        kept = tuple(FixedRule(one.chain, one.place, one.why) for one in self.kept)
        ranked = tuple(replace(cost, saved=None) for cost in self.costs)
        return replace(
            self, after=self.before, rules=self.present, chains=(), kept=kept, costs=ranked, best=None
        )


RuleKey = tuple[tuple[int, ...], str, str, int]
"""IP versions, table, chain, and number of a rule."""


def advise(path: Sequence[Ruleset], where: str = "the ruleset", stay: Collection[RuleKey] = ()) -> Advice:
    """Find a better order for the rules of the chain for forwarded packets and of the chains that it calls.

    Of several chains at that hook with verdicts, the one that counted most packets is taken; one for each IP
    version if no packet enters two of them.

    Parameters
    ----------
    path:
        The base chains that forwarded packets enter.
    where:
        What the ruleset is called in messages.
    stay:
        Rules that keep their place for a reason that they do not show.

    Raises
    ------
    InputError
        There is no such chain, all counters are zero, or chains call each other in a circle.
    """
    chosen, others = forwarding_rulesets(path, where)
    parts = [_Part(ruleset, len(chosen) > 1, stay) for ruleset in chosen]
    before = sum_of_walks([part.before for part in parts])
    for part in parts:
        part.improve(WORTH * before.comparisons)
    orders = [(part, name, best) for part in parts for name, best in part.orders.items()]
    most = sum(len(moved(best.order)) for _, _, best in orders)
    share = MOST_GAIN if most > REVIEWABLE else 1 - WORTH
    fewer = shorten([best for _, _, best in orders], share)
    for (part, name, _), order in zip(orders, fewer, strict=True):
        part.take(name, order)
    after, best = (
        sum_of_walks([walk(each) for each in found])
        for found in zip(*((part.better, part.best) for part in parts), strict=True)
    )
    left_out = tuple(other for other in others if other.forward.rules)
    is_best = all(list(best.order) == order for (_, _, best), order in zip(orders, fewer, strict=True))
    return Advice(
        before,
        after,
        tuple(part.ruleset for part in parts),
        tuple(part.better for part in parts),
        tuple(chain for part in parts for chain in part.changed),
        _freed(parts, before, best),
        (*before.notes, *(f"{other} is also walked but was left out" for other in left_out)),
        tuple(name for part in parts for name in part.untried),
        tuple(by_matches(cost for part in parts for cost in part.costs(before.packets))),
        None if is_best else (most, best.mean_position),
        left_out,
    )


class _Part:
    """One ruleset as it is put into order."""

    def __init__(self, ruleset: Ruleset, versioned: bool, stay: Collection[RuleKey]) -> None:
        self.ruleset = self.better = self.best = ruleset
        self.before = walk(ruleset)
        self.versioned = versioned
        self.stay = stay
        self.kept: list[tuple[FixedRule, str]] = []
        """Rules that keep their place, and their chains."""
        self.orders: dict[str, BestOrder] = {}
        """By chain, if that gains something; ``best`` has all of them, ``better`` those that are advised."""
        self.changed: list[ChainAdvice] = []
        self.untried: list[str] = []
        self.single: dict[str, list[float | None]] = {}
        """By chain: comparisons that each rule saves if it alone moves; None if it keeps its place."""
        self._altering = _altering(ruleset)
        self.pairs: dict[str, Bool] = {}
        """By chain: rules that may change places unless they are pinned."""

    def improve(self, worth: float) -> None:
        """Find the best orders that save more than ``worth`` comparisons."""
        for name, found in self.before.chains.items():
            chain = self.ruleset.chains[name]
            shown = self._shown(name)
            whys = [self._why(name, line) for line in chain.lines]
            self.kept += [(FixedRule(shown, i, why), name) for i, why in enumerate(whys, 1) if why]
            if len(chain.lines) < 2:
                continue
            if len(chain.rules) > MAX_RULES:
                self.untried.append(
                    f"{shown} has {len(chain.rules):,} rules; only chains up to {MAX_RULES:,} are reordered"
                )
                continue
            self.pairs[name] = exchangeable(chain.lines, [False] * len(chain.lines))
            pinned = self._pinned(name)
            allowed = keeping(self.pairs[name], pinned)
            gains = single_gains(found.left, allowed)
            self.single[name] = [None if stays else gain for gain, stays in zip(gains, pinned, strict=True)]
            order = improve(found.left, allowed)
            trial = self._with(self.best, name, order)
            saved = self.before.packets * (walk(self.best).mean_position - walk(trial).mean_position)
            if saved > worth:
                self.best = trial
                self.orders[name] = BestOrder(found.left, allowed, order, saved)

    def take(self, name: str, order: Sequence[int]) -> None:
        """Advise an order of a chain."""
        if moves := self._moves(name, order):
            self.better = self._with(self.better, name, order)
            self.changed.append(ChainAdvice(self.ruleset, name, self._shown(name), tuple(order), moves))

    def freed(self, name: str, places: Collection[int]) -> float | None:
        """Comparisons in the best order if some rules that keep their place could move as well."""
        if name not in self.pairs:
            return None
        pinned = [stays and i not in places for i, stays in enumerate(self._pinned(name), 1)]
        order = improve(self.before.chains[name].left, keeping(self.pairs[name], pinned))
        return walk(self._with(self.best, name, order)).comparisons

    def uncounted(self, name: str) -> list[int]:
        """Places of the rules without a counter that keep their place for nothing else."""
        found, lines = self.before.chains[name].uncounted, self.ruleset.chains[name].lines
        return [i for i, out in enumerate(found, 1) if out and not self._why(name, lines[i - 1])]

    def costs(self, packets: float) -> list[RuleCost]:
        """Every rule, for each of all ``packets`` that are forwarded."""
        found = costs(self.ruleset, self.single, packets)
        return [replace(cost, chain=self._shown(cost.chain)) for cost in found]

    def _pinned(self, name: str) -> list[bool]:
        uncounted = self.before.chains[name].uncounted
        lines = self.ruleset.chains[name].lines
        return [bool(self._why(name, line)) or out for line, out in zip(lines, uncounted, strict=True)]

    def _why(self, name: str, line: Sequence[Rule]) -> str:
        """Why a rule keeps its place, counters apart; empty if it need not."""
        reasons = [reason for rule in line for reason in (rule.unclear, rule.pinned) if reason]
        reasons += [
            f"chain {rule.jump} may change what other rules compare"
            for rule in line
            if rule.jump in self._altering
        ]
        if (self.ruleset.families, self.ruleset.table, name, line[0].number) in self.stay:
            reasons.append("no test packet met it")
        return "; ".join(dict.fromkeys(reasons))

    def _with(self, rules: Ruleset, name: str, order: Sequence[int]) -> Ruleset:
        chain = self.ruleset.chains[name]
        ordered = tuple(rule for place in order for rule in chain.lines[place])
        return replace(rules, chains={**rules.chains, name: replace(chain, rules=ordered)})

    def _moves(self, name: str, order: Sequence[int]) -> tuple[Move, ...]:
        left = self.before.chains[name].left
        place = {rule: k for k, rule in enumerate(order, 1)}
        lines = self.ruleset.chains[name].lines
        packets = self.before.packets
        return tuple(
            Move(
                self._shown(name),
                at + 1,
                place[at],
                lines[at][0].text,
                left[at] / packets,
                saved / packets if saved > 0 else None,
            )
            for at, saved in move_gains(left, order)
        )

    def _shown(self, name: str) -> str:
        return _shown(self.ruleset, name, self.versioned)


def _shown(rules: Ruleset, name: str, versioned: bool) -> str:
    return f"{name} (IPv{rules.families[0]})" if versioned else name


def _altering(ruleset: Ruleset) -> frozenset[str]:
    """Chains in which, or in one that they call, a rule may change what other rules compare."""
    found: set[str] = set()
    for name in reversed(called(ruleset)):
        chain: Chain = ruleset.chains[name]
        if any(rule.alters or rule.jump in found for rule in chain.rules):
            found.add(name)
    return frozenset(found)


def _freed(parts: Sequence[_Part], before: Walk, best: Walk) -> tuple[FixedRule, ...]:
    """Rules that keep their place, with the mean position if each could move as well; of those without a
    counter, the ones that are in the way."""
    kept = [(part, one, name) for part in parts for one, name in part.kept]

    def packets(which: int) -> int:
        part, one, name = kept[which]
        return part.ruleset.chains[name].lines[one.place - 1][0].packets or 0

    def position(part: _Part, name: str, places: Collection[int], now: float) -> float:
        """The mean position; ``now`` if hardly anything is gained."""
        if not places or (comparisons := part.freed(name, places)) is None:
            return now
        found = (comparisons + best.comparisons - walk(part.best).comparisons) / before.packets
        return found if now - found > WORTH * before.mean_position else now

    now = best.mean_position
    blind = {(part, name): part.uncounted(name) for part in parts for name in part.before.chains}
    counted = {key: position(*key, places, now) for key, places in blind.items()}
    examined = set(sorted(range(len(kept)), key=packets, reverse=True)[:MOST_FREED])
    result, in_the_way = [], {key for key, found in counted.items() if found < now}
    for i, (part, one, name) in enumerate(kept):
        if i in examined and name in part.pairs:
            alone = position(part, name, [one.place], now)
            least = min(alone, counted[part, name])
            both = (
                position(part, name, [one.place, *blind[part, name]], least) if blind[part, name] else least
            )
            if both < least:
                in_the_way.add((part, name))
            one = replace(
                one, freed_mean_position=alone, counted_mean_position=both if both < least else None
            )
        result.append(one)
    return (
        *result,
        *(
            FixedRule(_shown(part.ruleset, name, part.versioned), place, NO_COUNTER, counted[part, name])
            for (part, name), places in blind.items()
            if (part, name) in in_the_way
            for place in places
        ),
    )
