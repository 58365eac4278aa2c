"""What a device does to packets, measured, modelled, and the models verified."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from weirlab.jobs.work import Work
from weirlab.studies.contract import Study, Summary

if TYPE_CHECKING:
    from weirlab.devices.profile.findings import ProfileFindings
    from weirlab.report.story import Story
    from weirlab.scenario import Scenario
    from weirlab.store import Run, RunWriter
    from weirlab.studies.beds import DeviceGround
    from weirlab.studies.contract import Measure, Outcome


class ProfileStudy(Study["Scenario", "DeviceGround", "ProfileFindings"]):
    """A profile with its models, their verification and its report."""

    key = "profile"
    title = "what rules cost: measured, modelled, predicted, verified"

    def scenario(self) -> type[Scenario]:
        from weirlab.scenario import Scenario

        return Scenario

    def check(self, asked: Scenario, work: Work) -> None:
        from weirlab.jobs import profiles

        profiles.refuse_impossible(asked)

    def open(self, asked: Scenario, work: Work) -> AbstractContextManager[DeviceGround]:
        from weirlab.devices.profile import study

        return study.opened(asked, work)

    def measure(
        self, ground: DeviceGround, asked: Scenario, writer: RunWriter, work: Work
    ) -> ProfileFindings:
        from weirlab.devices.profile import study

        return study.measured(ground, asked, writer, work.progress)

    def conclude(self, run: Run, asked: Scenario, found: ProfileFindings) -> ProfileFindings:
        return found.verified() if asked.verify else found

    def summarize(self, outcome: Outcome[ProfileFindings]) -> Summary:
        from weirlab.cli.results import wording
        from weirlab.devices.profile import tables
        from weirlab.devices.profile.wording import scenario

        return Summary(
            scenario(outcome), tables.scenario(outcome.found), wording.machine(outcome.found.verdict)
        )

    def expected_s(self, asked: Scenario) -> float:
        from weirlab.jobs import machine, profiles

        return profiles.estimate_s(asked) + machine.held_out_s(asked, asked.verify)

    def measures(self, run: Run) -> Sequence[Measure]:
        from weirlab.devices.profile import findings

        return findings.measures(run)

    def headlines(self, run: Run) -> Sequence[str]:
        from weirlab.devices.profile import wording

        return wording.headlines(run)

    def page(self, run: Run) -> Story:
        from weirlab.devices.profile import study

        return study.page(run)
