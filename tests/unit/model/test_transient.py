from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.model import PiecewiseModel, QueueingModel
from weirlab.model.spike import Spike
from weirlab.model.transient.compare import DelayBins, binned, step_errors
from weirlab.model.transient.course import over_time
from weirlab.model.transient.phases import LoadPhase, phases_of
from weirlab.records import Observation
from weirlab.testing.queue import QueueDevice, TrafficStep, profile, simulate_steps
from weirlab.traffic.spec import LoadStep, Rate, Traffic

DEVICE: Final = QueueDevice()
CAPACITY_PPS: Final = 1e9 / DEVICE.service_ns(0)
MS: Final = 1e6
RULES: Final = 1000.0

BELOW: Final = 0.5 * CAPACITY_PPS
OVER: Final = 1.3 * CAPACITY_PPS


@pytest.fixture(scope="session")
def constant(regular: list[Observation]) -> QueueingModel:
    """The queueing model of the default device under constant gaps."""
    return QueueingModel.fit(regular)


@pytest.fixture(scope="session")
def poisson() -> QueueingModel:
    """The queueing model of the default device under Poisson arrivals."""
    return QueueingModel.fit(profile(DEVICE, poisson=True, packets=6000))


def phases(*loads: TrafficStep) -> list[LoadPhase]:
    return [
        LoadPhase(load.duration_ns, load.rate_pps, load.frame_bytes, load.position, float(load.poisson))
        for load in loads
    ]


def compared(
    model: QueueingModel, loads: list[TrafficStep], bin_ns: float, repetitions: int, warmup_ns: float = 3 * MS
) -> tuple[DelayBins, DelayBins]:
    """Simulated and predicted bins."""
    seen = simulate_steps(DEVICE, loads, bin_ns, repetitions, warmup_ns)
    edges = np.append(seen.start_ns, sum(load.duration_ns for load in loads))
    return DelayBins(seen.delay_mean_ns, seen.loss_ratio), binned(model, phases(*loads), edges)


def mean_error(seen: DelayBins, said: DelayBins) -> float:
    return float(np.mean(np.abs(said.delay_mean_ns / seen.delay_mean_ns - 1)))


# Share of the capacity without rules, position and ms of each load; width of a bin in ns; repetitions
# that make the simulation's own noise small; and the mean relative error that is allowed.
SCENARIOS: Final = {
    "below to below": ([(0.3, 0.0, 0.5), (0.9, 0.0, 1.0)], 5e4, 300, 0.03),
    "below to overload": ([(0.5, 0.0, 0.5), (1.3, 0.0, 2.5)], 1e5, 40, 0.03),
    "overload to below": ([(1.5, 0.0, 0.5), (0.6, 0.0, 2.0)], 1e5, 100, 0.03),
    "position below": ([(0.25, 0.0, 0.5), (0.25, RULES, 1.5)], 1e5, 200, 0.03),
    "position into overload": ([(0.5, 0.0, 0.5), (0.5, RULES, 5.0)], 2e5, 40, 0.03),
    "position out of overload": ([(0.5, RULES, 0.5), (0.5, 0.0, 3.0)], 1e5, 60, 0.03),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_delay_per_bin_under_poisson_arrivals_follows_the_simulation(
    name: str, poisson: QueueingModel
) -> None:
    steps, bin_ns, repetitions, limit = SCENARIOS[name]
    loads = [TrafficStep(ms * MS, share * CAPACITY_PPS, place, poisson=True) for share, place, ms in steps]
    seen, said = compared(poisson, loads, bin_ns, repetitions)
    assert mean_error(seen, said) < limit
    assert np.mean(np.abs(seen.loss_ratio - said.loss_ratio)) < 0.02


def test_delay_per_bin_under_constant_gaps_follows_the_simulation_within_two_percent(
    constant: QueueingModel,
) -> None:
    loads = [
        TrafficStep(0.5 * MS, 0.6 * CAPACITY_PPS),
        TrafficStep(2 * MS, 1.3 * CAPACITY_PPS),
        TrafficStep(1 * MS, 0.6 * CAPACITY_PPS),
        TrafficStep(2 * MS, 0.6 * CAPACITY_PPS, RULES),
    ]
    seen, said = compared(constant, loads, 5e4, 4)
    assert mean_error(seen, said) < 0.02
    assert np.mean(np.abs(seen.loss_ratio - said.loss_ratio)) < 0.01


def test_loss_begins_when_the_queue_is_full(constant: QueueingModel) -> None:
    fills_ns = constant.queue_packets / (OVER - CAPACITY_PPS) * 1e9
    load = phases(TrafficStep(MS, BELOW), TrafficStep(5 * MS, OVER))
    before = over_time(constant, load, MS + fills_ns * np.array([0.0, 0.5, 0.9]))
    after = over_time(constant, load, MS + fills_ns * np.array([1.1, 1.5]))
    assert np.all(before.loss_ratio < 1e-3)
    assert after.loss_ratio == pytest.approx(1 - 1 / 1.3, rel=0.02)


def test_a_full_queue_drains_at_the_difference_of_the_rates(constant: QueueingModel) -> None:
    drains_ns = constant.queue_packets / (CAPACITY_PPS - BELOW) * 1e9
    load = phases(TrafficStep(MS, OVER), TrafficStep(5 * MS, BELOW))
    course = over_time(constant, load, [0.0, MS + drains_ns / 2, MS + 1.1 * drains_ns, 6 * MS])
    full, half, empty, end = course.delay_mean_ns
    assert half - end == pytest.approx((full - end) / 2, rel=0.05)
    assert empty == pytest.approx(end, rel=0.02)


def test_packets_inside_keep_their_service_time_after_a_position_step(constant: QueueingModel) -> None:
    load = phases(TrafficStep(MS, OVER), TrafficStep(10 * MS, OVER, RULES))
    old_ns = float(over_time(constant, load, [0.5 * MS]).delay_mean_ns[0])
    just_after = float(over_time(constant, load, [MS + 1.0]).delay_mean_ns[0])
    more_ns = DEVICE.service_ns(RULES) - DEVICE.service_ns(0)
    assert just_after - old_ns == pytest.approx(more_ns, rel=0.2)


@pytest.mark.parametrize(
    ("rate_pps", "position", "gap_scv"), [(BELOW, 0.0, 0.0), (OVER, 0.0, 1.0), (200_000.0, RULES, 1.0)]
)
def test_a_long_phase_ends_where_predict_is(
    rate_pps: float, position: float, gap_scv: float, poisson: QueueingModel
) -> None:
    load = [
        LoadPhase(MS, 0.3 * CAPACITY_PPS, 64.0, 100.0, gap_scv),
        LoadPhase(1e9, rate_pps, 64.0, position, gap_scv),
    ]
    course = over_time(poisson, load, [0.0, MS + 1e9])
    for i, phase in enumerate(load):
        expected = poisson.predict(phase.rate_pps, 64.0, phase.position, gap_scv)
        for name in ("delay_mean_ns", "delay_p50_ns", "delay_p99_ns"):
            assert getattr(course, name)[i] == pytest.approx(float(getattr(expected, name)), rel=1e-4)
        assert course.loss_ratio[i] == pytest.approx(float(expected.loss_ratio), abs=1e-4)


def test_a_step_that_changes_nothing_changes_nothing(poisson: QueueingModel) -> None:
    load = phases(TrafficStep(MS, BELOW, poisson=True), TrafficStep(MS, BELOW, poisson=True))
    course = over_time(poisson, load, np.linspace(0, 2 * MS, 50))
    assert np.ptp(course.delay_mean_ns) < 1e-3 * course.delay_mean_ns[0]


shares = st.floats(0.02, 2.0)


@given(steps=st.lists(st.tuples(shares, st.floats(0.01, 5.0)), min_size=1, max_size=4), random=st.booleans())
@settings(max_examples=25, deadline=None)
def test_after_rate_steps_the_delay_stays_between_the_phases_own_delays(
    constant: QueueingModel, poisson: QueueingModel, steps: list[tuple[float, float]], random: bool
) -> None:
    model = poisson if random else constant
    load = phases(*(TrafficStep(ms * MS, share * CAPACITY_PPS, poisson=random) for share, ms in steps))
    course = over_time(model, load, np.linspace(0, sum(p.duration_ns for p in load), 200))
    ends = model.predict([p.rate_pps for p in load], 64.0, 0.0, float(random))
    for name in ("delay_mean_ns", "delay_p99_ns"):
        low, high = getattr(ends, name).min(), getattr(ends, name).max()
        assert np.all(getattr(course, name) >= 0.98 * low - DEVICE.service_ns(0))
        assert np.all(getattr(course, name) <= 1.02 * high + DEVICE.service_ns(0))
    assert np.all((course.loss_ratio >= 0) & (course.loss_ratio <= 1))


@given(steps=st.lists(st.tuples(shares, st.floats(0, 1000), st.floats(0.01, 5.0)), min_size=1, max_size=4))
@settings(max_examples=25, deadline=None)
def test_whatever_steps_the_delay_lies_between_an_idle_device_and_the_slowest_full_queue(
    constant: QueueingModel, steps: list[tuple[float, float, float]]
) -> None:
    model = constant
    load = phases(*(TrafficStep(ms * MS, share * CAPACITY_PPS, position) for share, position, ms in steps))
    course = over_time(model, load, np.linspace(0, sum(p.duration_ns for p in load), 200))
    idle = model.predict(1000.0, 64.0, 0.0).delay_mean_ns
    full = model.predict(4e6, 64.0, max(p.position for p in load)).delay_mean_ns
    assert np.all(course.delay_mean_ns >= 0.98 * idle)
    assert np.all(course.delay_mean_ns <= 1.02 * full)
    assert np.all((course.loss_ratio >= 0) & (course.loss_ratio <= 1))


def test_the_published_curves_jump_with_the_rate_and_spike(regular: list[Observation]) -> None:
    model = PiecewiseModel.fit(regular)
    load = phases(
        TrafficStep(MS, 0.3 * CAPACITY_PPS),
        TrafficStep(MS, 0.5 * CAPACITY_PPS),
        TrafficStep(MS, 0.5 * CAPACITY_PPS, RULES),
    )
    at = [0.5 * MS, 1.0 * MS, 1.1 * MS, 2.5 * MS]
    plain = over_time(model, load, at).delay_mean_ns
    spiked = over_time(model.with_spike(Spike(0.1, 1e5)), load, at).delay_mean_ns
    step_pps = 0.2 * CAPACITY_PPS
    assert plain[1] == plain[2] == pytest.approx(float(model.predict(load[1].rate_pps, 64, 0).delay_mean_ns))
    assert spiked - plain == pytest.approx([0, 0.1 * step_pps, 0.1 * step_pps * np.exp(-1), 0], abs=1)


def test_settling_is_timed_from_the_step_and_peaks_are_compared(constant: QueueingModel) -> None:
    loads = [TrafficStep(MS, BELOW), TrafficStep(4 * MS, OVER)]
    seen, said = compared(constant, loads, 1e5, 2)
    (error,) = step_errors(phases(*loads), np.arange(50) * 1e5, 1e5, seen, said)
    fills_ns = constant.queue_packets / (OVER - CAPACITY_PPS) * 1e9
    assert error.at_ns == MS
    assert error.bins == 40
    # Within 10 % of the full queue once 90 % of it are full.
    assert error.settle_ns == pytest.approx(0.9 * fills_ns, abs=1.1e5)
    assert error.predicted_settle_ns == pytest.approx(error.settle_ns, abs=1.1e5)
    assert abs(error.peak_error) < 0.02
    assert error.mape < 0.02
    assert error.unsettled_mape < 0.02


def test_phases_follow_the_steps_of_the_traffic() -> None:
    traffic = Traffic(
        Rate(1e5),
        steps=(LoadStep(0.5, Rate(2e5)), LoadStep(0.75, position=9)),
        duration_s=1.0,
        arrivals="poisson",
    )
    assert phases_of(traffic, 3.0) == [
        LoadPhase(0.5e9, 1e5, 64.0, 3.0, 1.0),
        LoadPhase(0.25e9, 2e5, 64.0, 3.0, 1.0),
        LoadPhase(0.25e9, 2e5, 64.0, 9.0, 1.0),
    ]


@pytest.mark.parametrize(
    ("load", "at", "message"),
    [
        ([], [0.0], "at least one phase"),
        ([LoadPhase(0.0, 1e5, 64, 0)], [0.0], "phase 1 lasts 0 ns"),
        ([LoadPhase(1e6, 1e5, 64, 0)], [2e6], "between 0 and the end"),
        ([LoadPhase(1e6, -1.0, 64, 0)], [0.0], "rate_pps"),
    ],
)
def test_impossible_questions_say_what_is_wrong(
    load: list[LoadPhase], at: list[float], message: str, constant: QueueingModel
) -> None:
    with pytest.raises(InputError, match=message):
        over_time(constant, load, at)


def test_a_load_without_a_number_cannot_be_predicted_over_time() -> None:
    with pytest.raises(InputError, match="max"):
        phases_of(Traffic(Rate(0.0, "max")), 0.0)
