from __future__ import annotations

import itertools
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.documents import plain, typed
from weirlab.errors import InputError
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure import profile as grid
from weirlab.measure import verify
from weirlab.measure.adaptive import (
    Adaptive,
    AdaptiveOutcome,
    Candidates,
    Round,
    choose,
    committee,
    kept_rounds,
    measure,
    spread,
    step_doubt,
    sure,
)
from weirlab.measure.adaptive.acquisition import F64
from weirlab.measure.adaptive.design import candidates, first, positions, reference, specs
from weirlab.measure.plan import Extras
from weirlab.measure.plan.grid import Profile
from weirlab.measure.profile import Scouted, Scouting
from weirlab.measure.progress import Progress
from weirlab.measure.sequence import kept_plan
from weirlab.model import Queueing
from weirlab.records import Observation
from weirlab.store import Run, RunWriter, Store
from weirlab.testing import FakeBed, FakeDevice, Trouble
from weirlab.testing.queue import Device
from weirlab.testing.queue import profile as simulated
from weirlab.traffic.sizes import Constant

SMALL = Profile(
    positions=(0, 100, 1000),
    sizes=(Constant(64), Constant(1518)),
    load_shares=(0.05, 0.25, 0.5, 0.8, 0.9, 1.2, 1.5),
    trial_s=0.02,
    warmup_s=0.005,
    scout_s=0.02,
    scout_warmup_s=0.005,
)
ADAPTIVE = Adaptive(SMALL, budget_trials=50, batch_trials=10)


def far_from_idle(model: Queueing, observations: Sequence[Observation], settings: Candidates) -> F64:
    """An uncertainty that costs nothing and never ends the measuring."""
    return 0.1 + settings.load_share + settings.position / 1e4


def none_left(model: Queueing, observations: Sequence[Observation], settings: Candidates) -> F64:
    return np.full(len(settings), 0.001)


@pytest.fixture
def writer(tmp_path: Path) -> Callable[[], RunWriter]:
    store = Store(tmp_path)
    return lambda: store.create("profile", {"name": "test"}, {})


def grid_of(positions: Sequence[float], shares: Sequence[float] = (0.1, 0.5, 0.9, 1.2)) -> Candidates:
    rows = [(n, 64.0, share) for n in positions for share in shares]
    return Candidates(*np.array(rows).reshape(-1, 3).T)


# The design


def test_positions_to_choose_from_keep_the_range_and_the_named_ones() -> None:
    found = positions(ADAPTIVE)
    assert (found[0], found[-1]) == (0, 1000)
    assert {0, 100, 1000} <= set(found)
    assert len(found) > len(SMALL.positions)
    assert list(found) == sorted(set(found))


def test_by_default_at_most_half_as_many_trials_are_made_as_the_grid_has() -> None:
    whole = Adaptive(Profile())
    assert whole.grid_trials == len(grid.expected(Profile()))
    assert whole.budget == whole.grid_trials // 2


def test_the_first_settings_hold_idle_middle_and_overload_at_both_ends() -> None:
    shares: dict[tuple[int, float], set[float]] = defaultdict(set)
    for setting in first(ADAPTIVE):
        shares[setting.position, setting.frame_bytes].add(setting.load_share)
    assert {place for place in shares if place[0] in (0, 1000)} == set(
        itertools.product((0, 1000), (64.0, 1518.0))
    )
    assert all(min(own) < 0.1 and max(own) > 1 for own in shares.values())
    assert any(0 < position < 1000 for position, _ in shares)


def test_no_reference_setting_lies_where_the_delay_jumps() -> None:
    shares = reference(ADAPTIVE).load_share
    assert not ((shares > 0.9) & (shares < 1.1)).any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"grid": replace(SMALL, positions=(0,))}, "two matching positions"),
        ({"budget_trials": 10}, "come first"),
        ({"target_ratio": 0.0}, "target 0"),
        ({"target_ratio": float("nan")}, "target nan"),
        ({"batch_trials": 0}, "batches of 0"),
        ({"grid": replace(SMALL, extras=Extras(rate_step=(0.3, 0.9)))}, "leave out rate_step"),
    ],
)
def test_a_profile_that_cannot_choose_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(ADAPTIVE, **changes)  # type: ignore[arg-type]


@given(st.integers(30, 500), st.floats(0.01, 0.5), st.integers(1, 20))
def test_settings_survive_json(budget: int, target: float, batch: int) -> None:
    adaptive = Adaptive(SMALL, budget, target, batch)
    assert typed(Adaptive, plain(adaptive)) == adaptive


def test_damaged_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        typed(Adaptive, {**plain(ADAPTIVE), "colour": "red"})


def test_where_rules_are_set_slowly_a_batch_visits_each_position_once() -> None:
    chosen = [(setting, 5e5) for setting in candidates(ADAPTIVE)[::5]]
    point = Scouted(0, Constant(64), 5e5, 5e6)
    fast = specs(ADAPTIVE, chosen, Scouting((point,)), 0)
    slow = specs(ADAPTIVE, chosen, Scouting((point,), set_rules_s=2.0), 0)
    assert set(fast) == set(slow)
    visited = [position for position, _ in itertools.groupby(slow, key=lambda spec: spec.rules.position)]
    assert len(visited) == len(set(visited))
    assert len(list(itertools.groupby(fast, key=lambda spec: spec.rules.position))) > len(visited)


# What is chosen


def test_what_is_uncertain_is_chosen() -> None:
    settings = grid_of((0, 10, 100, 1000))
    uncertainty = np.full(len(settings), 0.01)
    uncertainty[9] = 0.3
    assert choose(uncertainty, settings, grid_of((0, 1000)), 1) == [9]


def test_where_all_is_equally_uncertain_the_unexplored_region_is_chosen() -> None:
    settings = grid_of((0, 5, 30, 200, 1000))
    measured = grid_of((0, 5, 30))
    chosen = choose(np.full(len(settings), 0.1), settings, measured, 4)
    assert set(settings.position[chosen]) <= {200.0, 1000.0}


def test_without_any_model_the_choice_spreads_over_the_range() -> None:
    settings = grid_of((0, 5, 30, 200, 1000))
    chosen = choose(np.full(len(settings), np.inf), settings, grid_of(()), 5)
    assert {0.0, 1000.0} <= set(settings.position[chosen])
    assert {0.1, 1.2} <= set(settings.load_share[chosen])


def test_the_trials_of_a_batch_are_not_near_duplicates() -> None:
    settings = grid_of((100, 101, 102, 1000), (0.5, 0.51, 1.2))
    uncertainty = np.where(settings.position < 1000, 0.5, 0.1)
    chosen = choose(uncertainty, settings, grid_of((0,)), 4)
    assert len(set(chosen)) == 4
    # Two loads at about 100, then elsewhere, although each neighbour there is five times as uncertain.
    assert set(settings.position[chosen[2:]]) == {1000.0}


@given(st.integers(0, 60), st.integers(0, 2**32 - 1))
def test_a_choice_has_no_repeats_and_depends_on_its_arguments_alone(count: int, seed: int) -> None:
    settings = grid_of((0, 5, 30, 200, 1000))
    uncertainty = np.random.default_rng(seed).exponential(size=len(settings))
    chosen = choose(uncertainty, settings, grid_of((0, 1000)), count)
    assert len(chosen) == len(set(chosen)) == min(count, len(settings))
    assert chosen == choose(uncertainty, settings, grid_of((0, 1000)), count)


def test_a_law_may_bend_between_measured_positions_but_not_at_them() -> None:
    observations = simulated(Device(), positions=(0, 100, 1000), packets=500)
    model = Queueing.fit(observations)
    doubt = step_doubt(model, observations, grid_of((0, 50, 100, 400, 1000), (1.2,)))
    assert doubt[[0, 2, 4]] == pytest.approx(0, abs=1e-12)
    assert doubt[3] > doubt[1] > 0


def test_a_committee_knows_least_where_no_trial_was() -> None:
    observations = simulated(Device(), positions=(0, 20, 1000), packets=500)
    model = Queueing.fit(observations)
    asked = grid_of((0, 20, 300, 1000), (1.2,))
    found = committee(model, observations, asked, members=3)
    assert found.argmax() == 2
    assert (found == committee(model, observations, asked, members=3)).all()


def test_the_spread_that_all_settings_with_a_load_share_is_taken_for_noise() -> None:
    observations = simulated(Device(), positions=(0, 20, 1000), packets=500)
    model = Queueing.fit(observations)
    asked = grid_of((0, 20, 300, 1000))
    excess = spread(model, observations, asked)
    for share in np.unique(asked.load_share):
        assert excess[asked.load_share == share].min() == pytest.approx(0, abs=1e-9)
    assert excess.max() > 0


def test_a_committee_that_cannot_be_fitted_is_infinitely_uncertain() -> None:
    observations = simulated(Device(), positions=(0, 1000), packets=500)
    model = Queueing.fit(observations)
    below = [o for o in observations if o.loss_ratio == 0]
    assert np.isinf(committee(model, below[:2], grid_of((0,)), members=3)).all()


# Rounds


@dataclass(frozen=True)
class Measured:
    """An adaptive profile, the run that keeps it, and what was told on the way."""

    found: AdaptiveOutcome
    own: RunWriter
    told: tuple[Progress, ...]


def measured(folder: Path, uncertainty: Callable[..., F64]) -> Measured:
    told: list[Progress] = []
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
    with (
        Store(tmp_path).resume(short.own.run_id) as own,
        pytest.raises(InputError, match="budget_trials"),
    ):
        measure(FakeBed(), replace(ADAPTIVE, budget_trials=60), own, uncertainty=none_left)


def test_a_run_without_settings_cannot_be_resumed(writer: Callable[[], RunWriter]) -> None:
    with writer() as own, pytest.raises(InputError, match="no adaptive profile"):
        measure(FakeBed(), None, own)


def test_a_spoiled_trial_is_tried_again_in_the_end(writer: Callable[[], RunWriter]) -> None:
    stolen = Trouble(steal_s={"dut": 0.2})
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


# Against the grid

POSITIONS = (20, 250, 700)
NOT_WORSE = 1.0
"""Percentage points by which errors on held-out settings may exceed those of the whole grid."""


def held_out(device: SimDevice, store: Store, seed: int) -> list[Observation]:
    def threshold_pps(position: float, frame_bytes: float) -> float:
        service = device.service_fixed_ns + position * device.service_per_rule_ns
        return 1e9 / (service + frame_bytes * device.service_per_byte_ns)

    plan = verify.plan(
        verify.Verification(
            positions=POSITIONS, sizes=SMALL.sizes, repetitions=1, trial_s=0.03, warmup_s=0.005, seed=seed
        ),
        threshold_pps,
    )
    with store.create("verify", {"name": "test"}, {}) as own:
        verify.run(SimLab(device), plan, own)
    return own.run.observations("verify")


def errors_percent(run: Run, trials: Sequence[Observation]) -> tuple[float, float]:
    """Mean error of threshold, and of mean delay below 90 % of it, against the held-out trials."""
    model = Queueing.fit(run.observations("profile"))
    columns = {
        name: np.array([getattr(o, name) for o in trials])
        for name in ("rate_pps", "frame_bytes", "position", "loss_ratio", "forwarding_pps", "delay_mean_ns")
    }
    found = model.predict(columns["rate_pps"], columns["frame_bytes"], columns["position"])
    over = columns["loss_ratio"] > 0.05
    below = columns["rate_pps"] < 0.9 * found.threshold_pps
    threshold = np.abs(found.threshold_pps / columns["forwarding_pps"] - 1)[over].mean()
    delay = np.abs(found.delay_mean_ns / columns["delay_mean_ns"] - 1)[below].mean()
    return float(100 * threshold), float(100 * delay)


@pytest.mark.parametrize("seed", [1, 3])
def test_half_the_trials_reach_the_accuracy_of_the_grid_on_held_out_settings(
    tmp_path: Path, seed: int
) -> None:
    device = SimDevice(
        service_fixed_ns=900 + 300 * seed, service_per_rule_ns=1.5 * seed, io_service_ns=1600, seed=seed
    )
    store = Store(tmp_path)
    with store.create("profile", {"name": "grid"}, {}) as whole:
        all_of_it = grid.measure(SimLab(device), SMALL, whole)
    with store.create("profile", {"name": "adaptive"}, {}) as part:
        found = measure(
            SimLab(device), Adaptive(SMALL, batch_trials=12), part, uncertainty=partial(committee, members=4)
        )
    trials = held_out(device, store, seed)
    assert found.outcome.trials <= all_of_it.trials / 2
    of_grid, of_part = errors_percent(whole.run, trials), errors_percent(part.run, trials)
    assert of_part[0] <= of_grid[0] + NOT_WORSE
    assert of_part[1] <= of_grid[1] + NOT_WORSE
