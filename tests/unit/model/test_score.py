from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

import numpy as np
import pytest

from weirlab.base.documents import plain, typed
from weirlab.base.errors import ModelError
from weirlab.model import ErrorRow, QueueingModel, compare
from weirlab.model.base import Band, Prediction
from weirlab.model.score import REPEATABILITY, deviations, statistics
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile

THRESHOLD_PPS = 4e5


@dataclass(frozen=True)
class Known:
    """A model of a device that takes 10 µs below its threshold, and 1 ms beyond it."""

    name = "known"
    factor: float = 1.0
    """By this its delays are off."""
    alarm: float = 0.0
    """Loss that it sees everywhere below the threshold."""
    position_max: float = 1000.0
    intervals: dict[str, dict[int, Band]] = field(default_factory=dict)

    @classmethod
    def fit(cls, observations: object, like: object = None) -> Self:
        return cls()

    def predict(self, rate_pps: Any, frame_bytes: Any, position: Any, gap_scv: Any = 0.0) -> Prediction:
        rate = np.asarray(rate_pps, dtype=float)
        over = rate > THRESHOLD_PPS
        delay = np.where(over, 1e6, 1e4) * self.factor
        return Prediction(
            np.full(rate.shape, THRESHOLD_PPS), np.where(over, 1 - THRESHOLD_PPS / rate, self.alarm),
            delay, delay, delay, delay, delay, delay / 10,
            np.asarray(position) > self.position_max, [], {}, self.intervals,
        )  # fmt: skip

    def threshold_pps(self, position: Any, frame_bytes: Any) -> Any:
        return np.full(np.shape(position), THRESHOLD_PPS)


def trial(rate_pps: float, times: float = 1.0, position: float = 100.0) -> Observation:
    """What :class:`Known` predicts, its delays ``times`` as long."""
    over = rate_pps > THRESHOLD_PPS
    delay = times * (1e6 if over else 1e4)
    loss = 1 - THRESHOLD_PPS / rate_pps if over else 0.0
    forwarding = min(rate_pps, THRESHOLD_PPS)
    return Observation(
        rate_pps,
        64.0,
        position,
        forwarding,
        loss,
        delay,
        delay,
        delay,
        delay,
        delay / 10,
        delay_p999_ns=delay,
    )


def row(
    rows: list[ErrorRow], quantity: str, model: str = "known", per: str = "trial", extrapolated: bool = False
) -> ErrorRow:
    wanted = (quantity, model, per, extrapolated)
    (found,) = [r for r in rows if (r.quantity, r.model, r.per, r.extrapolated) == wanted]
    return found


TRIALS = [trial(rate) for rate in (1e5, 1e5, 2e5, 2e5, 3.9e5, 3.9e5, 6e5, 6e5)]


def test_a_perfect_model_has_no_error_in_any_quantity() -> None:
    rows = compare({"known": Known()}, TRIALS)
    assert len({r.quantity for r in rows}) == 13
    for found in rows:
        for statistic in (found.absolute, found.relative):
            if statistic is not None:
                assert [v for v in asdict(statistic).values() if v and not math.isnan(v)] == []
        assert not found.false_alarms


def test_trials_are_counted_where_they_belong() -> None:
    rows = compare({"known": Known()}, TRIALS)
    counted = {
        "threshold": 2,
        "delay_p50_below": 4,
        "delay_mean_near": 2,
        "delay_p50_overload": 2,
        "delay_mean_all": 8,
    }
    assert {quantity: row(rows, quantity).n for quantity in counted} == counted
    assert row(rows, "delay_p50_below").settings == 2
    assert row(rows, "delay_p50_below", per="setting").n == 2


def test_errors_are_predicted_minus_measured() -> None:
    """Measured 10, 20 and 40 µs for 10 predicted: off by 0, -10, -30 µs; 0, -50, -75 %."""
    trials = [trial(rate, times) for rate, times in ((1e5, 1.0), (2e5, 2.0), (3e5, 4.0))]
    found = row(compare({"known": Known()}, trials), "delay_mean_below")
    assert found.absolute.mean_absolute == pytest.approx(40e3 / 3)
    assert found.absolute.mean == pytest.approx(-40e3 / 3)
    assert found.absolute.max == pytest.approx(-30e3)
    assert found.absolute.std == pytest.approx(np.std([0, -10e3, -30e3], ddof=1))
    assert found.relative is not None
    assert found.mape_percent == found.relative.mean_absolute == pytest.approx(125 / 3)
    assert found.unit == "ns"


def test_rows_per_setting_compare_with_the_median_of_the_repetitions() -> None:
    trials = [trial(1e5, times) for times in (1.0, 1.1, 9.0)]
    rows = compare({"known": Known()}, trials)
    assert row(rows, "delay_mean_below", per="setting").mape_percent == pytest.approx(100 * (1 - 1 / 1.1))
    assert row(rows, "delay_mean_below").n == 3


def test_repeatability_is_the_error_of_the_other_repetitions_median() -> None:
    """Of 8, 10 and 14 µs the others' medians are 12, 11 and 9: off by 50, 10 and -36 %."""
    trials = [*(trial(1e5, times) for times in (0.8, 1.0, 1.4)), trial(2e5)]
    found = row(compare({"known": Known()}, trials), "delay_mean_below", REPEATABILITY)
    assert found.n == 3  # The single trial at another load repeats nothing.
    assert found.relative is not None
    assert found.mape_percent == pytest.approx((50 + 10 + 500 / 14) / 3)
    assert found.relative.max == pytest.approx(50)
    assert found.absolute.mean == pytest.approx((4e3 + 1e3 - 5e3) / 3)


def test_repeatability_of_the_threshold_looks_at_all_overload_of_a_setting() -> None:
    trials = [replace(trial(rate), forwarding_pps=f) for rate, f in ((5e5, 4e5), (6e5, 4.4e5), (9e5, 4e5))]
    found = row(compare({"known": Known()}, trials), "threshold", REPEATABILITY)
    assert found.n == 3
    assert found.absolute.mean_absolute == pytest.approx((2e4 + 4e4 + 2e4) / 3)


def test_without_repetitions_there_is_no_repeatability() -> None:
    rows = compare({"known": Known()}, [trial(1e5), trial(2e5)])
    assert {r.model for r in rows} == {"known"}


def test_loss_predicted_where_none_was_measured_is_a_false_alarm() -> None:
    slight, clear = Known(alarm=0.99e-4), Known(alarm=2e-4)
    rows = compare({"known": slight, "alarmist": clear}, TRIALS)
    assert row(rows, "loss").false_alarms == 0
    assert row(rows, "loss", "alarmist").false_alarms == 6
    assert row(rows, "delay_mean_all").false_alarms is None


def test_loss_errors_are_percentage_points_without_a_relative_error() -> None:
    found = row(compare({"known": Known(alarm=0.02)}, TRIALS), "loss")
    assert found.unit == "%-points"
    assert found.relative is None
    assert math.isnan(found.mape_percent)
    assert found.absolute.mean == pytest.approx(2 * 6 / 8)


def test_coverage_counts_single_trials_within_the_intervals() -> None:
    trials = [trial(1e5, times) for times in (0.5, 0.95, 1.0, 1.05)]
    ends = np.full(4, 9e3), np.full(4, 11e3)
    model = Known(intervals={"delay_mean_ns": {90: Band(*ends)}})
    rows = compare({"known": model}, trials)
    assert row(rows, "delay_mean_below").coverage_percent == {90: 75.0}
    assert row(rows, "delay_p50_below").coverage_percent == {}
    assert row(rows, "delay_mean_below", per="setting").coverage_percent == {}


def test_what_any_model_extrapolates_is_scored_apart_for_all() -> None:
    trials = [trial(1e5), trial(1e5, 2.0, position=700.0)]
    rows = compare({"narrow": Known(position_max=500), "wide": Known()}, trials)
    for model in ("narrow", "wide"):
        assert row(rows, "delay_mean_below", model).mape_percent == 0
        assert row(rows, "delay_mean_below", model, extrapolated=True).mape_percent == pytest.approx(50)


def test_single_trials_give_the_usual_t_interval() -> None:
    """1, 2 and 6: mean 3, standard error sqrt(7/3), t(2) = 4.303."""
    found = statistics(np.array([1.0, 2.0, 6.0]), np.arange(3))
    assert found.mean_low == pytest.approx(3 - 4.3027 * math.sqrt(7 / 3), rel=1e-4)
    assert found.mean_high == pytest.approx(3 + 4.3027 * math.sqrt(7 / 3), rel=1e-4)


def test_repetitions_do_not_narrow_the_interval() -> None:
    once = statistics(np.array([1.0, 2.0, 6.0]), np.arange(3))
    thrice = statistics(np.repeat([1.0, 2.0, 6.0], 3), np.repeat(np.arange(3), 3))
    assert (thrice.mean_low, thrice.mean_high) == pytest.approx((once.mean_low, once.mean_high))


def test_one_setting_gives_no_interval() -> None:
    found = statistics(np.array([1.0, 2.0]), np.zeros(2, dtype=int))
    assert math.isnan(found.mean_low)
    assert found.mean == 1.5


def test_jitter_below_the_resolution_is_not_divided_by() -> None:
    quiet = replace(trial(1e5), jitter_ns=0.0)
    assert row(compare({"known": Known()}, [quiet]), "jitter").mape_percent == pytest.approx(100 * 1e3 / 10)


def test_rows_survive_json() -> None:
    rows = compare({"known": Known(alarm=0.1)}, TRIALS)
    again = [typed(ErrorRow, json.loads(json.dumps(plain(r)))) for r in rows]
    assert str(again) == str(rows)


def test_deviations_are_what_the_rows_summarise() -> None:
    models = {"known": Known(factor=1.1)}
    found = {(d.model, d.quantity): d for d in deviations(models, TRIALS)}
    assert found["known", "delay_mean_below"].relative == pytest.approx(np.full(4, 0.1))
    assert row(compare(models, TRIALS), "delay_mean_below").mape_percent == pytest.approx(10)


def test_quantities_without_trials_are_left_out() -> None:
    rows = compare({"known": Known()}, TRIALS[:4])
    assert {"threshold", "delay_mean_near", "delay_p50_overload"}.isdisjoint(r.quantity for r in rows)


@pytest.mark.parametrize("models", [{"known": Known()}, {}])
def test_nothing_to_compare_with_is_an_error(models: dict[str, Any]) -> None:
    with pytest.raises(ModelError, match="no valid trials to compare"):
        compare(models, [])


def test_the_queueing_model_meets_its_targets_on_positions_held_out(fitted: QueueingModel) -> None:
    loads = (0.05, 0.3, 0.6, 0.8, 0.96, 1.2, 1.5)
    new = profile(QueueDevice(), positions=(200, 700), loads=loads, poisson=True, packets=5000)
    rows = compare({"queueing": fitted}, new)
    assert row(rows, "threshold", "queueing").mape_percent < 10
    assert row(rows, "delay_mean_below", "queueing").mape_percent < 15
    assert row(rows, "delay_p50_overload", "queueing").mape_percent < 5
    assert abs(row(rows, "loss", "queueing").absolute.mean) < 1
