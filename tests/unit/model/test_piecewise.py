from __future__ import annotations

import itertools

import numpy as np
import pytest

from weirlab.base.errors import ModelError
from weirlab.model import PiecewiseModel, QueueingModel
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, profile


def thesis_device(rate: float, position: float, frame: float = 64.0) -> Observation:
    """A device made of the thesis' own curves, in pps and ns."""
    n, x = position / 1000, rate / 1e6
    threshold = (0.5 * np.exp(-4 * n) + 0.1) * 1e6
    if rate <= threshold:
        loss = 0.0
        curve = (20, 5) if frame < 400 else (60, 15)
        delay = 1e3 * (curve[0] * x**2 + curve[1] * x + 30 + 8 * n)
    else:
        largest = 0.6 * n**0.5 + 0.3
        u = (rate - threshold) / (1e6 - threshold)
        loss = largest * u * (1 + 0.6 * (1 - u))
        delay = 1e3 * (50 * x + 400 + 2500 * n)
    return Observation(
        rate, frame, position, min(rate, threshold), loss, delay, delay, 1.1 * delay, 1.3 * delay, 0.1 * delay
    )


@pytest.fixture(scope="module")
def own() -> list[Observation]:
    rates = np.linspace(0.02e6, 1e6, 30)
    settings = itertools.product(rates, (0.0, 50.0, 100.0, 400.0, 1000.0), (64.0, 1518.0))
    return [thesis_device(rate, n, frame) for rate, n, frame in settings]


def test_the_five_curves_are_recovered(own: list[Observation]) -> None:
    model = PiecewiseModel.fit(own)
    assert (model.g.a, model.g.b, model.g.c) == pytest.approx((0.5, 4, 0.1), rel=0.01)
    assert (model.loss.b, model.loss.a, model.loss.c) == pytest.approx((0.6, 0.5, 0.3), rel=0.03)
    assert model.loss.q == pytest.approx(0.6, rel=0.05)
    small, large = model.small["delay_mean_ns"], model.large["delay_mean_ns"]
    assert (small.c, small.d, small.h0, small.h1) == pytest.approx((20, 5, 30, 8), rel=0.01)
    assert (large.c, large.d) == pytest.approx((60, 15), rel=0.01)
    above = model.above["delay_mean_ns"]
    assert (above.a, above.h0, above.h1) == pytest.approx((50, 400, 2500), rel=0.01)


@pytest.mark.parametrize(("rate", "position", "frame"), [(3e4, 200, 64), (1e5, 200, 1518), (7e5, 200, 64)])
def test_settings_not_profiled_follow_the_curves(
    own: list[Observation], rate: float, position: float, frame: float
) -> None:
    expected = thesis_device(rate, position, frame)
    found = PiecewiseModel.fit(own).predict(rate, frame, position)
    assert float(found.delay_mean_ns) == pytest.approx(expected.delay_mean_ns, rel=0.02)
    assert float(found.delay_p99_ns) == pytest.approx(expected.delay_p99_ns, rel=0.02)
    assert float(found.loss_ratio) == pytest.approx(expected.loss_ratio, abs=0.01)
    assert float(found.jitter_ns) == pytest.approx(expected.jitter_ns, rel=0.02)


def test_delay_jumps_and_loss_begins_at_the_threshold(own: list[Observation]) -> None:
    model = PiecewiseModel.fit(own)
    threshold = float(model.threshold_pps(100, 64))
    found = model.predict([0.999 * threshold, 1.001 * threshold], 64, 100)
    assert found.delay_mean_ns[1] > 5 * found.delay_mean_ns[0]
    assert found.loss_ratio[0] == 0.0
    assert 0 <= found.loss_ratio[1] < 0.01


def test_an_exponential_cannot_follow_the_hyperbola_of_a_queue() -> None:
    """Why the queueing model exists: between profiled positions the thesis' threshold is off."""
    device = QueueDevice(fixed_ns=1820, per_rule_ns=12.0)
    seen = profile(device, positions=(0, 50, 400, 1000), packets=1000)
    true = 1e9 / device.service_ns(700)
    assert abs(float(PiecewiseModel.fit(seen).threshold_pps(700, 64)) / true - 1) > 0.05
    assert float(QueueingModel.fit(seen).threshold_pps(700, 64)) == pytest.approx(true, rel=0.01)


@pytest.mark.parametrize("positions", [(0,), (0, 400), (0, 100, 400)])
def test_few_positions_leave_terms_out(positions: tuple[float, ...]) -> None:
    device = QueueDevice()
    model = PiecewiseModel.fit(profile(device, positions=positions, packets=1000))
    for n in positions:
        assert float(model.threshold_pps(n, 64)) == pytest.approx(1e9 / device.service_ns(n), rel=0.02)
        found = model.predict(1.3e9 / device.service_ns(n), 64, n)
        assert float(found.loss_ratio) == pytest.approx(1 - 1 / 1.3, abs=0.03)


def test_missing_regimes_are_named(own: list[Observation]) -> None:
    with pytest.raises(ModelError, match="piecewise model needs overload"):
        PiecewiseModel.fit([o for o in own if o.loss_ratio == 0])


def test_extrapolation_is_flagged(own: list[Observation]) -> None:
    found = PiecewiseModel.fit(own).predict([1e5, 2e6], 64, 100)
    assert found.extrapolated.tolist() == [False, True]
    assert found.why
