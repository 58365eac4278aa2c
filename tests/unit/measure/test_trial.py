from __future__ import annotations

import math
from dataclasses import replace

import pytest

from weirlab.base.errors import LabError, TrialError
from weirlab.measure.terms import SINGLE, TrialClocks
from weirlab.measure.trial import FailedTrial, Hooks, TrialEntry, run_trial
from weirlab.measure.validity import ValidityLimits
from weirlab.records import RuleSetup, TrialRecord
from weirlab.testing import FakeBed, FakeClock, FakeDevice, TrialDisturbance, make_spec
from weirlab.traffic.load import offered_pps
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import LoadStep, Rate, Traffic

STOLEN = TrialDisturbance(steal_s={"dut": 0.2})
SPEC = make_spec(1e5, position=400, duration_s=0.5, warmup_s=0.1)


def test_a_valid_trial_is_one_attempt() -> None:
    bed = FakeBed()
    (record,) = run_trial(bed, SPEC, TrialEntry("r", index=3, role="verify"))
    assert bed.rules_seen == [RuleSetup(400)]
    assert bed.traffic_seen == [SPEC.traffic]
    assert (record.trial_id, record.index, record.attempt, record.role) == ("r-0003-1", 3, 1, "verify")
    assert (record.spec, record.lab, record.dut, record.offered_pps) == (SPEC, "sim", "fake", 1e5)
    assert record.valid
    assert record.result.sent == 50_000


def test_an_attempt_holds_what_the_host_and_the_device_did_during_it_alone() -> None:
    bed = FakeBed()
    run_trial(bed, SPEC, TrialEntry("r"))
    (record,) = run_trial(bed, SPEC, TrialEntry("r"))
    assert record.host.wall_s == pytest.approx(0.6)
    assert record.host.cpu_s["dut"]["softirq"] == pytest.approx(0.18)
    assert record.host.memory_used_bytes == 1 << 30
    assert record.dut_counters["in_rx_packets"] == 60_000
    assert record.dut_counters["out_tx_packets"] == 50_000


def test_a_disturbed_trial_is_repeated_and_every_attempt_kept() -> None:
    seen: list[TrialRecord] = []
    bed = FakeBed(script=[STOLEN, TrialDisturbance(slipped_ns=10**8, achieved_share=0.8)])
    records = run_trial(bed, SPEC, TrialEntry("r"), hooks=Hooks(on_record=seen.append))
    assert [record.valid for record in records] == [False, False, True]
    assert [record.attempt for record in records] == [1, 2, 3]
    assert "stolen" in records[0].invalid[0]
    assert "late" in records[1].invalid[0]
    assert seen == records
    assert len(bed.rules_seen) == 1


def test_a_trial_that_stays_invalid_is_returned_with_its_reasons() -> None:
    records = run_trial(
        FakeBed(script=[STOLEN] * 9), SPEC, TrialEntry("r"), terms=replace(SINGLE, max_attempts=4)
    )
    assert [record.valid for record in records] == [False] * 4


def test_who_wants_validity_gets_an_error_with_the_records() -> None:
    with pytest.raises(FailedTrial, match=r"invalid in 3 attempts.*200 ms stolen") as caught:
        run_trial(FakeBed(script=[STOLEN] * 3), SPEC, TrialEntry("r"), require_valid=True)
    assert isinstance(caught.value, TrialError)
    assert len(caught.value.records) == 3


def test_attempts_go_on_counting_after_earlier_ones() -> None:
    bed = FakeBed(script=[STOLEN])
    records = run_trial(
        bed, SPEC, TrialEntry("r", first_attempt=4), terms=replace(SINGLE, max_attempts=2), set_rules=False
    )
    assert [record.trial_id for record in records] == ["r-0000-4", "r-0000-5"]
    assert bed.rules_seen == []


def test_limits_are_the_callers() -> None:
    assert run_trial(
        FakeBed(script=[STOLEN]),
        SPEC,
        TrialEntry("r"),
        terms=replace(SINGLE, limits=ValidityLimits(steal_ratio=0.9)),
    )[0].valid


@pytest.mark.parametrize(
    ("counters", "check"),
    [
        ({"in_rx_packets": -60_000 * 3}, "check the link from the sender"),
        ({}, "check that a rule accepts"),
        ({"filter_dropped": 60_000}, "the filter drops them"),
        ({"ip_no_route": 60_000}, "no route to the receiver"),
        ({"out_tx_packets": 60_000}, "the link to the receiver"),
    ],
)
def test_a_device_that_forwards_nothing_is_an_error_with_counters_and_a_hint(
    counters: dict[str, int], check: str
) -> None:
    seen: list[TrialRecord] = []
    bed = FakeBed(script=[TrialDisturbance(nothing_arrives=True, counters=counters)] * 4)
    with pytest.raises(FailedTrial, match=check) as caught:
        run_trial(bed, SPEC, TrialEntry("r"), hooks=Hooks(on_record=seen.append))
    message = str(caught.value)
    assert "fake forwards nothing: 0 of 150,000 frames arrived in 3 attempts" in message
    assert "matching position 400" in message
    assert "in_rx_packets" in message
    assert len(seen) == 3


class UncountedBed(FakeBed):
    def counters(self) -> dict[str, int]:
        return {"tx_tx_packets": 1}


def test_where_packets_get_lost_is_not_said_of_a_device_without_counters() -> None:
    bed = UncountedBed(script=[TrialDisturbance(nothing_arrives=True)] * 4)
    with pytest.raises(FailedTrial, match="where they get lost is not known"):
        run_trial(bed, SPEC, TrialEntry("r"))


def test_loss_of_everything_is_a_result_if_a_lower_load_is_forwarded() -> None:
    bed = FakeBed(FakeDevice(livelock_pps=80_000))
    records = run_trial(bed, SPEC, TrialEntry("r"), terms=replace(SINGLE, max_attempts=3))
    assert [record.valid for record in records] == [False, True]
    assert records[-1].result.loss_ratio == 1.0
    assert [traffic.rate.value for traffic in bed.traffic_seen] == [1e5, 1e5, 1e3]


def test_one_attempt_with_packets_is_enough_to_show_that_the_device_works() -> None:
    dead = TrialDisturbance(nothing_arrives=True)
    records = run_trial(FakeBed(script=[dead, dead, dead]), SPEC, TrialEntry("r"))
    assert [record.result.received > 0 for record in records] == [False, False, True]


def test_errors_of_the_lab_and_ctrl_c_pass_and_finished_attempts_are_told() -> None:
    for error in (LabError("the cable is gone"), KeyboardInterrupt()):
        seen: list[TrialRecord] = []
        with pytest.raises(type(error)):
            run_trial(
                FakeBed(script=[STOLEN, error]), SPEC, TrialEntry("r"), hooks=Hooks(on_record=seen.append)
            )
        assert [record.attempt for record in seen] == [1]


def test_the_start_is_told_in_utc() -> None:
    clock = FakeClock()
    clock.advance(1.5)
    (record,) = run_trial(
        FakeBed(), SPEC, TrialEntry("r"), terms=replace(SINGLE, clocks=TrialClocks(now=clock.now))
    )
    assert record.started_at == "2026-11-21T07:25:01.500+00:00"


def test_random_arrivals_are_judged_as_such() -> None:
    spec = replace(SPEC, traffic=replace(SPEC.traffic, arrivals="poisson"))
    assert run_trial(FakeBed(script=[TrialDisturbance(achieved_share=1.015)]), spec, TrialEntry("r"))[0].valid
    assert not run_trial(FakeBed(script=[TrialDisturbance(achieved_share=1.015)]), SPEC, TrialEntry("r"))[
        0
    ].valid


def test_the_offered_load_is_the_average_over_the_recorded_window() -> None:
    assert offered_pps(Traffic(Rate(1000.0))) == 1000
    assert math.isinf(offered_pps(Traffic(Rate(0.0, "max"))))
    stepped = Traffic(
        Rate(1000.0), steps=(LoadStep(1.0, Rate(2000.0)), LoadStep(1.5, Rate(5000.0))), duration_s=2.0
    )
    assert offered_pps(stepped) == pytest.approx((1000 + 1000 + 2500) / 2)
    assert offered_pps(Traffic(Rate(1e9, "bps"), Constant(64))) == pytest.approx(1_488_095.2, rel=1e-6)


def test_no_attempts_make_no_sense() -> None:
    with pytest.raises(ValueError, match="at least one"):
        run_trial(FakeBed(), SPEC, TrialEntry("r"), terms=replace(SINGLE, max_attempts=0))


def test_cross_traffic_is_on_for_trials_that_ask_for_it_alone() -> None:
    bed = FakeBed()
    run_trial(bed, replace(SPEC, cross_traffic=True), TrialEntry("r"))
    assert bed.cross_traffic
    run_trial(bed, SPEC, TrialEntry("r"))
    assert not bed.cross_traffic
