"""What happens to ongoing calls when one of two redundant firewalls goes down."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.calls.failover.section import FailoverScenario
    from weirlab.calls.failover.study import FailoverFindings, Pairs
    from weirlab.calls.failover.switches import OpenPair
    from weirlab.calls.failover.switches.event import SwitchClocks
    from weirlab.lab.finding import Finding
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class FailoverStudy(Study["FailoverScenario", "Ground[Pairs]", "FailoverFindings"]):
    """Redundant pairs, switched while calls pass; ``open_pair`` builds one, by default in namespaces."""

    key = "failover"
    title = "redundant pairs: protocols, timers and states compared"

    def __init__(self, open_pair: OpenPair | None = None, *, clocks: SwitchClocks | None = None) -> None:
        self._open_pair, self._clocks = open_pair, clocks

    def scenario(self) -> type[FailoverScenario]:
        from weirlab.calls.failover.section import FailoverScenario

        return FailoverScenario

    def checks(self) -> Sequence[Finding]:
        from weirlab.calls.failover.bed import capabilities

        return (capabilities.finding(),)

    def check(self, asked: FailoverScenario, work: Work) -> None:
        from weirlab.calls.failover import study

        study.checked(asked)

    def open(self, asked: FailoverScenario, work: Work) -> AbstractContextManager[Ground[Pairs]]:
        from weirlab.calls.failover import study

        return study.opened(asked, work, self._open_pair)

    def measure(
        self, ground: Ground[Pairs], asked: FailoverScenario, writer: RunWriter, work: Work
    ) -> FailoverFindings:
        from weirlab.calls.failover import study

        return study.measured(ground, asked, writer, work.progress, self._clocks)

    def summarize(self, outcome: Outcome[FailoverFindings]) -> Summary:
        from weirlab.calls.failover import tables, wording

        return Summary(wording.conclusion(outcome), tables.compared(outcome.found.groups))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.calls.failover.study import kept
        from weirlab.calls.failover.switches import compare, conclusions

        return tuple(conclusions(compare(kept(run))))

    def page(self, run: Run) -> Story:
        from weirlab.calls.failover import study

        return study.page(run)
