"""The throughput of one setting of a device: frame sizes and rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from weirlab.base.documents import Measured
from weirlab.base.errors import InputError, TrialError
from weirlab.measure.plan.grid import Profile
from weirlab.measure.profile import SENDER_RESERVE
from weirlab.measure.progress import OVERHEAD_S
from weirlab.measure.scouting import fastest
from weirlab.measure.search import mlr
from weirlab.measure.search.goal import GoalResult, SearchGoal
from weirlab.measure.search.trials import SearchTrialRunner, senders_limit, unsent
from weirlab.measure.trial import FailedTrial
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.traffic.load import rate_pps
from weirlab.traffic.sizes import SizeMix, describe, mean_bytes
from weirlab.traffic.spec import Arrivals, Flows, Rate, Traffic

PACED_LIMIT_PPS: Final = Profile.paced_limit_pps
MIN_LOAD_PPS: Final = 1000.0

SENDER: Final = "sender"
SEARCH: Final = "search"

_DOUBLINGS: Final = 5
"""From the first load to the user's limit."""

_TRIALS_TO_GET_NEAR: Final = 8
"""Trials that a search needs before it settles bounds; from experience, only for the time left."""


_NO_RULES: Final = RuleSetup()
_ONE_FLOW: Final = Flows()


@dataclass(frozen=True)
class Setting:
    """One setting of the device and the frames that it is tested with."""

    sizes: SizeMix
    rules: RuleSetup = _NO_RULES

    @property
    def sizes_text(self) -> str:
        """``64``, ``imix``: as :func:`weirlab.traffic.sizes.parse_sizes` reads it."""
        return describe(self.sizes)

    @property
    def frame_bytes(self) -> float:
        """Mean frame size."""
        return mean_bytes(self.sizes)

    @property
    def text(self) -> str:
        """For people: ``position 400, 64 B``."""
        sizes = self.sizes_text
        return f"position {self.rules.position}, {sizes}{' B' if sizes.isdigit() else ''}"

    def to_json(self) -> dict[str, Any]:
        return {
            "position": self.rules.position,
            "stateful": self.rules.stateful,
            "sizes_text": self.sizes_text,
        }


@dataclass(frozen=True)
class SearchShape:
    """What all trials of a search have in common."""

    flows: Flows = _ONE_FLOW
    arrivals: Arrivals = "constant"
    warmup_s: float = 0.05
    max_rate: Rate | None = None
    """Highest load that may be offered, e.g. a line rate; None for what the sender can pace."""
    min_load_pps: float = MIN_LOAD_PPS
    seed: int = 1

    def spec(
        self, setting: Setting, rate: Rate, duration_s: float, label: str, warmup_s: float | None = None
    ) -> TrialSpec:
        """A trial of ``setting`` at ``rate``."""
        traffic = Traffic(
            rate,
            setting.sizes,
            self.flows,
            self.arrivals,
            warmup_s=self.warmup_s if warmup_s is None else warmup_s,
            duration_s=duration_s,
            seed=self.seed,
        )
        return TrialSpec(traffic, setting.rules, label)


@dataclass(frozen=True)
class Point:
    """What a search found in one setting."""

    setting: Setting
    max_load_pps: Measured
    """The highest load that could be offered."""
    found: tuple[GoalResult, ...]
    """In the order of the goals; empty when the search failed."""
    trials: int
    elapsed_s: float
    problem: str = ""
    """Why there is no result: a trial stayed invalid in every attempt."""

    def then(self, again: Point) -> Point:
        """The result of ``again``, another search of the same setting, with the trials and time of both."""
        return replace(again, trials=self.trials + again.trials, elapsed_s=self.elapsed_s + again.elapsed_s)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.setting.to_json(),
            "max_load_pps": self.max_load_pps,
            "trials": self.trials,
            "elapsed_s": self.elapsed_s,
            "problem": self.problem,
            "goals": self.found,
        }


def expected_s(shape: SearchShape, goals: Sequence[SearchGoal]) -> list[float]:
    """Expected wall times in s of the trials of one search, the sender's own first."""
    # Neighbouring goals share a bound; half of a load's trials settle it if they agree.
    settling = (len(goals) + 1) * (max(goal.trials for goal in goals) // 2 + 1)
    first = 1 if shape.max_rate is None else 1 + _DOUBLINGS
    searching = [goals[0].trial_s] * (_TRIALS_TO_GET_NEAR + settling)
    return [
        shape.warmup_s + recorded_s + OVERHEAD_S
        for recorded_s in (goals[0].trial_s,) * first + tuple(searching)
    ]


def sender_pps(trials: SearchTrialRunner, setting: Setting, shape: SearchShape, recorded_s: float) -> float:
    """The highest load in packets/s that can be offered in ``setting``: the sender's and the user's limit.

    One trial as fast as possible shows the sender's best with these frames. What it can
    pace is a bit less, and never more than ``PACED_LIMIT_PPS``. With a limit of the user's, loads double up
    to that instead, until the sender does not keep up or the device forwards nothing any more.

    Raises ``FailedTrial`` like every trial.
    """
    if shape.max_rate is None:
        record = trials.run(shape.spec(setting, fastest(shape.flows), recorded_s, SENDER))
        return float(math.floor(min(PACED_LIMIT_PPS, SENDER_RESERVE * record.result.achieved_pps)))
    limit_pps = min(PACED_LIMIT_PPS, rate_pps(shape.max_rate, setting.sizes))
    load_pps = min(limit_pps, max(shape.min_load_pps, limit_pps / 2**_DOUBLINGS))
    while True:
        load_pps = float(math.floor(load_pps))
        one = measure_load(trials, shape.spec(setting, Rate(load_pps), recorded_s, SENDER))
        if one.unsent:
            return float(math.floor(load_pps * SENDER_RESERVE * one.sent / (one.sent + one.unsent)))
        if load_pps >= math.floor(limit_pps) or one.lost >= one.sent:
            return load_pps
        load_pps = min(2 * load_pps, limit_pps)


def search_setting(
    trials: SearchTrialRunner, setting: Setting, shape: SearchShape, goals: Sequence[SearchGoal]
) -> Point:
    """Search ``goals`` in ``setting``.

    A trial that the host spoils in every attempt ends the search without a result;
    ``problem`` says so. Loads that the sender cannot keep up with count as too much, as in
    RFC 9971, and the result is then marked ``at_least``; see :func:`senders_limit`.

    Raises
    ------
    FailedTrial
        The device forwards nothing at all.
    InputError
        The highest load that can be offered is below the lowest to try.
    """
    if not goals:
        raise InputError("a search without a goal finds nothing; give at least one")
    begun_s, before = trials.elapsed_s, trials.done
    max_load_pps = float("nan")
    found: tuple[GoalResult, ...] = ()
    problem = ""

    seen: list[tuple[float, float]] = []

    def measure(duration_s: float, load_pps: float) -> mlr.TrialCounts:
        one = measure_load(trials, shape.spec(setting, whole(load_pps), duration_s, SEARCH))
        seen.append((load_pps, one.bad_ratio))
        return one

    try:
        max_load_pps = sender_pps(trials, setting, shape, goals[0].trial_s)
        found = mlr.search(measure, goals, min_load=shape.min_load_pps, max_load=max_load_pps)
    except TrialError as error:
        if isinstance(error, FailedTrial) and nothing_arrived(error.records):
            raise
        problem = f"{error}{_so_far(goals[0], seen)}"
    return Point(setting, max_load_pps, found, trials.done - before, trials.elapsed_s - begun_s, problem)


def measure_load(trials: SearchTrialRunner, spec: TrialSpec) -> mlr.TrialCounts:
    """One trial, with the counts that the search needs.

    Raises ``FailedTrial`` if it was spoiled by something other than a sender that is too slow.
    """
    try:
        result = trials.run(spec).result
    except FailedTrial as error:
        if not senders_limit(error.records, trials.limits):
            raise
        record = max(error.records, key=lambda record: record.result.sent)
        return mlr.TrialCounts(record.result.sent, max(record.result.lost, 0), unsent(record))
    # A frame more received than sent would be a duplicate, and is counted as such.
    return mlr.TrialCounts(result.sent, max(result.lost, 0))


def _so_far(goal: SearchGoal, seen: Sequence[tuple[float, float]]) -> str:
    """What single trials showed before the search broke off, for the message; ``seen`` has load and loss."""
    bad = [load for load, ratio in seen if ratio > goal.loss_ratio]
    good = [load for load, ratio in seen if ratio <= goal.loss_ratio and load < min(bad, default=math.inf)]
    parts = [f"{max(good):,.0f} pps met {goal.name}"] if good else []
    parts += [f"{min(bad):,.0f} pps did not"] if bad else []
    return f"; until then {' and '.join(parts)}, in single trials" if parts else ""


def nothing_arrived(records: Sequence[TrialRecord]) -> bool:
    """Does the device forward nothing at all?"""
    return all(record.result.sent > 0 and record.result.received == 0 for record in records)


def whole(load_pps: float) -> Rate:
    """A load in whole packets/s: readable, and within about a millionth of what the search requests."""
    return Rate(float(round(load_pps)))
