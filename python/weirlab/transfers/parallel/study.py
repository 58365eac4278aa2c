"""From a scenario to a stored run with conclusions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.interrupts import owned, shielded
from weirlab.base.quantities import plural, words
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import RESUME, passed_on
from weirlab.jobs.work import Work
from weirlab.measure.terms import TrialClocks
from weirlab.store import Run, RunWriter
from weirlab.studies.contract import Ground
from weirlab.transfers.parallel import campaign, plan
from weirlab.transfers.parallel.bed import OpenBed, ParallelBed
from weirlab.transfers.parallel.findings import ParallelFindings
from weirlab.transfers.parallel.section import ParallelScenario, ParallelSection

if TYPE_CHECKING:
    from weirlab.report.story import Story

LACKING: Final = "lacking"
"""The fact of a run that names methods which could not be tried."""


@contextmanager
@shielded
def opened(asked: ParallelScenario, work: Work, open_bed: OpenBed | None) -> Iterator[Ground[ParallelBed]]:
    """The bed: what ``open_bed`` opens, or two hosts in network namespaces."""
    what = asked.parallel
    with owned(lambda: (open_bed or _in_namespaces)(what)) as bed:
        lacking = {method: why for method, why in bed.lacking.items() if method in what.methods}
        if lacking.keys() >= set(what.methods):
            raise MissingCapability("; ".join(f"{plan.named(m)}: {why}" for m, why in lacking.items()))
        facts = {"lab": bed.lab, "dut": "emulated paths", "backend": "tcp", LACKING: lacking}
        yield Ground(bed, facts)


def _in_namespaces(asked: ParallelSection) -> Any:
    from weirlab.lab.doctor import need_namespaces
    from weirlab.transfers.parallel.bed import namespaces

    need_namespaces("emulated paths need")
    return namespaces.opened(asked)


def measured(
    ground: Ground[ParallelBed],
    asked: ParallelScenario,
    writer: RunWriter,
    work: Work,
    clocks: TrialClocks | None = None,
) -> ParallelFindings:
    """Make every attempt that the run does not have yet."""
    progress = work.progress
    what = asked.parallel
    # Attempts are numbered by the methods that were there when the run was begun.
    lacking = dict(writer.run.manifest.facts.get(LACKING) or {})
    if gone := sorted(ground.facts[LACKING].keys() - lacking.keys()):
        raise InputError(
            f"run {writer.run_id} was begun with {words([plan.named(method) for method in gone])}, which is "
            "missing now: resume it on the machine where it was begun, or start a new run"
        )
    for method, why in lacking.items():
        progress.note(f"{plan.named(method)} is left out: {why}")
    planned = plan.plan(what, lacking)
    progress.stage(f"{plural(len(planned), 'transfer')}, run {writer.run_id}")
    attempts = campaign.ParallelCampaign(ground.bed, what, writer, clocks or TrialClocks(), work.inputs)
    attempts.measure(planned, passed_on(progress))
    return stored(writer.run)


def stored(run: Run) -> ParallelFindings:
    """The findings of a run, finished or not."""
    what = scenario_of(run, ParallelScenario).parallel
    lacking = dict(run.manifest.facts.get(LACKING) or {})
    planned = plan.plan(what, lacking)
    rows = campaign.rows(run)
    valid = {(row.case, row.method, row.path, row.repetition) for row in rows if row.valid}
    return ParallelFindings(
        rows=tuple(rows),
        methods=tuple(what.methods),
        cases=tuple(case.name for case in what.every_case()),
        planned=len(planned),
        missing=tuple(each.text for each in planned if each.key not in valid),
        lacking=lacking,
    )


def page(run: Run) -> Story:
    """The page about ``run``."""
    from weirlab.transfers.parallel.page import tell

    found = stored(run)
    if not any(row.valid for row in found.rows):
        raise InputError(
            f"run {run.run_id} was interrupted before any attempt counted: go on with {RESUME} {run.run_id}"
        )
    return tell(found, run)
