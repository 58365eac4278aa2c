"""Few moves of rules that give most of the gain."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from weirlab.rules.ordering import improve, moved, shorten


def cost(order: list[int], stopped: list[float]) -> float:
    return sum(stopped[rule] * place for place, rule in enumerate(order, 1))


def test_one_busy_rule_far_behind_is_one_move() -> None:
    stopped = [1.0, 2.0, 3.0, 4.0, 1000.0, 5.0]
    allowed = np.ones((6, 6), dtype=bool)
    best = improve(stopped, allowed)
    short = shorten(stopped, allowed, best, 0.9)
    assert short == [4, 0, 1, 2, 3, 5]


def test_a_rule_that_must_stay_before_another_is_not_passed() -> None:
    stopped = [1.0, 5.0, 1000.0, 2.0, 3.0]
    allowed = np.ones((5, 5), dtype=bool)
    allowed[1, 2] = allowed[2, 1] = False
    assert shorten(stopped, allowed, [1, 2, 4, 3, 0], 0.9) == [1, 2, 3, 4, 0]


def test_where_as_many_moves_are_needed_there_is_no_shorter_list() -> None:
    stopped = [1.0, 500.0, 2.0, 500.0]
    allowed = np.ones((4, 4), dtype=bool)
    assert shorten(stopped, allowed, [1, 3, 2, 0], 0.99) is None


@given(
    st.lists(st.integers(0, 1000), min_size=3, max_size=25),
    st.integers(0, 2**32 - 1),
    st.sampled_from((0.0, 0.1, 0.5)),
)
def test_a_short_order_keeps_every_pair_that_may_not_change_and_gives_the_gain(
    counts: list[int], seed: int, fixed: float
) -> None:
    n, stopped = len(counts), [float(count) for count in counts]
    draws = np.random.default_rng(seed).random((n, n))
    allowed = np.triu(draws >= fixed, 1)
    allowed = allowed | allowed.T
    best = improve(stopped, allowed)
    short = shorten(stopped, allowed, best, 0.9)
    if short is None:
        return
    place = {rule: at for at, rule in enumerate(short)}
    assert sorted(place) == list(range(n))
    assert all(place[a] < place[b] for a in range(n) for b in range(a + 1, n) if not allowed[a, b])
    present = cost(list(range(n)), stopped)
    assert present - cost(short, stopped) >= 0.9 * (present - cost(best, stopped)) - 1e-6
    assert len(moved(short)) < max(len(moved(best)), 1)
