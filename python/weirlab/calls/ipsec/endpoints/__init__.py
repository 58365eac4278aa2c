"""Endpoints of calls that bypass the system, and ordinary ones, with ESP: jitter, delay, how many calls go.

``section`` is what a scenario may say, ``plan`` the attempts that follow from it, ``bed`` carries one out
between two namespaces, ``figures`` computes what it showed, ``study`` goes from a scenario to a kept run.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.calls.ipsec.endpoints.bed import EndpointBed, OpenBed
    from weirlab.calls.ipsec.endpoints.findings import EndpointFindings
    from weirlab.calls.ipsec.endpoints.section import EndpointScenario
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class EndpointsStudy(Study["EndpointScenario", "Ground[EndpointBed]", "EndpointFindings"]):
    """Calls by every kind of endpoint in turn; ``weir ipsec endpoints`` is its command.

    ``open_bed`` opens a bed of another kind.
    """

    key = "endpoints"
    title = "endpoints of calls that bypass the system, compared with ordinary ones"

    def __init__(self, open_bed: OpenBed | None = None) -> None:
        self._open_bed = open_bed

    def scenario(self) -> type[EndpointScenario]:
        from weirlab.calls.ipsec.endpoints.section import EndpointScenario

        return EndpointScenario

    def open(self, asked: EndpointScenario, work: Work) -> AbstractContextManager[Ground[EndpointBed]]:
        from weirlab.calls.ipsec.endpoints import study

        return study.opened(asked, self._open_bed)

    def measure(
        self, ground: Ground[EndpointBed], asked: EndpointScenario, writer: RunWriter, work: Work
    ) -> EndpointFindings:
        from weirlab.calls.ipsec.endpoints import study

        return study.measured(ground.bed, asked, writer, work.progress)

    def summarize(self, outcome: Outcome[EndpointFindings]) -> Summary:
        from weirlab.calls.ipsec.endpoints import tables

        found = outcome.found
        return Summary("\n".join(found.sentences()), tables.of(found), "\n".join(found.remarks()))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.calls.ipsec.endpoints import study

        found = study.stored(run)
        return found.sentences() if found.groups else ()

    def page(self, run: Run) -> Story:
        from weirlab.calls.ipsec.endpoints import study

        return study.page(run)
