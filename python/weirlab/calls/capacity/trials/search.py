"""The most calls that a device carries, by the search of RFC 9971 over the number of calls.

A goal says when a trial is good: nothing lost, or enough calls good enough. A number of calls is
carried when enough of its trials are good; the search ends when the most that are carried and the
fewest that are not lie close together (see :mod:`weirlab.measure.search`). Every trial answers all
goals, so one that was made for one goal, or by a sweep with trials of the same length, serves the others.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.base.errors import InputError, TrialError
from weirlab.calls.capacity.trials.rows import CapacityRow
from weirlab.measure.search import mlr
from weirlab.measure.search.goal import SearchGoal
from weirlab.measure.search.throughput import nothing_arrived
from weirlab.measure.search.trials import SearchTrialRunner, senders_limit
from weirlab.measure.trial import FailedTrial
from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import Calls


@dataclass(frozen=True)
class CallTraffic:
    """What all trials have in common but the position and the number of calls."""

    calls: Calls
    """Its number of calls means nothing."""
    stateful: bool = False

    @property
    def both_ways(self) -> bool:
        """Do packets come from both sides of the device?"""
        return self.calls.directions != "forward"

    @property
    def streams(self) -> int:
        """Voice streams per call that pass the device."""
        return 2 if self.calls.directions == "both" else 1

    @property
    def call_pps(self) -> float:
        """Packets of speech per second and call, all directions together; control packets come on top.

        Where people pause, as if they did not; of a trunk, whose packets carry many calls, what each
        call would need by itself.
        """
        return sum(one.share * one.stream.rate_pps for one in self.calls.classes) * self.streams

    def spec(
        self, position: int, count: int, *, trial_s: float, warmup_s: float, label: str = ""
    ) -> TrialSpec:
        """A trial with ``count`` calls through the device at ``position``."""
        traffic = traffic_of(replace(self.calls, count=count), trial_s, warmup_s)
        return TrialSpec(traffic, RuleSetup(position, self.stateful, both_ways=self.both_ways), label)


_FIRST_CALLS: Final = 500
"""Where the way up begins."""

_STEP_UP: Final = 2.0
_TRIALS_TO_GET_NEAR: Final = 8
"""From experience, for the time left only."""


@dataclass(frozen=True)
class CallGoal:
    """When a trial is good.

    Without ``mos``: at most ``bad_ratio`` of the packets are lost, those in bins that the host disturbed left
    out. With it: at most ``bad_ratio`` of the calls are worse.
    """

    name: str
    bad_ratio: float = 0.0
    mos: float | None = None

    def judged(self, row: CapacityRow) -> mlr.TrialCounts:
        """A trial's row as the search wants to see it."""
        if self.mos is None:
            disturbed = (row.disturbed_sent or 0, row.disturbed_lost or 0)
            return mlr.TrialCounts(row.sent - disturbed[0], row.lost - disturbed[1])
        bad = 1 - row.good_share
        return mlr.TrialCounts(row.calls, round(bad * row.calls) if math.isfinite(bad) else 0)


@dataclass(frozen=True)
class Search:
    """What is searched and how carefully."""

    goals: tuple[CallGoal, ...]
    trial_s: float = 1.0
    warmup_s: float = 0.2
    trials: int = 7
    """Trials that settle a number of calls for sure; fewer do when they agree."""
    bad_share: float = 0.5
    """Share of them that may be bad."""
    width: float = 0.02
    min_calls: int = 50
    max_calls: int | None = None

    def __post_init__(self) -> None:
        """Raises ``InputError`` for a search that cannot be made."""
        if self.max_calls is not None and self.max_calls <= self.min_calls:
            raise InputError(
                f"a search from {self.min_calls} to {self.max_calls} calls is empty: the most calls to try "
                "must be more than the fewest"
            )

    def goal(self, goal: CallGoal) -> SearchGoal:
        """``goal`` in the terms of RFC 9971, a load being a number of calls."""
        return SearchGoal(
            goal.name,
            goal.bad_ratio,
            self.trial_s,
            self.trials * self.trial_s,
            self.bad_share,
            self.width,
        )

    def expected_s(self) -> list[float]:
        """Expected wall times in s of the trials at one position; for the time left only."""
        settling = (len(self.goals) + 1) * (self.trials // 2 + 1)
        return [self.warmup_s + self.trial_s + 0.5] * (_TRIALS_TO_GET_NEAR + settling)


@dataclass(frozen=True)
class CallCapacity:
    """The result of one goal at one position, in calls.

    Without ``calls`` even the fewest were too many; without ``too_many`` the most were not.
    ``at_least``: no more calls could be made, by the sender or by the user's word.
    """

    goal: CallGoal
    position: int
    calls: int | None
    too_many: int | None
    at_least: bool = False
    pps: float | None = None
    """Offered load with this many calls."""
    problem: str = ""
    """Why there is no result, or (with ``at_least``) why more calls were not tried."""


class _CallTrials:
    """Trials at one position by their number of calls; each is made once and serves every goal."""

    def __init__(self, measure: Callable[[int], CapacityRow], known: Iterable[CapacityRow]) -> None:
        self._measure = measure
        self._rows: defaultdict[int, list[CapacityRow]] = defaultdict(list)
        for row in known:
            self._rows[row.calls].append(row)
        self._unsent: dict[int, mlr.TrialCounts] = {}
        self.pps: dict[int, float] = {}
        self.spoiled: dict[int, str] = {}
        """Why that many calls could not be tried; empty if it was the sender's limit."""

    def taker(self, goal: CallGoal) -> Callable[[int], mlr.TrialCounts]:
        """Gives one trial after the other for ``goal``, those that exist already first."""
        taken: defaultdict[int, int] = defaultdict(int)

        def take(count: int) -> mlr.TrialCounts:
            if count in self._unsent:
                return self._unsent[count]
            if taken[count] == len(self._rows[count]):
                try:
                    self._rows[count].append(self._measure(count))
                except CallCountFailure as beyond:
                    self._unsent[count] = beyond.measured
                    self.spoiled[count] = beyond.why
                    return beyond.measured
            row = self._rows[count][taken[count]]
            taken[count] += 1
            self.pps[count] = row.offered_pps
            return goal.judged(row)

        return take

    def not_tried(self, count: int) -> bool:
        """Whether that many calls could not be tried because of the sender or the host."""
        return count in self._unsent


class CallCountFailure(Exception):
    """That many calls cannot be made: the sender is too slow, or (``why``) the host spoils every attempt."""

    def __init__(self, measured: mlr.TrialCounts, why: str) -> None:
        super().__init__()
        self.measured = measured
        self.why = why


def search_calls(
    trials: SearchTrialRunner,
    what: Search,
    setting: CallTraffic,
    position: int,
    row_of: Callable[[], CapacityRow],
    known: Sequence[CapacityRow] = (),
) -> list[CallCapacity]:
    """Search every goal of ``what`` at ``position``.

    Parameters
    ----------
    row_of:
        The row that the newest trial left.
    known:
        Rows of trials of the same length at this position that were made before.

    Raises
    ------
    FailedTrial
        The device forwards nothing at all.
    """

    def measure(count: int) -> CapacityRow:
        spec = setting.spec(
            position, count, trial_s=what.trial_s, warmup_s=what.warmup_s, label=f"{count} calls"
        )
        try:
            trials.run(spec)
        except FailedTrial as error:
            if nothing_arrived(error.records):
                raise
            sent = max(record.result.sent for record in error.records)
            why = "" if senders_limit(error.records, trials.limits) else str(error)
            # Bad by any goal, also by one that bears some loss.
            raise CallCountFailure(mlr.TrialCounts(sent, 0, max(sent, 1)), why) from error
        return row_of()

    counted = _CallTrials(measure, known)
    return [_searched(what, goal, position, counted) for goal in what.goals]


def _searched(what: Search, goal: CallGoal, position: int, counted: _CallTrials) -> CallCapacity:
    take = counted.taker(goal)
    most = what.max_calls
    try:
        top = _way_up(what, goal, take)
        while True:
            (found,) = mlr.search(
                lambda _, calls: take(round(calls)),
                [what.goal(goal)],
                min_load=what.min_calls,
                max_load=top,
                unit="calls",
            )
            limit = found.upper_pps is not None or top == most or counted.not_tried(top)
            if limit:
                break
            # A single trial was bad by chance when the way up ended; with more of them it is not.
            top = _at_most(round(top * _STEP_UP), most)
    except TrialError as error:
        if isinstance(error, FailedTrial) and nothing_arrived(error.records):
            raise
        return CallCapacity(goal, position, None, None, problem=str(error))
    calls = None if found.lower_pps is None else round(found.lower_pps)
    # What the host spoiled says nothing about the device; the answer is what was seen below.
    spoiled = [why for count, why in sorted(counted.spoiled.items()) if why and count > (calls or 0)]
    problem = spoiled[0] if spoiled and (found.at_least or calls is None) else ""
    return CallCapacity(
        goal,
        position,
        calls,
        None if found.upper_pps is None else round(found.upper_pps),
        found.at_least,
        None if calls is None else counted.pps.get(calls),
        problem,
    )


def _way_up(what: Search, goal: CallGoal, take: Callable[[int], mlr.TrialCounts]) -> int:
    """A number of calls that is too many, by one trial; the most that may be tried if none is."""
    count = _at_most(max(_FIRST_CALLS, what.min_calls + 1), what.max_calls)
    while count != what.max_calls and take(count).bad_ratio <= goal.bad_ratio:
        count = _at_most(round(count * _STEP_UP), what.max_calls)
    return count


def _at_most(count: int, most: int | None) -> int:
    return count if most is None else min(count, most)
