"""Parallel sockets put to the test over emulated paths, all methods side by side.

``section`` is what a scenario may say, ``plan`` the attempts that follow from it, ``bed`` carries one out in
namespaces, ``campaign`` all of them, ``recording`` makes rows of what was seen, ``findings`` conclusions of
the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.lab.finding import Finding
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome
    from weirlab.transfers.parallel.bed import OpenBed, ParallelBed
    from weirlab.transfers.parallel.findings import ParallelFindings
    from weirlab.transfers.parallel.section import ParallelScenario


class ParallelStudy(Study["ParallelScenario", "Ground[ParallelBed]", "ParallelFindings"]):
    """Transfers by every method over every set of paths; ``open_bed`` opens a bed of another kind."""

    key = "parallel"
    title = "parallel sockets, multipath TCP and independent streams over several paths, compared"

    def __init__(self, open_bed: OpenBed | None = None) -> None:
        self._open_bed = open_bed

    def scenario(self) -> type[ParallelScenario]:
        from weirlab.transfers.parallel.section import ParallelScenario

        return ParallelScenario

    def checks(self) -> Sequence[Finding]:
        from weirlab.transfers.parallel.bed import mptcp

        return (mptcp.finding(),)

    def check(self, asked: ParallelScenario, work: Work) -> None:
        from weirlab.transfers.parallel import campaign

        campaign.how(asked.parallel)
        for case in asked.parallel.cases:
            for path in case.paths:
                path.with_traces(work.inputs)

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.transfers.parallel import study

        found = study.stored(run)
        return found.sentences() if any(row.valid for row in found.rows) else ()

    def open(self, asked: ParallelScenario, work: Work) -> AbstractContextManager[Ground[ParallelBed]]:
        from weirlab.transfers.parallel import study

        return study.opened(asked, work, self._open_bed)

    def measure(
        self, ground: Ground[ParallelBed], asked: ParallelScenario, writer: RunWriter, work: Work
    ) -> ParallelFindings:
        from weirlab.transfers.parallel import study

        return study.measured(ground, asked, writer, work)

    def summarize(self, outcome: Outcome[ParallelFindings]) -> Summary:
        from weirlab.transfers.parallel import tables

        found = outcome.found
        report = "" if outcome.report is None else f"\nReport: {outcome.report.path}"
        return Summary("\n".join(found.sentences()) + report, tables.of(found), "\n".join(found.remarks()))

    def page(self, run: Run) -> Story:
        from weirlab.transfers.parallel import study

        return study.page(run)
