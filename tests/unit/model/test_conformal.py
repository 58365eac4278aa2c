from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from weirlab.model.intervals.cross_validation import between, independent, upper_quantile

NINE = np.arange(1.0, 10.0)
ALONE = np.arange(9)


@pytest.mark.parametrize(("alpha", "expected"), [(0.1, 9.0), (0.2, 8.0), (0.25, 8.0), (0.5, 5.0), (0.9, 1.0)])
def test_single_trials_give_the_usual_conformal_quantile(alpha: float, expected: float) -> None:
    """The ceil((1 - alpha)(9 + 1))-th smallest of nine scores."""
    assert upper_quantile(NINE, ALONE, alpha) == expected
    assert expected == NINE[math.ceil((1 - alpha) * 10 - 1e-9) - 1]


def test_repetitions_do_not_pass_for_more_evidence() -> None:
    twice, group = np.repeat(NINE, 3), np.repeat(ALONE, 3)
    for alpha in (0.1, 0.2, 0.5):
        assert upper_quantile(twice, group, alpha) == upper_quantile(NINE, ALONE, alpha)


def test_groups_weigh_the_same_however_many_trials_they_have() -> None:
    """Three groups whose trials are off alike: each is one of four."""
    scores, group = np.array([2.0, 2.0, 2.0, 3.0, 5.0]), np.array([0, 0, 0, 1, 2])
    for share, expected in ((0.9, 2.0), (1.1, 3.0), (1.9, 3.0), (2.1, 5.0), (2.9, 5.0)):
        assert upper_quantile(scores, group, 1 - share / 4) == expected


def test_trials_that_are_off_alike_count_once_and_independent_ones_each() -> None:
    rng = np.random.default_rng(3)
    group, size = np.repeat(np.arange(200), 4), np.full(200, 4)
    shared = rng.normal(size=200)[group]
    own = rng.normal(size=800)
    assert independent(shared, group, size) == pytest.approx(200)
    assert independent(own, group, size) == pytest.approx(800, rel=0.1)
    # Half of the variance is shared: a correlation of 0.5, a design effect of 2.5.
    assert independent(shared + own, group, size) == pytest.approx(800 / 2.5, rel=0.15)


def test_no_trial_counts_for_more_than_one_by_being_told_twice() -> None:
    rng = np.random.default_rng(4)
    scores, group = rng.normal(size=1200), np.repeat(np.arange(400), 3)
    twice = independent(np.tile(scores, 2), np.tile(group, 2), np.full(400, 6))
    assert twice == pytest.approx(1200, rel=0.1)


@pytest.mark.parametrize("alike", [0.0, 0.5, 1.0])
def test_a_new_trial_exceeds_the_bound_as_often_as_it_may(alike: float) -> None:
    """30 settings with 6 trials each, as a profile has thresholds, and 5 % allowed; of 31 alike it is one."""
    rng, group = np.random.default_rng(5), np.repeat(np.arange(30), 6)
    exceeded = []
    for _ in range(400):
        shared, own = rng.normal(size=30)[group], rng.normal(size=180)
        bound = upper_quantile(math.sqrt(alike) * shared + math.sqrt(1 - alike) * own, group, 0.05)
        exceeded.append(ndtr(-bound))
    assert 0.95 / 31 < np.mean(exceeded) < 0.055


def test_too_few_groups_widen_the_bound_along_an_exponential_tail() -> None:
    """1/2 lies beyond the median 5 and 1/10 beyond 9: the tail falls by 5 within 4."""
    expected = 5 + 4 * math.log(0.5 / 0.01) / math.log(0.5 / 0.1)
    assert upper_quantile(NINE, ALONE, 0.01) == pytest.approx(expected)
    assert upper_quantile(NINE, ALONE, 0.01) > upper_quantile(NINE, ALONE, 0.09) > 9


def test_scores_of_zero_stay_zero_at_any_level() -> None:
    assert upper_quantile(np.zeros(10), np.arange(10), 0.001) == 0.0


def test_both_sides_are_taken_apart() -> None:
    scores = np.concatenate([np.zeros(50), np.linspace(0, 10, 49)])
    low, high = between(scores, np.arange(99), 0.9)
    assert low == 0.0
    assert high == np.sort(scores)[95 - 1]


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=60),
    st.sampled_from((0.5, 0.9, 0.99)),
    st.randoms(use_true_random=False),
)
def test_the_order_of_trials_does_not_matter_and_sides_mirror(
    values: list[float], level: float, random
) -> None:
    scores, group = np.array(values), np.arange(len(values)) // 2
    order = np.array(random.sample(range(len(values)), len(values)))
    low, high = between(scores, group, level)
    assert between(scores[order], group[order], level) == pytest.approx((low, high))
    assert between(-scores, group, level) == pytest.approx((-high, -low))
    assert low <= high
