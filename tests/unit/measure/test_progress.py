from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.measure.attempts import Budget, TrialQueue, ValidShare
from weirlab.measure.progress import (
    OVERHEAD_S,
    AttemptPace,
    ProgressMeter,
    TrialProgress,
    estimate_s,
    trial_s,
)
from weirlab.records import RuleSetup, TrialSpec
from weirlab.testing import FakeClock, make_record, make_spec

seconds = st.floats(0, 1e6)


def test_the_estimate_is_traffic_and_overhead() -> None:
    assert estimate_s([make_spec(duration_s=0.5, warmup_s=0.2)] * 10) == pytest.approx(
        10 * (0.7 + OVERHEAD_S)
    )
    assert estimate_s([]) == 0


def test_without_experience_an_attempt_takes_what_was_expected() -> None:
    assert AttemptPace().attempts_s(1, 60) == 60


@given(st.floats(0.3, 100), st.floats(0, 100))
def test_what_an_attempt_takes_beside_its_traffic_is_added(expected: float, overhead: float) -> None:
    pace = AttemptPace()
    pace.learn(expected, 1, expected - OVERHEAD_S + overhead)
    assert pace.attempts_s(1, 2 * expected) == pytest.approx(2 * expected - OVERHEAD_S + overhead)


def test_a_simulation_that_is_faster_than_its_traffic_scales() -> None:
    pace = AttemptPace()
    pace.learn(1.0 + OVERHEAD_S, 2, 0.2)
    assert pace.attempts_s(1, 3.0 + OVERHEAD_S) == pytest.approx(0.3)


def test_skipped_trials_do_not_make_the_rest_look_fast() -> None:
    clock = FakeClock()
    told: list[TrialProgress] = []
    meter = ProgressMeter([1.0] * 10, clock, told.append)
    for _ in range(5):
        meter.skip()
    clock.advance(2.0)
    meter.count("slow", make_record())
    assert (told[-1].done, told[-1].total, told[-1].elapsed_s, told[-1].left_s) == (6, 10, 2.0, 8.0)


def test_more_trials_than_expected_do_no_harm() -> None:
    told: list[TrialProgress] = []
    meter = ProgressMeter([1.0], FakeClock(), told.append)
    for _ in range(3):
        meter.count("more", make_record())
    assert told[-1].left_s == 0


def test_a_plan_can_replace_what_was_expected() -> None:
    told: list[TrialProgress] = []
    meter = ProgressMeter([1.0] * 5, FakeClock(), told.append)
    meter.skip()
    meter.replace_rest([3.0, 3.0])
    meter.tell("planned")
    assert (told[-1].total, told[-1].left_s) == (3, 6.0)


# Estimates on machines that disturb. A trial takes 0.33 s where 0.33 s were expected, unless said otherwise.

SETTINGS, REPETITIONS = 250, 3


def run_of(
    valid: Callable[[float], bool], *, overhead_s: float = 0.2, budget_s: float | None = None
) -> tuple[float, list[tuple[float, TrialProgress]]]:
    """When a sequence of trials was over, and what was told when; ``valid`` judges by the time."""
    clock, told = FakeClock(), []
    budget = None if budget_s is None else Budget(budget_s, clock)
    specs = [
        TrialSpec(make_spec(duration_s=0.1, warmup_s=0.03).traffic, RuleSetup(position))
        for _ in range(REPETITIONS)
        for position in range(SETTINGS)
    ]
    meter = ProgressMeter(
        map(trial_s, specs),
        clock,
        lambda progress: told.append((clock(), progress)),
        share=ValidShare(0.75),
        budget=budget,
    )
    queue = TrialQueue(specs, (), meter.share, trial_s)
    record = make_record()
    while (place := queue.next()) is not None:
        if budget is not None and budget.left_s < 0.13 + overhead_s:
            break
        attempts: list[bool] = []
        while not any(attempts) and len(attempts) < queue.attempts_left(place):
            clock.advance(0.13 + overhead_s)
            attempts.append(valid(clock()))
        meter.learn(trial_s(specs[place]), attempts)
        if queue.over(place, attempts.count(False), attempts[-1]):
            meter.count("", record, trial_s(specs[place]))
        else:
            meter.tell("")
    return clock(), told


def drawn(share: float, seed: int) -> Callable[[float], bool]:
    draw = random.Random(seed)
    return lambda now_s: draw.random() < share


def require_right(end_s: float, told: list[tuple[float, TrialProgress]], after_s: float = 60) -> None:
    """Nearly always the end is foretold within 20 % of the time that the run takes, and what is left as well.

    The last half minute is a matter of luck: each of a dozen trials may need another attempt.
    """
    later = [(now_s, progress.left_s) for now_s, progress in told if now_s >= after_s]
    of_end = [abs(now_s + left_s - end_s) / end_s for now_s, left_s in later]
    of_left = [abs(left_s / (end_s - now_s) - 1) for now_s, left_s in later if end_s - now_s > 30]
    assert sum(error < 0.2 for error in of_end) >= 0.9 * len(of_end)
    assert sum(error < 0.2 for error in of_left) >= 0.9 * len(of_left)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("overhead_s", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("share", [1.0, 0.95, 0.75, 0.5])
def test_after_a_minute_the_estimate_is_right_within_20_percent(
    share: float, overhead_s: float, seed: int
) -> None:
    require_right(*run_of(drawn(share, seed), overhead_s=overhead_s))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("share", [1.0, 0.5, 0.1, 0.0])
def test_with_a_budget_the_estimate_is_right_whatever_is_valid(share: float, seed: int) -> None:
    end_s, told = run_of(drawn(share, seed), budget_s=495)
    assert end_s < 495.4  # a retry
    require_right(end_s, told)


@pytest.mark.parametrize("quiet_s", [4, 10, 20])
@pytest.mark.parametrize("busy_s", [2, 5, 10])
def test_bursts_of_disturbance_do_not_spoil_the_estimate(quiet_s: float, busy_s: float) -> None:
    require_right(*run_of(lambda now_s: now_s % (quiet_s + busy_s) < quiet_s))


@pytest.mark.parametrize("busy_s", [20, 40, 0])
def test_where_it_is_unsure_the_range_holds_the_truth(busy_s: float) -> None:
    """Long bursts, and nine of ten attempts invalid."""
    rarely = drawn(0.1, 1)
    end_s, told = run_of(lambda now_s: now_s % (2 * busy_s) < busy_s if busy_s else rarely(now_s))
    later = [(end_s - now_s, progress) for now_s, progress in told if now_s >= 60 and end_s - now_s > 20]
    held = [progress.soonest_s <= left_s <= progress.latest_s for left_s, progress in later]
    assert sum(held) / len(held) > 0.9


def test_a_host_that_grows_quiet_is_believed_within_minutes() -> None:
    busy = drawn(0.3, 1)
    end_s, told = run_of(lambda now_s: now_s > 100 or busy(now_s))
    require_right(end_s, told, after_s=280)


def test_quiet_machines_have_narrow_ranges_and_disturbed_ones_wide_ones() -> None:
    def width(share: float) -> float:
        _, told = run_of(drawn(share, 1))
        _, at = next(entry for entry in told if entry[0] >= 60)
        return at.latest_s / at.soonest_s

    assert width(1.0) < 1.05
    assert width(0.5) > 1.2


def test_trials_that_are_repeated_after_all_others_have_time_left() -> None:
    now, told = [0.0], list[TrialProgress]()
    meter = ProgressMeter([1.0], lambda: now[0], told.append)
    now[0] = 1.0
    meter.count("first", make_record())
    assert (told[-1].done, told[-1].total, told[-1].left_s) == (1, 1, 0.0)
    meter.expect_more([1.0, 1.0])
    meter.tell("again")
    assert (told[-1].done, told[-1].total) == (1, 3)
    assert told[-1].left_s == pytest.approx(2.0, rel=0.3)
