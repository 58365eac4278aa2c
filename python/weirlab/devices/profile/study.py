"""A profile from calibration to the verdict on its models."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from weirlab.cli.results.tables import machine as machine_sentence
from weirlab.devices.prediction import modelling, verification
from weirlab.devices.prediction.modelling import FitOutcome
from weirlab.devices.profile import tables, wording
from weirlab.devices.profile.findings import ProfileFindings, measures
from weirlab.devices.profile.page import RunJudgement, VerificationEvidence, gather, tell
from weirlab.jobs import machine, profiles, trials
from weirlab.jobs.progress import RESUME
from weirlab.jobs.work import Work
from weirlab.measure.verdict import undecided
from weirlab.measure.verify import HELD_OUT
from weirlab.report.numbers import percent
from weirlab.report.story import Story
from weirlab.report.tables import Tile
from weirlab.scenario import Scenario
from weirlab.store import Run, RunWriter
from weirlab.studies import beds
from weirlab.studies.beds import DeviceGround
from weirlab.studies.contract import Measure, Outcome, Study, Summary


class ProfileStudy(Study[Scenario, DeviceGround, ProfileFindings]):
    """A profile with its models, their verification and its report."""

    key = "profile"
    title = "what rules cost: measured, modelled, predicted, verified"

    def scenario(self) -> type[Scenario]:
        return Scenario

    def check(self, asked: Scenario, work: Work) -> None:
        profiles.refuse_impossible(asked)

    def open(self, asked: Scenario, work: Work) -> AbstractContextManager[DeviceGround]:
        """Open the bed, calibrated first if ``asked`` says so."""
        grid = profiles.to_measure(asked)
        return beds.opened(work, asked.lab, asked.dut, asked.calibrate, flows=grid.flows, sizes=grid.sizes)

    def measure(
        self, ground: DeviceGround, asked: Scenario, writer: RunWriter, work: Work
    ) -> ProfileFindings:
        """Measure the profile, fit the models, and measure the held-out trials."""
        progress = work.progress
        bed = ground.bed
        profile_s, verify_s = profiles.estimate_s(asked), machine.held_out_s(asked, asked.verify)
        whole = machine.budget(asked, bed, profile_s + verify_s)
        # What the profile leaves is for the held-out trials, without which there is no verdict on the model.
        part = None if whole is None else whole.part(profile_s / (profile_s + verify_s))
        profile = profiles.measured(bed, asked, writer, progress, part, RESUME)
        models = modelling.fit_run(writer.run, progress)
        if asked.verify:
            verification.measure(bed, models, asked, writer, progress, whole)
        fit = FitOutcome(writer.run, models, modelling.path_in(writer.run))
        return ProfileFindings(ground.calibrated, profile, fit)

    def conclude(self, run: Run, asked: Scenario, found: ProfileFindings) -> ProfileFindings:
        return found.verified() if asked.verify else found

    def summarize(self, outcome: Outcome[ProfileFindings]) -> Summary:
        found = outcome.found
        return Summary(wording.scenario(outcome), tables.scenario(found), machine_sentence(found.verdict))

    def expected_s(self, asked: Scenario) -> float:
        return profiles.estimate_s(asked) + machine.held_out_s(asked, asked.verify)

    def measures(self, run: Run) -> Sequence[Measure]:
        return measures(run)

    def headlines(self, run: Run) -> Sequence[str]:
        return wording.headlines(run)

    def page(self, run: Run) -> Story:
        """The page about the trials and models of ``run``, of any kind."""
        models = modelling.models_of(run)
        heldout = run.trials().filter(HELD_OUT)
        verified = (
            VerificationEvidence(heldout, tuple(verification.errors_of(run))) if heldout.height else None
        )
        found = machine.judged(run) if run.manifest.kind in (profiles.KIND, "verify") else None
        judgement = RunJudgement(
            machine=found.sentence if found else "",
            good=found is None or found.word == "good",
            undecided=undecided(run) if heldout.height else "",
        )
        evidence = gather(run, models, verified, judgement)
        story = tell(evidence)
        if run.manifest.kind != "trial" or evidence.telling.height or not evidence.attempts["valid"].any():
            return story
        # Its load changed on the way, which no chart over the load can show.
        loss = Tile("Loss", percent(trials.counted(run.trials())["loss_ratio"]), "of the whole trial")
        return replace(story, answer=wording.headlines(run)[0], tiles=(loss, *story.tiles))
