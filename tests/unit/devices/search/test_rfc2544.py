from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.devices.search.rfc2544.bursts import BackToBackResult, burst_spec, longest_bursts
from weirlab.devices.search.rfc2544.suite import STRICT, Rfc2544Suite, latency, loss_curve, run_suite
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure.search.throughput import SearchShape, Setting
from weirlab.measure.search.trials import SearchTrialRunner
from weirlab.records import RuleSetup
from weirlab.store import RunWriter, Store
from weirlab.testing import FakeBed, FakeDevice, TrialDisturbance
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant

SHORT = Setting(Constant(64))
SHAPE = SearchShape()
SENDER_PPS = 1.8e6
EXACT = SimDevice(service_per_byte_ns=0.0, noise="none")
NOISY = SimDevice(service_per_byte_ns=0.0, noise="gamma")

Begin = Callable[..., SearchTrialRunner]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    with Store(tmp_path / "store").create("rfc2544", {"name": "test"}, {}) as writer:
        yield writer


@pytest.fixture
def simulated() -> Callable[[SimDevice], SimLab]:
    pytest.importorskip("weirlab._engine", reason="the engine is not built")
    return SimLab


def at(position: int) -> Setting:
    return Setting(Constant(64), RuleSetup(position))


def service_ns(device: SimDevice, position: int) -> float:
    return device.service_fixed_ns + position * device.service_per_rule_ns


@pytest.mark.parametrize("position", [0, 400])
def test_latency_below_the_threshold_is_base_and_service(
    begin: Begin, simulated: Callable[[SimDevice], SimLab], position: int
) -> None:
    service = service_ns(EXACT, position)
    found = latency(begin(simulated(EXACT)), at(position), SHAPE, 0.98e9 / service, repetitions=20)
    assert found.repetitions == 20
    for value in (found.mean_ns, found.min_ns, found.max_ns):
        assert value == pytest.approx(EXACT.base_delay_ns + service, abs=1.5)
    assert found.p99_ns == pytest.approx(EXACT.base_delay_ns + service, rel=0.01)
    assert found.std_ns < 1
    assert found.loss_ratio == 0


def test_the_spread_of_latency_is_that_of_the_trials_means(begin: Begin) -> None:
    trials = begin(FakeBed())
    found = latency(trials, SHORT, SHAPE, 1e5, repetitions=1)
    assert math.isnan(found.std_ns)
    assert found.min_ns == found.mean_ns == found.max_ns
    assert trials.done == 1


@pytest.mark.parametrize("device", [EXACT, NOISY], ids=["exact", "noisy"])
@pytest.mark.parametrize("position", [0, 400])
def test_the_loss_curve_is_that_of_a_full_server(
    begin: Begin, simulated: Callable[[SimDevice], SimLab], device: SimDevice, position: int
) -> None:
    curve = loss_curve(begin(simulated(device)), at(position), SHAPE, SENDER_PPS, step=0.05)
    threshold = 1e9 / service_ns(device, position)
    assert curve.points[0].share == 1
    for point in curve.points:
        assert point.offered_pps == pytest.approx(point.share * SENDER_PPS)
        assert point.loss_ratio == pytest.approx(max(0.0, 1 - threshold / point.offered_pps), abs=0.004)


def test_the_loss_curve_ends_after_two_successive_trials_without_loss(begin: Begin) -> None:
    curve = loss_curve(begin(FakeBed(FakeDevice(service_fixed_ns=1e9 / 1e6))), SHORT, SHAPE, SENDER_PPS)
    assert [point.share for point in curve.points] == [1, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
    assert [point.loss_ratio == 0 for point in curve.points] == [False] * 5 + [True] * 2


def test_one_quiet_trial_between_lossy_ones_does_not_end_the_loss_curve(begin: Begin) -> None:
    dead = TrialDisturbance(dead_bins=2)
    bed = FakeBed(FakeDevice(service_fixed_ns=1), [None, dead, None, None])
    curve = loss_curve(begin(bed), SHORT, SHAPE, SENDER_PPS)
    assert [point.loss_ratio == 0 for point in curve.points] == [True, False, True, True]


def test_a_device_that_always_loses_is_measured_down_to_the_last_step(begin: Begin) -> None:
    curve = loss_curve(
        begin(FakeBed(script=[TrialDisturbance(dead_bins=2)] * 99)), SHORT, SHAPE, SENDER_PPS, step=0.1
    )
    assert len(curve.points) == 10
    assert curve.points[-1].share == pytest.approx(0.1)


@pytest.mark.parametrize("step", [0.0, -0.1, 0.2, float("nan")])
def test_the_loss_test_takes_steps_of_ten_percent_or_finer(step: float) -> None:
    with pytest.raises(InputError, match="10 %"):
        Rfc2544Suite(loss_step=step)


@given(frames=st.integers(2, 100_000), rate_pps=st.floats(1e4, 1.8e6))
def test_a_burst_is_a_trial_of_exactly_so_many_frames(frames: int, rate_pps: float) -> None:
    traffic = burst_spec(SHAPE, SHORT, rate_pps, frames).traffic
    plan = compile_plan(traffic)
    gap_ns = float(plan.gap_ns[0]) + float(plan.gap_frac[0]) / 65536
    assert traffic.warmup_s == 0
    assert (frames - 1) * gap_ns < plan.duration_ns <= frames * gap_ns


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(frames=st.integers(2, 5000))
def test_the_simulated_sender_counts_as_many_frames_as_a_burst_has(
    simulated: Callable[[SimDevice], SimLab], frames: int
) -> None:
    assert simulated(EXACT).run(burst_spec(SHAPE, SHORT, 1.5e6, frames).traffic).sent == frames


@pytest.mark.parametrize("position", [0, 400])
@pytest.mark.parametrize("queue", [50, 256])
def test_bursts_without_noise_show_the_length_of_the_queue_exactly(
    begin: Begin, simulated: Callable[[SimDevice], SimLab], position: int, queue: int
) -> None:
    device = replace(EXACT, queue_packets=queue)
    threshold = 1e9 / service_ns(device, position)
    trials = begin(simulated(device))
    found = longest_bursts(trials, at(position), SHAPE, SENDER_PPS, threshold, repetitions=3)
    assert not found.at_least
    assert len(set(found.frames)) == 1
    assert found.buffer_frames == pytest.approx(queue, abs=1.5)
    assert found.corrected_buffer_s == pytest.approx(queue / SENDER_PPS, rel=1.5 / queue)


def test_bursts_with_noise_show_the_queue_on_average(
    begin: Begin, simulated: Callable[[SimDevice], SimLab]
) -> None:
    found = longest_bursts(begin(simulated(NOISY)), SHORT, SHAPE, SENDER_PPS, 1e9 / 1150, repetitions=20)
    assert len(set(found.frames)) > 1
    assert found.std_frames > 0
    assert found.buffer_frames == pytest.approx(NOISY.queue_packets, rel=0.02)


def test_repetitions_begin_where_the_burst_before_ended(
    begin: Begin, simulated: Callable[[SimDevice], SimLab], tmp_path: Path
) -> None:
    first = begin(simulated(EXACT))
    longest_bursts(first, SHORT, SHAPE, SENDER_PPS, 1e6, repetitions=1)
    with Store(tmp_path / "second").create("rfc2544", {}, {}) as writer:
        both = SearchTrialRunner(simulated(EXACT), writer)
        longest_bursts(both, SHORT, SHAPE, SENDER_PPS, 1e6, repetitions=2)
        assert both.done - first.done < first.done / 2


def test_a_device_that_keeps_up_takes_bursts_of_any_length(
    begin: Begin, simulated: Callable[[SimDevice], SimLab]
) -> None:
    fast = replace(EXACT, service_fixed_ns=400)
    found = longest_bursts(begin(simulated(fast)), SHORT, SHAPE, SENDER_PPS, SENDER_PPS, longest_s=0.01)
    assert found.at_least
    assert found.frames == (18_000,)
    assert math.isnan(found.buffer_frames)


def test_a_device_without_a_queue_loses_of_the_shortest_burst(
    begin: Begin, simulated: Callable[[SimDevice], SimLab]
) -> None:
    found = longest_bursts(
        begin(simulated(replace(EXACT, queue_packets=1))), SHORT, SHAPE, SENDER_PPS, 1e9 / 1150, repetitions=2
    )
    assert found.frames == (0, 0)


def test_the_corrected_buffer_time_is_that_of_rfc_9004() -> None:
    found = BackToBackResult(SHORT, 1e6, 2.5e5, (300, 500), False)
    assert found.mean_frames == 400
    assert found.implied_buffer_s == pytest.approx(400e-6)
    assert found.corrected_buffer_s == pytest.approx(400e-6 - 400e-6 * 0.25)
    assert found.buffer_frames == pytest.approx(300)
    assert found.std_frames == pytest.approx(141.42, abs=0.01)


def test_a_suite_does_every_test_in_every_setting(begin: Begin, writer: RunWriter) -> None:
    bed = FakeBed()
    results = list(run_suite(begin(bed), (at(0), at(400)), SHAPE, Rfc2544Suite(repetitions=2)))
    assert [result.setting for result in results] == [at(0), at(400)]
    for result in results:
        assert result.problems == ()
        assert None not in (result.found, result.latency, result.loss, result.bursts)
        assert result.latency is not None
        assert result.found is not None
        assert result.latency.rate_pps == round(result.found.lower_pps or 0)
    assert set(writer.run.trials()["label"]) == {"sender", "search", "latency", "loss", "burst"}
    assert bed.rules_seen == [RuleSetup(0), RuleSetup(400)]


def test_the_loss_test_alone_needs_no_search(begin: Begin, writer: RunWriter) -> None:
    (result,) = run_suite(begin(FakeBed()), (SHORT,), SHAPE, Rfc2544Suite(tests=("loss",)))
    assert result.loss is not None
    assert result.throughput is None
    assert set(writer.run.trials()["label"]) == {"sender", "loss"}


def test_without_a_throughput_latency_is_not_measured_and_that_is_said(begin: Begin) -> None:
    bed = FakeBed(FakeDevice(service_fixed_ns=2e6))
    (result,) = run_suite(begin(bed), (SHORT,), SHAPE, Rfc2544Suite(tests=("latency",)))
    assert result.latency is None
    assert "no throughput" in result.problems[0]


def test_a_spoiled_test_is_told_and_the_others_go_on(begin: Begin) -> None:
    stolen = TrialDisturbance(steal_s={"dut": 0.1})
    bed = FakeBed(script=[None, stolen, stolen])
    (result,) = run_suite(
        begin(bed, max_attempts=2), (SHORT,), SHAPE, Rfc2544Suite(tests=("throughput", "loss"))
    )
    assert result.found is None
    assert "stolen" in result.problems[0]
    assert result.loss is not None


def test_the_strict_suite_is_as_long_as_the_rfc_asks() -> None:
    assert (STRICT.goal.trial_s, STRICT.goal.exceed_ratio, STRICT.goal.loss_ratio) == (60, 0, 0)
    assert STRICT.latency_s == 120
    assert STRICT.repetitions == 20
    assert STRICT.bursts == 50


@pytest.mark.parametrize(
    "changes", [{"tests": ()}, {"tests": ("speed",)}, {"repetitions": 0}, {"latency_s": 0.0}]
)
def test_an_impossible_suite_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError):
        replace(Rfc2544Suite(), **changes)  # type: ignore[arg-type]
