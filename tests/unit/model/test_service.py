from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

from weirlab.model.queueing.service import ServiceTime, fit_service

F64 = npt.NDArray[np.float64]
POSITIONS = (0.0, 50.0, 100.0, 400.0, 1000.0)


def forwarding(
    true: ServiceTime, frames: tuple[float, ...] = (64.0,), noise: float = 0.0, repeats: int = 3
) -> tuple[F64, F64, F64]:
    """Position, frame size and forwarding rate of trials in overload."""
    grid = np.array(list(itertools.product(POSITIONS, frames)) * repeats)
    scatter = np.exp(np.random.default_rng(4).normal(0.0, noise, len(grid)))
    return grid[:, 0], grid[:, 1], 1e9 / true.ns(grid[:, 0], grid[:, 1]) * scatter


def test_one_stage_is_recovered_and_nothing_added() -> None:
    true = ServiceTime(1200.0, 2.7)
    found = fit_service(*forwarding(true, noise=0.01))
    assert found.stages == 1
    assert found.per_byte_ns == 0.0
    assert found.fixed_ns == pytest.approx(1200, rel=0.01)
    assert found.per_rule_ns == pytest.approx(2.7, rel=0.02)
    assert found.scatter == pytest.approx(0.01, rel=0.8)


def test_frame_size_is_recovered() -> None:
    true = ServiceTime(1000.0, 2.7, per_byte_ns=0.5)
    found = fit_service(*forwarding(true, frames=(64.0, 594.0, 1518.0), noise=0.005))
    assert found.stages == 1
    assert found.per_byte_ns == pytest.approx(0.5, rel=0.02)
    assert found.fixed_ns == pytest.approx(1000, rel=0.02)


def test_a_second_stage_is_found_where_the_law_bends() -> None:
    true = ServiceTime(823.0, 2.75, io_ns=1156.0)
    found = fit_service(*forwarding(true, noise=0.005))
    assert found.stages == 2
    assert found.io_ns == pytest.approx(1156, rel=0.01)
    assert found.per_rule_ns == pytest.approx(2.75, rel=0.02)
    assert found.even_position(64.0) == pytest.approx((1156 - 823) / 2.75, rel=0.1)
    assert found.bic_gain > 0


def test_rates_measured_in_namespaces_are_explained_by_two_stages() -> None:
    """Forwarding rates of iptables over veth at 0, 100, 200, 400 and 1000 rules."""
    position = np.array([0.0, 100.0, 200.0, 400.0, 1000.0])
    rate = np.array([865e3, 820e3, 720e3, 520e3, 280e3])
    held_out = position != 200
    frames = np.full(5, 64.0)
    every = fit_service(position, frames, rate)
    assert every.stages == 2
    assert 1e9 / every.ns(position, frames) == pytest.approx(rate, rel=0.05)
    rest = fit_service(position[held_out], frames[held_out], rate[held_out])
    assert 1e9 / rest.ns(position, frames)[2] == pytest.approx(720e3, rel=0.10)


def test_size_may_matter_in_the_input_stage_only() -> None:
    true = ServiceTime(800.0, 2.7, io_ns=1000.0, io_per_byte_ns=0.4)
    position, frame, rate = forwarding(true, frames=(64.0, 594.0, 1518.0), noise=0.003)
    found = fit_service(position, frame, rate)
    assert found.per_byte_ns == 0.0
    assert found.io_per_byte_ns == pytest.approx(0.4, rel=0.05)
    assert 1e9 / found.ns(position, frame) == pytest.approx(rate, rel=0.02)


def test_a_few_disturbed_trials_do_not_pull_the_fit() -> None:
    true = ServiceTime(1200.0, 2.7)
    position, frame, rate = forwarding(true, noise=0.01, repeats=4)
    rate[[3, 11]] *= (0.6, 0.7)
    found = fit_service(position, frame, rate)
    assert found.fixed_ns == pytest.approx(1200, rel=0.02)
    assert found.per_rule_ns == pytest.approx(2.7, rel=0.03)


def test_standard_errors_cover_the_truth() -> None:
    true = ServiceTime(1200.0, 2.7)
    found = fit_service(*forwarding(true, noise=0.02, repeats=6))
    assert abs(found.fixed_ns - 1200) < 4 * found.stderr["fixed_ns"]
    assert abs(found.per_rule_ns - 2.7) < 4 * found.stderr["per_rule_ns"]
    assert 0 < found.stderr["per_rule_ns"] < 0.2


def test_more_noise_means_larger_standard_errors() -> None:
    true = ServiceTime(1200.0, 2.7)
    quiet = fit_service(*forwarding(true, noise=0.005))
    loud = fit_service(*forwarding(true, noise=0.02))
    assert loud.stderr["per_rule_ns"] > 2 * quiet.stderr["per_rule_ns"]


def test_a_single_position_gives_the_time_there_alone() -> None:
    found = fit_service(np.zeros(3), np.full(3, 64.0), np.array([5.0e5, 5.1e5, 4.9e5]))
    assert found.per_rule_ns == 0.0
    assert found.fixed_ns == pytest.approx(2000, rel=0.01)


def test_fluctuating_stages_are_slower_than_the_slower_of_them() -> None:
    n, frame = np.array([0.0, 120.0, 1000.0]), np.full(3, 64.0)
    hard = ServiceTime(823.0, 2.75, io_ns=1153.0).ns(n, frame)
    soft = ServiceTime(823.0, 2.75, io_ns=1153.0, spread_ns=200.0).ns(n, frame)
    assert soft[1] == pytest.approx(1153 + 200 / np.sqrt(2 * np.pi))
    assert soft[0] >= hard[0]
    assert soft[2] == pytest.approx(hard[2], rel=1e-6)
