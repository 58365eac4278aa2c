"""Bins that the host disturbed are left out, and the rest says what an undisturbed trial says."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure import windows
from weirlab.measure.terms import SINGLE
from weirlab.measure.trial import TrialEntry, run_trial
from weirlab.measure.validity import sift
from weirlab.records import EngineResult, HostSample, RuleSetup, TrialRecord, TrialSpec
from weirlab.testing.results import make_result
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import parse_calls
from weirlab.traffic.spec import Arrivals, Flows, Rate, Traffic

QUIET = HostSample(wall_s=0.3, cpu_s={})
SLOW = SimDevice(service_fixed_ns=5_000.0, service_per_rule_ns=0.0, service_per_byte_ns=0.0, noise="none")
CAPACITY_PPS = 200_000
DISTURBED = replace(SLOW, disturb_ns=400_000.0, disturb_every_ns=20_000_000.0)


def played(
    device: SimDevice, share: float, *, arrivals: Arrivals = "constant", flows: int = 1
) -> EngineResult:
    traffic = Traffic(
        Rate(share * CAPACITY_PPS), flows=Flows(flows), arrivals=arrivals, warmup_s=0.02, duration_s=0.3
    )
    return SimLab(device).run(traffic)


def rest(result: EngineResult) -> EngineResult:
    return windows.without(result, windows.left_out(result, windows.disturbances(result)))


def test_an_undisturbed_trial_stays_whole() -> None:
    result = played(SLOW, 0.5)
    assert windows.disturbances(result) == []
    sifted = sift(result, QUIET, 0.5 * CAPACITY_PPS)
    assert sifted.result is result
    assert (sifted.invalid, sifted.disturbed) == ((), None)


def test_with_nothing_left_out_windows_say_what_the_trial_says() -> None:
    result = played(replace(SLOW, noise="gamma", noise_cv=1.0), 0.8, flows=3)
    again = windows.without(result, ())
    for name in ("sent", "received", "lost", "delay_min_ns", "delay_max_ns"):
        assert getattr(again, name) == getattr(result, name)
    for name in ("delay_mean_ns", "jitter_ns", "forwarding_pps"):
        assert getattr(again, name) == pytest.approx(getattr(result, name))
    for part in ("lower_ns", "upper_ns", "count"):
        assert getattr(again.histogram, part).tolist() == getattr(result.histogram, part).tolist()


@pytest.mark.parametrize("share", [0.2, 0.5, 0.8])
def test_without_disturbed_bins_a_regular_load_is_as_on_a_quiet_host(share: float) -> None:
    quiet, disturbed = played(SLOW, share), played(DISTURBED, share)
    assert disturbed.delay_mean_ns > 1.2 * quiet.delay_mean_ns
    clean = rest(disturbed)
    assert 0.02 < clean.left_out_s < 0.15
    assert clean.delay_mean_ns == pytest.approx(quiet.delay_mean_ns, rel=1e-3)
    assert clean.delay_max_ns == quiet.delay_max_ns
    assert clean.jitter_ns == quiet.jitter_ns == 0
    assert clean.achieved_pps == pytest.approx(share * CAPACITY_PPS, rel=1e-3)


def test_in_overload_too() -> None:
    quiet, disturbed = played(SLOW, 1.3), played(DISTURBED, 1.3)
    assert quiet.loss_ratio - disturbed.loss_ratio < -0.01
    clean = rest(disturbed)
    assert clean.loss_ratio == pytest.approx(quiet.loss_ratio, abs=0.002)
    assert clean.forwarding_pps == pytest.approx(quiet.forwarding_pps, rel=0.003)
    assert clean.delay_mean_ns == pytest.approx(quiet.delay_mean_ns, rel=0.01)


def test_random_arrivals_agree_within_their_scatter() -> None:
    """A device of many seeds, with and without disturbances: neither mean, nor tail, nor loss differs."""

    def measured(device: SimDevice) -> np.ndarray:
        results = [rest(played(replace(device, seed=seed), 0.7, arrivals="poisson")) for seed in range(1, 31)]
        return np.array([(r.delay_mean_ns, r.histogram.quantile_ns(0.99), r.loss_ratio) for r in results])

    # A queue of several packets: what a disturbance leaves behind takes its time to go.
    noisy = replace(SLOW, noise="exponential")
    quiet = measured(noisy)
    disturbed = measured(replace(noisy, disturb_ns=400_000.0, disturb_every_ns=20_000_000.0))
    error = np.hypot(*(x.std(axis=0, ddof=1) / np.sqrt(len(x)) for x in (quiet, disturbed)))
    apart = np.abs(disturbed.mean(axis=0) - quiet.mean(axis=0))
    assert (apart[:2] < 3 * error[:2]).all()
    assert quiet[:, 2].max() == disturbed[:, 2].max() == 0


def test_what_was_left_out_is_kept_with_its_reason_and_the_disturbed_result() -> None:
    (record,) = trial(DISTURBED, 0.5)
    assert record.valid
    assert record.disturbed is not None
    assert record.disturbed.delay_mean_ns > record.result.delay_mean_ns
    assert record.disturbed.sent == int(record.result.flows.sent.sum()) > record.result.sent
    spans = record.result.left_out
    assert all(span.why.startswith("the device waited ") for span in spans)
    assert sum(span.end_ns - span.begin_ns for span in spans) == pytest.approx(record.result.left_out_s * 1e9)
    assert all(a.end_ns <= b.begin_ns for a, b in itertools.pairwise(spans))


def test_a_trial_that_is_disturbed_most_of_the_time_is_invalid_and_kept_whole() -> None:
    records = trial(replace(SLOW, disturb_ns=400_000.0, disturb_every_ns=1_500_000.0), 0.5)
    assert len(records) == 2
    for record in records:
        assert "disturbed by the host" in record.invalid[0]
        assert "at most 50 %" in record.invalid[0]
        assert record.disturbed is None
        assert record.result.left_out == ()


def test_a_trial_of_which_only_bins_without_packets_remain_is_invalid() -> None:
    result = played(SLOW, 0.5)
    assert result.windows is not None
    begin = np.arange(150) < 40
    late_ns = np.where(begin, 20_000_000, 0).astype(np.uint64)
    series = replace(
        result.series,
        sent=np.where(begin, result.series.sent, 0),
        received=np.where(begin, result.series.received, 0),
    )
    late = replace(result, series=series, windows=replace(result.windows, late_max_ns=late_ns))
    assert rest(late).sent == 0
    sifted = sift(late, QUIET, 0.5 * CAPACITY_PPS)
    assert sifted.invalid == ("the sender sent nothing in the recorded window",)
    assert sifted.result is late


def trial(device: SimDevice, share: float) -> list[TrialRecord]:
    traffic = Traffic(Rate(share * CAPACITY_PPS), warmup_s=0.02, duration_s=0.3)
    return run_trial(
        SimLab(device),
        TrialSpec(traffic, RuleSetup()),
        TrialEntry("r"),
        terms=replace(SINGLE, max_attempts=2),
    )


def test_delay_alone_never_chooses_a_bin() -> None:
    """A management session takes the device's CPU: that is the device's own doing."""
    lab = SimLab(replace(SLOW, cross_traffic_ns=400_000.0, cross_traffic_every_ns=20_000_000.0))
    lab.set_cross_traffic(True)
    result = lab.run(Traffic(Rate(0.5 * CAPACITY_PPS), warmup_s=0.02, duration_s=0.3))
    assert result.delay_max_ns > 300_000
    assert windows.disturbances(result) == []


def test_a_late_sender_spoils_its_bins() -> None:
    result = played(SLOW, 0.5)
    assert result.windows is not None
    late_ns = np.zeros(150, np.uint64)
    late_ns[40] = 3_000_000
    late_ns[90] = 20_000
    late = replace(result, windows=replace(result.windows, late_max_ns=late_ns))
    (span,) = windows.left_out(late, windows.disturbances(late))
    assert span.begin_ns <= 38 * 2_000_000
    # It makes up for a fifth of a bin at 1/16 above the nominal load.
    assert span.end_ns == (41 + 4) * 2_000_000
    assert span.why == "the sender was late by 3.00 ms"


def test_bins_in_which_an_unpaced_sender_was_held_up_do_not_lower_the_rate() -> None:
    """Nothing is late without a schedule, and an average over empty bins is not what the device carries."""
    result = played(SLOW, 1.4)
    held_up = np.arange(150) % 5 < 2
    series = replace(
        result.series,
        sent=np.where(held_up, 0, result.series.sent),
        received=np.where(held_up, 0, result.series.received),
    )
    result = replace(result, series=series)
    sifted = sift(result, QUIET, math.inf)
    assert sifted.invalid == ()
    kept = sifted.result
    assert kept.left_out_s == pytest.approx(0.12)
    assert all(span.why.startswith(windows.HELD_UP) for span in kept.left_out)
    assert kept.forwarding_pps == pytest.approx(CAPACITY_PPS, rel=0.05)
    most = replace(result, series=replace(series, sent=np.where(np.arange(150) % 5 < 4, 0, series.sent)))
    assert "too much disturbed by the host" in sift(most, QUIET, math.inf).invalid[0]


def test_a_sender_of_calls_makes_up_for_all_of_its_delays() -> None:
    result = SimLab(SLOW).run(traffic_of(parse_calls(5), 1.0, 0.1))
    assert result.windows is not None
    late_ns = np.zeros(100, np.uint64)
    late_ns[[40, 45]] = 5_000_000
    late = replace(result, windows=replace(result.windows, late_max_ns=late_ns))
    spans = windows.left_out(late, windows.disturbances(late))
    # 16 times 5 ms, and 16 times what was then left of them.
    assert (spans[0].begin_ns, spans[-1].end_ns) == (390_000_000, (46 + 8) * 10_000_000 + 30_000_000)


def test_bins_with_more_other_work_on_the_devices_cpu_than_usual_are_left_out() -> None:
    result = played(SLOW, 0.5)
    assert result.windows is not None
    glances, others = np.full(150, 20, np.uint64), np.ones(150, np.uint64)
    others[40:43] = 11
    glances[90:] = 0
    others[90:] = 0
    busy = replace(result, windows=replace(result.windows, glances=glances, others=others))
    (span,) = windows.left_out(busy, windows.disturbances(busy))
    assert (span.begin_ns, span.end_ns) == (40 * 2_000_000, 43 * 2_000_000)
    assert span.why == "other work ran on the device's CPU for 1.10 ms"


def test_stolen_time_is_as_old_as_what_the_scheduler_knew_before() -> None:
    result = played(SLOW, 0.5)
    assert result.windows is not None
    assert result.windows.looks is not None
    looks = result.windows.looks
    stolen, clock = looks.device_stolen_ns.copy(), looks.device_clock_ns.copy()
    stolen[60:] = 700_000
    clock[50:60] = clock[50]
    seen = replace(looks, device_stolen_ns=stolen, device_clock_ns=clock)
    spoiled = replace(result, windows=replace(result.windows, looks=seen))
    (span,) = windows.left_out(spoiled, windows.disturbances(spoiled))
    assert span.why == "the host took the device's CPU for 700 µs"
    assert span.begin_ns <= 49 * 2_000_000 - 2_000_000
    assert span.end_ns >= 60 * 2_000_000


def test_stolen_time_is_told_for_a_part_of_the_trial() -> None:
    result = played(SLOW, 0.5)
    assert result.windows is not None
    assert result.windows.looks is not None
    taken = result.windows.looks.sender_stolen_ns.copy()
    taken[60:] += np.uint64(700_000)
    taken[100:] += np.uint64(20_000)
    seen = replace(result.windows.looks, sender_stolen_ns=taken)
    stolen = replace(result, windows=replace(result.windows, looks=seen))
    at_ns = 58 * 2_000_000 + 1_000_000
    assert windows.stolen_ns(stolen, at_ns, at_ns + 1) == 700_000
    assert windows.stolen_ns(stolen, at_ns + 30_000_000, at_ns + 90_000_000) == 20_000
    assert windows.stolen_ns(stolen, 0, 300_000_000) == 720_000
    assert windows.stolen_ns(stolen, 0, 50_000_000) == 0
    assert windows.stolen_ns(make_result(), 0, 1) is None


def test_waiting_that_the_sender_did_not_see_came_at_the_end() -> None:
    result = played(SLOW, 0.5)
    (span,) = windows.left_out(result, windows.disturbances(result, waited_ns=5_000_000.0))
    assert (span.begin_ns, span.end_ns) == (294_000_000, 300_000_000)


def test_a_trial_that_nobody_looked_at_cannot_be_divided() -> None:
    with pytest.raises(ValueError, match="no windows"):
        windows.disturbances(make_result())
    with pytest.raises(ValueError, match="no windows"):
        windows.without(make_result(), ())


def test_calls_of_which_too_little_is_left_are_judged_as_a_whole() -> None:
    """A wait of some 50 us spoils a bin of 10 ms, but hardly what is heard."""
    result = SimLab(replace(SLOW, disturb_ns=200_000.0, disturb_every_ns=9_000_000.0)).run(
        traffic_of(parse_calls(5), 1.0, 0.1)
    )
    assert rest(result).left_out_s > 0.5
    sifted = sift(result, replace(QUIET, dut_wait_s=0.001), result.achieved_pps)
    assert sifted.invalid == ()
    assert sifted.result is result
    (why,) = sift(result, replace(QUIET, dut_wait_s=0.3), result.achieved_pps).invalid
    assert "other work had the device's CPU" in why
