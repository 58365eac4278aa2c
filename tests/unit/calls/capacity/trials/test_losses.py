"""Lost packets told apart by what the host did when they departed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weirlab.base.documents import plain
from weirlab.calls.capacity.trials.losses import disturbed, losses
from weirlab.calls.capacity.trials.rows import CapacityRow
from weirlab.calls.capacity.trials.search import CallTraffic
from weirlab.lab.monitoring.view import Sample, view
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure.validity import sift
from weirlab.records import EngineResult, HostSample
from weirlab.store.frames import frame_of, rows_of
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

from ..made import capacity_row

DEVICE = SimDevice(service_fixed_ns=10_000.0, service_per_rule_ns=0.0, base_delay_ns=0.0)
"""Some 98,000 packets/s, which is 980 calls of G.711 in both directions."""


def trial(calls: int, device: SimDevice) -> tuple[EngineResult, HostSample]:
    setting = CallTraffic(Calls(classes=(CallClass(parse_codec("g711")),), count=1))
    lab = SimLab(device)
    before = lab.host()
    result = lab.run(setting.spec(0, calls, trial_s=1.0, warmup_s=0.1).traffic)
    return result, replace(lab.host(), wall_s=lab.host().wall_s - before.wall_s)


def test_below_its_threshold_a_device_loses_what_the_host_makes_it_lose() -> None:
    result, host = trial(700, replace(DEVICE, disturb_ns=8e6, disturb_every_ns=200e6))
    assert result.lost > 0
    found = disturbed(result, host)
    assert found is not None
    assert found.disturbed_lost == result.lost
    assert 0 < found.disturbed_sent < result.sent / 2


def test_what_an_overloaded_device_loses_by_itself_is_not_the_hosts() -> None:
    result, host = trial(1_300, DEVICE)
    assert result.loss_ratio > 0.1
    found = disturbed(result, host)
    assert found is not None
    assert (found.disturbed_s, found.disturbed_sent, found.disturbed_lost) == (0.0, 0, 0)


def test_in_overload_the_other_bins_have_the_devices_own_loss() -> None:
    quiet, _ = trial(1_300, DEVICE)
    result, host = trial(1_300, replace(DEVICE, disturb_ns=8e6, disturb_every_ns=200e6))
    found = disturbed(result, host)
    assert found is not None
    assert 0 < found.disturbed_lost < result.lost
    rest = (result.lost - found.disturbed_lost) / (result.sent - found.disturbed_sent)
    assert rest < result.loss_ratio
    assert rest == pytest.approx(quiet.loss_ratio, rel=0.1)


def test_a_trial_with_calls_is_judged_as_a_whole_all_the_same() -> None:
    result, host = trial(700, replace(DEVICE, disturb_ns=8e6, disturb_every_ns=200e6))
    sifted = sift(result, host, offered_pps=result.achieved_pps)
    assert sifted.result.left_out == ()
    assert sifted.result.sent == result.sent


def test_waiting_for_the_devices_own_monitoring_is_the_devices_own() -> None:
    result, host = trial(700, replace(DEVICE, disturb_ns=8e6, disturb_every_ns=200e6))
    start, end = result.record_start_ns, result.record_end_ns
    ticks = (0,) * 8
    always = [Sample(at, at, ticks) for at in range(start, end, 5_000_000)]
    found = disturbed(result, host, view(always, start, end, 5_000_000))
    assert found is not None
    assert found.disturbed_lost == 0
    never = disturbed(result, host, view([], start, end, 100_000_000))
    assert never == disturbed(result, host)


def test_other_work_for_which_the_device_does_not_wait_costs_no_packets() -> None:
    result, host = trial(700, DEVICE)
    assert result.windows is not None
    bins = len(result.series.sent)
    seen = replace(result.windows, glances=np.full(bins, 100), others=np.arange(bins) % 2 * 100)
    assert disturbed(replace(result, windows=seen), host) == disturbed(result, host)


def test_where_nobody_looked_nothing_is_said() -> None:
    result, host = trial(700, DEVICE)
    assert disturbed(replace(result, windows=None), host) is None
    assert result.windows is not None
    assert disturbed(replace(result, windows=replace(result.windows, looks=None)), host) is None
    assert disturbed(result, replace(host, management_s=0.01)) is None, "a session, and nobody knows when"


def line(calls: int = 10, **changes: Any) -> CapacityRow:
    usual = {"sent": 1000, "lost": 10, "disturbed_sent": 100, "disturbed_lost": 4}
    return capacity_row(calls, **usual | changes)


def test_trials_with_as_many_calls_are_added_up() -> None:
    (found,) = losses([line(), line(lost=30, disturbed_lost=26), line(valid=False)])
    assert (found.trials, found.sent, found.lost) == (2, 2000, 40)
    assert found.disturbed_share == pytest.approx(30 / 40)
    assert found.rest_ratio == pytest.approx(10 / 1800)
    assert [one.calls for one in losses([line(calls=20), line(), line(position=5)])] == [10, 20, 10]


def test_one_trial_that_does_not_know_makes_the_sum_unknown() -> None:
    (found,) = losses([line(), line(disturbed_sent=None, disturbed_lost=None)])
    assert found.lost == 20
    assert np.isnan(found.disturbed_share)
    assert np.isnan(found.rest_ratio)
    assert plain(found)["disturbed_share"] is None


def test_lines_of_runs_from_before_do_not_know() -> None:
    old = frame_of(CapacityRow, [line()]).drop("disturbed_s", "disturbed_sent", "disturbed_lost")
    (found,) = losses(rows_of(CapacityRow, old))
    assert found.disturbed_lost is None


def test_without_loss_there_is_no_share() -> None:
    (found,) = losses([line(lost=0, disturbed_lost=0)])
    assert np.isnan(found.disturbed_share)
    assert found.rest_ratio == 0
