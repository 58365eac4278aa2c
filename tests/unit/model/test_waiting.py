from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.model.queueing import waiting
from weirlab.model.queueing.waiting import loss_ratio, mean_fraction, quantile_fraction

K = 256.0


def at(rho: float) -> npt.NDArray[np.float64]:
    return np.array([rho])


@pytest.mark.parametrize("variability", [0.1, 0.5, 1.0])
def test_far_below_saturation_the_mean_is_kingmans(variability: float) -> None:
    for rho in (0.1, 0.5, 0.8):
        packets = K * mean_fraction(at(rho), variability, K)[0]
        assert packets == pytest.approx(rho * variability / (1 - rho), rel=1e-6)


def test_at_saturation_the_queue_is_half_full() -> None:
    assert mean_fraction(at(1.0), 0.5, K)[0] == pytest.approx(0.5)
    assert quantile_fraction(0.5, at(1.0), 0.5, K)[0] == pytest.approx(0.5)


def test_far_above_saturation_the_queue_is_full_and_the_excess_is_lost() -> None:
    assert mean_fraction(at(3.0), 0.5, K)[0] == pytest.approx(1.0, abs=2e-3)
    for rho in (1.5, 3.0, 10.0):
        assert loss_ratio(at(rho), 0.5, K)[0] == pytest.approx(1 - 1 / rho, rel=1e-6)


def test_far_below_saturation_nothing_is_lost() -> None:
    assert loss_ratio(at(0.8), 0.5, K)[0] == 0.0


@pytest.mark.parametrize("rho", [0.9, 0.97, 1.0, 1.03, 1.1])
def test_near_saturation_it_follows_the_exact_queue(rho: float) -> None:
    """M/M/1/K, V = 1: state probabilities proportional to rho^i."""
    states = np.arange(K + 1)
    p = rho ** (states - K * (rho > 1))
    p /= p.sum()
    accepted = p[:-1] / p[:-1].sum()
    mean = float(states[:-1] @ accepted)
    assert K * mean_fraction(at(rho), 1.0, K)[0] == pytest.approx(mean, rel=0.04)
    assert loss_ratio(at(rho), 1.0, K)[0] == pytest.approx(p[-1], abs=2e-3)
    p90 = float(np.searchsorted(np.cumsum(accepted), 0.9))
    assert K * quantile_fraction(0.9, at(rho), 1.0, K)[0] == pytest.approx(p90, rel=0.05)


def test_the_mean_is_the_mean_of_the_quantiles() -> None:
    share = np.linspace(0.0005, 0.9995, 1000)
    for rho in (0.5, 0.95, 1.0, 1.05, 2.0):
        quantiles = [quantile_fraction(q, at(rho), 0.5, K)[0] for q in share]
        assert np.mean(quantiles) == pytest.approx(mean_fraction(at(rho), 0.5, K)[0], rel=0.01, abs=1e-5)


@given(st.floats(1e-4, 50.0), st.floats(1e-3, 64.0), st.floats(1.0, 1e5), st.floats(0.01, 0.99))
def test_every_value_lies_between_empty_and_full(rho: float, variability: float, k: float, q: float) -> None:
    for value in (
        mean_fraction(at(rho), variability, k)[0],
        quantile_fraction(q, at(rho), variability, k)[0],
        loss_ratio(at(rho), variability, k)[0],
    ):
        assert 0.0 <= value <= 1.0


@given(st.floats(1e-3, 0.01 * K), st.floats(0.01, 10.0))
def test_more_load_never_waits_less(variability: float, step: float) -> None:
    """Across the change to the series around saturation, too."""
    rho = np.sort(np.concatenate([np.linspace(0.05, 3.0, 60), 1.0 + np.linspace(-1e-6, 1e-6, 21) * step]))
    for values in (
        mean_fraction(rho, variability, K),
        quantile_fraction(0.9, rho, variability, K),
        loss_ratio(rho, variability, K),
    ):
        assert (np.diff(values) > -1e-7).all()


def test_rarity_is_one_for_random_arrivals_and_at_saturation() -> None:
    rho = np.array([0.1, 0.5, 0.9])
    assert waiting.rarity(rho, 1.0, 0.3) == pytest.approx(1.0)
    assert float(waiting.rarity(np.array(1.0), 0.0, 0.3)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("rho", [0.5, 0.7, 0.85, 0.95])
@pytest.mark.parametrize("cv", [0.3, 0.6])
def test_constant_gaps_and_varying_service_wait_as_long_as_events_say(rho: float, cv: float) -> None:
    rng = np.random.default_rng(3)
    service = rng.gamma(1 / cv**2, cv**2, 400_000)
    walk = np.concatenate([[0.0], np.cumsum(service - 1 / rho)])
    waits = walk - np.minimum.accumulate(walk)
    variability = float(waiting.variability(0.0, cv**2))
    found = variability * rho / (1 - rho) * float(waiting.rarity(np.array(rho), 0.0, cv**2))
    assert found == pytest.approx(waits[20_000:].mean(), rel=0.12, abs=0.004)


def test_bursts_make_waiting_rarer_than_kingman_says() -> None:
    rho = np.array([0.3, 0.8])
    found = waiting.rarity(rho, 4.0, 0.1)
    assert (found < 1).all()
    assert found[0] < found[1]
