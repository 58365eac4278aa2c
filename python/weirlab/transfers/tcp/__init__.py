"""TCP: bulk transfers between two hosts, why one is slow, and what the kernel reports of any connection."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome
    from weirlab.transfers.tcp.study.findings import TcpFindings
    from weirlab.transfers.tcp.study.running import TransferDisplay, TransferRun
    from weirlab.transfers.tcp.study.section import TcpScenario


class TcpStudy(Study["TcpScenario", "Ground[TransferRun | None]", "TcpFindings"]):
    """A transfer measured from all sides; ``live`` is what a command does during it."""

    key = "tcp"
    title = "a TCP transfer from all sides, and why it was not faster"

    def __init__(self, live: TransferDisplay | None = None) -> None:
        self._live = live

    def scenario(self) -> type[TcpScenario]:
        from weirlab.transfers.tcp.study.section import TcpScenario

        return TcpScenario

    def open(self, asked: TcpScenario, work: Work) -> AbstractContextManager[Ground[TransferRun | None]]:
        from weirlab.transfers.tcp.study import running

        return running.opened(asked, work, self._live or running.TransferDisplay())

    def measure(
        self, ground: Ground[TransferRun | None], asked: TcpScenario, writer: RunWriter, work: Work
    ) -> TcpFindings:
        from weirlab.transfers.tcp.study import running

        return running.measured(ground, asked, writer, self._live or running.TransferDisplay())

    def summarize(self, outcome: Outcome[TcpFindings]) -> Summary:
        found = outcome.found
        report = "" if outcome.report is None else f" Report: {outcome.report.path}"
        return Summary(
            f"{found.conclusion(outcome.run.run_id)}{report}",
            found.tables(),
            "\n".join(found.remarks()) if self._live is None else "",
        )

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.transfers.tcp.study import kept
        from weirlab.transfers.tcp.study.findings import TcpFindings

        return TcpFindings(kept.read(run)).sentences() if kept.has_transfer(run) else ()

    def page(self, run: Run) -> Story:
        from weirlab.transfers.tcp import page

        return page.tell(run)
