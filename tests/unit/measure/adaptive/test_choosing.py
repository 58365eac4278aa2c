"""Which settings an adaptive profile begins with, and which it chooses then."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.documents import plain, typed
from weirlab.base.errors import InputError
from weirlab.measure import profile as grid
from weirlab.measure.adaptive import AdaptivePlan, Candidates, choose, committee, spread, step_doubt
from weirlab.measure.adaptive.design import candidates, first, positions, reference, specs
from weirlab.measure.plan.grid import Extras, Profile
from weirlab.measure.profile import ScoutPoint, ScoutResult
from weirlab.model import QueueingModel
from weirlab.testing.queue import QueueDevice
from weirlab.testing.queue import profile as simulated
from weirlab.traffic.sizes import Constant

from .small import ADAPTIVE, SMALL


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
    whole = AdaptivePlan(Profile())
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
    adaptive = AdaptivePlan(SMALL, budget, target, batch)
    assert typed(AdaptivePlan, plain(adaptive)) == adaptive


def test_damaged_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="colour"):
        typed(AdaptivePlan, {**plain(ADAPTIVE), "colour": "red"})


def test_where_rules_are_set_slowly_a_batch_visits_each_position_once() -> None:
    chosen = [(setting, 5e5) for setting in candidates(ADAPTIVE)[::5]]
    point = ScoutPoint(0, Constant(64), 5e5, 5e6)
    fast = specs(ADAPTIVE, chosen, ScoutResult((point,)), 0)
    slow = specs(ADAPTIVE, chosen, ScoutResult((point,), set_rules_s=2.0), 0)
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
def test_a_choice_hasno_repeats_and_depends_on_its_arguments_alone(count: int, seed: int) -> None:
    settings = grid_of((0, 5, 30, 200, 1000))
    uncertainty = np.random.default_rng(seed).exponential(size=len(settings))
    chosen = choose(uncertainty, settings, grid_of((0, 1000)), count)
    assert len(chosen) == len(set(chosen)) == min(count, len(settings))
    assert chosen == choose(uncertainty, settings, grid_of((0, 1000)), count)


def test_a_law_may_bend_between_measured_positions_but_not_at_them() -> None:
    observations = simulated(QueueDevice(), positions=(0, 100, 1000), packets=500)
    model = QueueingModel.fit(observations)
    doubt = step_doubt(model, observations, grid_of((0, 50, 100, 400, 1000), (1.2,)))
    assert doubt[[0, 2, 4]] == pytest.approx(0, abs=1e-12)
    assert doubt[3] > doubt[1] > 0


def test_a_committee_knows_least_where_no_trial_was() -> None:
    observations = simulated(QueueDevice(), positions=(0, 20, 1000), packets=500)
    model = QueueingModel.fit(observations)
    asked = grid_of((0, 20, 300, 1000), (1.2,))
    found = committee(model, observations, asked, members=3)
    assert found.argmax() == 2
    assert (found == committee(model, observations, asked, members=3)).all()


def test_the_spread_that_all_settings_with_a_load_share_is_taken_for_noise() -> None:
    observations = simulated(QueueDevice(), positions=(0, 20, 1000), packets=500)
    model = QueueingModel.fit(observations)
    asked = grid_of((0, 20, 300, 1000))
    excess = spread(model, observations, asked)
    for share in np.unique(asked.load_share):
        assert excess[asked.load_share == share].min() == pytest.approx(0, abs=1e-9)
    assert excess.max() > 0


def test_a_committee_that_cannot_be_fitted_is_infinitely_uncertain() -> None:
    observations = simulated(QueueDevice(), positions=(0, 1000), packets=500)
    model = QueueingModel.fit(observations)
    below = [o for o in observations if o.loss_ratio == 0]
    assert np.isinf(committee(model, below[:2], grid_of((0,)), members=3)).all()
