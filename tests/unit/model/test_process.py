"""The process of packets has the delays and losses that the model predicts."""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.library import ProfileLibrary, named
from weirlab.library.places import SHIPPED
from weirlab.model import QueueingModel
from weirlab.model.base import DELAYS, F64
from weirlab.model.process import LEAST_PLACES, BehaviourGrid, Fate, ReferenceDevice, SteadyStates
from weirlab.records import Observation


@pytest.fixture(scope="module")
def model(regular: list[Observation]) -> QueueingModel:
    return QueueingModel.fit(regular)


def passed(model: QueueingModel, gap_ns: F64, position: float, seed: int = 1) -> tuple[F64, list[Fate], F64]:
    """Arrivals, fates, and delays (NaN: not forwarded) of packets of 64 bytes."""
    device = ReferenceDevice(model, seed)
    at_ns = np.cumsum(gap_ns)
    found = [device.arrive(at, 64.0, position) for at in at_ns.tolist()]
    fates = [passage.fate for passage in found]
    leaves = np.array([p.leaves_ns if p.fate is Fate.FORWARDED else np.nan for p in found])
    return at_ns, fates, leaves - at_ns


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 1.3, 2.0])
def test_a_steady_load_has_the_predicted_mean_p99_and_loss(model: QueueingModel, share: float) -> None:
    rate = share * float(model.threshold_pps(100, 64.0))
    expected = model.predict(rate, 64.0, 100)
    _, fates, delay_ns = passed(model, np.full(40_000, 1e9 / rate), 100.0)
    # In overload the queue fills first.
    fates, delay_ns = fates[10_000:], delay_ns[10_000:]
    assert np.nanmean(delay_ns) == pytest.approx(float(expected.delay_mean_ns), rel=0.02)
    assert np.nanquantile(delay_ns, 0.99) == pytest.approx(float(expected.delay_p99_ns), rel=0.05)
    lost = sum(fate is not Fate.FORWARDED for fate in fates) / len(fates)
    assert lost == pytest.approx(float(expected.loss_ratio), abs=0.002)


def test_packets_keep_their_order_whatever_the_gaps(model: QueueingModel) -> None:
    gaps = np.random.default_rng(2).exponential(1500.0, 20_000) * np.repeat([1.0, 30.0], 10_000)
    at_ns, _, delay_ns = passed(model, gaps, 100.0)
    leaves = (at_ns + delay_ns)[np.isfinite(delay_ns)]
    assert (np.diff(leaves) >= 0).all()


def test_a_queue_fills_by_what_exceeds_the_threshold_and_then_loses_it(model: QueueingModel) -> None:
    threshold = float(model.threshold_pps(0, 64.0))
    gaps = np.repeat([2e9 / threshold, 0.5e9 / threshold], 4000)
    _, fates, _ = passed(model, gaps, 0.0)
    first = next(i for i, fate in enumerate(fates) if fate is Fate.QUEUE_FULL)
    # At twice the threshold every other packet stays.
    assert (first - 4000) / 2 == pytest.approx(model.queue_packets, rel=0.05)
    assert fates[-1000:].count(Fate.QUEUE_FULL) == pytest.approx(500, abs=2)


@pytest.mark.parametrize("shares", [(1.4, 0.6), (0.9, 0.5), (0.3, 0.8)])
def test_delays_are_those_of_a_new_load_within_500_packets(
    model: QueueingModel, shares: tuple[float, float]
) -> None:
    threshold = float(model.threshold_pps(100, 64.0))
    before, after = (1e9 / (share * threshold) for share in shares)
    # Not at the end of a block of 256.
    n = 20_100
    _, _, delay_ns = passed(model, np.repeat([before, after], [n, 3000]), 100.0)
    expected = model.predict(shares[1] * threshold, 64.0, 100)
    # The queue of an overloaded device drains first.
    drained = model.queue_packets / (1 - shares[1]) if shares[0] > 1 else 0.0
    settled = delay_ns[n + int(max(500.0, drained + 50.0)) :]
    assert np.nanmean(settled) == pytest.approx(float(expected.delay_mean_ns), rel=0.1)


def test_random_gaps_are_no_change_of_the_load(model: QueueingModel) -> None:
    rate = 0.7 * float(model.threshold_pps(100, 64.0))
    gaps = np.random.default_rng(4).exponential(1e9 / rate, 60_000)
    device = ReferenceDevice(model, 1)
    wanted = set()
    for number, at in enumerate(np.cumsum(gaps).tolist()):
        device.arrive(at, 64.0, 100.0)
        wanted |= {device._wanted} if number > 1000 else set()
    assert wanted == {256}


def test_two_cpus_carry_twice_the_load(model: QueueingModel) -> None:
    gap_ns = 1e9 / (1.8 * float(model.threshold_pps(400, 64.0)))
    one, two = ReferenceDevice(model, 1), ReferenceDevice(model, 1, cpus=2)
    arrivals = [gap_ns * i for i in range(6000)]
    lost = [
        sum(device.arrive(at, 64.0, 400.0).fate is Fate.QUEUE_FULL for at in arrivals) / len(arrivals)
        for device in (one, two)
    ]
    assert lost[0] > 0.35
    assert lost[1] == 0.0


def test_the_same_seed_gives_the_same_delays_and_another_gives_others(model: QueueingModel) -> None:
    gaps = np.full(1000, 5000.0)
    first, again, other = (passed(model, gaps, 0.0, seed)[2] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_steady_states_have_the_predicted_mean_and_p99(model: QueueingModel) -> None:
    rates = np.geomspace(1e4, 2e6, 200)
    prediction = model.predict(rates, 64.0, 100)
    found = SteadyStates.of(prediction, rates, model.queue_packets)
    delays = found.delays_ns()
    assert list(delays) == list(DELAYS)
    np.testing.assert_allclose(delays["delay_mean_ns"], prediction.delay_mean_ns, rtol=1e-3)
    np.testing.assert_allclose(delays["delay_p99_ns"], prediction.delay_p99_ns, rtol=1e-2)
    assert (np.diff(found.slopes_ns, axis=1) >= 0).all()
    assert (found.floor_ns >= found.service_ns).all()


def test_the_grid_has_the_states_of_its_loads(model: QueueingModel) -> None:
    grid = BehaviourGrid.of(model, [0.0, 400.0], [64.0, 1518.0])
    assert grid.states.shape == (2, 2, len(grid.rhos), 6)
    assert grid.service_ns[1, 0] == pytest.approx(1e9 / float(model.threshold_pps(400, 64)))
    near = int(np.searchsorted(grid.rhos, 0.5))
    rate = grid.rhos[near] / grid.service_ns[1, 0] * 1e9
    expected = SteadyStates.of(model.predict([rate], 64.0, 400.0), rate, model.queue_packets)
    assert grid.states[1, 0, near, 0] == pytest.approx(expected.floor_ns[0])
    assert (np.diff(grid.rhos) > 0).all()


def test_the_queue_of_an_overloaded_device_holds_no_packet_longer_than_the_model_says() -> None:
    # WireGuard's shortest delays in overload are less than 16 service times.
    model = named("wireguard-go", [ProfileLibrary(str(SHIPPED))]).bundle.device.models["queueing"]
    assert isinstance(model, QueueingModel)
    rate = 1.4 * model.threshold_pps(0, 594)
    prediction = model.predict([rate], 594, 0)
    found = SteadyStates.of(prediction, [rate], model.queue_packets)
    assert found.floor_ns[0] >= LEAST_PLACES * found.service_ns[0] - 0.5e9 / rate - 1e-6
    assert found.delays_ns()["delay_mean_ns"][0] == pytest.approx(prediction.delay_mean_ns[0], rel=1e-3)
