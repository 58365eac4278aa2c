"""Publications, repeated: their experiments are measured here, and every published number stands beside ours.

``contract`` says what an experiment is, ``claims`` has the tests that decide claims, ``study`` runs a
reproduction. Each publication has a module of experiments; its numbers are in ``weirlab.publications``.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.report.story import Story
    from weirlab.reproduction.study import ReproductionFindings, ReproductionScenario
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class ReproductionStudy(Study["ReproductionScenario", "Ground[None]", "ReproductionFindings"]):
    """The experiments of one publication, each a run of its own."""

    key = "reproduction"
    title = "the experiments of a publication, measured here"

    def scenario(self) -> type[ReproductionScenario]:
        from weirlab.reproduction.study import ReproductionScenario

        return ReproductionScenario

    def check(self, asked: ReproductionScenario, work: Work) -> None:
        from weirlab.reproduction import study

        study.chosen(asked.reproduction)

    def open(self, asked: ReproductionScenario, work: Work) -> AbstractContextManager[Ground[None]]:
        return nullcontext(
            Ground(None, {"lab": "see its runs", "dut": asked.reproduction.publication, "backend": ""})
        )

    def measure(
        self, ground: Ground[None], asked: ReproductionScenario, writer: RunWriter, work: Work
    ) -> ReproductionFindings:
        from weirlab.reproduction import study

        return study.measured(asked, writer, work)

    def conclude(
        self, run: Run, asked: ReproductionScenario, found: ReproductionFindings
    ) -> ReproductionFindings:
        from weirlab.reproduction import study

        study.keep(run, found)
        return found

    def summarize(self, outcome: Outcome[ReproductionFindings]) -> Summary:
        from weirlab.reproduction import tables

        found = outcome.found
        return Summary(found.sentence, tables.tables(found.rows), "\n".join(found.deviations))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.reproduction import study

        return (study.stored(run).sentence,)

    def page(self, run: Run) -> Story:
        from weirlab.reproduction import page

        return page.page(run)
