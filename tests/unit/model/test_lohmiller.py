from __future__ import annotations

import itertools

import numpy as np
import pytest

from weirlab.base.errors import ModelError
from weirlab.model import LohmillerModel
from weirlab.model.lohmiller import (
    POINTS_BETWEEN,
    OffsetLine,
    interpolated,
    size_groups,
    verification_figures,
)
from weirlab.publications import publication
from weirlab.records import Observation

POSITIONS = (0.0, 50.0, 100.0, 400.0, 1000.0)
SIZES = (160.0, 544.0, 928.0)
APEX = 1e6


def device(rate: float, position: float, frame: float = 160.0) -> Observation:
    """A device made of the published curves, in pps and ns; large frames take longer below the threshold."""
    n, x = position / 1000, rate / 1e6
    threshold = (0.5 * np.exp(-4 * n) + 0.1) * 1e6
    if rate <= threshold:
        loss, delay = 0.0, 1e3 * (20 * x**2 + 5 * x + 30 + 8 * n + (frame - 544) / 100)
    else:
        loss = (0.6 * n**0.5 + 0.3) * (1 - ((APEX - rate) / (APEX - threshold)) ** 2)
        delay = 1e3 * (50 * x + 400 + 2500 * n)
    return Observation(
        rate, frame, position, min(rate, threshold), loss, delay, delay, 1.1 * delay, 1.3 * delay, 0.1 * delay
    )


def loads(position: float) -> list[float]:
    """Loads on both sides of the threshold, none of them close to it."""
    threshold = device(APEX, position).forwarding_pps
    return [*np.linspace(0.1, 0.97, 10) * threshold, *np.linspace(1.05 * threshold, APEX, 12)]


@pytest.fixture(scope="module")
def own() -> list[Observation]:
    return [device(rate, n, frame) for n, frame in itertools.product(POSITIONS, SIZES) for rate in loads(n)]


@pytest.fixture(scope="module")
def fitted(own: list[Observation]) -> LohmillerModel:
    return LohmillerModel.fit(own)


def test_the_base_curve_is_that_without_rules(fitted: LohmillerModel) -> None:
    below, above = fitted.below["delay_mean_ns"].base, fitted.above["delay_mean_ns"].base
    assert (below.square, below.slope, below.constant) == pytest.approx((20, 5, 30), rel=0.01)
    assert (above.square, above.slope, above.constant) == pytest.approx((0, 50, 400), rel=0.01, abs=1e-9)


def test_the_offset_is_the_rise_of_the_mean(own: list[Observation]) -> None:
    at = [o for o in own if o.position in (0, 1000) and o.loss_ratio > 0]
    means = [np.mean([o.delay_mean_ns for o in at if o.position == n]) / 1e3 for n in (0, 1000)]
    model = LohmillerModel.fit([o for o in own if o.position in (0, 1000)])
    offset = model.above["delay_mean_ns"].offset
    assert float(offset.us(np.array(1.0))) == pytest.approx(means[1] - means[0], rel=0.01)
    assert float(offset.us(np.array(0.0))) == pytest.approx(0, abs=1e-6)


def test_as_printed_the_mean_replaces_the_constant(own: list[Observation]) -> None:
    model = LohmillerModel.fit(own, printed=True)
    below = model.below["delay_mean_ns"]
    mean = np.mean([o.delay_mean_ns for o in own if o.position == 0 and o.loss_ratio == 0]) / 1e3
    assert float(below.offset.us(np.array(0.0))) == pytest.approx(mean, rel=0.05)
    assert float(below.us(np.array(0.0), np.array(0.0))) == pytest.approx(mean, rel=0.05)


def test_an_offset_is_never_negative() -> None:
    assert OffsetLine(10.0, -2.0).us(np.array([0.0, 0.1, 1.0])) == pytest.approx([0, 0, 8])


def test_fifty_points_lie_on_the_chord_between_neighbours() -> None:
    n, y = interpolated(np.array([0.0, 1.0, 3.0]), np.array([10.0, 4.0, 2.0]))
    assert len(n) == 3 + 2 * POINTS_BETWEEN
    assert np.interp([0.5, 2.0], n, y) == pytest.approx([7.0, 3.0])
    assert (np.diff(n) > 0).all()


def test_chords_of_a_convex_curve_put_the_threshold_too_high_between_positions() -> None:
    rates = np.linspace(0.02e6, 1e6, 40)

    def hyperbola(rate: float, n: float) -> Observation:
        limit = 1e9 / (1820 + 12 * n)
        loss, delay = max(1 - limit / rate, 0.0), 1e5 if rate > limit else 2e4
        return Observation(rate, 64, n, min(rate, limit), loss, delay, delay, delay, delay, 1e3)

    model = LohmillerModel.fit([hyperbola(rate, n) for rate in rates for n in POSITIONS])
    errors = [float(model.threshold_pps(n, 64)) * (1820 + 12 * n) / 1e9 - 1 for n in (200, 300)]
    assert 0 < errors[1] < errors[0]


def test_loss_is_a_parabola_with_its_apex_at_the_highest_load(fitted: LohmillerModel) -> None:
    threshold = float(fitted.threshold_pps(400, 160))
    half = (threshold + APEX) / 2
    found = fitted.predict([threshold, half, APEX, 1.02 * APEX], 160, 400)
    largest = found.loss_ratio[2]
    assert found.loss_ratio == pytest.approx([0, 0.75 * largest, largest, largest], abs=1e-9)
    assert largest == pytest.approx(0.6 * 0.4**0.5 + 0.3, rel=0.03)


def test_the_line_of_overload_begins_after_the_last_load_without_loss(fitted: LohmillerModel) -> None:
    assert 0.9 < fitted.extension < 1
    threshold = float(fitted.threshold_pps(100, 160))
    between = fitted.predict((fitted.extension + 1) / 2 * threshold, 160, 100)
    assert float(between.delay_mean_ns) > 400e3
    assert float(between.loss_ratio) == 0


def test_groups_follow_half_of_the_largest_size() -> None:
    sizes = np.array([160.0, 288, 416, 544, 672, 800, 928])
    limit, small, large = size_groups(sizes)
    overlap = publication("lohmiller-2022").number("fit", "overlap")
    assert limit == 464
    assert sizes[small].tolist() == [160, 288, 416, 544]
    assert sizes[large].tolist() == [544, 672, 800, 928]
    assert sizes[small & large].tolist() == [overlap]


def test_groups_take_the_size_into_account_below_the_threshold_only(own: list[Observation]) -> None:
    grouped = LohmillerModel.fit(own, grouped=True)
    small, large = grouped.predict(1e5, [160, 928], 0).delay_mean_ns
    assert large - small > 3e3
    assert np.ptp(grouped.predict(9e5, [160, 928], 0).delay_mean_ns) == 0
    assert np.ptp(LohmillerModel.fit(own).predict(1e5, [160, 928], 0).delay_mean_ns) == 0
    assert LohmillerModel.fit(own, grouped).groups is not None


@pytest.mark.parametrize("positions", [(0.0,), (0.0, 400.0), (0.0, 100.0, 400.0)])
def test_few_positions_are_enough(own: list[Observation], positions: tuple[float, ...]) -> None:
    model = LohmillerModel.fit([o for o in own if o.position in positions])
    for n in positions:
        expected = (0.5 * np.exp(-4 * n / 1000) + 0.1) * 1e6
        assert float(model.threshold_pps(n, 64)) == pytest.approx(expected, rel=0.1)


def test_missing_regimes_are_named(own: list[Observation]) -> None:
    with pytest.raises(ModelError, match="lohmiller model needs overload"):
        LohmillerModel.fit([o for o in own if o.loss_ratio == 0])


def test_figures_have_the_sign_and_the_base_of_the_publication() -> None:
    found = verification_figures([10.0, 20.0, 40.0], [11.0, 18.0, 50.0])
    assert (found.mean, found.max, found.n) == (3.0, 10.0, 3)
    assert found.mean_percent == pytest.approx((10 - 10 + 25) / 3)
    assert found.std == pytest.approx(np.std([1, -2, 10]))
    half = 1.96 * np.std([1, -2, 10], ddof=1) / 3**0.5
    assert (found.low, found.high) == pytest.approx((3 - half, 3 + half))


def test_published_intervals_follow_from_the_published_deviations() -> None:
    """The standard deviation of 25 points gives the interval that is printed beside it."""
    published = publication("lohmiller-2022").experiments["verification-eagle40"]
    points = published.settings["points"]
    for rules, sd in published.series("sd").items():
        interval = published.values[f"interval-{rules:g}"]
        assert (interval.high - interval.low) / 2 == pytest.approx(1.96 * sd / (points - 1) ** 0.5, rel=0.002)
