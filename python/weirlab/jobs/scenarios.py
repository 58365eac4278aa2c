"""A scenario from calibration to report, and going on with an interrupted one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab.jobs import modelling, profiles, reports, testbeds, verification
from weirlab.jobs.calibrations import CalibrationOutcome, calibrate
from weirlab.jobs.modelling import FitOutcome
from weirlab.jobs.profiles import ProfileOutcome
from weirlab.jobs.progress import Interrupted, Progress, Quiet, kept
from weirlab.jobs.reports import ReportOutcome
from weirlab.jobs.verification import VerificationOutcome
from weirlab.lab.base import TestBed
from weirlab.scenario import Scenario
from weirlab.store import RunWriter, Store


@dataclass(frozen=True)
class ScenarioOutcome:
    """Everything that came of a scenario; None for what it did not ask for."""

    calibration: CalibrationOutcome | None
    profile: ProfileOutcome
    fit: FitOutcome
    verification: VerificationOutcome | None
    report: ReportOutcome | None

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


def run_scenario(
    store: Store,
    scenario: Scenario,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    command: str = "",
) -> ScenarioOutcome:
    """Calibrate, profile, fit, verify and report, as far as ``scenario`` asks for it.

    ``out`` and ``plots`` go before what the scenario says about the report.
    """
    profiles.refuse_impossible(scenario)
    calibration = None
    if scenario.calibrate is not None and testbeds.choose(scenario.lab, scenario.dut, Quiet()) == "netns":
        calibration = calibrate(store, scenario.lab, scenario.calibrate, progress, command=command)
    with testbeds.open_bed(scenario.lab, scenario.dut, progress) as bed:
        testbeds.tell_if_busy(bed.lab, progress)
        writer = profiles.begin(store, scenario, bed, command)
        measured = _measure(bed, scenario, writer, progress)
    return _conclude(scenario, calibration, measured, progress, out, plots)


def resume_scenario(
    store: Store, run_id: str, progress: Progress, *, out: Path | None = None, plots: Path | None = None
) -> ScenarioOutcome:
    """Go on with an interrupted scenario; trials that have a valid attempt are not repeated."""
    run, scenario = profiles.interrupted(store, run_id)
    with testbeds.open_bed(scenario.lab, scenario.dut, progress) as bed:
        testbeds.tell_if_busy(bed.lab, progress)
        writer = profiles.go_on(store, run, bed)
        measured = _measure(bed, scenario, writer, progress)
    return _conclude(scenario, None, measured, progress, out, plots)


@dataclass(frozen=True)
class _Measured:
    profile: ProfileOutcome
    fit: FitOutcome


def _measure(bed: TestBed, scenario: Scenario, writer: RunWriter, progress: Progress) -> _Measured:
    """Profile, models, and held-out trials: what needs the test bed."""
    with kept(writer, f"weir run --resume {writer.run_id}"):
        profile = profiles.measured(bed, scenario, writer, progress)
        progress.stage("fitting the models")
        models = modelling.fit_run(writer.run)
        if scenario.verify:
            verification.measure(bed, models, scenario, writer, progress)
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
    written = None
    if scenario.report is not None or out is not None:
        section = scenario.report
        progress.stage("writing the report")
        try:
            written = reports.write(
                run,
                out=out or (section.out if section else None),
                plots=plots or (section.plots if section else None),
            )
        except KeyboardInterrupt as error:
            trials = measured.profile.outcome.trials
            raise Interrupted(run.run_id, trials, f"weir report {run.run_id}") from error
    return ScenarioOutcome(calibration, measured.profile, measured.fit, verified, written)
