"""How many calls a device carries, measured and predicted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Study, Summary

if TYPE_CHECKING:
    from weirlab.calls.capacity.section import CapacityScenario
    from weirlab.calls.capacity.study import CapacityFindings
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.beds import DeviceGround
    from weirlab.studies.contract import Outcome


class CapacityStudy(Study["CapacityScenario", "DeviceGround", "CapacityFindings"]):
    """A sweep over the number of calls, a search for the most, and what the model says."""

    key = "capacity"
    title = "how many calls a device carries, measured and predicted"

    def scenario(self) -> type[CapacityScenario]:
        from weirlab.calls.capacity.section import CapacityScenario

        return CapacityScenario

    def check(self, asked: CapacityScenario, work: Work) -> None:
        from weirlab.calls.capacity import study

        study.check(asked, work)

    def open(self, asked: CapacityScenario, work: Work) -> AbstractContextManager[DeviceGround]:
        from weirlab.calls.capacity import study

        return study.opened(asked, work)

    def measure(
        self, ground: DeviceGround, asked: CapacityScenario, writer: RunWriter, work: Work
    ) -> CapacityFindings:
        from weirlab.calls.capacity import study

        return study.measured(ground, asked, writer, work)

    def summarize(self, outcome: Outcome[CapacityFindings]) -> Summary:
        from weirlab.calls.capacity import study, tables, wording

        found = study.findings(outcome.run, outcome.found.results)
        return Summary(wording.conclusion(outcome), tables.of(found))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.calls.capacity import study, wording

        return wording.headlines(run, study.found(run))

    def page(self, run: Run) -> Story:
        from weirlab.calls.capacity import study

        return study.page(run)
