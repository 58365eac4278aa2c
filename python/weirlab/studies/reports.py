"""The report of a run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.base.extras import REPORT as CHARTS
from weirlab.base.interrupts import behind
from weirlab.jobs.progress import Progress, RunInterrupt
from weirlab.report.export import Page, ReportOutcome, sketch, write_figures
from weirlab.report.story import Story
from weirlab.scenario.model import ReportSection
from weirlab.store import Run, Store, how_recent
from weirlab.store.summary import REPORT, SKETCH
from weirlab.studies.registry import PAGE, providing, study_of


def report(store: Store, run_id: str, *, out: Path | None = None, plots: Path | None = None) -> ReportOutcome:
    """Write the report of ``run_id`` to ``out`` (default: beside the run), and each plot into ``plots``.

    ``last`` is the newest run that has one.
    """
    foresee(out, plots)
    return write(_reportable(store, run_id), out=out, plots=plots)


def foresee(out: Path | None, plots: Path | None, wanted: ReportSection | None = None) -> None:
    """Raise, before the first trial, if the report could not be drawn or written at the end.

    ``out`` and ``plots`` override what is ``wanted`` by a scenario, as in :func:`at_the_end`.
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
    return store.open(run_id, kind=None if how_recent(run_id) is None else providing(PAGE))


def at_the_end(
    run: Run, wanted: ReportSection | None, progress: Progress, out: Path | None, plots: Path | None
) -> ReportOutcome | None:
    """Write the report of a scenario's ``run``; None if no report is requested.

    Raises ``RunInterrupt``, which says how to get the report later.
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
        trials = run.manifest.trials
        valid = trials - (run.manifest.invalid or 0) if trials else None
        raise RunInterrupt(run.run_id, valid, f"weir report {run.run_id}") from error


def write(run: Run, *, out: Path | None, plots: Path | None) -> ReportOutcome:
    """As :func:`report`, for a run that is already open."""
    page = page_of(run)
    if out is None and isinstance(page, Story) and page.opening is not None and page.opening.drawn:
        # A list does without a chart that cannot be drawn small.
        with suppress(ValueError):
            files.write_bytes(run.path / SKETCH, sketch(page.opening.drawn[0]))
    target = out or run.path / REPORT
    files.make_folder(target.parent)
    files.write_bytes(target, page.html().encode())
    written = () if plots is None else write_figures(page.figures, plots, source=page.source)
    return ReportOutcome(run.run_id, target, tuple(written))


def page_of(run: Run) -> Page:
    """The page about ``run``; raises ``InputError`` if there is none, or nothing to show on it."""
    CHARTS.require()
    study = study_of(run)
    page = study.page(run)
    if page is None:
        raise InputError(f"there is no report about runs of the kind {run.manifest.kind!r}: see weir show")
    if isinstance(page, Story) and study.key == run.manifest.kind:
        return replace(page, purpose=study.title)
    return page
