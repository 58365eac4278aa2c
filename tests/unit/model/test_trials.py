from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.model.trials import TrialTable, members
from weirlab.records import Observation

TRIAL = Observation(1e5, 64.0, 100.0, 1e5, 0.0, 1e4, 1e4, 1.2e4, 2e4, 100.0, packets=10_000)


def labels(*changes: dict[str, float | bool]) -> tuple[list[int], list[int]]:
    trials = TrialTable.of(replace(TRIAL, **change) for change in changes)
    return trials.place.tolist(), trials.cell.tolist()


def test_achieved_loads_that_hardly_differ_are_repetitions_in_any_order() -> None:
    place, cell = labels({"rate_pps": 1.01e5}, {"rate_pps": 2e5}, {"rate_pps": 1e5}, {"rate_pps": 1.99e5})
    assert place == [0, 0, 0, 0]
    assert cell == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"position": 200.0},
        {"frame_bytes": 128.0},
        {"gap_scv": 1.0},
        {"stateful": True},
        {"cross_traffic": True},
    ],
)
def test_another_setting_is_no_repetition(other: dict[str, float | bool]) -> None:
    place, cell = labels({}, other)
    assert len(set(place)) == len(set(cell)) == 2


def test_poisson_arrivals_may_achieve_loads_further_apart() -> None:
    """With 1,000 packets the load of one trial has a standard deviation of 3 %."""
    random = {"gap_scv": 1.0, "packets": 1000}
    assert labels(random, random | {"rate_pps": 1.05e5})[1] == [0, 0]
    assert labels(random, random | {"rate_pps": 1.2e5})[1] == [0, 1]


def test_trials_without_a_delay_are_left_out() -> None:
    trials = TrialTable.of([TRIAL, replace(TRIAL, delay_mean_ns=float("nan")), TRIAL])
    assert len(trials) == len(trials.table) == len(trials.cell) == 2


def test_no_trials_have_no_members() -> None:
    assert members(TrialTable.of([]).cell) == []
    assert [rows.tolist() for rows in members(np.array([2, 0, 2, 1]))] == [[1], [3], [0, 2]]
