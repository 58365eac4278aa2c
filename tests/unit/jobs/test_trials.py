from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from weirlab.base.errors import InputError, TrialError
from weirlab.devices.profile import tables
from weirlab.jobs import testbeds
from weirlab.jobs.progress import RunInterrupt, SilentProgress
from weirlab.jobs.trials import TrialOutcome, TrialRequest, trial, wire_ns
from weirlab.jobs.work import Work
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure import TrialEntry, run_trial
from weirlab.measure.calibrate import CalibrationPoint
from weirlab.records import EngineResult, HostSample
from weirlab.scenario import Dut, Lab
from weirlab.store import Store
from weirlab.testing import FakeBed, TrialDisturbance, make_spec
from weirlab.traffic.sizes import Constant, SizeMix, parse_sizes
from weirlab.traffic.spec import Traffic

Scripted = Callable[..., FakeBed]


def test_a_trial_is_kept_with_its_run(store: Store, beds: list[FakeBed]) -> None:
    spec = make_spec(2e6, position=1000)
    outcome = trial(Work(store, SilentProgress(), "weir trial"), Lab(), Dut(), TrialRequest(spec, attempts=3))
    assert beds[0].rules_seen == [spec.rules]
    run = store.open("last")
    assert (run.run_id, run.manifest.kind, run.manifest.status) == (outcome.run_id, "trial", "complete")
    assert run.manifest.facts["command"] == "weir trial"
    assert run.trials().height == 1


def test_the_document_holds_what_scripts_need(store: Store, beds: list[FakeBed]) -> None:
    outcome = trial(
        Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(2e6, position=1000), attempts=3)
    )
    document = outcome.document()
    delays = {f"delay_{name}_ns" for name in ("min", "mean", "max", "p50", "p90", "p99", "p999")}
    rates = {"offered_pps", "achieved_pps", "forwarding_pps", "loss_ratio", "jitter_ns"}
    kept = {"valid", "invalid", "backend", "cpu_s", "dut_counters", "calibration", "run_id", "queue_packets"}
    assert delays | rates | kept <= document.keys()
    assert document["valid"] is True
    assert document["invalid"] == ()
    assert document["calibration"] is None


def test_what_the_host_disturbed_is_told_and_kept(store: Store) -> None:
    device = SimDevice(disturb_ns=400_000.0, disturb_every_ns=30_000_000.0)
    writer = store.create("trial", {}, {})
    records = run_trial(SimLab(device), make_spec(2e5, duration_s=0.3), TrialEntry(writer.run_id))
    writer.add(records[-1])
    writer.finish()
    outcome = TrialOutcome(writer.run_id, None, tuple(records))
    document, (row,) = outcome.document(), store.open("last").trials().to_dicts()
    assert document["valid"] is True
    assert document["left_out_s"] == row["left_out_s"] > 0
    assert sum(span["end_ns"] - span["begin_ns"] for span in document["left_out"]) == pytest.approx(
        1e9 * row["left_out_s"]
    )
    assert document["left_out"][0]["why"].startswith("the device waited")
    assert [list(span.values()) for span in document["left_out"]] == json.loads(row["left_out"])
    assert row["disturbed_sent"] > row["sent"]
    assert row["disturbed_delay_mean_ns"] > row["delay_mean_ns"]
    facts = dict(tables.trial(outcome)[0].rows)
    assert "that the host disturbed (longest: the device waited" in facts["left out"]
    assert "mean delay" in facts["with that included"]


def test_delays_stand_beside_those_of_a_cable(store: Store, beds: list[FakeBed]) -> None:
    outcome = trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(1e5), attempts=1))
    alone = dict(tables.trial(outcome)[0].rows)
    assert "of that without a device" not in alone
    assert outcome.document()["cable_delay_p50_ns"] is None
    point = CalibrationPoint("100kpps", 1e5, 99_900.0, 0.001, 10.0, 20.0, 8_400.0, 30_000.0, 100, 0, 1, 0)
    beside = replace(outcome, cable=point)
    assert beside.document()["cable_delay_p50_ns"] == 8_400.0
    assert dict(tables.trial(beside)[0].rows) == {
        **alone,
        "of that without a device": "8.40 µs (median over a cable at 99.9 kpps)",
    }


def test_time_on_the_wire_stands_beside_the_delays() -> None:
    device = {"mode": "routed", "speed_mbps": [1000, 100]}
    assert wire_ns(device, 1000.0) == pytest.approx(1008 * 8 * (1 + 10))
    assert wire_ns({"mode": "cable", "speed_mbps": [1000, 1000]}, 1000.0) == pytest.approx(1008 * 8)
    assert wire_ns({"mode": "routed", "speed_mbps": [1000, None]}, 1000.0) is None
    assert wire_ns({}, 1000.0) is None


def test_latency_is_the_delay_without_the_time_on_the_wire(store: Store, beds: list[FakeBed]) -> None:
    outcome = trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(1e5), attempts=1))
    assert "latency_ns" not in outcome.document()
    asked = replace(outcome, wire_ns=1_500.0, latency=True)
    document = asked.document()
    for name, value in document["latency_ns"].items():
        assert value == document[f"delay_{name}_ns"] - 1_500.0
    facts = dict(tables.trial(asked)[0].rows)
    assert facts["of that on the wire"] == "1.50 µs"
    assert {"latency p50, p90, p99, p99.9", "latency min, mean, max"} <= facts.keys()


@pytest.mark.parametrize(
    ("sizes", "reason"), [(Constant(64), "do not tell their speed"), (parse_sizes("imix"), "several sizes")]
)
def test_latency_is_refused_where_the_time_on_the_wire_is_not_known(
    sizes: SizeMix, reason: str, store: Store, beds: list[FakeBed]
) -> None:
    request = TrialRequest(make_spec(1e5, sizes=sizes), attempts=1, latency=True)
    with pytest.raises(InputError, match=reason):
        trial(Work(store, SilentProgress()), Lab(), Dut(), request)
    assert store.runs() == []


def test_in_overload_the_packets_in_the_device_are_its_queue(store: Store, beds: list[FakeBed]) -> None:
    outcome = trial(
        Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(4e6, position=1000), attempts=1)
    )
    assert outcome.queue_packets == pytest.approx(256, rel=0.15)


def test_spoiled_attempts_are_kept_and_a_good_one_ends_the_trial(store: Store, scripted: Scripted) -> None:
    scripted(TrialDisturbance(steal_s={"dut": 0.5}), None)
    outcome = trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(), attempts=3))
    assert [record.valid for record in outcome.records] == [False, True]
    assert outcome.problem() is None
    assert store.open("last").trials()["valid"].to_list() == [False, True]


def test_a_trial_that_stays_spoiled_is_a_problem_with_its_reason(store: Store, scripted: Scripted) -> None:
    scripted(*[TrialDisturbance(steal_s={"dut": 0.5})] * 2)
    outcome = trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(), attempts=2))
    problem = outcome.problem()
    assert isinstance(problem, TrialError)
    assert "stolen" in str(problem)
    assert outcome.run_id in str(problem)


def test_a_device_that_forwards_nothing_is_an_error_and_the_run_failed(
    store: Store, scripted: Scripted
) -> None:
    bed = scripted(*[TrialDisturbance(nothing_arrives=True)] * 4)
    with pytest.raises(TrialError, match="forwards nothing"):
        trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(), attempts=3))
    assert store.open("last").manifest.status == "failed"
    assert bed.closed


def test_impossible_traffic_is_refused_before_anything_is_built(store: Store, beds: list[FakeBed]) -> None:
    with pytest.raises(InputError):
        trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(0.1), attempts=1))
    assert beds == []
    assert store.runs() == []


def test_an_interrupted_trial_names_its_run_and_closes_the_bed(store: Store, scripted: Scripted) -> None:
    bed = scripted(KeyboardInterrupt())
    with pytest.raises(RunInterrupt) as caught:
        trial(Work(store, SilentProgress()), Lab(), Dut(), TrialRequest(make_spec(), attempts=1))
    assert caught.value.run_id in str(caught.value)
    assert caught.value.kept == 0
    assert store.open("last").manifest.status == "interrupted"
    assert bed.closed


class MovedHost(FakeBed):
    """Its host has the CPUs further apart from the fifth trial on."""

    trials = 0

    def run(self, traffic: Traffic) -> EngineResult:
        self.trials += 1
        return super().run(traffic)

    def host(self) -> HostSample:
        return replace(super().host(), handover_ns=245.0 if self.trials > 4 else 66.0)


def test_a_repetition_in_another_state_of_the_host_does_not_count_anywhere(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbeds, "open_bed", lambda *_, **__: MovedHost())
    request = TrialRequest(make_spec(1e5), attempts=1, repetitions=6)
    outcome = trial(Work(store, SilentProgress()), Lab(), Dut(), request)
    assert outcome.repetitions[0].valid
    assert not outcome.repetitions[-1].valid
    assert [each.valid for each in outcome.repetitions] == store.open("last").trials()["valid"].to_list()
