"""Runs on machines that disturb: budgets, early ends, verdicts, and the mode for noisy ones."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable

import pytest

from weirlab.base.errors import InputError, ModelError, TrialError
from weirlab.devices.prediction.verification import verify
from weirlab.devices.profile import wording
from weirlab.jobs import machine, testbeds
from weirlab.jobs.profiles import profile, resume_profile, to_measure
from weirlab.jobs.progress import EarlyStop, SilentProgress
from weirlab.jobs.work import Work
from weirlab.records import HostSample
from weirlab.scenario import Lab, Scenario, from_plain
from weirlab.store import Store
from weirlab.studies.reports import report
from weirlab.studies.runner import run_scenario
from weirlab.testing import FakeBed, FakeClock, TrialDisturbance, disturbed
from weirlab.testing.bed import STOLEN

from .conftest import DEVICE, Told

On = Callable[..., FakeBed]


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch) -> On:
    """Let the next jobs work on a real machine that disturbs by this script, in time made up."""
    monkeypatch.setattr(testbeds, "choose", lambda *_: "netns")

    def use(script: Iterable[TrialDisturbance | None] = (), **settings: object) -> FakeBed:
        clock = FakeClock()
        monkeypatch.setattr(machine, "clock", clock)
        bed = FakeBed(DEVICE, script, clock=clock, lab="netns", overhead_s=0.2, **settings)  # type: ignore[arg-type]
        monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: bed)
        return bed

    return use


def small(**changes: object) -> Scenario:
    plain = {
        "name": "small",
        "lab": {"kind": "netns"},
        "profile": {
            "positions": [0, 100, 1000],
            "sizes": ["64"],
            "load_shares": [0.05, 0.4, 0.7, 0.9, 1.2, 1.5],
        },
        "verify": [{"positions": [200], "draws": 3}],
        "report": None,
    }
    return from_plain({**plain, **changes}, "the test")


def test_a_sender_that_is_a_little_too_slow_measures_at_its_own_load(store: Store, on: On) -> None:
    on(itertools.repeat(TrialDisturbance(achieved_share=0.95)))
    trials = profile(store, small(verify=[]), SilentProgress()).run.trials()
    paced = trials.filter(trials["offered_pps"].is_finite())
    assert paced.height > 0
    assert paced["valid"].all()
    assert (paced["achieved_pps"] / paced["offered_pps"]).to_list() == pytest.approx(
        [0.95] * paced.height, rel=0.01
    )


def test_a_sender_that_is_far_too_slow_spoils_a_trial(store: Store, on: On) -> None:
    on(itertools.repeat(TrialDisturbance(achieved_share=0.85)))
    assert profile(store, small(verify=[]), SilentProgress()).problem() is not None


def test_a_quiet_machine_is_good_and_the_models_are_judged(store: Store, on: On) -> None:
    on()
    outcome = run_scenario(store, small(), SilentProgress())
    assert outcome.problem() is None
    assert outcome.found.verdict is not None
    assert outcome.found.verdict.word == "good"
    found = outcome.document()
    assert found["verification"]["judged"] is True
    assert found["verification"]["machine"]["verdict"] == "good"
    # Who goes over the held-out trials again is told the same.
    run_id = outcome.found.profile.run.run_id
    again = verify(Work(store, SilentProgress()), run_id, held_out={}, again=False, lab=Lab(), dut=None)
    assert again.problem() is None
    assert json.dumps(again.document()["machine"], default=str)


def test_the_usual_budget_is_kept_whatever_the_host_does(store: Store, on: On, told: Told) -> None:
    on(disturbed(0.85))
    scenario = small(verify=[])
    expected_s = to_measured_s(scenario)
    outcome = profile(store, scenario, told)
    assert outcome.outcome.stopped == "time"
    assert outcome.outcome.elapsed_s <= 1.5 * expected_s + 0.001
    assert any(
        note == "57 trials, some 25 s on a usual machine, at most 38 s on a busy one (time budget)"
        for note in told.notes
    )
    assert outcome.document()["time_used_up"] is True


def to_measured_s(scenario: Scenario) -> float:
    from weirlab.jobs.profiles import estimate_s

    return estimate_s(scenario)


def test_when_time_is_short_most_settings_have_a_trial_before_any_has_all(store: Store, on: On) -> None:
    on(disturbed(0.6))
    outcome = profile(store, small(verify=[], time_budget="20s"), SilentProgress())
    assert outcome.verdict is not None
    assert outcome.outcome.stopped == "time"
    assert outcome.verdict.coverage.without <= 1
    assert outcome.verdict.coverage.single > 10


def test_what_the_budget_left_out_is_measured_when_resumed(store: Store, on: On) -> None:
    on(disturbed(0.6))
    first = profile(store, small(verify=[], time_budget="20s"), SilentProgress())
    bed = on()
    again = resume_profile(store, first.run.run_id, SilentProgress(), time_budget="5min")
    scouts = {n for n in first.outcome.invalid if n < 3}
    assert set(again.outcome.invalid) == scouts
    assert len(bed.traffic_seen) == len(first.outcome.invalid) - len(scouts)


@pytest.mark.parametrize(
    ("attempts", "time_budget", "left"),
    [(disturbed(0.6), "20s", True), (itertools.cycle([None, STOLEN, None]), "10min", False)],
)
def test_resuming_is_advised_only_if_trials_are_left(
    store: Store, on: On, attempts: Iterable[object], time_budget: str, left: bool
) -> None:
    """Reported: the advice was to resume a profile in which every trial had a valid attempt."""
    on(itertools.chain([None] * 3, attempts))
    outcome = profile(store, small(verify=[], time_budget=time_budget), SilentProgress())
    assert outcome.verdict is not None
    assert (outcome.verdict.word, outcome.left) == ("usable", left)
    assert ("--resume" in outcome.verdict.remedy) == left
    assert ("--resume" in wording.profile(outcome)) == left


def test_held_out_trials_have_their_share_of_the_time(store: Store, on: On, told: Told) -> None:
    on(disturbed(0.6))
    outcome = run_scenario(store, small(time_budget="40s"), told)
    trials = store.open("last").trials()
    assert outcome.found.verification is not None
    (planned,) = (note for note in told.notes if "held-out trials, some" in note)
    assert int(planned.split()[0]) >= trials.filter(role="verify")["index"].n_unique()
    made = trials.filter(role="verify")
    assert outcome.found.verification.verdict is not None
    assert outcome.found.verification.verdict.held_out == (made.height, made["valid"].sum())
    assert trials.filter(role="verify").height >= 0.15 * trials.height


def test_a_budget_that_cannot_suffice_is_refused_before_anything_is_built(store: Store, on: On) -> None:
    bed = on()
    with pytest.raises(
        InputError, match=r"time budget 3s: one trial of each of the 21 settings takes 7 s .* 10s"
    ):
        profile(store, small(verify=[], time_budget="3s"), SilentProgress())
    assert bed.traffic_seen == []
    assert store.runs() == []


def test_a_run_ends_early_where_almost_nothing_is_valid_and_goes_on_later(store: Store, on: On) -> None:
    bed = on(itertools.repeat(STOLEN))
    scenario = small(verify=[], time_budget="5min")
    with pytest.raises(EarlyStop, match=r"stopped early: only 0 of .* --machine noisy") as caught:
        profile(store, scenario, SilentProgress())
    run_id = caught.value.run_id
    assert caught.value.exit_code == 5
    assert caught.value.details["resume"] == f"weir profile --resume {run_id}"
    run = store.open(run_id)
    assert run.manifest.status == "interrupted"
    assert run.trials().height == len(bed.traffic_seen)
    assert 60 < len(bed.traffic_seen) * 0.33 < 150
    on()
    assert resume_profile(store, run_id, SilentProgress()).outcome.invalid == (0, 1, 2)


def test_a_scenario_that_ends_early_is_gone_on_with_by_weir_run(store: Store, on: On) -> None:
    on(itertools.repeat(STOLEN))
    with pytest.raises(EarlyStop, match="weir run --resume") as caught:
        run_scenario(store, small(time_budget="4min"), SilentProgress())
    assert caught.value.resume == f"weir run --resume {caught.value.run_id}"


def test_on_a_simulated_device_nothing_ends_early(store: Store, scripted: On) -> None:
    scripted(*[None] * 3, *[STOLEN] * 50)
    outcome = profile(store, small(verify=[], lab={"kind": "sim"}), SilentProgress())
    assert outcome.outcome.stopped == ""
    assert outcome.verdict is None


def test_held_out_trials_that_are_spoiled_give_no_verdict_on_models(store: Store, on: On) -> None:
    on(itertools.chain([None] * (3 + 54 + 3), disturbed(0.97, seed=4)))
    outcome = run_scenario(store, small(time_budget="60s"), SilentProgress())
    problem = outcome.problem()
    assert isinstance(problem, TrialError)
    assert "no verdict on the models: the machine was not usable to judge a model" in str(problem)
    assert outcome.document()["verification"]["judged"] is False


def test_one_repetition_gives_no_verdict_on_models_but_blames_no_machine(store: Store, on: On) -> None:
    on()
    held_out = [{"positions": [200], "draws": 3, "repetitions": 1}]
    outcome = run_scenario(store, small(verify=held_out), SilentProgress())
    problem = outcome.problem()
    assert isinstance(problem, ModelError)
    assert "fewer than two valid trials" in str(problem)
    # The page has the machine before its sections, and leaves the models unjudged.
    page = report(store, outcome.found.profile.run.run_id).path.read_text()
    first = page.partition('<section id="answer"')[2].partition("<nav")[0]
    assert "No verdict on the models: " in first
    assert "Machine good: " in first
    assert "Prediction error, delay" not in page  # A tile without a number is left out.
    assert "typically off by" not in page


class Waiting(FakeBed):
    """The device waits 0.5 % of each trial for its CPU."""

    def host(self) -> HostSample:
        from dataclasses import replace

        sample = super().host()
        return replace(sample, dut_wait_s=0.005 * sample.wall_s)


def test_a_noisy_machine_is_measured_with_more_repetitions_and_said_so(
    store: Store, on: On, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = on()._clock
    bed = Waiting(DEVICE, clock=clock, lab="netns", overhead_s=0.2)
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: bed)
    usual, noisy = small(verify=[]), small(verify=[], machine="noisy")
    assert to_measure(noisy).repetitions == 2 * to_measure(usual).repetitions
    spoiled = profile(store, usual, SilentProgress())
    assert spoiled.problem() is not None
    outcome = profile(store, noisy, told)
    assert outcome.problem() is None
    assert outcome.verdict is not None
    assert outcome.verdict.sentence.startswith("Machine good: ")
    assert "Made for a noisy machine: the host may disturb 75 % of a trial (50 % elsewhere)" in (
        outcome.verdict.sentence
    )
    assert any(note.startswith("for a noisy machine: ") for note in told.notes)


def test_every_limit_for_a_noisy_machine_is_as_lenient_as_the_usual_one() -> None:
    for name, limit in vars(machine.PROFILE_LIMITS).items():
        assert getattr(machine.NOISY_LIMITS, name) >= limit
