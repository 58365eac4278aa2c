"""The report of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from weirlab import files
from weirlab.extras import REPORT as CHARTS
from weirlab.interrupts import behind
from weirlab.jobs import machine
from weirlab.jobs.modelling import models_of
from weirlab.jobs.profiles import KIND, named
from weirlab.jobs.progress import Interrupted, Progress
from weirlab.jobs.stories import STORIES
from weirlab.jobs.verification import errors_of
from weirlab.scenario.model import ReportSection
from weirlab.store import Run, Store, how_recent

REPORT: Final = "report.html"


@dataclass(frozen=True)
class ReportOutcome:
    """What was written."""

    run_id: str
    path: Path
    plots: tuple[Path, ...]

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"kind": "report", "run_id": self.run_id, "path": self.path, "plots": self.plots}


def report(store: Store, run_id: str, *, out: Path | None = None, plots: Path | None = None) -> ReportOutcome:
    """Write the report of ``run_id`` to ``out`` (default: beside the run), and each plot into ``plots``.

    ``last`` is the newest run that has one: a profile, a search, RFC 2544 tests, calls, capacity, failover
    or monitor.
    """
    foresee(out, plots)
    return write(_reportable(store, run_id), out=out, plots=plots)


def foresee(out: Path | None, plots: Path | None, wanted: ReportSection | None = None) -> None:
    """Raise before the first trial for a report that could not be drawn or written at the end.

    What is ``wanted`` by a scenario comes after ``out`` and ``plots``, as in :func:`at_the_end`.
    """
    if wanted is not None or out is not None:
        CHARTS.require()
    page = out or (wanted.out if wanted else None)
    folder = plots or (wanted.plots if wanted else None)
    if page is not None:
        files.check_output(page, "--out" if out else "report.out", makes_folder=True)
    if folder is not None:
        files.check_folder(folder, "--plots" if plots else "report.plots")


def _reportable(store: Store, run_id: str) -> Run:
    recent = how_recent(run_id)
    if recent is None:
        return store.open(run_id)
    kinds = {KIND, *STORIES}
    newest = [found.run_id for found in store.runs() if found.kind in kinds]
    return named(store, run_id) if recent >= len(newest) else store.open(newest[recent])


def at_the_end(
    run: Run,
    wanted: ReportSection | None,
    trials: int,
    progress: Progress,
    out: Path | None,
    plots: Path | None,
) -> ReportOutcome | None:
    """The report of a scenario's ``run`` of so many ``trials``; None if nobody asks for one.

    Raises ``Interrupted``, which says how to get the report later.
    """
    if wanted is None and out is None:
        return None
    progress.stage("writing the report")
    try:
        return write(
            run,
            out=out or (wanted.out if wanted else None),
            plots=plots or (wanted.plots if wanted else None),
        )
    except BaseException as error:
        if not behind(error):
            raise
        raise Interrupted(run.run_id, trials, f"weir report {run.run_id}") from error


def write(run: Run, *, out: Path | None, plots: Path | None) -> ReportOutcome:
    """As :func:`report`, for a run at hand."""
    CHARTS.require()
    target = out or run.path / REPORT
    files.make_folder(target.parent)
    if (told := STORIES.get(run.manifest.kind)) is not None:
        from weirlab.report import story

        what = told(run)
        path = story.build(what, target)
        return ReportOutcome(run.run_id, path, tuple(story.export_plots(what, plots) if plots else ()))
    from weirlab.measure.verdict import undecided
    from weirlab.report import Judgement, Verification, build, export_plots

    models = models_of(run)
    errors = tuple(errors_of(run))
    heldout = run.trials().filter(pl.col("role") == "verify")
    verification = Verification(heldout, errors) if heldout.height else None
    found = machine.judged(run) if run.manifest.kind in (KIND, "verify") else None
    judgement = Judgement(
        machine=found.sentence if found else "",
        good=found is None or found.word == "good",
        undecided=undecided(run) if heldout.height else "",
    )
    path = build(run, models, verification, target, judgement=judgement)
    written = export_plots(run, models, verification, plots) if plots is not None else []
    return ReportOutcome(run.run_id, path, tuple(written))
