from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.records import EngineResult, RuleSetup
from weirlab.records.result import Histogram
from weirlab.traffic.spec import Flows, Rate, Traffic

pytest.importorskip("weirlab._engine", reason="the engine is not built")

EXACT = SimDevice(
    service_fixed_ns=1000,
    service_per_rule_ns=10,
    service_per_byte_ns=0,
    queue_packets=100,
    base_delay_ns=5000,
    noise="none",
)


def trial(device: SimDevice, pps: float, position: int = 0, seed: int = 1) -> EngineResult:
    with SimLab(device) as lab:
        lab.set_rules(RuleSetup(position))
        return lab.run(Traffic(Rate(pps), warmup_s=0.01, duration_s=0.05, seed=seed))


def test_it_is_named_as_what_it_is() -> None:
    lab = SimLab()
    assert (lab.lab, lab.dut, lab.backend) == ("sim", "simulated", "sim")
    assert lab.facts["device_queue_packets"] == 256


def test_answered_flows_are_simulated_on_one_cpu() -> None:
    answered = Traffic(
        Rate(1e5), flows=Flows(10, answered=True, new_share=0.1), warmup_s=0.01, duration_s=0.01
    )
    with SimLab(EXACT, cpus=2) as lab:
        assert lab.facts["dut_cpus"] == 2
        with pytest.raises(InputError, match="leave out --dut-cpus or --answered"):
            lab.run(answered)


def test_below_the_threshold_nothing_is_lost_and_delay_is_base_and_service() -> None:
    result = trial(EXACT, 500_000)
    assert result.lost == 0
    assert result.delay_mean_ns == pytest.approx(6000, abs=1)


@pytest.mark.parametrize("position", [0, 100])
def test_above_the_threshold_the_law_of_the_full_queue_holds(position: int) -> None:
    service_ns = 1000 + 10 * position
    result = trial(EXACT, 2_000_000, position)
    assert result.forwarding_pps == pytest.approx(1e9 / service_ns, rel=0.01)
    assert result.histogram.quantile_ns(0.5) == pytest.approx(5000 + 100 * service_ns, rel=0.02)


def test_a_backlog_that_leaves_after_the_load_was_not_forwarded_in_the_meantime() -> None:
    endless = replace(EXACT, queue_packets=1_000_000)
    result = trial(endless, 2_000_000)
    assert result.lost == 0
    # The queue grew by as much from the first recorded packet to the last.
    assert result.forwarding_pps == pytest.approx(1e6, rel=0.02)


@pytest.mark.parametrize("load", [1.3, 1.6, 2.2])
def test_a_device_that_takes_packets_in_ahead_of_its_work_forwards_what_it_bears(load: float) -> None:
    # A gateway in user space: reading into its endless queue comes first, and ends with the load.
    takes_ns, works_ns = 30e3, 50e3
    bears_pps = 1e9 / (takes_ns + works_ns)
    gap_ns, count = 1e9 / (load * bears_pps), 2000
    sent_ns = np.arange(count) * gap_ns
    worked_ns = np.arange(1, count + 1) * works_ns
    arrival_ns = np.minimum(worked_ns / (1 - takes_ns / gap_ns), worked_ns + count * takes_ns)
    warm = count // 4
    delay_ns = np.sort(arrival_ns - sent_ns)[warm:].astype(np.uint64)
    result = replace(
        trial(EXACT, 500_000),
        record_start_ns=round(sent_ns[warm]),
        record_end_ns=round(count * gap_ns),
        sent=count - warm,
        sent_warmup=warm,
        received=count - warm,
        arrived=count,
        first_arrival_ns=round(arrival_ns[warm]),
        last_arrival_ns=round(arrival_ns[-1]),
        histogram=Histogram(delay_ns, delay_ns + np.uint64(1), np.ones(len(delay_ns), np.uint64)),
    )
    assert result.forwarding_pps == pytest.approx(bears_pps, rel=0.05)


def test_packets_that_come_late_at_the_end_are_no_backlog() -> None:
    result = trial(EXACT, 500_000)
    window_ns = result.record_end_ns - result.record_start_ns
    late = replace(result, last_arrival_ns=result.last_arrival_ns + window_ns)
    assert late.forwarding_pps == result.forwarding_pps == result.achieved_pps


def test_a_sender_without_pacing_overloads_the_device() -> None:
    lab = SimLab(EXACT)
    result = lab.run(Traffic(Rate(0, unit="max"), warmup_s=0.01, duration_s=0.02))
    assert result.achieved_pps == pytest.approx(5e6, rel=0.01)
    assert result.forwarding_pps == pytest.approx(1e6, rel=0.01)


def test_repeated_trials_differ_and_the_same_sequence_is_the_same() -> None:
    device = SimDevice(noise="exponential", seed=7)

    def delays() -> list[float]:
        lab = SimLab(device)
        traffic = Traffic(Rate(700_000), warmup_s=0.0, duration_s=0.02)
        return [lab.run(traffic).delay_mean_ns for _ in range(3)]

    first = delays()
    assert len(set(first)) == 3
    assert delays() == first


def test_counters_and_host_grow_with_every_trial() -> None:
    lab = SimLab(EXACT)
    lab.set_rules(RuleSetup(100))
    results = [lab.run(Traffic(Rate(1_000_000), warmup_s=0.01, duration_s=0.02)) for _ in range(2)]
    counters = lab.counters()
    assert counters["out_tx_packets"] == sum(result.received for result in results)
    assert counters["in_rx_dropped"] == sum(result.lost for result in results) > 0
    host = lab.host()
    assert host.wall_s == pytest.approx(0.06)
    assert host.cpu_s["dut"]["steal"] == 0
    assert host.cpu_s["dut"]["idle"] == pytest.approx(0.06)


def test_series_and_flows_have_the_shape_of_a_real_trial() -> None:
    result = trial(EXACT, 100_000)
    assert result.backend == "sim"
    assert len(result.series.sent) == 25
    assert int(result.series.sent.sum()) == result.sent == int(result.flows.sent.sum())
    assert np.isfinite(result.flows.delay_mean_ns).all()


def test_a_negative_position_is_refused() -> None:
    with pytest.raises(InputError, match="matching position -3"):
        SimLab().set_rules(RuleSetup(-3))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"service_fixed_ns": -1.0}, "service_fixed_ns is -1.0"),
        ({"base_delay_ns": float("nan")}, "base_delay_ns is nan"),
        ({"queue_packets": 0}, "queue_packets must be at least 1"),
        ({"service_fixed_ns": 0.0}, "must take time"),
        ({"noise": "pink"}, "'pink'"),
        ({"noise": "gamma", "noise_cv": 0.0}, "use noise none"),
    ],
)
def test_devices_that_cannot_be_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        SimDevice(**values)
