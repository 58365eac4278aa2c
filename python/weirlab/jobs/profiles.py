"""A profile: measured anew, or gone on with after an interruption."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from weirlab.jobs import testbeds
from weirlab.jobs.calibrations import in_force
from weirlab.jobs.progress import Progress, kept, passed_on
from weirlab.lab.base import TestBed
from weirlab.measure import Outcome
from weirlab.measure import profile as measuring
from weirlab.measure.verify import thresholds
from weirlab.scenario import Scenario, from_plain
from weirlab.store import Run, RunWriter, Store
from weirlab.traffic.sizes import parse_sizes
from weirlab.traffic.spec import Flows

KIND: Final = "profile"


@dataclass(frozen=True)
class ProfileOutcome:
    """A measured profile."""

    run: Run
    outcome: Outcome

    def thresholds(self) -> list[dict[str, Any]]:
        """Measured threshold per rule count and frame size, see :func:`weirlab.measure.verify.thresholds`."""
        return thresholds(self.run.trials().filter(pl.col("role") == "profile")).to_dicts()

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
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
            "thresholds": self.thresholds(),
        }


def profile(store: Store, scenario: Scenario, progress: Progress, *, command: str = "") -> ProfileOutcome:
    """Measure the profile of ``scenario`` as a new run."""
    to_measure(scenario)  # An impossible plan is refused before anything is built.
    with testbeds.open_bed(scenario.lab, scenario.dut, progress) as bed:
        writer = begin(store, scenario, bed, command)
        with kept(writer, f"weir profile --resume {writer.run_id}"):
            outcome = measure(bed, scenario, writer, progress)
    return ProfileOutcome(writer.run, outcome)


def resume_profile(store: Store, run_id: str, progress: Progress) -> ProfileOutcome:
    """Go on with an interrupted profile; trials that have a valid attempt are not repeated."""
    run, scenario = interrupted(store, run_id)
    with testbeds.open_bed(scenario.lab, scenario.dut, progress) as bed:
        writer = go_on(store, run, bed)
        with kept(writer, f"weir profile --resume {run.run_id}"):
            outcome = measure(bed, scenario, writer, progress)
    return ProfileOutcome(writer.run, outcome)


def to_measure(scenario: Scenario) -> measuring.Profile:
    """The plan of ``scenario`` in the terms of ``weirlab.measure``."""
    what, traffic = scenario.profile, scenario.traffic
    return measuring.Profile(
        positions=what.positions,
        sizes=tuple(parse_sizes(text) for text in what.sizes),
        load_shares=what.load_shares,
        repetitions=what.repetitions,
        trial_s=what.trial_s,
        warmup_s=what.warmup_s,
        scout_s=what.scout_s,
        stateful=scenario.dut.stateful,
        flows=flows(scenario),
        arrivals=traffic.arrivals,
        seed=what.seed,
    )


def flows(scenario: Scenario) -> Flows:
    """The flows of every trial of ``scenario``."""
    traffic = scenario.traffic
    return Flows(traffic.flows, traffic.l4, traffic.ip, traffic.order, traffic.seed)


def begin(store: Store, scenario: Scenario, bed: TestBed, command: str, kind: str = KIND) -> RunWriter:
    """A new run for ``scenario`` that holds the calibration in force."""
    calibration = in_force(store, bed)
    writer = store.create(
        kind,
        scenario.model_dump(mode="json"),
        testbeds.facts(bed, command),
        calibration=calibration.id if calibration else None,
    )
    if calibration is not None:
        writer.put_json("calibration", calibration.to_json())
    return writer


def named(store: Store, run_id: str) -> Run:
    """The run ``run_id``, where ``last`` means the newest profile."""
    return store.open(run_id, kind=KIND) if run_id == "last" else store.open(run_id)


def interrupted(store: Store, run_id: str) -> tuple[Run, Scenario]:
    """The profile run ``run_id`` and its scenario, to go on with."""
    run = store.open(run_id, kind=KIND)
    manifest = run.manifest
    return run, from_plain(manifest.scenario, f"scenario of run {run.run_id}")


def go_on(store: Store, run: Run, bed: TestBed) -> RunWriter:
    """Take up writing ``run`` in ``bed``, if that is the bed it was begun in."""
    testbeds.require_same(bed, run.manifest.facts, run.run_id)
    return store.resume(run.run_id)


def measure(bed: TestBed, scenario: Scenario, writer: RunWriter, progress: Progress) -> Outcome:
    """Measure the profile of ``scenario`` into the run of ``writer``, or the rest of it."""
    plan = None if writer.has(measuring.PROFILE) else to_measure(scenario)
    progress.stage(f"profiling {bed.dut} in the lab {bed.lab}, run {writer.run_id}")
    attempts = scenario.profile.max_attempts
    return measuring.measure(bed, plan, writer, passed_on(progress), max_attempts=attempts)
