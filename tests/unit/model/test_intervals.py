from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from weirlab.base.documents import plain, typed
from weirlab.model import PiecewiseModel, QueueingModel, fit_all, regimes
from weirlab.model.base import DELAYS, F64, LEVELS, QUANTILE_DELAYS, QUANTITIES
from weirlab.model.comparing.scatter import LATER_FREEDOM
from weirlab.model.intervals.calibration import HostDrift, IntervalCalibration
from weirlab.model.intervals.cross_validation import calibrate, folds
from weirlab.model.trials import TrialTable
from weirlab.records import Observation
from weirlab.testing.queue import LOADS_ABOVE, QueueDevice, profile, simulate

# Just beyond the threshold the simulated queue would take longer to fill than these trials last.
LOADS = (0.03, 0.15, 0.3, 0.45, 0.6, 0.75, 0.85, 0.92, 1.1, 1.2, 1.4)
DRAWN = ((0.03, 0.95), (0.03, 0.95), (0.03, 0.95), (1.1, 1.4))
SEEDS = (0, 1, 2)


def noisy(truth: Observation, rng: np.random.Generator, repetitions: int) -> Iterator[Observation]:
    """Trials of one setting: each is off by some 6 %, a few by much more, all together by 3 %."""
    shared = rng.normal(0, 0.03)
    for _ in range(repetitions):
        factor = np.exp(shared + rng.normal(0, 0.06) + (0.3 if rng.random() < 0.03 else 0.0))
        overload = truth.loss_ratio > 0
        forwarding = min(truth.forwarding_pps * np.exp(rng.normal(0, 0.01)), truth.rate_pps)
        yield replace(
            truth,
            **{name: getattr(truth, name) * factor for name in (*DELAYS, "jitter_ns")},
            forwarding_pps=forwarding if overload else truth.rate_pps,
            loss_ratio=1 - forwarding / truth.rate_pps if overload else 0.0,
        )


def profiled(device: QueueDevice, rng: np.random.Generator) -> list[Observation]:
    truths = profile(device, frames=(64.0, 1518.0), loads=LOADS, poisson=True, packets=800)
    return [trial for truth in truths for trial in noisy(truth, rng, 3)]


@pytest.fixture(scope="module")
def seen() -> list[Observation]:
    return profiled(QueueDevice(), np.random.default_rng(5))


@pytest.fixture(scope="module")
def calibrated(seen: list[Observation]) -> PiecewiseModel:
    return PiecewiseModel.fit(seen).with_calibration(calibrate(PiecewiseModel, seen))


def measured(quantity: str, trials: TrialTable) -> F64:
    if quantity == "threshold_pps":
        overload = regimes.sort(trials.table).overload
        return np.where(overload, trials.table.forwarding_pps, np.nan)
    return np.asarray(getattr(trials.table, quantity))


@pytest.fixture(scope="module")
def held() -> dict[tuple[str, int], F64]:
    """Per quantity and level whether the intervals of the queueing model held trials of new settings."""
    found: dict[tuple[str, int], list[F64]] = {}
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        device = QueueDevice(fixed_ns=rng.uniform(600, 2000), per_rule_ns=rng.uniform(1, 8))
        rows = profiled(device, rng)
        model = QueueingModel.fit(rows)
        model = model.with_calibration(calibrate(QueueingModel, rows, model))
        settings = [
            (n, rng.uniform(*ends)) for n in (25, 75, 150, 250, 550, 800) for ends in (*DRAWN, *DRAWN)
        ]
        truths = [
            simulate(device, share * 1e9 / device.service_ns(n), 64.0, n, True, 800, seed=i)
            for i, (n, share) in enumerate(settings)
        ]
        new = TrialTable.of(trial for truth in truths for trial in noisy(truth, rng, 2))
        table = new.table
        predicted = model.predict(table.rate_pps, table.frame_bytes, table.position, table.gap_scv)
        for quantity, levels in predicted.intervals.items():
            values = measured(quantity, new)
            known = np.isfinite(values)
            for level, band in levels.items():
                inside = (band.low <= values) & (values <= band.high)
                found.setdefault((quantity, level), []).append(inside[known])
    return {key: np.concatenate(parts) for key, parts in found.items()}


@pytest.mark.parametrize("level", LEVELS)
def test_intervals_hold_as_many_trials_of_new_settings_as_they_say(
    held: dict[tuple[str, int], F64], level: int
) -> None:
    """Positions and loads that were not profiled; three devices, all quantities but loss."""
    shares = np.concatenate([held[q, level] for q in QUANTITIES if q != "loss_ratio"])
    assert len(shares) > 1000
    assert 100 * shares.mean() == pytest.approx(level, abs={50: 10, 90: 5, 99: 1.5}[level])


def test_no_quantity_is_far_from_its_level(held: dict[tuple[str, int], F64]) -> None:
    for quantity in QUANTITIES:
        assert held[quantity, 90].mean() >= 0.8, quantity
        assert held[quantity, 99].mean() >= 0.93, quantity


def test_intervals_enclose_the_prediction_and_each_other(calibrated: PiecewiseModel) -> None:
    rates = np.geomspace(1e4, 2e6, 50)
    found = calibrated.predict(rates, 64, 200)
    for quantity in QUANTITIES:
        value, bands = getattr(found, quantity), found.intervals[quantity]
        assert set(bands) == set(LEVELS)
        for inner, outer in ((50, 90), (90, 99)):
            assert (bands[outer].low <= bands[inner].low).all()
            assert (bands[inner].low <= value).all()
            assert (value <= bands[inner].high).all()
            assert (bands[inner].high <= bands[outer].high).all()


def test_intervals_of_higher_quantiles_lie_higher(calibrated: PiecewiseModel) -> None:
    """What 99 % of packets keep to, half of them keep to as well, however uncertain the median is."""
    calibration = calibrated.calibration
    assert calibration is not None
    wide = calibration.limits["delay_p50_ns"]
    wide = replace(wide, low=dict.fromkeys(LEVELS, (-3.0,) * 3), high=dict.fromkeys(LEVELS, (5.0,) * 3))
    model = calibrated.with_calibration(
        replace(calibration, limits={**calibration.limits, "delay_p50_ns": wide})
    )
    found = model.predict(np.geomspace(1e4, 2e6, 30), 64, 200)
    for level in LEVELS:
        bands = [found.intervals[quantity][level] for quantity in QUANTILE_DELAYS]
        for lower, higher in itertools.pairwise(bands):
            assert (lower.low <= higher.low).all()
            assert (lower.high <= higher.high).all()


def test_where_no_trial_lost_anything_no_loss_is_within_the_intervals(calibrated: PiecewiseModel) -> None:
    found = calibrated.predict([2e4, 1e5], 64, [0, 1000])
    for level in LEVELS:
        band = found.intervals["loss_ratio"][level]
        assert band.low.tolist() == band.high.tolist() == [0.0, 0.0]


def test_loss_stays_a_ratio(calibrated: PiecewiseModel) -> None:
    band = calibrated.predict(np.geomspace(1e4, 1e8, 40), 64, 0).intervals["loss_ratio"][99]
    assert (band.low >= 0).all()
    assert (band.high <= 1).all()


def test_intervals_have_the_shape_of_the_prediction(calibrated: PiecewiseModel) -> None:
    found = calibrated.predict(np.full((2, 3), 1e5), 64, 100)
    assert found.intervals["delay_p99_ns"][90].high.shape == (2, 3)
    assert calibrated.predict(1e5, 64, 100).intervals["delay_p99_ns"][90].high.shape == ()


def test_a_calibration_survives_json(calibrated: PiecewiseModel) -> None:
    calibration = calibrated.calibration
    assert calibration is not None
    assert typed(IntervalCalibration, json.loads(json.dumps(plain(calibration)))) == calibration


def test_fitting_all_models_calibrates_them_unless_told_otherwise(seen: list[Observation]) -> None:
    assert all(model.predict(1e5, 64, 50).intervals for model in fit_all(seen).values())
    assert not any(model.predict(1e5, 64, 50).intervals for model in fit_all(seen, calibrate=False).values())


def test_a_profile_too_small_to_leave_anything_out_gets_no_intervals() -> None:
    few = profile(QueueDevice(), positions=(0, 400), loads=(0.1, 0.4, 0.7, *LOADS_ABOVE[:1]), packets=500)
    model = PiecewiseModel.fit(few).with_calibration(calibrate(PiecewiseModel, few))
    assert model.predict(1e5, 64, 100).intervals == {}


def test_a_quantity_never_measured_gets_no_interval(seen: list[Observation]) -> None:
    silent = [replace(o, jitter_ns=float("nan")) for o in seen]
    assert "jitter_ns" not in calibrate(PiecewiseModel, silent).limits


def test_ends_are_never_left_out_and_repetitions_never_torn_apart(seen: list[Observation]) -> None:
    trials = TrialTable.of(seen)
    masks = folds(trials)
    position = trials.table.position
    whole = [set(position[mask]) for mask in masks if len(set(position[mask])) == 1]
    assert whole == [{50.0}, {100.0}, {400.0}]
    for mask in masks:
        assert not set(trials.cell[mask]) & set(trials.cell[~mask])
        assert {0.0, 1000.0} <= set(position[~mask])
    assert np.sum(masks[len(whole) :], axis=0).tolist() == [1] * len(trials)


def test_of_a_profile_with_many_positions_the_ends_are_not_judged_at_all() -> None:
    """Intervals are promised between the profiled positions."""
    trials = TrialTable.of(profile(QueueDevice(), positions=(0, 50, 100, 200, 400, 1000), packets=100))
    judged = np.any(folds(trials), axis=0)
    assert set(trials.table.position[judged]) == {50.0, 100.0, 200.0, 400.0}


def test_intervals_for_another_hour_hold_trials_of_hosts_in_other_states() -> None:
    rng = np.random.default_rng(11)
    device = QueueDevice()
    rows = profiled(device, rng)
    model = QueueingModel.fit(rows)
    same = model.with_calibration(calibrate(QueueingModel, rows, model))
    later = same.with_calibration(replace(same.calibration, later=HostDrift.published()))
    inside: dict[str, list[bool]] = {"same": [], "later": []}
    for i in range(60):
        slower = float(np.exp(rng.standard_t(LATER_FREEDOM) * HostDrift.published().service))
        other = replace(device, fixed_ns=device.fixed_ns * slower, per_rule_ns=device.per_rule_ns * slower)
        for share in (0.3, 1.3):
            position = float(rng.choice([25, 75, 250, 550]))
            truth = simulate(
                other, share * 1e9 / device.service_ns(position), 64.0, position, True, 800, seed=i
            )
            for trial in noisy(truth, rng, 1):
                for name, each in (("same", same), ("later", later)):
                    found = each.predict(trial.rate_pps, 64.0, position, trial.gap_scv)
                    quantity = "threshold_pps" if share > 1 else "delay_mean_ns"
                    value = trial.forwarding_pps if share > 1 else trial.delay_mean_ns
                    band = found.intervals[quantity][90]
                    inside[name].append(bool(band.low <= value <= band.high))
    assert np.mean(inside["same"]) < 0.75
    assert 0.87 <= np.mean(inside["later"]) <= 0.99


def test_intervals_for_another_hour_enclose_those_of_the_same_and_survive_json(
    calibrated: PiecewiseModel,
) -> None:
    calibration = calibrated.calibration
    assert calibration is not None
    later = calibrated.with_calibration(replace(calibration, later=HostDrift.published()))
    rates = np.geomspace(1e4, 2e6, 30)
    own, wider = (each.predict(rates, 64, 200).intervals for each in (calibrated, later))
    for quantity in QUANTITIES:
        for level in LEVELS:
            assert (wider[quantity][level].low <= own[quantity][level].low).all()
            assert (wider[quantity][level].high >= own[quantity][level].high).all()
    assert typed(IntervalCalibration, json.loads(json.dumps(plain(later.calibration)))) == later.calibration


def test_a_drift_within_the_profile_widens_what_other_hours_may_bring_to_the_same_quantity() -> None:
    usual, slower, later = (
        HostDrift.published(),
        HostDrift.published(rate=0.2),
        HostDrift.published(delay=0.6),
    )
    assert slower.service > 2 * usual.service
    assert (slower.delay, slower.tail) == (usual.delay, usual.tail)
    assert later.delay > 2 * usual.delay
    assert later.tail > 2 * usual.tail
    assert later.service == usual.service
    assert HostDrift.published(0.01, 0.01) == usual


def quick(rng: np.random.Generator, host_loss: float) -> list[Observation]:
    """As a quick profile, of a device whose threshold scatters; one light trial lost ``host_loss``."""
    rows = []
    truths = profile(QueueDevice(), (0, 400), (64.0,), (0.02, 0.15, 0.4, 0.95, 1.1, 1.4), packets=800)
    for truth in truths:
        for trial in noisy(truth, rng, 3):
            lost = min(max(trial.loss_ratio + (0.05 * rng.random() if truth.loss_ratio else 0.0), 0.0), 1.0)
            rows.append(replace(trial, loss_ratio=lost, forwarding_pps=(1 - lost) * trial.rate_pps))
    rows[1] = replace(rows[1], loss_ratio=host_loss, forwarding_pps=(1 - host_loss) * rows[1].rate_pps)
    return rows


@pytest.mark.parametrize("seed", SEEDS)
def test_surely_below_the_threshold_only_what_the_host_loses_is_within_the_bound_of_the_loss(
    seed: int,
) -> None:
    def bound(host_loss: float, rate_pps: float) -> float:
        rows = quick(np.random.default_rng(seed), host_loss)
        model = QueueingModel.fit(rows)
        model = model.with_calibration(calibrate(QueueingModel, rows, model))
        return float(model.predict(rate_pps, 64, 400).intervals["loss_ratio"][90].high)

    light, heavy = 0.05e9 / QueueDevice().service_ns(400), 0.95e9 / QueueDevice().service_ns(400)
    assert bound(0.0, light) == 0.0
    assert bound(0.0, heavy) > 0.0
    assert bound(0.03, light) >= 0.01


def test_the_loss_of_the_host_survives_json() -> None:
    found = calibrate(QueueingModel, quick(np.random.default_rng(1), 0.03))
    assert set(found.host_loss) == set(LEVELS)
    assert typed(IntervalCalibration, json.loads(json.dumps(plain(found)))) == found


def test_predictions_between_too_few_positions_to_leave_one_out_are_marked_as_unchecked(
    seen: list[Observation], calibrated: PiecewiseModel
) -> None:
    few = [trial for trial in seen if trial.position in (0, 100, 1000)]
    found = typed(IntervalCalibration, json.loads(json.dumps(plain(calibrate(PiecewiseModel, few)))))
    model = PiecewiseModel.fit(few).with_calibration(found)
    assert found.few_positions == (0.0, 100.0, 1000.0)
    assert "3 profiled rule counts" in model.predict(1e5, 64.0, 300.0).unchecked
    assert model.predict(1e5, 64.0, 100.0).unchecked == ""
    assert calibrated.predict(1e5, 64.0, 300.0).unchecked == ""


def test_predictions_between_profiled_frame_sizes_are_marked_as_unchecked(seen: list[Observation]) -> None:
    sizes = [each if index % 2 else replace(each, frame_bytes=1518.0) for index, each in enumerate(seen)]
    found = typed(IntervalCalibration, json.loads(json.dumps(plain(calibrate(PiecewiseModel, sizes)))))
    model = PiecewiseModel.fit(sizes).with_calibration(found)
    assert "frame sizes" in model.predict(1e5, 218.0, 300.0).unchecked
    assert model.predict(1e5, [64.0, 1518.0], 300.0).unchecked == ""
