"""What a machine was good for, and whether models can be judged by what was measured on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from weirlab.measure import verdict as verdicts
from weirlab.measure import verify
from weirlab.measure.plan.grid import Profile
from weirlab.measure.profile import measure
from weirlab.measure.terms import TrialTerms
from weirlab.measure.verdict import MachineVerdict, of_run, rising, undecided, word
from weirlab.measure.verify import VerificationPlan
from weirlab.model.drift import Drift
from weirlab.store import Run, Store
from weirlab.testing import FakeBed, FakeDevice, disturbed
from weirlab.testing.bed import STOLEN
from weirlab.traffic.sizes import Constant

DEVICE = FakeDevice()
GRID = Profile(positions=(0, 400), sizes=(Constant(64),), load_shares=(0.1, 0.5, 0.9, 1.2))
HELD_OUT = VerificationPlan(positions=(200,), sizes=(Constant(64),), draws=4)


class Cheating(FakeDevice):
    """Faster behind more rules."""

    def service_ns(self, position: float, frame_bytes: float) -> float:
        return super().service_ns(1000 - position, frame_bytes)


Measured = Callable[..., Run]


@pytest.fixture
def measured(tmp_path: Path) -> Measured:
    """A run with profile and held-out trials on a host that disturbs by a script."""

    def run(
        script: Iterable[object] = (),
        *,
        device: FakeDevice = DEVICE,
        lab: str = "netns",
        repetitions: int = 3,
        attempts: int = 3,
        emulated: bool = False,
    ) -> Run:
        bed = FakeBed(device, script, lab=lab)  # type: ignore[arg-type]
        held_out = VerificationPlan(positions=(200,), sizes=(Constant(64),), draws=4, repetitions=repetitions)
        with Store(tmp_path).create("profile", {}, {"lab": lab, "dut_emulated": emulated}) as writer:
            measure(bed, GRID, writer, terms=TrialTerms(max_attempts=attempts))
            specs = verify.plan(held_out, DEVICE.threshold_pps)
            verify.run(bed, specs, writer, terms=TrialTerms(max_attempts=attempts))
        return writer.run

    return run


def judged(run: Run) -> MachineVerdict:
    found = of_run(run)
    assert found is not None
    return found


@pytest.mark.parametrize(("ratio", "said"), [(0.9, "good"), (0.5, "usable"), (0.1, "not usable")])
def test_listening_and_measuring_share_their_words(ratio: float, said: str) -> None:
    assert word(ratio) == said


def test_an_emulated_device_is_not_usable_to_judge_its_speed(measured: Measured) -> None:
    verdict = judged(measured(emulated=True))
    assert verdict.label == "not usable to judge rates or delays"
    assert verdict.why[0].startswith("the device's CPU was emulated (QEMU without KVM)")
    assert "where KVM works" in verdict.sentence


def test_a_machine_on_which_delays_moved_is_not_good(
    measured: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = measured()
    for span, p, expected in ((0.5, 1e-6, "usable"), (0.5, 0.5, "good"), (0.1, 1e-6, "good")):
        moved = Drift("mean delay", span, span / 2, p)
        monkeypatch.setattr(verdicts, "drifts", lambda _, found=moved: (found,))
        found = judged(run)
        assert found.word == expected
        assert bool(found.why) is (expected == "usable")


def test_a_profile_counts_whatever_became_of_its_held_out_trials(measured: Measured) -> None:
    run = measured([*[None] * 32, *[STOLEN] * 100], attempts=1)
    profile = of_run(run, held_out=False)
    assert profile is not None
    assert (profile.refusal, judged(run).refusal != "") == ("", True)


def test_a_quiet_machine_is_good(measured: Measured) -> None:
    found = judged(measured())
    assert (found.word, found.purpose, found.why, found.remedy) == ("good", "", (), "")
    assert found.sentence == (
        "Machine good: 44 of 44 attempts valid, of these 18 of 18 at held-out trials; every setting has at "
        "least one valid trial."
    )


def test_a_simulated_device_says_nothing_about_the_machine(measured: Measured) -> None:
    assert of_run(measured(lab="sim")) is None


def test_a_disturbed_machine_is_usable_and_the_reason_is_told(measured: Measured) -> None:
    found = judged(measured(disturbed(0.5)))
    assert found.word == "usable"
    assert "stolen from the dut's CPU" in found.sentence
    assert "quieter hour" in found.remedy


def test_a_machine_that_spoils_most_settings_is_not_usable(measured: Measured) -> None:
    found = judged(measured([None] * 2 + [STOLEN] * 200, attempts=1))
    assert (found.word, found.purpose) == ("not usable", "")
    assert "14 of 14 settings have no valid trial" in found.sentence


def test_without_enough_held_out_trials_a_machine_is_not_usable_to_judge_a_model(measured: Measured) -> None:
    run = measured([*[None] * 26, *[None] * 6, *[STOLEN] * 100], attempts=1)
    found = judged(run)
    assert (found.word, found.purpose) == ("not usable", "to judge a model")
    assert undecided(run).startswith("6 of 6 held-out settings have fewer than two valid trials")


def test_one_repetition_that_was_asked_for_is_not_the_machines_fault(measured: Measured) -> None:
    run = measured(repetitions=1)
    assert judged(run).word == "good"
    assert "fewer than two valid trials" in undecided(run)


def test_repeated_trials_let_a_model_be_judged(measured: Measured) -> None:
    assert undecided(measured()) == ""


def test_rates_that_rise_with_rules_keep_models_from_being_judged(measured: Measured) -> None:
    run = measured(device=Cheating())
    found = judged(run)
    assert (found.word, found.purpose) == ("not usable", "to compare rule counts")
    assert found.why[0].startswith("forwarding rates rise with rules, from ")
    assert undecided(run) == found.why[0]
    assert rising(measured().trials()) == ""


def test_the_document_has_what_the_sentence_says(measured: Measured) -> None:
    found = judged(measured(disturbed(0.5)))
    document = found.document()
    assert document["verdict"] == "usable"
    assert document["attempts"] == found.attempts > document["valid_attempts"]
    assert document["sentence"] == found.sentence


def test_a_run_for_a_noisy_machine_says_so_first(measured: Measured) -> None:
    found = of_run(measured(), noisy="more waits")
    assert found is not None
    assert "Made for a noisy machine: more waits." in found.sentence
