"""The search of RFC 9971, as the package MLRsearch implements it.

Nothing else imports that package. It calls one function that measures, and its results are
converted to the types of :mod:`weirlab.measure.search.goal`.
"""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from weirlab.base.errors import InputError, TrialError
from weirlab.measure.search.goal import GoalResult, SearchGoal


@contextmanager
def _bare_frames() -> Iterator[None]:
    """Make ``inspect.stack`` return frames without their source, for which it searches every module.

    MLRsearch calls it many times while it is imported, and uses only the frames: with all of Weir's modules
    loaded, its import would take seconds.
    """

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        found: list[inspect.FrameInfo] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
            frame = frame.f_back
        return found

    whole, inspect.stack = inspect.stack, stack
    try:
        yield
    finally:
        inspect.stack = whole


with _bare_frames():
    import MLRsearch as mlr


@dataclass(frozen=True)
class TrialCounts:
    """What one trial counted.

    ``unsent`` is how many of the requested packets the sender failed to send: they make the
    trial bad as loss does (RFC 9971), but say nothing about the device.
    """

    sent: int
    lost: int
    unsent: int = 0

    @property
    def bad_ratio(self) -> float:
        """Share of the requested packets that were lost or not even sent; 0 if none were requested."""
        asked = self.sent + self.unsent
        return (self.lost + self.unsent) / asked if asked else 0.0


Measure = Callable[[float, float], TrialCounts]
"""Measures a trial; the arguments are its recorded seconds and its load in packets/s."""


class _Measurer(mlr.AbstractMeasurer):  # type: ignore[misc]
    """Lets MLRsearch call ``measure``, and remembers which loads the sender failed at."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self.beyond_sender: set[float] = set()

    def measure(self, intended_duration: float, intended_load: float) -> mlr.MeasurementResult:
        one = self._measure(intended_duration, intended_load)
        if one.unsent:
            self.beyond_sender.add(intended_load)
        return mlr.MeasurementResult(
            intended_duration=intended_duration,
            intended_load=intended_load,
            offered_count=one.sent,
            loss_count=one.lost,
            intended_count=one.sent + one.unsent,
        )


def search(
    measure: Measure,
    goals: Sequence[SearchGoal],
    *,
    min_load: float,
    max_load: float,
    unit: str = "pps",
    longest_s: float = 24 * 3600.0,
) -> tuple[GoalResult, ...]:
    """Search ``goals`` between two loads, all of them together; the results are in their order.

    Parameters
    ----------
    unit:
        Of the loads, in messages. The results have this unit, whatever their fields are called.

    Raises
    ------
    InputError
        The loads or goals do not make a search.
    TrialError
        The search took longer than ``longest_s`` seconds, or the sender kept up with no load.
    """
    if not goals:
        raise InputError("a search without a goal finds nothing; give at least one")
    if not 0 < min_load < max_load:
        raise InputError(
            f"a search from {min_load:,.0f} to {max_load:,.0f} {unit} is empty: the lowest load must "
            "lie below the highest that the sender can pace"
        )
    measurer = _Measurer(measure)
    sought = [_search_goal(goal) for goal in goals]
    config = mlr.Config()
    # In this order: each setter compares with the other load.
    config.max_load = max(max_load, config.min_load * 2)
    config.min_load = min_load
    config.max_load = max_load
    config.goals = list(dict.fromkeys(sought))
    config.search_duration_max = longest_s
    config.warmup_duration = 0.0
    end_s = time.monotonic() + longest_s
    try:
        results = mlr.MultipleLossRatioSearch(config).search(measurer, debug=_say_nothing)
    except RuntimeError as error:
        if time.monotonic() < end_s:
            raise
        raise TrialError(
            f"the search did not end within {longest_s:,.0f} s; its trials are kept. "
            "Search with shorter or fewer trials, or a wider interval"
        ) from error
    beyond_sender = measurer.beyond_sender
    for result in results.values():
        if result.relevant_lower_bound is None and float(result.relevant_upper_bound) in beyond_sender:
            raise TrialError(
                f"the sender did not keep up with {min_load:,.0f} {unit}, the lowest load to try, so the "
                "search says nothing about the device. Stop other work on the machine, or change the back end"
            )
    return tuple(
        _found(goal, results[asked], beyond_sender) for goal, asked in zip(goals, sought, strict=True)
    )


def _search_goal(goal: SearchGoal) -> mlr.SearchGoal:
    return mlr.SearchGoal(
        loss_ratio=goal.loss_ratio,
        exceed_ratio=goal.exceed_ratio,
        relative_width=goal.relative_width,
        initial_trial_duration=goal.trial_s,
        final_trial_duration=goal.trial_s,
        duration_sum=goal.duration_sum_s,
        # A lossy device is a result: its lower bound is then missing.
        fail_fast=False,
    )


def _found(goal: SearchGoal, result: mlr.GoalResult, beyond_sender: set[float]) -> GoalResult:
    lower, upper = result.relevant_lower_bound, result.relevant_upper_bound
    upper_pps = None if upper is None else float(upper)
    at_least = lower is not None and (upper_pps is None or upper_pps in beyond_sender)
    if lower is None:
        return GoalResult(goal, None, None, upper_pps, None)
    (stat,) = lower.target_to_stat.values()
    return GoalResult(
        goal,
        float(result.conditional_throughput),
        float(lower),
        upper_pps,
        float(stat.pessimistic_loss_ratio),
        at_least,
    )


def _say_nothing(message: str) -> None:
    """Discard MLRsearch's debug messages: the trials that it requested are in the run."""
