"""A better order of a chain's rules that means the same, and the fewest moves that give most of it.

Two rules may change places if no packet matches both, or if both do nothing but end its walk with the same
verdict; every other pair keeps its order. Any order that respects these pairs can be reached
by allowed exchanges of neighbours, so every packet meets the same verdict. To minimise the
mean number of comparisons is single-machine scheduling of unit jobs under precedence
constraints, 1|prec|sum w_j C_j, which is NP-hard (Lawler, "Sequencing jobs to minimize total
weighted completion time subject to precedence constraints", 1978). The heuristic repeatedly
takes the rule that, together with all that must precede it, stops most packets per rule (as in
Sidney's decomposition, 1975), then exchanges neighbours as long as that helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.rules.chains import Rule
from weirlab.rules.matching import (
    RANGED,
    STATES,
    Interface,
    Match,
    Ranges,
    interfaces_disjoint,
    ranges_disjoint,
)

Bool = npt.NDArray[np.bool_]

_PLAIN: Final = frozenset({"accept", "drop", "reject"})

MAX_RULES: Final = 5000
"""Above this, the matrix of pairs alone would take hundreds of megabytes."""


def exchangeable(lines: Sequence[Sequence[Rule]], pinned: Sequence[bool]) -> Bool:
    """Which pairs of rules may change places: a symmetric matrix, n x n.

    ``lines`` are the rules with their cases; ``pinned`` ones keep their place.
    """
    verdicts = [plain_verdict(line) for line in lines]
    known = {verdict: i for i, verdict in enumerate(dict.fromkeys(v for v in verdicts if v is not None))}
    ids = np.array([-1 if v is None else known[v] for v in verdicts], dtype=np.int64)
    allowed = (ids[:, None] == ids[None, :]) & (ids >= 0)[:, None]
    allowed |= _by_line(_disjoint([case.match for line in lines for case in line]), lines)
    return keeping(allowed, pinned)


def keeping(allowed: Bool, pinned: Sequence[bool]) -> Bool:
    """``allowed`` without the pairs of ``pinned`` rules."""
    stays = np.array(pinned, dtype=np.bool_)
    return np.asarray(allowed & ~(stays[:, None] | stays[None, :]))


def plain_verdict(line: Sequence[Rule]) -> str | None:
    """The verdict of a rule that does nothing but accept, drop or reject; None for all others."""
    first = line[0]
    if any((case.verdict, case.jump, case.effects) != (first.verdict, None, "") for case in line):
        return None
    verdict = first.verdict or ""
    return verdict if verdict.split(" ")[0].lower() in _PLAIN else None


def _by_line(apart: Bool, lines: Sequence[Sequence[Rule]]) -> Bool:
    """Two rules are disjoint if all cases of one are disjoint from all cases of the other."""
    starts = np.cumsum([0, *(len(line) for line in lines[:-1])])
    rows = np.logical_and.reduceat(apart, starts, axis=0)
    return np.asarray(np.logical_and.reduceat(rows, starts, axis=1))


def improve(stopped: Sequence[float], allowed: Bool) -> list[int]:
    """Find an order of the rules 0 .. n-1 with fewer comparisons, respecting ``allowed``.

    ``stopped`` holds the packets that each rule stops. Rules that gain nothing keep their order.
    """
    n = len(stopped)
    weights = np.asarray(stopped, dtype=np.float64)
    candidates = [
        _exchange_neighbours(order, weights, allowed)
        for order in (list(range(n)), _by_closures(weights, allowed))
    ]
    return min(candidates, key=lambda order: _cost(order, weights))


def moved(order: Sequence[int]) -> list[int]:
    """The fewest rules to move: those outside the longest increasing subsequence."""
    best: list[int] = []  # Length of the longest ascending subsequence that ends at each place.
    before: list[int] = []
    ends: list[int] = []  # Place where the best subsequence of each length ends.
    for place, rule in enumerate(order):
        values = [order[end] for end in ends]
        length = int(np.searchsorted(values, rule)) if values else 0
        before.append(ends[length - 1] if length else -1)
        best.append(length)
        ends[length : length + 1] = [place]
    kept: set[int] = set()
    place = ends[-1] if ends else -1
    while place >= 0:
        kept.add(order[place])
        place = before[place]
    return [rule for rule in order if rule not in kept]


def single_gains(stopped: Sequence[float], allowed: Bool) -> list[float]:
    """By rule: comparisons saved if it alone moves to the best place that ``allowed`` lets it reach."""
    weights = np.asarray(stopped, dtype=np.float64)
    gains = []
    for rule, weight in enumerate(weights):
        before, after = np.flatnonzero(~allowed[rule, :rule]), np.flatnonzero(~allowed[rule, rule + 1 :])
        first = before[-1] + 1 if len(before) else 0
        last = rule + 1 + (after[0] if len(after) else len(weights))
        up = np.cumsum(weight - weights[first:rule][::-1])
        down = np.cumsum(weights[rule + 1 : last] - weight)
        gains.append(float(max(up.max(initial=0.0), down.max(initial=0.0))))
    return gains


def move_gains(stopped: Sequence[float], order: Sequence[int]) -> list[tuple[int, float]]:
    """The rules to move, and the comparisons that each saves when it is moved after those before it."""
    weights = np.asarray(stopped, dtype=np.float64)
    rules = sorted(moved(order), key=lambda rule: -weights[rule])
    now, gains = list(range(len(order))), []
    target = {rule: place for place, rule in enumerate(order)}
    for rule in rules:
        before = _cost(now, weights)
        now.remove(rule)
        # Behind the last rule that is to be before it and has its place already.
        waiting = set(rules[rules.index(rule) + 1 :])
        behind = [at for at, other in enumerate(now) if other not in waiting and target[other] < target[rule]]
        now.insert(behind[-1] + 1 if behind else 0, rule)
        gains.append((rule, before - _cost(now, weights)))
    return gains


def _cost(order: Sequence[int], weights: npt.NDArray[np.float64]) -> float:
    return float((weights[list(order)] * np.arange(1, len(order) + 1)).sum())


def _by_closures(weights: npt.NDArray[np.float64], allowed: Bool) -> list[int]:
    n = len(weights)
    closure = _closures(allowed)
    with_all = closure @ weights
    size = closure.sum(axis=1).astype(np.float64)
    open_ = np.ones(n, dtype=np.bool_)
    order: list[int] = []
    while open_.any():
        ratio = np.where(open_, with_all / np.maximum(size, 1.0), -1.0)
        chosen = int(np.argmax(ratio))
        if ratio[chosen] <= 0:
            order += np.flatnonzero(open_).tolist()
            break
        taken = np.flatnonzero(closure[chosen] & open_)
        order += taken.tolist()
        open_[taken] = False
        with_all -= closure[:, taken] @ weights[taken]
        size -= closure[:, taken].sum(axis=1)
    return order


def _closures(allowed: Bool) -> Bool:
    """By rule: itself and all rules that must precede it, directly or through others."""
    n = len(allowed)
    closure = np.eye(n, dtype=np.bool_)
    for rule in range(n):
        for earlier in np.flatnonzero(~allowed[rule, :rule])[::-1]:
            if not closure[rule, earlier]:
                closure[rule] |= closure[earlier]
    return closure


def _exchange_neighbours(order: list[int], weights: npt.NDArray[np.float64], allowed: Bool) -> list[int]:
    """Let each rule rise past neighbours that stop fewer packets, until none rises."""
    order = list(order)
    rising = True
    while rising:
        rising = False
        for place in range(1, len(order)):
            at = place
            while at and weights[order[at]] > weights[order[at - 1]] and allowed[order[at], order[at - 1]]:
                order[at - 1], order[at] = order[at], order[at - 1]
                at -= 1
                rising = True
    return order


def _disjoint(matches: Sequence[Match]) -> Bool:
    n = len(matches)
    apart = np.zeros((n, n), dtype=np.bool_)
    for name in RANGED:
        apart |= _ranges_apart([getattr(match, name) for match in matches])
    bits = np.array(
        [sum(1 << i for i, state in enumerate(STATES) if state in match.states) for match in matches],
        dtype=np.int64,
    )
    apart |= (bits[:, None] & bits[None, :]) == 0
    for interfaces in ([match.inward for match in matches], [match.outward for match in matches]):
        apart |= _interfaces_apart(interfaces)
    return apart


def _ranges_apart(column: Sequence[Ranges | None]) -> Bool:
    """Pairs whose values lie apart; first by their hulls, then in detail for those with gaps."""
    n = len(column)
    ends = sorted({end for ranges in column if ranges for pair in ranges for end in pair})
    rank = {end: i for i, end in enumerate(ends)}
    low = np.full(n, -1, dtype=np.int64)
    high = np.full(n, len(ends), dtype=np.int64)
    for i, ranges in enumerate(column):
        if ranges is not None:
            low[i] = rank[ranges[0][0]] if ranges else len(ends) + 1
            high[i] = rank[ranges[-1][1]] if ranges else -2
    apart = (low[:, None] > high[None, :]) | (high[:, None] < low[None, :])
    for i, ranges in enumerate(column):
        if ranges is not None and len(ranges) > 1:
            for j in np.flatnonzero(~apart[i]).tolist():
                if ranges_disjoint(ranges, column[j]):
                    apart[i, j] = apart[j, i] = True
    return np.asarray(apart)


def _interfaces_apart(column: Sequence[Interface | None]) -> Bool:
    distinct = list(dict.fromkeys(column))
    table = np.array([interfaces_disjoint(a, b) for a in distinct for b in distinct], dtype=np.bool_)
    table = table.reshape(len(distinct), len(distinct))
    index = np.array([distinct.index(interface) for interface in column], dtype=np.intp)
    return np.asarray(table[index[:, None], index[None, :]])


MOST: Final = 30
"""Longest list of moves that is looked for."""
_ROWS: Final = 256
"""Rules that are examined at once: for thousands of rules, all pairs take too much memory."""


@dataclass(frozen=True)
class BestOrder:
    """A chain, and the order of its rules with the most gain."""

    stopped: Sequence[float]
    """Packets that each rule stops."""
    allowed: Bool
    """Pairs that may change places."""
    order: Sequence[int]
    saved: float
    """Comparisons that it saves, in the unit that chains have in common."""


def shorten(chains: Sequence[BestOrder], share: float) -> list[list[int]]:
    """Orders with fewer moves that together give ``share`` of what the best orders of all chains save.

    Moves one rule after the other, always the one that saves most, until that is reached. Every move
    exchanges a rule with each of those that it passes, so all these pairs are ``allowed``. If it would take
    too many moves, chains get their best order, those first that then gain most.
    """
    fewer = [_FewerMoves(chain) for chain in chains]
    wanted = share * sum(chain.saved for chain in chains)
    most = min(sum(each.most for each in fewer) - 1, MOST)
    while (missing := wanted - sum(each.saved for each in fewer)) > 0:
        best = max(fewer, key=lambda each: each.gain)
        # Later moves hardly ever save more than this one.
        if best.gain <= 0 or (most - sum(len(each.rules) for each in fewer)) * best.gain < missing:
            break
        best.move()
    for each in sorted(fewer, key=lambda each: each.saved - each.chain.saved):
        if sum(other.saved for other in fewer) < wanted or len(each.rules) >= each.most:
            each.finish()
    return [each.order for each in fewer]


class _FewerMoves:
    """An order of a chain as rule after rule is moved."""

    def __init__(self, chain: BestOrder) -> None:
        self.chain = chain
        self.order = list(range(len(chain.order)))
        self.saved = 0.0
        self.rules: set[int] = set()
        self.most = len(moved(chain.order))
        self._weights = np.asarray(chain.stopped, dtype=np.float64)
        whole = _cost(self.order, self._weights) - _cost(chain.order, self._weights)
        self._unit = chain.saved / whole if whole > 0 else 0.0
        self._look()

    def _look(self) -> None:
        order = self.order
        gain, self._place, self._to = _best_move(
            self._weights[order], self.chain.allowed[np.ix_(order, order)]
        )
        self.gain = gain * self._unit

    def move(self) -> None:
        rule = self.order.pop(self._place)
        self.order.insert(self._to, rule)
        self.rules.add(rule)
        self.saved += self.gain
        self._look()

    def finish(self) -> None:
        self.order, self.saved = list(self.chain.order), self.chain.saved


def _best_move(weights: npt.NDArray[np.float64], allowed: npt.NDArray[np.bool_]) -> tuple[float, int, int]:
    """The move of one rule that saves most comparisons: how many, from which place, to which."""
    n, best = len(weights), (0.0, 0, 0)
    total = np.concatenate([[0.0], np.cumsum(weights)])
    to = np.arange(n)[None, :]
    for start in range(0, n, _ROWS):
        place = np.arange(start, min(start + _ROWS, n))[:, None]
        # Passed upwards, every rule between is compared once more by what it stops; downwards, once less.
        up = weights[place] * (place - to) - (total[place] - total[to])
        down = (total[to + 1] - total[place + 1]) - weights[place] * (to - place)
        # A rule passes no rule that it may not change places with.
        blocked = np.cumsum(~allowed[place[:, 0]] & (to != place), axis=1)
        own = np.take_along_axis(blocked, place, axis=1)
        before = np.concatenate([np.zeros((len(place), 1), dtype=blocked.dtype), blocked[:, :-1]], axis=1)
        free = np.where(to < place, own == before, blocked == own) & (to != place)
        gain = np.where(free, np.where(to < place, up, down), 0.0)
        found = int(np.argmax(gain))
        if gain.flat[found] > best[0]:
            best = float(gain.flat[found]), start + found // n, found % n
    return best
