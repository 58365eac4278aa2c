"""Trials at listed settings, each as often as the others: for a question that no other study asks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Study, Summary

if TYPE_CHECKING:
    from weirlab.devices.series.study import ListedTrials, SeriesScenario
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.beds import DeviceGround
    from weirlab.studies.contract import Measure, Outcome


class SeriesStudy(Study["SeriesScenario", "DeviceGround", "ListedTrials"]):
    """A series of trials."""

    key = "series"
    title = "trials at listed settings, to compare them"

    def scenario(self) -> type[SeriesScenario]:
        from weirlab.devices.series.study import SeriesScenario

        return SeriesScenario

    def check(self, asked: SeriesScenario, work: Work) -> None:
        from weirlab.devices.series import study

        study.refuse_impossible(asked)

    def open(self, asked: SeriesScenario, work: Work) -> AbstractContextManager[DeviceGround]:
        from weirlab.devices.series import study

        return study.opened(asked, work)

    def measure(
        self, ground: DeviceGround, asked: SeriesScenario, writer: RunWriter, work: Work
    ) -> ListedTrials:
        from weirlab.devices.series import study

        return study.measured(ground, asked, writer, work.progress)

    def summarize(self, outcome: Outcome[ListedTrials]) -> Summary:
        found = outcome.found
        return Summary(found.sentence, found.tables)

    def expected_s(self, asked: SeriesScenario) -> float:
        from weirlab.measure.progress import estimate_s

        return estimate_s(asked.specs())

    def measures(self, run: Run) -> Sequence[Measure]:
        from weirlab.devices.series import study

        return study.stored(run).measures

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.devices.series import study

        return (study.stored(run).sentence,)

    def page(self, run: Run) -> Story:
        from weirlab.devices.series import study

        return study.page(run)
