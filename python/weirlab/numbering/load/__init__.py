"""How many calls per second the engines of a numbering plan set up.

``counted`` reads SIPp's statistics, ``trials`` searches, ``study`` goes from a scenario to a stored run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.numbering.load.findings import LoadFindings
    from weirlab.numbering.load.study import LoadBed, OpenLoadLab
    from weirlab.numbering.section import LoadScenario
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class VoiceLoadStudy(Study["LoadScenario", "Ground[LoadBed]", "LoadFindings"]):
    """Searches for the highest rate of calls with short set-up times; its command is ``weir voice load``.

    ``open_lab`` opens the lab; by default, it has real engines in namespaces.
    """

    key = "voice_load"
    title = "how many calls per second the engines of a numbering plan set up"

    def __init__(self, open_lab: OpenLoadLab | None = None) -> None:
        self._open_lab = open_lab

    def scenario(self) -> type[LoadScenario]:
        from weirlab.numbering.section import LoadScenario

        return LoadScenario

    def check(self, asked: LoadScenario, work: Work) -> None:
        from weirlab.numbering.load import study

        study.checked(asked, work.inputs)

    def open(self, asked: LoadScenario, work: Work) -> AbstractContextManager[Ground[LoadBed]]:
        from weirlab.numbering.load import study

        return study.opened(asked, work, self._open_lab)

    def measure(
        self, ground: Ground[LoadBed], asked: LoadScenario, writer: RunWriter, work: Work
    ) -> LoadFindings:
        from weirlab.numbering.load import study

        return study.measured(ground, asked, writer, work.progress)

    def summarize(self, outcome: Outcome[LoadFindings]) -> Summary:
        from weirlab.numbering.load import tables

        found = outcome.found
        listed = (tables.limits(found), tables.not_loaded(found), tables.trials(found), tables.through(found))
        return Summary(found.sentence, [*filter(None, listed)])

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.numbering.load import study

        found = study.stored(run)
        return (found.sentence,) if found.limits else ()

    def page(self, run: Run) -> Story:
        from weirlab.numbering.load import study

        return study.page(run)
