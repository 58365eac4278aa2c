"""Measure, fit and choose, round after round, until the model is sure enough or the budget is used up."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from weirlab.base.errors import ModelError
from weirlab.base.quantities import percent
from weirlab.lab.base import TestBed
from weirlab.measure import sequence
from weirlab.measure.adaptive.acquisition import Uncertainty, choose, committee_and_spread, measured_settings
from weirlab.measure.adaptive.design import (
    AdaptivePlan,
    Candidate,
    Candidates,
    candidates,
    first,
    reference,
    specs,
)
from weirlab.measure.profile import PLAN, PROFILE, settled, usual_share
from weirlab.measure.progress import OVERHEAD_S, OnProgress, ProgressMeter, trial_s
from weirlab.measure.scouting import ScoutResult, scout_into, scout_specs
from weirlab.measure.sequence import Part, SequenceOutcome, Stopped, kept_plan
from weirlab.measure.terms import USUAL, TrialTerms
from weirlab.model.queueing import QueueingModel
from weirlab.records import TrialSpec
from weirlab.store import Run, RunWriter

ADAPTIVE: Final = "adaptive"
"""Name under which a run keeps what an adaptive profile is to measure."""

ROUNDS: Final = "uncertainty"
"""Name under which a run keeps the uncertainty after each round."""

SURE_SHARE: Final = 0.95
"""Share of the reference settings at which the model has to be sure."""

SURE_ROUNDS: Final = 2
"""Rounds in a row in which it has to be: a small committee may also be sure by luck."""

BATCH_SHARE: Final = 0.2
"""A batch has at least this share of the trials made so far, so that fits do not outweigh trials."""


@dataclass(frozen=True)
class Round:
    """How sure the model is after ``trials`` trials, over the reference settings.

    ``median``, ``most`` (95th percentile) and ``largest`` are standard deviations of
    ln(measured / predicted), noise of the trial apart; ``where`` is the setting of the
    largest. NaN, with the reason as ``where``, while no model can be fitted.
    """

    trials: int
    median: float
    most: float
    largest: float
    where: str


@dataclass(frozen=True)
class AdaptiveOutcome:
    """The outcome of an adaptive profile."""

    outcome: SequenceOutcome
    rounds: tuple[Round, ...]
    grid_trials: int
    """Trials of the grid whose accuracy was the target."""
    target_ratio: float

    @property
    def reached(self) -> bool:
        """Whether the model reached the target."""
        return sure(self.rounds, self.target_ratio)


def measure(
    bed: TestBed,
    adaptive: AdaptivePlan | None,
    writer: RunWriter,
    on_progress: OnProgress | None = None,
    *,
    uncertainty: Uncertainty = committee_and_spread,
    terms: TrialTerms = USUAL,
) -> AdaptiveOutcome:
    """Scout the ends of the range, measure the first settings, then where ``uncertainty`` is largest.

    The run keeps the settings, the scouting, the plan of every round and the uncertainty after
    it, so that an interrupted one can go on: ``adaptive`` may then be None, and one that
    differs from the kept one is refused with ``InputError``. At the end the run has one plan of
    all trials, like any profile, and repeats the trials that were disturbed or made in another
    state of the host than most.
    """
    clock = terms.clocks.seconds
    begun_s = clock()
    before = sum(writer.attempts.values())
    adaptive = settled(ADAPTIVE, AdaptivePlan, adaptive, writer, "adaptive profile")
    if not writer.has(PROFILE):
        writer.put_json(PROFILE, adaptive.grid)
    scouts = scout_specs(adaptive.scouted)
    each_s = adaptive.grid.warmup_s + adaptive.grid.trial_s + OVERHEAD_S
    rest = adaptive.budget - len(scouts)
    meter = ProgressMeter(
        [*map(trial_s, scouts), *([each_s] * rest)],
        clock,
        on_progress,
        share=usual_share(bed),
        budget=terms.budget,
        max_attempts=terms.max_attempts,
    )
    scouting = scout_into(bed, adaptive.scouted, writer, meter=meter, terms=terms)
    planned: list[TrialSpec] = []
    rounds = list(kept_rounds(writer.run))

    def run(
        name: str,
        first_index: int,
        todo: Sequence[TrialSpec] | None,
        meter: ProgressMeter,
        *,
        last: bool = False,
    ) -> SequenceOutcome:
        part = Part("profile", name, first_index, settle=last)
        return sequence.run(bed, todo, writer, part, meter, terms=terms)

    stopped: Stopped = ""
    finished = writer.has(PLAN)
    for number in itertools.count():
        if finished or stopped:
            break
        name = f"round-{number:03d}"
        at = len(scouts) + len(planned)
        if not writer.has(name):
            if number == 0:
                chosen = _placed_by_scouting(first(adaptive), scouting)
            else:
                known = rounds[number - 1] if number <= len(rounds) else None
                found, chosen = _look(adaptive, writer.run, scouting, at, uncertainty, known)
                if known is None:
                    rounds.append(found)
                    writer.put_json(ROUNDS, [vars(each) for each in rounds])
                meter.tell(_told(found, adaptive))
                if not chosen or sure(rounds, adaptive.target_ratio):
                    break
            stopped = run(name, at, specs(adaptive, chosen, scouting, at), meter).stopped
        else:
            stopped = run(name, at, None, meter).stopped
        planned += kept_plan(writer, name).specs
    if finished:
        planned = list(kept_plan(writer, PLAN).specs)
    if stopped == "noise":
        # Without the plan the run goes on choosing when it is resumed.
        everything = SequenceOutcome(len(planned), 0, (), 0.0, stopped)
    else:
        again = ProgressMeter(
            map(trial_s, planned), clock, on_progress, share=meter.share, budget=terms.budget
        )
        everything = run(PLAN, len(scouts), planned, again, last=True)
    made = sum(writer.attempts.values()) - before
    invalid = sequence.without_valid(writer, range(len(scouts))) + everything.invalid
    ended = stopped or everything.stopped
    outcome = SequenceOutcome(len(scouts) + len(planned), made, invalid, clock() - begun_s, ended)
    return AdaptiveOutcome(outcome, tuple(rounds), adaptive.grid_trials, adaptive.target_ratio)


def kept_rounds(run: Run) -> tuple[Round, ...]:
    """The uncertainty after each round of an adaptive profile; none in other runs."""
    return run.get_json(ROUNDS, _rounds) if run.has(ROUNDS) else ()


def _rounds(kept: list[dict[str, Any]]) -> tuple[Round, ...]:
    # JSON has null in place of NaN.
    numbers = ("median", "most", "largest")
    return tuple(
        Round(**{**row, **{name: float("nan") for name in numbers if row[name] is None}}) for row in kept
    )


def sure(rounds: Sequence[Round], target_ratio: float) -> bool:
    """The stopping rule: in each of the last rounds, most of the settings were below the target."""
    last = rounds[-SURE_ROUNDS:]
    return len(last) == SURE_ROUNDS and all(each.most <= target_ratio for each in last)


def _look(
    adaptive: AdaptivePlan,
    run: Run,
    scouting: ScoutResult,
    trials: int,
    uncertainty: Uncertainty,
    known: Round | None,
) -> tuple[Round, list[tuple[Candidate, float]]]:
    """How sure the model is now, and the next batch with the thresholds that place its loads.

    ``known`` is what an earlier session found just before it was interrupted.
    """
    left = adaptive.budget - trials
    count = min(max(adaptive.batch_trials, round(BATCH_SHARE * trials)), left)
    options = candidates(adaptive)
    settings, looked_at = Candidates.of(options), reference(adaptive)
    observations = run.observations("profile")
    try:
        model = QueueingModel.fit(observations)
    except ModelError as error:
        nan = float("nan")
        found = Round(trials, nan, nan, nan, str(error))
        measured = Candidates(*np.empty((3, 0)))
        picked = choose(np.full(len(settings), np.inf), settings, measured, count)
        return known or found, _placed_by_scouting([options[i] for i in picked], scouting)
    both = Candidates(
        *(
            np.concatenate([getattr(settings, name), getattr(looked_at, name)])
            for name in Candidates.__dataclass_fields__
        )
    )
    values = uncertainty(model, observations, both)
    of_settings, of_reference = values[: len(settings)], values[len(settings) :]
    picked = choose(of_settings, settings, measured_settings(model, observations), count)
    thresholds = model.threshold_pps(settings.position, settings.frame_bytes)
    chosen = [(options[i], float(thresholds[i])) for i in picked]
    return known or _summary(trials, looked_at, of_reference), chosen


def _summary(trials: int, settings: Candidates, values: np.ndarray[Any, np.dtype[np.float64]]) -> Round:
    worst = int(np.argmax(values))
    where = (
        f"position {settings.position[worst]:g}, {settings.frame_bytes[worst]:.4g} B, "
        f"load {percent(settings.load_share[worst])} of the threshold"
    )
    median, most = (float(np.quantile(values, q)) for q in (0.5, SURE_SHARE))
    return Round(trials, median, most, float(values[worst]), where)


def _told(found: Round, adaptive: AdaptivePlan) -> str:
    if np.isnan(found.most):
        return f"after {found.trials} trials no model can be fitted yet: {found.where}"
    return (
        f"after {found.trials} trials predictions are known to within {percent(found.most)} at "
        f"{percent(SURE_SHARE)} of the settings (target {percent(adaptive.target_ratio)}), "
        f"worst at {found.where}"
    )


def _placed_by_scouting(
    settings: Sequence[Candidate], scouting: ScoutResult
) -> list[tuple[Candidate, float]]:
    """Settings with thresholds from scouting; between its positions the service time is interpolated."""
    placed = []
    for setting in settings:
        points = sorted(
            (point.position, 1 / point.forwarding_pps)
            for point in scouting.points
            if point.sizes == setting.sizes
        )
        at, service_s = zip(*points, strict=True)
        placed.append((setting, float(1 / np.interp(setting.position, at, service_s))))
    return placed
