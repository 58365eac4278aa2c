"""Profiles: measuring a new one, or resuming one after an interruption."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from weirlab.base.errors import TrialError
from weirlab.base.files import NO_FILES, Inputs
from weirlab.jobs import machine, spoiled, testbeds
from weirlab.jobs.calibrations import in_force
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import Progress, SilentProgress, kept, passed_on, prepared
from weirlab.lab.base import TestBed
from weirlab.measure import SequenceOutcome
from weirlab.measure import profile as measuring
from weirlab.measure.attempts import Budget
from weirlab.measure.plan.grid import Extras
from weirlab.measure.progress import OVERHEAD_S
from weirlab.measure.thresholds import rates
from weirlab.measure.verdict import MachineVerdict, coverage
from weirlab.records import SIMULATION, device_in_words
from weirlab.scenario import OptionValue, Root, Scenario, from_options
from weirlab.store import Run, RunWriter, Store, how_recent
from weirlab.traffic.load import LOAD_SHARES, LOAD_STRIDE
from weirlab.traffic.places import parse_places
from weirlab.traffic.sizes import describe, parse_sizes
from weirlab.traffic.spec import Flows

if TYPE_CHECKING:
    from weirlab.measure.adaptive import AdaptiveOutcome, AdaptivePlan

KIND: Final = "profile"

_RESUME: Final = "weir profile --resume"


@dataclass(frozen=True)
class ProfileOutcome:
    """A measured profile."""

    run: Run
    outcome: SequenceOutcome
    adaptive: AdaptiveOutcome | None = None
    """How certain the model became, if the trials were chosen adaptively."""
    verdict: MachineVerdict | None = None
    """The verdict on the machine; None for a simulated device."""

    @property
    def left(self) -> bool:
        """Whether a resumed run would measure something."""
        if self.adaptive is not None:
            return self.outcome.stopped == "time"
        return coverage(self.run, measuring.PLAN, self.run.trials()).missing > 0

    def problem(self) -> TrialError | None:
        """The error if the machine was not usable, else None."""
        if len(self.outcome.invalid) == self.outcome.trials:
            return spoiled.problem(self.run, KIND)
        if self.verdict is None or not self.verdict.refusal:
            return None
        return TrialError(f"run {self.run.run_id} does not count: {self.verdict.refusal}")

    @cached_property
    def rates(self) -> dict[str, list[dict[str, Any]]]:
        """Measured threshold per rule count and frame size, and what belongs to it."""
        return rates(self.run.trials().filter(pl.col("role") == "profile"))

    def thresholds(self) -> list[dict[str, Any]]:
        """Measured threshold per rule count and frame size, see :mod:`weirlab.measure.thresholds`."""
        return self.rates["thresholds"]

    def document(self) -> dict[str, Any]:
        outcome = self.outcome
        return {
            "kind": "profile",
            "run_id": self.run.run_id,
            "path": self.run.path,
            "calibration": self.run.manifest.calibration,
            "trials": outcome.trials,
            "attempts": outcome.attempts,
            "without_valid_attempt": outcome.invalid,
            "elapsed_s": outcome.elapsed_s,
            "time_used_up": outcome.stopped == "time",
            "machine": None if self.verdict is None else self.verdict.document(),
            **self.rates,
            **({} if self.adaptive is None else {"adaptive": _adaptive_document(self.adaptive)}),
        }


@dataclass(frozen=True)
class ProfileTerms:
    """What a command leaves to the device, once it is there, and what it demands of it."""

    unnamed: bool = False
    """The run is named after the device."""
    any_size: bool = False
    """Frames may be longer than the scenario says, as those that the user's rules take."""
    real: bool = False
    """``TrialError`` is raised before the first trial if the device turns out to be emulated."""


AS_SCENARIO: Final = ProfileTerms()


def profile(
    store: Store,
    scenario: Scenario,
    progress: Progress,
    *,
    command: str = "",
    inputs: Inputs = NO_FILES,
    terms: ProfileTerms = AS_SCENARIO,
) -> ProfileOutcome:
    """Measure the profile of ``scenario`` as a new run; ``inputs`` opens the files that the device needs."""
    refuse_impossible(scenario)
    sizes = to_measure(scenario).sizes
    lab, dut = scenario.lab, scenario.dut
    checked = () if terms.any_size else sizes
    with testbeds.open_bed(lab, dut, progress, flows(scenario), sizes=checked, inputs=inputs) as bed:
        testbeds.tell_if_busy(bed.lab, progress)
        if terms.real:
            machine.refuse_emulated(testbeds.facts(bed), bed.dut)
        if terms.any_size:
            longer = tuple(map(describe, testbeds.roomy(bed, flows(scenario), sizes)))
            section = scenario.profile.model_copy(update={"sizes": longer})
            scenario = scenario.model_copy(update={"profile": section})
        if terms.unnamed:
            scenario = scenario.model_copy(update={"name": f"profile of {device_in_words(bed.dut)}"})
        with kept(lambda: begin(store, scenario, bed, command), _RESUME) as writer:
            return measured(bed, scenario, writer, progress)


def resume_profile(
    store: Store,
    run_id: str,
    progress: Progress,
    *,
    time_budget: str | None = None,
    inputs: Inputs = NO_FILES,
) -> ProfileOutcome:
    """Resume an interrupted profile; trials that have a valid attempt are not repeated.

    ``time_budget`` is for the remaining trials; None: the budget with which the run was begun.
    """
    run, scenario = interrupted(store, run_id)
    if time_budget is not None:
        changed = {
            **scenario.model_dump(mode="json"),
            "time_budget": OptionValue("--time-budget", time_budget),
        }
        scenario = from_options(changed)
    lab, dut = scenario.lab, scenario.dut
    with testbeds.open_bed(lab, dut, progress, flows(scenario), inputs=inputs) as bed:
        testbeds.tell_if_busy(bed.lab, progress)
        with kept(lambda: go_on(store, run, bed), _RESUME) as writer:
            return measured(bed, scenario, writer, progress)


def to_measure(scenario: Scenario, bed: TestBed | None = None) -> measuring.Profile:
    """The plan of ``scenario`` in the terms of ``weirlab.measure``; for ``bed``, if it is there already."""
    what, traffic = scenario.profile, scenario.traffic
    return measuring.Profile(
        positions=what.positions if bed is None else testbeds.positions(bed, what.positions),
        sizes=tuple(parse_sizes(text) for text in what.sizes),
        load_shares=what.load_shares,
        load_stride=what.load_stride or (LOAD_STRIDE if what.load_shares == LOAD_SHARES else 1),
        repetitions=machine.repetitions(scenario, what.repetitions),
        trial_s=what.trial_s,
        warmup_s=what.warmup_s,
        scout_s=what.scout_s,
        stateful=scenario.dut.stateful,
        flows=flows(scenario),
        new_shares=what.new,
        arrivals=traffic.arrivals,
        seed=what.seed,
        cross_traffic=what.cross_traffic == (True,),
        extras=_extras(scenario),
    )


def _extras(scenario: Scenario) -> Extras:
    """The trials that ``scenario`` requests besides the grid."""
    what = scenario.profile
    return Extras(
        position=what.extra_position,
        stateful=True in what.stateful,
        cross_traffic=True in what.cross_traffic,
        mixed=tuple(parse_places(text) for text in what.mixed),
        arrivals=what.arrivals,
        rate_step=what.rate_step,
        position_step=what.position_step,
        load_shares=what.extra_shares,
    )


def flows(scenario: Scenario) -> Flows:
    """The flows of every trial of ``scenario``."""
    return scenario.traffic.demand()


def begin(store: Store, scenario: Root, bed: TestBed, command: str, kind: str = KIND) -> RunWriter:
    """A new run for ``scenario`` that holds the calibration in force."""
    calibration = in_force(store, bed)
    writer = store.create(
        kind,
        scenario.model_dump(mode="json"),
        testbeds.facts(bed, command),
        calibration=calibration.id if calibration else None,
    )
    if calibration is None:
        return writer
    return prepared(writer, lambda new: new.put_json("calibration", calibration))


def named(store: Store, run_id: str) -> Run:
    """The run ``run_id``; ``last`` is the newest profile and ``last~1`` the one before it."""
    return store.open(run_id) if how_recent(run_id) is None else store.open(run_id, kind=KIND)


def interrupted(store: Store, run_id: str) -> tuple[Run, Scenario]:
    """The profile run ``run_id`` and its scenario, to resume it."""
    run = store.open(run_id, kind=KIND)
    return run, scenario_of(run, Scenario)


def go_on(store: Store, run: Run, bed: TestBed) -> RunWriter:
    """Resume writing ``run``; raises ``InputError`` if it was begun in another bed than ``bed``."""
    testbeds.require_same(testbeds.facts(bed), run.manifest.facts, run.run_id)
    return store.resume(run.run_id)


def refuse_impossible(scenario: Scenario) -> None:
    """Raise ``InputError`` for a plan that cannot be carried out, before anything is built."""
    grid = to_measure(scenario)
    if scenario.profile.adaptive is not None:
        _adaptive(scenario, grid)
    elif scenario.time_budget and testbeds.choose(scenario.lab, scenario.dut, SilentProgress()) != SIMULATION:
        machine.refuse_short_budget(scenario, measuring.expected(grid))


def measured(
    bed: TestBed,
    scenario: Scenario,
    writer: RunWriter,
    progress: Progress,
    whole: Budget | None = None,
    resume: str = _RESUME,
) -> ProfileOutcome:
    """Measure the profile of ``scenario``, or the rest of it, into the run of ``writer``.

    Raises ``StoppedEarly`` if the host spoils almost everything. The time counts against the budget of the
    ``whole`` scenario; None: the profile is the whole of it.
    """
    progress.stage(f"profiling {device_in_words(bed.dut)} in the lab {bed.lab}, run {writer.run_id}")
    begun = writer.has(measuring.PROFILE)
    expected_s = estimate_s(scenario)
    budget = whole or machine.budget(scenario, bed, expected_s)
    terms = machine.terms(scenario, budget)
    if machine.noisy(scenario):
        progress.note(f"for a noisy machine: {machine.noise_in_words()}")
    if not begun:
        progress.note(_foretold(scenario, bed, expected_s, budget))
    told = passed_on(progress)
    chosen: AdaptiveOutcome | None = None
    if scenario.profile.adaptive is not None:
        from weirlab.measure import adaptive

        wanted = None if writer.has(adaptive.ADAPTIVE) else _adaptive(scenario, to_measure(scenario, bed))
        chosen = adaptive.measure(bed, wanted, writer, told, terms=terms)
        outcome = chosen.outcome
    else:
        outcome = measuring.measure(
            bed, None if begun else to_measure(scenario, bed), writer, told, terms=terms
        )
    machine.give_up(writer.run, outcome, KIND)
    found = machine.judged(writer.run, resume)
    writer.run.judge("" if found is None else found.refusal)
    return ProfileOutcome(writer.run, outcome, chosen, found)


def estimate_s(scenario: Scenario) -> float:
    """Expected wall time in s of the profile of ``scenario``, including repetitions of spoiled trials."""
    grid = to_measure(scenario)
    if scenario.profile.adaptive is None:
        return measuring.estimate_s(grid)
    each_s = grid.warmup_s + grid.trial_s + OVERHEAD_S
    return measuring.REPEATED * _adaptive(scenario, grid).budget * each_s


def _foretold(scenario: Scenario, bed: TestBed, expected_s: float, budget: Budget | None) -> str:
    """The number of trials and how long they take, in words."""
    grid = to_measure(scenario)
    chosen = scenario.profile.adaptive is not None
    trials = _adaptive(scenario, grid).budget if chosen else len(measuring.expected(grid))
    return machine.foretold(f"{'at most ' if chosen else ''}{trials:,} trials", bed, expected_s, budget)


def _adaptive(scenario: Scenario, grid: measuring.Profile) -> AdaptivePlan:
    from weirlab.measure.adaptive import AdaptivePlan

    section = scenario.profile.adaptive
    assert section is not None
    return AdaptivePlan(grid, section.budget, section.target, section.batch)


def _adaptive_document(outcome: AdaptiveOutcome) -> dict[str, Any]:
    """For ``--json``: how certain the model is after each round."""
    return {
        "reached": outcome.reached,
        "target_ratio": outcome.target_ratio,
        "grid_trials": outcome.grid_trials,
        "rounds": outcome.rounds,
    }
