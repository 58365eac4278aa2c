"""Voice routing: one numbering plan of SIP, H.323, MGCP and ENUM, and everything that follows from it.

``plan`` is the document, ``routing`` says where a number goes, ``checking`` finds mistakes, ``zones`` and
``configs`` write what DNS servers and engines read, ``lab`` runs the engines, ``proof`` makes test calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.lab.finding import Finding
    from weirlab.numbering.proof.calling import OpenLab
    from weirlab.numbering.proof.findings import ProofFindings
    from weirlab.numbering.proof.study import ProofBed
    from weirlab.numbering.section import VoiceScenario
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class VoiceStudy(Study["VoiceScenario", "Ground[ProofBed]", "ProofFindings"]):
    """A numbering plan: commands check it and turn it into files, and calls in a lab prove it.

    ``open_lab`` opens the lab; by default, it has real engines in namespaces.
    """

    key = "voice"
    title = "how calls find their way: one numbering plan, checked, explained, and proved by calls"

    def __init__(self, open_lab: OpenLab | None = None) -> None:
        self._open_lab = open_lab

    def scenario(self) -> type[VoiceScenario]:
        from weirlab.numbering.section import VoiceScenario

        return VoiceScenario

    def checks(self) -> Sequence[Finding]:
        from weirlab.numbering.lab import engines

        return (engines.finding(),)

    def check(self, asked: VoiceScenario, work: Work) -> None:
        from weirlab.numbering.proof import study

        study.checked(asked, work.inputs)

    def open(self, asked: VoiceScenario, work: Work) -> AbstractContextManager[Ground[ProofBed]]:
        from weirlab.numbering.proof import study

        return study.opened(asked, work, self._open_lab)

    def measure(
        self, ground: Ground[ProofBed], asked: VoiceScenario, writer: RunWriter, work: Work
    ) -> ProofFindings:
        from weirlab.numbering.proof import study

        return study.measured(ground, asked, writer, work.progress)

    def summarize(self, outcome: Outcome[ProofFindings]) -> Summary:
        from weirlab.numbering.proof import tables

        found = outcome.found
        report = "" if outcome.report is None else f" Report: {outcome.report.path}"
        shown = [
            tables.acceptance(found.rows),
            tables.kinds(found.kinds),
            tables.differing(found.rows),
            tables.media(found.rows),
            tables.through(found.rows, found.passed, found.device),
        ]
        conclusion = f"{found.sentence} Run {outcome.run.run_id}.{report}"
        return Summary(conclusion, [table for table in shown if table is not None])

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.numbering.proof import study

        found = study.stored(run)
        return (found.sentence,) if found.rows else ()

    def page(self, run: Run) -> Story:
        from weirlab.numbering.proof import study

        return study.page(run)
