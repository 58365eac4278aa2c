"""What a packet of speech costs with ESP: processing time by suite, mode, direction and size.

``section`` is what a scenario may say, ``rows`` what is stored, ``findings`` what it shows; ``study``
measures.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.calls.ipsec.cost.findings import EspCostFindings
    from weirlab.calls.ipsec.cost.section import EspCostScenario
    from weirlab.calls.ipsec.cost.study import CostTimer
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class EspCostStudy(Study["EspCostScenario", "Ground[None]", "EspCostFindings"]):
    """Every case in turn; ``weir ipsec cost`` is its command. ``timer`` takes the place of the engine."""

    key = "esp"
    title = "what a packet of speech costs with ESP"

    def __init__(self, timer: CostTimer | None = None) -> None:
        self._timer = timer

    def scenario(self) -> type[EspCostScenario]:
        from weirlab.calls.ipsec.cost.section import EspCostScenario

        return EspCostScenario

    def open(self, asked: EspCostScenario, work: Work) -> AbstractContextManager[Ground[None]]:
        return nullcontext(Ground(None, {"lab": "", "dut": "esp", "backend": ""}))

    def measure(
        self, ground: Ground[None], asked: EspCostScenario, writer: RunWriter, work: Work
    ) -> EspCostFindings:
        from weirlab.calls.ipsec.cost import study

        return study.measured(asked, writer, work.progress, self._timer)

    def summarize(self, outcome: Outcome[EspCostFindings]) -> Summary:
        from weirlab.calls.ipsec.cost import tables

        return Summary(outcome.found.sentence, tables.of(outcome.found))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.calls.ipsec.cost import study

        found = study.stored(run)
        return (found.sentence,) if found.rows else ()

    def page(self, run: Run) -> Story:
        from weirlab.calls.ipsec.cost import page

        return page.page(run)
