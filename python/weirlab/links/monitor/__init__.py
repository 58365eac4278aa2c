"""What a monitor records of a link, and what it costs the link."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.links.monitor.section import MonitorScenario
    from weirlab.links.monitor.study import MonitorFindings
    from weirlab.links.monitor.trials import OpenLab
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class MonitorStudy(Study["MonitorScenario", "Ground[OpenLab]", "MonitorFindings"]):
    """A link monitor put to the test; ``open_lab`` builds a monitored link, by default in namespaces."""

    key = "monitor"
    title = "a link monitor put to the test, compared with tcpdump"

    def __init__(
        self, open_lab: OpenLab | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._open_lab, self._clock = open_lab, clock

    def scenario(self) -> type[MonitorScenario]:
        from weirlab.links.monitor.section import MonitorScenario

        return MonitorScenario

    def check(self, asked: MonitorScenario, work: Work) -> None:
        from weirlab.links.monitor.plan import checked

        checked(asked)

    def open(self, asked: MonitorScenario, work: Work) -> AbstractContextManager[Ground[OpenLab]]:
        from weirlab.links.monitor import study

        return study.opened(asked, work, self._open_lab)

    def measure(
        self, ground: Ground[OpenLab], asked: MonitorScenario, writer: RunWriter, work: Work
    ) -> MonitorFindings:
        from weirlab.links.monitor import study

        return study.measured(ground, asked, writer, work.progress, self._clock)

    def summarize(self, outcome: Outcome[MonitorFindings]) -> Summary:
        from weirlab.links.monitor import tables, wording

        return Summary(wording.conclusion(outcome), tables.groups(outcome.found.groups))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.links.monitor import study

        return study.headlines(run)

    def page(self, run: Run) -> Story:
        from weirlab.links.monitor import study

        return study.page(run)
