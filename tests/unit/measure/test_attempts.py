"""Which trial is next, how long all may take, and when it is no use to go on."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.measure.attempts import (
    LEAST_ATTEMPTS,
    REST,
    VISIT,
    Budget,
    TrialQueue,
    ValidShare,
    attempts_per_trial,
    setting_of,
)
from weirlab.measure.progress import trial_s
from weirlab.records import RuleSetup, TrialSpec
from weirlab.testing import FakeClock, make_spec


def plan(settings: int, repetitions: int = 3, long: int = 0) -> list[TrialSpec]:
    """Repetition after repetition; the first ``long`` settings have long trials."""
    return [
        TrialSpec(
            replace(make_spec().traffic, seed=repetition, duration_s=2.0 if position < long else 0.1),
            RuleSetup(position),
        )
        for repetition in range(repetitions)
        for position in range(settings)
    ]


def share_of(*outcomes: bool) -> ValidShare:
    share = ValidShare()
    for valid in outcomes:
        share.add(valid)
    return share


def order(queue: TrialQueue, specs: list[TrialSpec], fails: set[int], visits: int) -> list[int]:
    """Positions of the next ``visits``; settings that are in ``fails`` fail always."""
    found = []
    for _ in range(visits):
        place = queue.next()
        if place is None:
            break
        position = specs[place].rules.position
        found.append(position)
        failed = position in fails
        queue.over(place, VISIT if failed else 0, not failed)
    return found


# The queue


def test_repetitions_share_a_setting_and_loads_do_not() -> None:
    specs = plan(2, 3)
    assert len({setting_of(spec) for spec in specs}) == 2


def test_every_setting_comes_once_before_any_comes_twice() -> None:
    specs = plan(20)
    random.Random(1).shuffle(specs)
    counted: Counter[int] = Counter()
    queue = TrialQueue(specs, (), ValidShare(), trial_s)
    while (place := queue.next()) is not None:
        assert counted[specs[place].rules.position] == min(counted[n] for n in range(20))
        counted[specs[place].rules.position] += 1
        queue.over(place, 0, True)
    assert set(counted.values()) == {3}


def test_a_spoiled_trial_is_tried_again_after_others_and_before_second_repetitions() -> None:
    specs = plan(30, 2)
    queue = TrialQueue(specs, (), share_of(*[True, False] * 100), trial_s)
    found = order(queue, specs, {4}, 31)
    assert found[:30] == list(range(30))
    assert found[30] == 4


def test_with_few_settings_left_a_spoiled_trial_rests_while_others_are_repeated() -> None:
    specs = plan(15, 3)
    queue = TrialQueue(specs, (), share_of(*[True, False] * 100), trial_s)
    found = order(queue, specs, {14}, 60)
    at = [i for i, position in enumerate(found) if position == 14]
    gaps = [later - earlier for earlier, later in itertools.pairwise(at)]
    assert gaps[0] == REST + 1
    assert all(gap > 1 for gap in gaps[:3])


def test_a_setting_that_is_hard_in_itself_comes_last() -> None:
    specs = plan(30, 3)
    queue = TrialQueue(specs, (), share_of(*[True] * 100), trial_s)
    found = order(queue, specs, {0}, 200)
    good = [i for i, position in enumerate(found) if position != 0]
    tried = [i for i, position in enumerate(found) if position == 0]
    assert len(good) == 29 * 3
    assert sum(i > good[-1] for i in tried) >= len(tried) - 3
    assert queue.without_valid == 1


def test_a_trial_gets_as_many_attempts_as_chance_explains() -> None:
    quiet, busy = share_of(*[True] * 200), share_of(*[True, *[False] * 9] * 40)
    assert quiet.failures_by_chance() == LEAST_ATTEMPTS
    assert 30 < busy.failures_by_chance() < 60


@given(st.integers(1, 5))
def test_a_stated_number_of_attempts_is_kept(most: int) -> None:
    specs = plan(1, 2)
    queue = TrialQueue(specs, (), ValidShare(), trial_s, max_attempts=most)
    attempts: Counter[int] = Counter()
    while (place := queue.next()) is not None:
        made = queue.attempts_left(place)
        attempts[place] += made
        queue.over(place, made, False)
    assert attempts == {0: most, 1: most}


def test_short_trials_come_first_where_time_is_scarce() -> None:
    specs = plan(6, 2, long=3)
    plenty = order(TrialQueue(specs, (), ValidShare(), trial_s), specs, set(), 6)
    assert plenty == [0, 1, 2, 3, 4, 5]
    queue = TrialQueue(specs, (), ValidShare(), trial_s)
    found = []
    for _ in range(6):
        place = queue.next(scarce=True)
        assert place is not None
        found.append(specs[place].rules.position)
        queue.over(place, 0, True)
    assert found == [3, 4, 5, 0, 1, 2]


def test_what_was_done_before_counts() -> None:
    specs = plan(3, 2)
    queue = TrialQueue(specs, {0, 1, 2, 3}, ValidShare(), trial_s)
    assert order(queue, specs, set(), 9) == [1, 2]


@given(st.integers(1, 12), st.integers(1, 4), st.floats(0.05, 1), st.integers(0, 99), st.booleans())
def test_the_queue_ends_and_every_trial_is_valid_or_given_up(
    settings: int, repetitions: int, ratio: float, seed: int, scarce: bool
) -> None:
    specs, draw, share = plan(settings, repetitions), random.Random(seed), ValidShare()
    queue = TrialQueue(specs, (), share, trial_s)
    ended: Counter[int] = Counter()
    while (place := queue.next(scarce=scarce and draw.random() < 0.5)) is not None:
        failed = 0
        while failed < queue.attempts_left(place) and draw.random() >= ratio:
            share.add(False)
            failed += 1
        valid = failed < VISIT and failed < queue.attempts_left(place)
        if valid:
            share.add(True)
        ended[place] += queue.over(place, max(failed, int(not valid)), valid)
    assert ended == Counter(range(len(specs)))


# The share


def test_the_share_is_what_was_assumed_until_something_is_known() -> None:
    assert ValidShare(0.75).ratio == 0.75
    assert ValidShare(0.75).bounds() == (0.0, 1.0)


@given(st.lists(st.booleans(), min_size=1, max_size=200))
def test_the_bounds_hold_the_share_of_what_was_seen(outcomes: list[bool]) -> None:
    low, high = share_of(*outcomes).bounds()
    assert 0 <= low <= high <= 1


def test_bursts_make_the_bounds_wider_than_single_disturbances() -> None:
    scattered = share_of(*[True, False] * 100).bounds()
    bursts = share_of(*([True] * 20 + [False] * 20) * 5).bounds()
    assert bursts[1] - bursts[0] > 2 * (scattered[1] - scattered[0])


def test_recent_attempts_weigh_more() -> None:
    assert share_of(*[False] * 300, *[True] * 600).ratio > 0.75


@pytest.mark.parametrize(("ratio", "most", "expected"), [(1, 5, 1), (0.5, 2, 1.5), (0, 7, 7)])
def test_attempts_per_trial(ratio: float, most: int, expected: float) -> None:
    assert attempts_per_trial(ratio, most) == expected


# The budget


def test_a_part_of_a_budget_ends_sooner_and_leaves_the_rest() -> None:
    clock = FakeClock()
    whole = Budget(100, clock)
    part = whole.part(0.4)
    clock.advance(30)
    assert (part.left_s, whole.left_s) == (pytest.approx(10), pytest.approx(70))


def hopeless(ratio: float, *, after_s: float = 120, budget_s: float = 600, **how: bool) -> bool:
    clock, draw, share = FakeClock(), random.Random(1), ValidShare(0.75)
    budget = Budget(budget_s, clock, **how)
    for _ in range(int(after_s / 0.33)):
        clock.advance(0.33)
        share.add(draw.random() < ratio)
    return budget.hopeless(share, 300, 300 - min(share.valid, 300), 0.33)


def test_it_is_no_use_to_go_on_where_almost_nothing_is_valid() -> None:
    assert hopeless(0.0)
    assert hopeless(0.02)


@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0])
def test_a_run_goes_on_where_the_budget_may_suffice(ratio: float) -> None:
    assert not hopeless(ratio)


def test_a_run_is_not_given_up_in_its_first_minute() -> None:
    assert not hopeless(0.0, after_s=50)
    assert not hopeless(0.0, after_s=120, budget_s=3600)


def test_a_short_budget_is_no_reason_to_give_up_on_a_quiet_machine() -> None:
    assert not hopeless(0.9, budget_s=130)


def test_a_simulated_device_is_never_given_up() -> None:
    assert not hopeless(0.0, gives_up=False)
