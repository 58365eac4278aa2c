"""A tunnel behind rules, against devices whose service times are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.base.errors import ModelError
from weirlab.model import QueueingModel
from weirlab.model.base import LEVELS
from weirlab.model.intervals.cross_validation import calibrate
from weirlab.model.tunnelled import Tandem, tunnelled
from weirlab.testing import queue

RULES = queue.QueueDevice(fixed_ns=1200.0, per_rule_ns=25.0)
TUNNEL = queue.QueueDevice(fixed_ns=14_000.0, per_byte_ns=5.0, base_ns=30_000.0)
BOTH = queue.QueueDevice(fixed_ns=14_000.0, per_byte_ns=5.0, base_ns=30_000.0, per_rule_ns=25.0)
FRAME = 218.0
POSITIONS = np.array([0.0, 100.0, 400.0])


@pytest.fixture(scope="module")
def rules() -> QueueingModel:
    return fitted(RULES, (0, 100, 200, 400))


@pytest.fixture(scope="module")
def tunnel() -> QueueingModel:
    return fitted(TUNNEL, (0,))


def fitted(
    device: queue.QueueDevice, positions: tuple[float, ...], frames: tuple[float, ...] = (FRAME,)
) -> QueueingModel:
    rows = queue.profile(device, positions, frames, packets=1000)
    model = QueueingModel.fit(rows)
    return model.with_calibration(calibrate(QueueingModel, rows, model))


def test_on_one_cpu_service_times_add(rules: QueueingModel, tunnel: QueueingModel) -> None:
    found = tunnelled(rules, tunnel).threshold_pps(POSITIONS, FRAME)
    truth = [1e9 / BOTH.service_ns(position, FRAME) for position in POSITIONS]
    np.testing.assert_allclose(found, truth, rtol=0.02)


def test_with_a_cpu_each_the_slower_one_limits_the_load(rules: QueueingModel, tunnel: QueueingModel) -> None:
    steep = fitted(queue.QueueDevice(fixed_ns=1200.0, per_rule_ns=100.0), (0, 100, 200, 400))
    found = tunnelled(steep, tunnel, cpus=2).threshold_pps(POSITIONS, FRAME)
    service_ns = [max(1200.0 + 100.0 * position, TUNNEL.service_ns(0, FRAME)) for position in POSITIONS]
    np.testing.assert_allclose(found, 1e9 / np.array(service_ns), rtol=0.02)


@pytest.mark.parametrize("share", [0.3, 0.7, 1.3])
def test_delay_and_loss_on_one_cpu_are_those_of_a_device_that_does_both(
    rules: QueueingModel, tunnel: QueueingModel, share: float
) -> None:
    rate = share * 1e9 / BOTH.service_ns(400, FRAME)
    truth = queue.simulate(BOTH, rate, FRAME, 400, packets=4000)
    found = tunnelled(rules, tunnel).predict(truth.rate_pps, FRAME, 400.0)
    assert float(found.delay_p50_ns) == pytest.approx(truth.delay_p50_ns, rel=0.1)
    assert float(found.delay_mean_ns) == pytest.approx(truth.delay_mean_ns, rel=0.1)
    assert float(found.loss_ratio) == pytest.approx(truth.loss_ratio, abs=0.02)
    assert not found.extrapolated.any()


def test_delays_of_a_tandem_add_and_losses_multiply(rules: QueueingModel, tunnel: QueueingModel) -> None:
    both = tunnelled(rules, tunnel, cpus=2)
    assert isinstance(both, Tandem)
    rate = 0.5 * float(both.threshold_pps(400.0, FRAME))
    found, one, other = (
        model.predict(rate, FRAME, position)
        for model, position in ((both, 400.0), (rules, 400.0), (tunnel, 0.0))
    )
    assert float(found.delay_mean_ns) == pytest.approx(float(one.delay_mean_ns + other.delay_mean_ns))
    assert float(found.jitter_ns) == pytest.approx(float(np.hypot(one.jitter_ns, other.jitter_ns)))
    over = both.predict(1.4 * float(tunnel.threshold_pps(0.0, FRAME)), FRAME, 0.0)
    assert float(over.loss_ratio) == pytest.approx(1 - 1 / 1.4, abs=0.02)


@pytest.mark.parametrize("cpus", [1, 2])
def test_intervals_enclose_the_prediction_and_widen_with_their_level(
    rules: QueueingModel, tunnel: QueueingModel, cpus: int
) -> None:
    both = tunnelled(rules, tunnel, cpus)
    rates = np.array([0.4, 0.8, 0.99]) * float(both.threshold_pps(400.0, FRAME))
    found = both.predict(rates, FRAME, 400.0)
    assert {"delay_p99_ns", "loss_ratio"} <= set(found.intervals)
    for quantity, bands in found.intervals.items():
        value = getattr(found, quantity)
        widths = []
        for level in LEVELS:
            assert (bands[level].low <= value).all(), quantity
            assert (bands[level].high >= value).all(), quantity
            widths.append(bands[level].high - bands[level].low)
        assert (np.diff(widths, axis=0) >= 0).all(), quantity


def test_rules_make_the_threshold_less_certain_by_their_own_error(
    rules: QueueingModel, tunnel: QueueingModel
) -> None:
    unsure = replace(rules, service=replace(rules.service, scatter=0.2))
    spreads = []
    for model in (rules, unsure):
        found = tunnelled(model, tunnel).predict(10_000.0, FRAME, POSITIONS)
        spreads.append(found.spread["threshold_pps"])
    calm, wide = spreads
    assert wide[0] == calm[0], "without rules their error does not matter"
    assert (wide[1:] > 2 * calm[1:]).all()


def test_without_intervals_of_both_there_are_none(rules: QueueingModel, tunnel: QueueingModel) -> None:
    bare = replace(rules, calibration=None)
    for cpus in (1, 2):
        assert tunnelled(bare, tunnel, cpus).predict(10_000.0, FRAME, 0.0).intervals == {}


@pytest.mark.parametrize("parts", [1, 2])
def test_what_no_trial_has_checked_is_marked_behind_rules_as_well(
    rules: QueueingModel, tunnel: QueueingModel, parts: int
) -> None:
    known = calibrate(QueueingModel, queue.profile(queue.QueueDevice(), (0, 100, 400), (64.0,)))
    few = replace(rules, calibration=replace(known, few_positions=(0.0, 100.0, 400.0)))
    model = tunnelled(few, replace(tunnel, calibration=known), parts)
    assert "3 profiled rule counts" in model.predict(1e3, 64.0, 300.0).unchecked
    assert model.predict(1e3, 64.0, 100.0).unchecked == ""


@pytest.mark.parametrize("cpus", [1, 2])
def test_what_neither_profile_says_is_extrapolated(
    rules: QueueingModel, tunnel: QueueingModel, cpus: int
) -> None:
    both = tunnelled(rules, tunnel, cpus)
    for rate, frame, position, why in (
        (10_000.0, 512.0, 100.0, "frame size 512"),
        (10_000.0, FRAME, 500.0, "matching position 500"),
        (1.0, FRAME, 0.0, "load below"),
    ):
        found = both.predict(rate, frame, position)
        assert found.extrapolated.all()
        assert why in found.why[0]


def test_profiles_that_do_not_fit_together_are_refused(rules: QueueingModel, tunnel: QueueingModel) -> None:
    behind = replace(tunnel, profiled=replace(tunnel.profiled, position_min=50.0, position_max=50.0))
    with pytest.raises(ModelError, match=r"profile of the tunnel begins at position 50.*--rules 0"):
        tunnelled(rules, behind)
    short = replace(tunnel, profiled=replace(tunnel.profiled, frame_min_bytes=64.0, frame_max_bytes=64.0))
    with pytest.raises(
        ModelError, match="the rules were profiled with frames of 218 B, the tunnel with 64 B"
    ):
        tunnelled(rules, short)
    gaps = replace(tunnel, profiled=replace(tunnel.profiled, gap_scv_min=1.0, gap_scv_max=1.0))
    with pytest.raises(ModelError, match="different gaps"):
        tunnelled(rules, gaps)
