"""Which rules to move where, and how far packets then walk."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from weirlab.rules.chains import Chain, Rule, Ruleset
from weirlab.rules.costs import KnownAdvice, RuleCost, SetAdvice, by_matches, costs, known_first, sets
from weirlab.rules.ordering import MAX_RULES, exchangeable, improve, moved, shorten, single_gains
from weirlab.rules.walking import Walk, called, forwarding_rulesets, sum_of_walks, walk

WORTH: Final = 1e-3
"""A chain is left alone if a better order saves less than this share of all comparisons."""


REVIEWABLE: Final = 10
"""Moves that somebody reviews."""
MOST_GAIN: Final = 0.9
"""Share of the best order's gain for which fewer moves are advised, if that takes more than these."""

MOST_FREED: Final = 8
"""How many of the rules that keep their place are examined one by one, busiest first: each takes reordering
a whole chain again."""

_Saving = TypeVar("_Saving", SetAdvice, KnownAdvice)


@dataclass(frozen=True)
class FixedRule:
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
    best_moves: int = 0
    """Moves that the best order takes; 0 if this is the best."""
    best_saves: float = 0.0
    """Comparisons that the best order saves beyond this one, summed over packets."""

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

    @property
    def moves(self) -> list[Move]:
        """All moves, those that gain most first; then those of the busiest rules."""
        return sorted(
            (move for chain in self.chains for move in chain.moves),
            key=lambda move: (-(move.saved or 0.0), -move.share),
        )

    @property
    def best(self) -> tuple[int, float] | None:
        """Moves and mean position of the best order, if it is another than the advised one."""
        if not any(chain.best_moves for chain in self.chains):
            return None
        moves = sum(chain.best_moves or len(chain.moves) for chain in self.chains)
        saves = sum(chain.best_saves for chain in self.chains)
        return moves, (self.after.comparisons - saves) / self.after.packets

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
        kept = tuple(replace(one, freed_mean_position=None) for one in self.kept)
        ranked = tuple(replace(cost, saved=None) for cost in self.costs)
        return replace(self, after=self.before, rules=self.present, chains=(), kept=kept, costs=ranked)


RuleKey = tuple[tuple[int, ...], str, str, int]
"""IP versions, table, chain, and number of a rule."""


def advise(path: Sequence[Ruleset], where: str = "the ruleset", stay: Collection[RuleKey] = ()) -> Advice:
    """Find a better order for the rules of the chain for forwarded packets and of the chains that it calls.

    Of several chains at that hook, the one that counted most packets is taken; one for each IP version if no
    packet enters two of them.

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
    for part in parts:
        part.improve()
    before = sum_of_walks([part.before for part in parts])
    after = sum_of_walks([walk(part.better) for part in parts])
    return Advice(
        before,
        after,
        tuple(part.ruleset for part in parts),
        tuple(part.better for part in parts),
        tuple(chain for part in parts for chain in part.changed),
        _freed(parts, before, after),
        (*before.notes, *(f"{other} is also walked but was left out" for other in others)),
        tuple(name for part in parts for name in part.untried),
        tuple(by_matches(cost for part in parts for cost in part.costs(before.packets))),
    )


class _Part:
    """One ruleset as it is put into order."""

    def __init__(self, ruleset: Ruleset, versioned: bool, stay: Collection[RuleKey]) -> None:
        self.ruleset = self.better = ruleset
        self.before = walk(ruleset)
        self.versioned = versioned
        self.stay = stay
        self.kept: list[tuple[FixedRule, str]] = []
        """Rules that keep their place, and their chains."""
        self.changed: list[ChainAdvice] = []
        self.untried: list[str] = []
        self.single: dict[str, list[float | None]] = {}
        """By chain: comparisons that each rule saves if it alone moves; None if it keeps its place."""
        self._altering = _altering(ruleset)

    def improve(self) -> None:
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
            pinned = self._pinned(name)
            allowed = exchangeable(chain.lines, pinned)
            gains = single_gains(found.left, allowed)
            self.single[name] = [None if stays else gain for gain, stays in zip(gains, pinned, strict=True)]
            order = best = improve(found.left, allowed)
            most = len(moved(best))
            share = MOST_GAIN if most > REVIEWABLE else 1 - WORTH
            if (short := shorten(found.left, allowed, best, share)) is not None:
                order = short
            trial = self._with(name, order)
            saved = walk(self.better).mean_position - walk(trial).mean_position
            if saved > WORTH * self.before.mean_position:
                self.better = trial
                more = 0.0
                if order is not best:
                    more = walk(trial).comparisons - walk(self._with(name, best)).comparisons
                self.changed.append(
                    ChainAdvice(
                        self.ruleset,
                        name,
                        shown,
                        tuple(order),
                        self._moves(name, order),
                        0 if order is best else most,
                        more,
                    )
                )

    def freed(self, name: str, place: int) -> float | None:
        """Comparisons in the better order if one rule that keeps its place could move as well."""
        chain = self.ruleset.chains[name]
        if len(chain.lines) < 2 or len(chain.rules) > MAX_RULES:
            return None
        pinned = [stays and i != place - 1 for i, stays in enumerate(self._pinned(name))]
        order = improve(self.before.chains[name].left, exchangeable(chain.lines, pinned))
        return walk(self._with(name, order)).comparisons

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

    def _with(self, name: str, order: Sequence[int]) -> Ruleset:
        chain = self.ruleset.chains[name]
        rules = tuple(rule for place in order for rule in chain.lines[place])
        return replace(self.better, chains={**self.better.chains, name: replace(chain, rules=rules)})

    def _moves(self, name: str, order: Sequence[int]) -> tuple[Move, ...]:
        left = self.before.chains[name].left
        place = {rule: k for k, rule in enumerate(order, 1)}
        lines = self.ruleset.chains[name].lines
        return tuple(
            Move(
                self._shown(name), at + 1, place[at], lines[at][0].text, left[at] / self.before.packets, saved
            )
            for at, saved in self._gains(left, order)
        )

    def _gains(self, left: Sequence[float], order: Sequence[int]) -> list[tuple[int, float | None]]:
        """The rules to move, and what each saves per packet when it is moved after those before it."""
        rules = sorted(moved(order), key=lambda rule: -left[rule])
        now, gains = list(range(len(order))), []
        target = {rule: place for place, rule in enumerate(order)}
        for rule in rules:
            before = _cost(now, left)
            now.remove(rule)
            # Behind the last rule that is to be before it and has its place already.
            waiting = set(rules[rules.index(rule) + 1 :])
            behind = [
                at for at, other in enumerate(now) if other not in waiting and target[other] < target[rule]
            ]
            now.insert(behind[-1] + 1 if behind else 0, rule)
            gains.append((rule, (before - _cost(now, left)) / self.before.packets))
        return [(rule, gain if gain > 0 else None) for rule, gain in gains]

    def _shown(self, name: str) -> str:
        return _shown(self.ruleset, name, self.versioned)


def _shown(rules: Ruleset, name: str, versioned: bool) -> str:
    return f"{name} (IPv{rules.families[0]})" if versioned else name


def _cost(order: Sequence[int], left: Sequence[float]) -> float:
    return sum(left[rule] * place for place, rule in enumerate(order, 1))


def _altering(ruleset: Ruleset) -> frozenset[str]:
    """Chains in which, or in one that they call, a rule may change what other rules compare."""
    found: set[str] = set()
    for name in reversed(called(ruleset)):
        chain: Chain = ruleset.chains[name]
        if any(rule.alters or rule.jump in found for rule in chain.rules):
            found.add(name)
    return frozenset(found)


def _freed(parts: Sequence[_Part], before: Walk, after: Walk) -> tuple[FixedRule, ...]:
    """Every rule that keeps its place, with the mean position if it alone could move as well."""
    kept = [(part, one, name) for part in parts for one, name in part.kept]

    def packets(which: int) -> int:
        part, one, name = kept[which]
        return part.ruleset.chains[name].lines[one.place - 1][0].packets or 0

    examined = set(sorted(range(len(kept)), key=packets, reverse=True)[:MOST_FREED])
    result = []
    for i, (part, one, name) in enumerate(kept):
        comparisons = part.freed(name, one.place) if i in examined else None
        if comparisons is None:
            result.append(one)
            continue
        others = after.comparisons - walk(part.better).comparisons
        mean = (comparisons + others) / before.packets
        result.append(replace(one, freed_mean_position=min(mean, after.mean_position)))
    return tuple(result)
