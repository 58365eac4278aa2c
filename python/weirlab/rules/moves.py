"""The fewest moves of rules that give most of what the best order gains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.rules.ordering import moved

MOST: Final = 30
"""Longest list of moves that is looked for."""
_ROWS: Final = 256
"""Rules that are examined at once: for thousands of rules, all pairs take too much memory."""


def shorten(
    stopped: Sequence[float], allowed: npt.NDArray[np.bool_], best: Sequence[int], share: float
) -> list[int] | None:
    """Move one rule after the other, always the one that saves most, until the order gains enough.

    Every move exchanges a rule with each of those that it passes, so all these pairs are ``allowed``.

    Parameters
    ----------
    stopped:
        Packets that each rule stops.
    best:
        The order with the most gain.
    share:
        How much of its gain is enough.

    Returns
    -------
    list of int or None
        The order; None if as many moves would be needed as for the best.
    """
    weights = np.asarray(stopped, dtype=np.float64)
    places = np.arange(1, len(weights) + 1)
    wanted = share * float((weights * places).sum() - (weights[list(best)] * places).sum())
    most = min(len(moved(best)) - 1, MOST)
    order, moves, total = list(range(len(weights))), set[int](), 0.0
    while total < wanted:
        gain, place, to = _best_move(weights[order], allowed[np.ix_(order, order)])
        more = most - len(moves)
        # Later moves hardly ever save more than this one.
        if gain <= 0 or total + more * gain < wanted:
            return None
        rule = order.pop(place)
        order.insert(to, rule)
        moves.add(rule)
        total += gain
    return order


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
