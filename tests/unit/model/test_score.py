from __future__ import annotations

import math

import pytest

from weirlab.errors import ModelError
from weirlab.model import ErrorRow, Queueing, compare
from weirlab.records import Observation
from weirlab.testing.queue import Device, profile


@pytest.fixture(scope="module")
def held_out() -> list[Observation]:
    loads = (0.05, 0.3, 0.6, 0.8, 0.96, 1.2, 1.5)
    return profile(Device(), positions=(200, 700), loads=loads, poisson=True, packets=5000)


def by_quantity(rows: list[ErrorRow]) -> dict[str, ErrorRow]:
    return {row.quantity: row for row in rows}


def test_errors_on_held_out_positions_meet_the_targets(fitted: Queueing, held_out: list[Observation]) -> None:
    rows = by_quantity(compare(fitted, held_out))
    assert rows["threshold"].mape_percent < 10
    assert rows["delay_mean_below"].mape_percent < 15
    assert rows["delay_p50_overload"].mape_percent < 5
    assert abs(rows["loss"].mean) < 1
    assert rows["threshold"].n == 2
    assert (rows["delay_mean_below"].n, rows["delay_mean_near"].n) == (8, 2)
    assert rows["delay_p50_overload"].n == 4
    assert rows["loss"].n == rows["delay_mean_all"].n == 14


def off_by(fitted: Queueing, rate_pps: float, factor: float) -> Observation:
    """What the model predicts at this load, its mean delay divided by ``factor``."""
    setting = (rate_pps, 64.0, 100.0)
    found = fitted.predict(*setting)
    mean = float(found.delay_mean_ns)
    return Observation(*setting, rate_pps, 0.0, mean / factor, mean, mean, float(found.delay_p99_ns), 0.0)


def test_errors_are_predicted_minus_measured(fitted: Queueing) -> None:
    rates, factors = (1e5, 1.2e5, 1.4e5), (1.0, 1.1, 0.8)
    trials = [off_by(fitted, rate, factor) for rate, factor in zip(rates, factors, strict=True)]
    row = by_quantity(compare(fitted, trials))["delay_mean_below"]
    differences = [t.delay_mean_ns * (f - 1) for t, f in zip(trials, factors, strict=True)]
    assert row.mape_percent == pytest.approx((0 + 10 + 20) / 3)
    assert row.max == pytest.approx(differences[2])
    assert row.mean == pytest.approx(sum(differences) / 3)
    assert row.unit == "ns"


def test_repetitions_count_as_one_trial_of_their_medians(fitted: Queueing) -> None:
    trials = [off_by(fitted, rate, factor) for rate, factor in ((1e5, 1.1), (1.001e5, 1.1), (0.999e5, 0.01))]
    row = by_quantity(compare(fitted, trials))["delay_mean_below"]
    assert row.n == 1
    assert row.mape_percent == pytest.approx(10, abs=0.1)


def test_loss_errors_are_percentage_points_without_a_relative_error(
    fitted: Queueing, held_out: list[Observation]
) -> None:
    row = by_quantity(compare(fitted, held_out))["loss"]
    assert row.unit == "%-points"
    assert math.isnan(row.mape_percent)


def test_quantities_without_trials_are_left_out(fitted: Queueing, held_out: list[Observation]) -> None:
    rows = by_quantity(compare(fitted, [o for o in held_out if o.loss_ratio == 0]))
    assert "threshold" not in rows
    assert "delay_p50_overload" not in rows
    assert "delay_mean_below" in rows


def test_nothing_to_compare_with_is_an_error(fitted: Queueing) -> None:
    with pytest.raises(ModelError, match="no valid trials to compare"):
        compare(fitted, [])
