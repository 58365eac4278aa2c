from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from weirlab.base.documents import plain, typed
from weirlab.base.errors import TrialError
from weirlab.measure.calibrate import USUAL_PLAN, Calibration, CalibrationPlan, calibrate, current
from weirlab.measure.progress import TrialProgress
from weirlab.measure.terms import SINGLE, TrialClocks, TrialTerms
from weirlab.measure.trial import FailedTrial
from weirlab.store import Store
from weirlab.testing import FakeBed, FakeClock, FakeDevice, TrialDisturbance
from weirlab.traffic.spec import Rate

CABLE = FakeDevice(service_fixed_ns=100, service_per_rule_ns=0, base_delay_ns=900)
STOLEN = TrialDisturbance(steal_s={"sender": 0.2})


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Store:
    return Store(tmp_path, now=clock.now)


def calibrated(
    store: Store, bed: FakeBed, plan: CalibrationPlan = USUAL_PLAN, terms: TrialTerms = SINGLE
) -> Calibration:
    with store.create("calibrate", {}, bed.facts) as writer:
        return calibrate(bed, writer, plan=plan, terms=terms)


def test_a_calibration_measures_every_rate_and_full_speed(store: Store) -> None:
    found = calibrated(store, FakeBed(CABLE))
    assert [point.rate_text for point in found.points] == ["1kpps", "10kpps", "100kpps", "1Mpps", "max"]
    assert [point.valid for point in found.points] == [3] * 5
    assert found.pacing_error_ratio == pytest.approx(0, abs=1e-9)
    assert found.points[0].delay_p50_ns == pytest.approx(900, rel=0.02)
    assert found.delay_p99_ns > found.delay_p50_ns > 800
    assert (found.lost, found.false_loss_ratio) == (0, 0)
    assert found.sent == 3 * 0.5 * (1e3 + 1e4 + 1e5 + 1e6)
    assert found.max_pps == pytest.approx(5e6)
    assert found.paced_limit_pps == 1e6
    assert set(store.open("last").trials()["role"]) == {"calibrate"}


def test_false_loss_and_pacing_error_are_told(store: Store) -> None:
    script = [TrialDisturbance(dead_bins=1), TrialDisturbance(achieved_share=0.995)]
    found = calibrated(store, FakeBed(CABLE, script), CalibrationPlan(rates=[Rate(1e5)], repetitions=1))
    assert found.lost == 1000
    assert found.false_loss_ratio == pytest.approx(1000 / 50_000)
    found = calibrated(store, FakeBed(CABLE, script[1:]), CalibrationPlan(rates=[Rate(1e5)], repetitions=1))
    assert found.pacing_error_ratio == pytest.approx(0.005)


def test_spoiled_trials_are_counted_and_left_out(store: Store) -> None:
    spoiled = TrialDisturbance(steal_s={"sender": 0.2}, dead_bins=9)
    found = calibrated(store, FakeBed(CABLE, [spoiled]), CalibrationPlan(rates=[Rate(1e5)], repetitions=2))
    (point,) = found.points
    assert (point.valid, point.invalid, point.lost) == (2, 1, 0)


def test_a_rate_that_the_sender_never_reaches_is_shown_but_not_summed_up(store: Store) -> None:
    slow = FakeDevice(service_fixed_ns=100, sender_max_pps=400_000)
    found = calibrated(store, FakeBed(slow))
    by_rate = {point.rate_text: point for point in found.points}
    assert by_rate["1Mpps"].valid == 0
    assert by_rate["1Mpps"].achieved_pps == pytest.approx(400_000)
    assert found.paced_limit_pps == 1e5
    assert found.pacing_error_ratio < 0.01
    assert found.max_pps == pytest.approx(400_000)


def test_the_receivers_limit_at_full_speed_is_no_reason_to_repeat(store: Store) -> None:
    narrow = FakeDevice(service_fixed_ns=250, sender_max_pps=6e6)
    full_ring = TrialDisturbance(counters={"rx_rx_dropped": 1000})
    bed = FakeBed(narrow, [None, full_ring])
    found = calibrated(store, bed, CalibrationPlan(rates=[Rate(1e5), Rate(0.0, "max")], repetitions=1))
    assert len(bed.traffic_seen) == 2
    assert found.points[1].lost > 0
    assert found.lost == 0


def test_a_machine_without_a_quiet_moment_gets_no_calibration(store: Store) -> None:
    with pytest.raises(TrialError, match="200 ms stolen from the sender's CPU"):
        calibrated(store, FakeBed(CABLE, [STOLEN] * 99), CalibrationPlan(rates=[Rate(1e5)]))
    run = store.open("last")
    assert run.manifest.status == "failed"
    assert not run.has("calibration")


def test_a_cable_that_carries_nothing_is_an_error(store: Store) -> None:
    with pytest.raises(FailedTrial, match=r"the cable .* forwards nothing"):
        calibrated(store, FakeBed(CABLE, [TrialDisturbance(nothing_arrives=True)] * 3, dut="none"))


def test_a_calibration_survives_the_way_through_json(store: Store) -> None:
    found = calibrated(store, FakeBed(CABLE))
    again = typed(Calibration, json.loads(json.dumps(plain(found), allow_nan=False)))
    assert repr(again) == repr(found)  # NaN equals nothing, but it prints alike
    assert again.points[-1].nominal_pps == math.inf
    assert found.to_json()["summary"]["paced_limit_pps"] == 1e6
    with pytest.raises(ValueError, match="points: "):
        typed(Calibration, {**plain(found), "points": 1})


def test_the_newest_that_fits_is_in_force(store: Store, clock: FakeClock) -> None:
    assert current(store, lab="sim", backend="sim") is None
    calibrated(store, FakeBed(CABLE))
    clock.advance(60)
    newest = calibrated(store, FakeBed(CABLE))
    clock.advance(60)
    calibrated(store, FakeBed(CABLE, lab="netns", backend="xdp"))
    found = current(store, lab="sim", backend="sim")
    assert found is not None
    assert found.id == newest.id
    assert found.when == "2026-11-21T07:26:00.000+00:00"
    assert current(store, lab="netns", backend="af_packet") is None


def test_a_calibration_between_ports_holds_for_these_ports(store: Store) -> None:
    with store.create("calibrate", {}, {"between": ["a1", "a2"]}) as writer:
        made = calibrate(FakeBed(CABLE, lab="wired", backend="xdp"), writer)
    for ports, is_in_force in (
        (("a1", "a2"), True),
        (("a2", "a1"), False),
        (("b1", "b2"), False),
        ((), False),
    ):
        found = current(store, lab="wired", backend="xdp", between=ports)
        assert (found is not None and found.id == made.id) is is_in_force


def test_the_nearest_load_is_that_of_the_closest_ratio(store: Store) -> None:
    found = calibrated(store, FakeBed(CABLE))
    for pps, text in ((500.0, "1kpps"), (40_000.0, "100kpps"), (20_000.0, "10kpps"), (1e8, "1Mpps")):
        point = found.nearest(pps)
        assert point is not None
        assert point.rate_text == text
    assert found.nearest(0.0) is None
    assert current(store, lab="sim", backend="sim", kernel="2.4.0") is None
    assert current(store, lab="sim", backend="sim", host="elsewhere") is None


def test_unfinished_and_damaged_calibrations_are_passed_over(store: Store, clock: FakeClock) -> None:
    good = calibrated(store, FakeBed(CABLE))
    clock.advance(60)
    with pytest.raises(KeyboardInterrupt):
        calibrated(store, FakeBed(CABLE, [KeyboardInterrupt()]))
    clock.advance(60)
    damaged = calibrated(store, FakeBed(CABLE))
    (store.root / damaged.id / "calibration.json").write_text("{")
    found = current(store, lab="sim", backend="sim")
    assert found is not None
    assert found.id == good.id


def test_progress_is_told(store: Store, clock: FakeClock) -> None:
    told: list[TrialProgress] = []
    bed = FakeBed(CABLE, clock=clock)
    with store.create("calibrate", {}, {}) as writer:
        calibrate(bed, writer, told.append, terms=TrialTerms(clocks=TrialClocks(clock)))
    assert told[-1].done == told[-1].total == 15
    assert told[-1].left_s == 0
