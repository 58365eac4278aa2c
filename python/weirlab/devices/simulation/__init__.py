"""A sweep of simulated loads: a measured device at every combination of rules, rates and frame sizes.

``section`` is what a scenario may say, ``rows`` what is stored, ``findings`` what it shows; ``study`` goes
through the points, ``carrying`` hands them to threads or to a cluster, and ``simulators`` simulates one.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Measure, Study, Summary

if TYPE_CHECKING:
    from weirlab.devices.simulation.findings import SimulationFindings
    from weirlab.devices.simulation.points import PointCarrier
    from weirlab.devices.simulation.section import SimulationScenario
    from weirlab.jobs.cluster import ClusterAddress
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class SimulationStudy(Study["SimulationScenario", "Ground[PointCarrier]", "SimulationFindings"]):
    """Every point once or several times; ``weir simulate`` is its command."""

    key = "simulation"
    title = "a measured device simulated over rules, rates and frame sizes"

    def __init__(self, address: ClusterAddress | None = None) -> None:
        """Points are simulated by the cluster at ``address``; None: by this process."""
        self._address = address

    def scenario(self) -> type[SimulationScenario]:
        from weirlab.devices.simulation.section import SimulationScenario

        return SimulationScenario

    def open(self, asked: SimulationScenario, work: Work) -> AbstractContextManager[Ground[PointCarrier]]:
        from weirlab.devices.simulation import study

        return study.opened(asked, work, self._address)

    def measure(
        self, ground: Ground[PointCarrier], asked: SimulationScenario, writer: RunWriter, work: Work
    ) -> SimulationFindings:
        from weirlab.devices.simulation import study

        return study.measured(ground.bed, asked, writer, work.progress)

    def summarize(self, outcome: Outcome[SimulationFindings]) -> Summary:
        return Summary(outcome.found.sentence, outcome.found.tables)

    def measures(self, run: Run) -> Sequence[Measure]:
        from weirlab.devices.simulation import study

        return study.stored(run).measures

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.devices.simulation import study

        found = study.stored(run)
        return (found.sentence,) if found.rows else ()

    def page(self, run: Run) -> Story:
        from weirlab.devices.simulation import page

        return page.page(run)
