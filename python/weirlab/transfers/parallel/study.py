"""From a scenario to a stored run with conclusions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.interrupts import owned, shielded
from weirlab.base.quantities import plural, words
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import RESUME, passed_on
from weirlab.jobs.work import Work
from weirlab.lab.finding import Finding
from weirlab.measure.terms import TrialClocks
from weirlab.store import Run, RunWriter
from weirlab.studies.contract import Ground, Outcome, Study, Summary
from weirlab.transfers.parallel import campaign, plan
from weirlab.transfers.parallel.bed import OpenBed, ParallelBed, mptcp
from weirlab.transfers.parallel.findings import ParallelFindings
from weirlab.transfers.parallel.section import ParallelScenario, ParallelSection

if TYPE_CHECKING:
    from weirlab.report.story import Story

LACKING: Final = "lacking"
"""The fact of a run that names methods which could not be tried."""


def _in_namespaces(asked: ParallelSection) -> Any:
    from weirlab.lab.doctor import need_namespaces
    from weirlab.transfers.parallel.bed import namespaces

    need_namespaces("emulated paths need")
    return namespaces.opened(asked)


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


class ParallelStudy(Study[ParallelScenario, Ground[ParallelBed], ParallelFindings]):
    """Transfers by every method over every set of paths; ``open_bed`` opens a bed of another kind."""

    key = "parallel"
    title = "parallel sockets, multipath TCP and independent streams over several paths, compared"

    def __init__(self, open_bed: OpenBed | None = None, clocks: TrialClocks | None = None) -> None:
        self._open_bed, self._clocks = open_bed, clocks or TrialClocks()

    def scenario(self) -> type[ParallelScenario]:
        return ParallelScenario

    def checks(self) -> Sequence[Finding]:
        return (mptcp.finding(),)

    def check(self, asked: ParallelScenario, work: Work) -> None:
        campaign.how(asked.parallel)
        for case in asked.parallel.cases:
            for path in case.paths:
                path.with_traces(work.inputs)

    @contextmanager
    @shielded
    def open(self, asked: ParallelScenario, work: Work) -> Iterator[Ground[ParallelBed]]:
        """The bed: what ``self._open_bed`` opens, or two hosts in network namespaces."""
        what = asked.parallel
        with owned(lambda: (self._open_bed or _in_namespaces)(what)) as bed:
            lacking = {method: why for method, why in bed.lacking.items() if method in what.methods}
            if lacking.keys() >= set(what.methods):
                raise MissingCapability("; ".join(f"{plan.named(m)}: {why}" for m, why in lacking.items()))
            facts = {"lab": bed.lab, "dut": "emulated paths", "backend": "tcp", LACKING: lacking}
            yield Ground(bed, facts)

    def measure(
        self, ground: Ground[ParallelBed], asked: ParallelScenario, writer: RunWriter, work: Work
    ) -> ParallelFindings:
        """Make every attempt that the run does not have yet."""
        progress = work.progress
        what = asked.parallel
        # Attempts are numbered by the methods that were there when the run was begun.
        lacking = dict(writer.run.manifest.facts.get(LACKING) or {})
        if gone := sorted(ground.facts[LACKING].keys() - lacking.keys()):
            absent = words([plan.named(method) for method in gone])
            raise InputError(
                f"run {writer.run_id} was begun with {absent}, which is "
                "missing now: resume it on the machine where it was begun, or start a new run"
            )
        for method, why in lacking.items():
            progress.note(f"{plan.named(method)} is left out: {why}")
        planned = plan.plan(what, lacking)
        progress.stage(f"{plural(len(planned), 'transfer')}, run {writer.run_id}")
        attempts = campaign.ParallelCampaign(ground.bed, what, writer, self._clocks, work.inputs)
        attempts.measure(planned, passed_on(progress))
        return stored(writer.run)

    def expected_s(self, asked: ParallelScenario) -> float:
        return plan.estimate_s(plan.plan(asked.parallel), asked.parallel)

    def summarize(self, outcome: Outcome[ParallelFindings]) -> Summary:
        from weirlab.transfers.parallel import tables

        found = outcome.found
        report = "" if outcome.report is None else f"\nReport: {outcome.report.path}"
        return Summary("\n".join(found.sentences()) + report, tables.of(found), "\n".join(found.remarks()))

    def headlines(self, run: Run) -> Sequence[str]:
        found = stored(run)
        return found.sentences() if any(row.valid for row in found.rows) else ()

    def page(self, run: Run) -> Story:
        from weirlab.transfers.parallel.page.story import tell

        found = stored(run)
        if not any(row.valid for row in found.rows):
            raise InputError(
                f"run {run.run_id} was interrupted before any attempt counted: go on with {RESUME} "
                f"{run.run_id}"
            )
        return tell(found, run)
