"""Campaigns: a matrix of scenarios, devices and settings, each of its steps a run of its own.

``section`` is what a file may say and the steps that follow from it, ``steps`` measures one and keeps its
record, ``study`` goes through them, ``ranking`` says which devices differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Ground, Study, Summary

if TYPE_CHECKING:
    from weirlab.campaigns.section import CampaignScenario
    from weirlab.campaigns.study import CampaignFindings
    from weirlab.jobs.cluster import Cluster, ClusterAddress
    from weirlab.report.story import Story
    from weirlab.store import Run, RunWriter
    from weirlab.studies.contract import Outcome


class CampaignStudy(Study["CampaignScenario", "Ground[Cluster | None]", "CampaignFindings"]):
    """Every step of a matrix, one after the other."""

    key = "campaign"
    title = "a matrix of scenarios, devices and settings, and which devices differ"

    def __init__(self, address: ClusterAddress | None = None) -> None:
        """Steps are measured by the cluster at ``address``; None: by this process."""
        self._address = address

    def scenario(self) -> type[CampaignScenario]:
        from weirlab.campaigns.section import CampaignScenario

        return CampaignScenario

    def check(self, asked: CampaignScenario, work: Work) -> None:
        from weirlab.campaigns import study

        work.progress.note(study.estimate(asked, work).sentence)

    @contextmanager
    def open(self, asked: CampaignScenario, work: Work) -> Iterator[Ground[Cluster | None]]:
        from weirlab.campaigns import study
        from weirlab.jobs.cluster import Cluster
        from weirlab.jobs.worker import TESTBED

        devices = ", ".join(asked.campaign.devices) or "see its steps"
        facts = {"lab": study.lab(asked, work.inputs), "dut": devices, "backend": ""}
        if self._address is None:
            yield Ground(None, facts)
            return
        with Cluster(self._address, TESTBED, work.progress.note, asked.campaign.requires) as cluster:
            yield Ground(cluster, facts)

    def measure(
        self, ground: Ground[Cluster | None], asked: CampaignScenario, writer: RunWriter, work: Work
    ) -> CampaignFindings:
        from weirlab.campaigns import steps, study
        from weirlab.campaigns.steps import StepStore

        if ground.bed is None:
            return study.measured(asked, writer, work)
        carrier = steps.ClusterCarrier(asked, StepStore(writer.run), work, ground.bed)
        return study.measured(asked, writer, work, carrier)

    def conclude(self, run: Run, asked: CampaignScenario, found: CampaignFindings) -> CampaignFindings:
        from weirlab.campaigns import study

        study.keep(run, found)
        return found

    def summarize(self, outcome: Outcome[CampaignFindings]) -> Summary:
        from weirlab.campaigns import tables

        return Summary(outcome.found.sentence, tables.tables(outcome.found))

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.campaigns import study

        return (study.stored(run).sentence,)

    def page(self, run: Run) -> Story:
        from weirlab.campaigns import page

        return page.page(run)
