from __future__ import annotations

from weirlab.calls.capacity.plan import CallSweep, around
from weirlab.calls.capacity.trials.search import CallCapacity, CallGoal

LOSSLESS, GOOD = CallGoal("without loss"), CallGoal("good", 0.01, 4.0)


def found(
    goal: CallGoal, calls: int | None, too_many: int | None = None, *, at_least: bool = False
) -> CallCapacity:
    return CallCapacity(goal, 0, calls, too_many, at_least)


def test_a_sweep_has_numbers_below_at_and_above_both_answers() -> None:
    counts = around([found(LOSSLESS, 8000), found(GOOD, 9000)], (0.5, 0.9, 1.0, 1.1))
    assert counts == (4000, 7200, 8000, 9000, 9900)


def test_no_more_calls_are_tried_than_can_be_made() -> None:
    assert around([found(LOSSLESS, 8000), found(GOOD, 9000, at_least=True)], (0.5, 1.1)) == (4000, 8000, 9000)


def test_where_even_the_fewest_are_too_many_they_are_what_is_swept_around() -> None:
    assert around([found(LOSSLESS, None, 50)], (0.5, 1.2)) == (25, 50, 60)


def test_around_nothing_there_is_no_sweep() -> None:
    assert around([found(LOSSLESS, None)], (0.5, 1.2)) == ()
    assert CallSweep({0: ()}).order == []


def test_each_run_goes_through_every_number_of_every_position_once() -> None:
    order = CallSweep({0: (10, 20), 400: (5,)}, repetitions=3).order
    assert len(order) == 9
    for run in (1, 2, 3):
        assert {(n, count) for r, n, count in order if r == run} == {(0, 10), (0, 20), (400, 5)}
