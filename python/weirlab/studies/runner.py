"""Running and resuming scenarios of any kind, up to the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from weirlab.base.errors import InputError, TrialError
from weirlab.base.files import NO_FILES, Inputs
from weirlab.jobs import testbeds
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import RESUME, Progress, kept, prepared
from weirlab.jobs.work import Work
from weirlab.measure.profile import PLAN
from weirlab.scenario.load import refuse_files
from weirlab.scenario.model import ReportSection, Root
from weirlab.store import Run, RunWriter, Store
from weirlab.studies import reports
from weirlab.studies.contract import A, F, G, Outcome, Study
from weirlab.studies.registry import SCENARIO, providing, studies, study_of


def run(
    study: Study[A, G, F], asked: A, work: Work, *, out: Path | None = None, plots: Path | None = None
) -> Outcome[F]:
    """Measure what ``asked`` asks for, as a new run, and write its report.

    ``out`` and ``plots`` override what the scenario says about the report.

    Raises
    ------
    InputError
        It cannot be carried out, or names a file that may not be opened; nothing was built.
    MissingCapability, LabError
        The bed cannot be built, or the packages that draw the report are missing.
    """
    _check(study, asked, work)
    reports.foresee(out, plots, _report(study, asked, out, plots))
    with study.open(asked, work) as ground:
        measured = _measured(study, ground, asked, lambda: _begin(study, ground, asked, work), work)
    return _concluded(study, asked, *measured, work.progress, out, plots)


def resume(
    study: Study[A, G, F], run_id: str, work: Work, *, out: Path | None = None, plots: Path | None = None
) -> Outcome[F]:
    """Resume an interrupted run; trials with a valid attempt are not repeated."""
    store = work.store
    begun = store.open(run_id, kind=study.key)
    root = study.scenario()
    if root is None:
        raise InputError(f"run {begun.run_id} cannot be resumed: start a new one")
    asked = scenario_of(begun, root)
    work = replace(work, begun=begun)
    _check(study, asked, work)
    reports.foresee(out, plots, _report(study, asked, out, plots))
    with study.open(asked, work) as ground:
        testbeds.require_same(ground.facts, begun.manifest.facts, begun.run_id)
        measured = _measured(study, ground, asked, lambda: store.resume(begun.run_id), work)
    return _concluded(study, asked, *measured, work.progress, out, plots)


def run_scenario(
    store: Store,
    asked: Root,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    command: str = "",
    inputs: Inputs = NO_FILES,
) -> Outcome[Any]:
    """As :func:`run`, by the study that ``asked`` is for; ``inputs`` opens the files that it names."""
    if asked.KEY not in studies():
        raise InputError(
            f"no installed study has the key {asked.KEY!r}, which is the KEY of {type(asked).__name__}"
        )
    return run(
        studies()[asked.KEY], asked, Work(store, progress, command, inputs=inputs), out=out, plots=plots
    )


def resume_scenario(
    store: Store,
    run_id: str,
    progress: Progress,
    *,
    out: Path | None = None,
    plots: Path | None = None,
    inputs: Inputs = NO_FILES,
) -> Outcome[Any]:
    """As :func:`resume`, by the study that made the run; ``last`` is the newest run of any scenario."""
    run = _of_a_scenario(store, run_id)
    return resume(study_of(run), run.run_id, Work(store, progress, inputs=inputs), out=out, plots=plots)


def begun(store: Store, run_id: str) -> tuple[str, Root]:
    """The ID and the scenario of the run that :func:`resume_scenario` would resume."""
    run = _of_a_scenario(store, run_id)
    root = study_of(run).scenario()
    assert root is not None
    return run.run_id, scenario_of(run, root)


def _of_a_scenario(store: Store, run_id: str) -> Run:
    return store.open(run_id, kind=providing(SCENARIO))


def _check(study: Study[A, G, F], asked: A, work: Work) -> None:
    refuse_files(asked, work.inputs)
    study.check(asked, work)


def _begin(study: Study[A, G, F], ground: G, asked: A, work: Work) -> RunWriter:
    """A new run that stores the calibration in force."""
    facts = {**ground.facts, "command": work.command} if work.command else ground.facts
    calibration = ground.calibration
    writer = work.store.create(
        study.key,
        asked.model_dump(mode="json"),
        facts,
        calibration=None if calibration is None else calibration.id,
    )
    if calibration is None:
        return writer
    return prepared(writer, lambda new: new.put_json("calibration", calibration))


def _measured(
    study: Study[A, G, F], ground: G, asked: A, begin: Callable[[], RunWriter], work: Work
) -> tuple[Run, F]:
    with kept(begin, RESUME) as writer:
        found = study.measure(ground, asked, writer, work)
    return writer.run, found


def _concluded(
    study: Study[A, G, F],
    asked: A,
    run: Run,
    measured: F,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
) -> Outcome[F]:
    found = study.conclude(run, asked, measured)
    if not run.has(PLAN) and isinstance(problem := found.problem(run), TrialError):
        # A profile is judged apart from what was measured afterwards.
        run.judge(str(problem))
    wanted = _report(study, asked, out, plots)
    return Outcome(study, run, found, reports.at_the_end(run, wanted, progress, out, plots))


def _report(study: Study[A, G, F], asked: A, out: Path | None, plots: Path | None) -> ReportSection | None:
    """The report section of ``asked``; None if the study has no pages, in which case ``out`` is refused."""
    if study.has("page"):
        return asked.report
    if out is not None or plots is not None:
        option = "--plots" if out is None else "--out"
        raise InputError(f"{option}: there is no report about runs of the kind {study.key!r}; leave it out")
    return None
