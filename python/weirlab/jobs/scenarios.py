"""A scenario of any kind from its file to its report, and going on with an interrupted one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.errors import WeirError
from weirlab.jobs import (
    capacity,
    failover,
    machine,
    modelling,
    monitor,
    profiles,
    reports,
    testbeds,
    verification,
)
from weirlab.jobs.calibrations import CalibrationOutcome, calibrate
from weirlab.jobs.capacity import CapacityOutcome
from weirlab.jobs.failover import FailoverOutcome
from weirlab.jobs.modelling import FitOutcome
from weirlab.jobs.monitor import MonitorOutcome
from weirlab.jobs.profiles import ProfileOutcome
from weirlab.jobs.progress import RESUME, Progress, Quiet, kept
from weirlab.jobs.reports import ReportOutcome
from weirlab.jobs.verification import VerificationOutcome
from weirlab.lab.base import TestBed
from weirlab.measure.verdict import Verdict
from weirlab.scenario import AnyScenario, CapacityScenario, Scenario
from weirlab.scenario.failover import FailoverScenario
from weirlab.scenario.monitor import MonitorScenario
from weirlab.store import RunWriter, Store


@dataclass(frozen=True)
class ScenarioOutcome:
    """Everything that came of a scenario with a profile; None for what it did not ask for."""

    calibration: CalibrationOutcome | None
    profile: ProfileOutcome
    fit: FitOutcome
    verification: VerificationOutcome | None
    report: ReportOutcome | None

    @property
    def verdict(self) -> Verdict | None:
        """On the machine, by all trials; None for a simulated device."""
        return self.profile.verdict if self.verification is None else self.verification.verdict

    def problem(self) -> WeirError | None:
        """The error that it is if the machine was not usable, or the models could not be judged."""
        return self.profile.problem() or (self.verification.problem() if self.verification else None)

    def document(self) -> dict[str, Any]:
        """For ``--json``: one entry per part."""
        parts = {
            "calibration": self.calibration,
            "profile": self.profile,
            "fit": self.fit,
            "verification": self.verification,
            "report": self.report,
        }
        return {
            "kind": "scenario",
            "run_id": self.profile.run.run_id,
            **{name: None if part is None else part.document() for name, part in parts.items()},
        }


AnyOutcome = ScenarioOutcome | CapacityOutcome | FailoverOutcome | MonitorOutcome

KINDS: Final = (profiles.KIND, capacity.KIND, failover.KIND, monitor.KIND)
"""Kinds of runs that scenarios make."""


def run_scenario(
    store: Store,
    scenario: AnyScenario,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    command: str = "",
) -> AnyOutcome:
    """Do what ``scenario`` asks for, from calibration to report.

    ``out`` and ``plots`` go before what the scenario says about the report.
    """
    match scenario:
        case CapacityScenario():
            return capacity.run(store, scenario, progress, out=out, plots=plots, command=command)
        case FailoverScenario():
            return failover.run(store, scenario, progress, out=out, plots=plots, command=command)
        case MonitorScenario():
            return monitor.run(store, scenario, progress, out=out, plots=plots, command=command)
        case Scenario():
            return _run_profile(store, scenario, progress, out, plots, command)


def resume_scenario(
    store: Store, run_id: str, progress: Progress, *, out: Path | None = None, plots: Path | None = None
) -> AnyOutcome:
    """Go on with an interrupted scenario; trials that have a valid attempt are not repeated."""
    kind = store.open(run_id, kind=KINDS).manifest.kind
    if kind == capacity.KIND:
        return capacity.resume(store, run_id, progress, out=out, plots=plots)
    if kind == failover.KIND:
        return failover.resume(store, run_id, progress, out=out, plots=plots)
    if kind == monitor.KIND:
        return monitor.resume(store, run_id, progress, out=out, plots=plots)
    return _resume_profile(store, run_id, progress, out, plots)


def _run_profile(
    store: Store,
    scenario: Scenario,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
    command: str,
) -> ScenarioOutcome:
    """Calibrate, profile, fit, verify and report, as far as ``scenario`` asks for it."""
    profiles.refuse_impossible(scenario)
    reports.foresee(out, plots, scenario.report)
    calibration = None
    if scenario.calibrate is not None and testbeds.choose(scenario.lab, scenario.dut, Quiet()) == "netns":
        calibration = calibrate(store, scenario.lab, scenario.calibrate, progress, command=command)
    with testbeds.open_bed(scenario.lab, scenario.dut, progress, profiles.flows(scenario)) as bed:
        testbeds.tell_if_busy(bed.lab, progress)
        measured = _measure(bed, scenario, lambda: profiles.begin(store, scenario, bed, command), progress)
    return _conclude(scenario, calibration, measured, progress, out, plots)


def _resume_profile(
    store: Store, run_id: str, progress: Progress, out: Path | None, plots: Path | None
) -> ScenarioOutcome:
    run, scenario = profiles.interrupted(store, run_id)
    reports.foresee(out, plots, scenario.report)
    with testbeds.open_bed(scenario.lab, scenario.dut, progress, profiles.flows(scenario)) as bed:
        testbeds.tell_if_busy(bed.lab, progress)
        measured = _measure(bed, scenario, lambda: profiles.go_on(store, run, bed), progress)
    return _conclude(scenario, None, measured, progress, out, plots)


@dataclass(frozen=True)
class _Measured:
    profile: ProfileOutcome
    fit: FitOutcome


def _measure(
    bed: TestBed, scenario: Scenario, begin: Callable[[], RunWriter], progress: Progress
) -> _Measured:
    """Profile, models, and held-out trials: what needs the test bed. ``begin`` makes or reopens the run."""
    profile_s, verify_s = profiles.estimate_s(scenario), machine.held_out_s(scenario, scenario.verify)
    with kept(begin, RESUME) as writer:
        whole = machine.budget(scenario, bed, profile_s + verify_s)
        # What the profile leaves is for the held-out trials, without which there is no verdict on the model.
        part = None if whole is None else whole.part(profile_s / (profile_s + verify_s))
        profile = profiles.measured(bed, scenario, writer, progress, part, RESUME)
        models = modelling.fit_run(writer.run, progress)
        if scenario.verify:
            verification.measure(bed, models, scenario, writer, progress, whole)
    run = writer.run
    return _Measured(profile, FitOutcome(run, models, modelling.path_in(run)))


def _conclude(
    scenario: Scenario,
    calibration: CalibrationOutcome | None,
    measured: _Measured,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
) -> ScenarioOutcome:
    run = measured.profile.run
    verified = verification.score(run, measured.fit.models) if scenario.verify else None
    trials = measured.profile.outcome.trials
    written = reports.at_the_end(run, scenario.report, trials, progress, out, plots)
    return ScenarioOutcome(calibration, measured.profile, measured.fit, verified, written)
