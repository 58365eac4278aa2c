"""An adaptive profile from its first trial to its last: budget, certainty, interruptions."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.measure import profile as grid
from weirlab.measure.adaptive import AdaptiveOutcome, Candidates, Round, kept_rounds, measure, sure
from weirlab.measure.adaptive.acquisition import F64
from weirlab.measure.progress import TrialProgress
from weirlab.measure.sequence import kept_plan
from weirlab.model import QueueingModel
from weirlab.records import Observation
from weirlab.store import RunWriter, Store
from weirlab.testing import FakeBed, FakeDevice, TrialDisturbance

from .small import ADAPTIVE, SMALL


def far_from_idle(model: QueueingModel, observations: Sequence[Observation], settings: Candidates) -> F64:
    """An uncertainty that costs nothing and never ends the measuring."""
    return 0.1 + settings.load_share + settings.position / 1e4


def none_left(model: QueueingModel, observations: Sequence[Observation], settings: Candidates) -> F64:
    return np.full(len(settings), 0.001)


@pytest.fixture
def writer(tmp_path: Path) -> Callable[[], RunWriter]:
    store = Store(tmp_path)
    return lambda: store.create("profile", {"name": "test"}, {})


@dataclass(frozen=True)
class Measured:
    """An adaptive profile, the run that keeps it, and what was told on the way."""

    found: AdaptiveOutcome
    own: RunWriter
    told: tuple[TrialProgress, ...]


def measured(folder: Path, uncertainty: Callable[..., F64]) -> Measured:
    told: list[TrialProgress] = []
    with Store(folder).create("profile", {"name": "test"}, {}) as own:
        found = measure(FakeBed(), ADAPTIVE, own, told.append, uncertainty=uncertainty)
    return Measured(found, own, tuple(told))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """One that uses its budget up."""
    return measured(tmp_path_factory.mktemp("whole"), far_from_idle)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """One whose model is sure at once."""
    return measured(tmp_path_factory.mktemp("short"), none_left)


def test_a_budget_is_used_up_and_not_exceeded(whole: Measured) -> None:
    found, own = whole.found, whole.own
    assert found.outcome.trials == 50
    assert not found.reached
    trials = own.run.trials()
    assert trials.height == 50
    assert set(trials["role"]) == {"profile"}
    assert trials["index"].to_list() == list(range(50))


def test_measuring_ends_when_two_rounds_find_the_model_sure(short: Measured) -> None:
    found, own = short.found, short.own
    assert found.reached
    assert [each.trials for each in found.rounds] == [ADAPTIVE.seed_trials, ADAPTIVE.seed_trials + 10]
    assert found.outcome.trials == ADAPTIVE.seed_trials + 10
    assert kept_rounds(own.run) == found.rounds


@pytest.mark.parametrize(
    ("most", "expected"), [((0.04,), False), ((0.04, 0.06), False), ((0.06, 0.05, 0.04), True)]
)
def test_the_stopping_rule_wants_the_target_twice_in_a_row(most: tuple[float, ...], expected: bool) -> None:
    assert sure([Round(10, 0.01, each, 0.2, "") for each in most], 0.05) is expected


def test_a_model_that_cannot_be_fitted_never_counts_as_sure() -> None:
    assert not sure([Round(10, *[float("nan")] * 3, "no overload")] * 2, 0.05)


def test_a_new_position_between_the_profiled_ones_is_chosen(whole: Measured) -> None:
    assert set(whole.own.run.trials()["position"]) - set(SMALL.positions)


def test_all_trials_are_one_plan_in_the_end(whole: Measured) -> None:
    plan = kept_plan(whole.own, grid.PLAN)
    scouts = plan.first_index
    assert scouts + len(plan.specs) == 50
    positions = whole.own.run.trials()["position"].to_list()
    assert [spec.rules.position for spec in plan.specs] == positions[scouts:]


@pytest.mark.parametrize("survived", [2, 35])
def test_an_interrupted_profile_goes_on_with_the_same_trials(
    writer: Callable[[], RunWriter], survived: int, whole: Measured
) -> None:
    part = writer()
    bed = FakeBed(script=[None] * survived + [KeyboardInterrupt()])
    with pytest.raises(KeyboardInterrupt), part:
        measure(bed, ADAPTIVE, part, uncertainty=far_from_idle)
    assert len(part.done) == survived
    with Store(part.path.parent).resume(part.run_id) as again:
        found = measure(FakeBed(), None, again, uncertainty=far_from_idle)
    assert found.outcome.attempts == 50 - survived
    assert kept_plan(again, grid.PLAN) == kept_plan(whole.own, grid.PLAN)
    assert kept_rounds(again.run) == kept_rounds(whole.own.run)


def test_a_finished_profile_is_not_measured_again(short: Measured, tmp_path: Path) -> None:
    shutil.copytree(short.own.path, tmp_path / short.own.run_id)
    bed = FakeBed()
    with Store(tmp_path).resume(short.own.run_id) as again:
        second = measure(bed, ADAPTIVE, again, uncertainty=none_left)
    assert not bed.traffic_seen
    assert second.rounds == short.found.rounds


def test_a_run_is_not_resumed_with_other_settings(short: Measured, tmp_path: Path) -> None:
    shutil.copytree(short.own.path, tmp_path / short.own.run_id)
    with Store(tmp_path).resume(short.own.run_id) as own, pytest.raises(InputError, match="budget_trials"):
        measure(FakeBed(), replace(ADAPTIVE, budget_trials=60), own, uncertainty=none_left)


def test_a_run_without_settings_cannot_be_resumed(writer: Callable[[], RunWriter]) -> None:
    with writer() as own, pytest.raises(InputError, match="no adaptive profile"):
        measure(FakeBed(), None, own)


def test_a_spoiled_trial_is_tried_again_in_the_end(writer: Callable[[], RunWriter]) -> None:
    stolen = TrialDisturbance(steal_s={"dut": 0.2})
    script = [None] * 10 + [stolen] * 3
    with writer() as own:
        found = measure(FakeBed(script=script), ADAPTIVE, own, uncertainty=none_left)
    assert not found.outcome.invalid
    assert own.run.trials().filter(~own.run.trials()["valid"]).height == 3


def test_a_device_that_the_sender_cannot_overload_gets_spread_trials_and_a_reason(
    writer: Callable[[], RunWriter],
) -> None:
    slow_sender = FakeDevice(sender_max_pps=100_000)
    with writer() as own:
        found = measure(FakeBed(slow_sender), ADAPTIVE, own)
    assert found.outcome.trials == 50
    assert not found.reached
    assert "overload" in found.rounds[-1].where


def test_progress_counts_to_the_budget_and_tells_the_uncertainty(whole: Measured) -> None:
    assert {p.total for p in whole.told if p.done < 44} == {50}
    assert any("predictions are known to within" in p.text for p in whole.told)
