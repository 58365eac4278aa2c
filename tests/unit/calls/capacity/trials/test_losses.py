"""Lost packets told apart by what the host did when they departed."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from weirlab.base.documents import plain
from weirlab.calls.capacity.trials import rows
from weirlab.calls.capacity.trials.losses import disturbed, losses
from weirlab.calls.capacity.trials.rows import CapacityRow, DisturbanceCounts
from weirlab.calls.capacity.trials.search import CallGoal, CallTraffic
from weirlab.lab.monitoring.view import InsideView, Sample, view
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.measure.search.mlr import TrialCounts
from weirlab.measure.terms import SINGLE
from weirlab.measure.trial import TrialEntry, run_trial
from weirlab.records import TrialRecord
from weirlab.store.frames import frame_of, rows_of
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

from ..made import capacity_row

DEVICE = SimDevice(service_fixed_ns=10_000.0, service_per_rule_ns=0.0, base_delay_ns=0.0)
"""Some 98,000 packets/s, which is 980 calls of G.711 in both directions."""
DISTURBED = replace(DEVICE, disturb_ns=8e6, disturb_every_ns=200e6)


CALLS = CallTraffic(Calls(classes=(CallClass(parse_codec("g711")),), count=1))


def trial(calls: int, device: SimDevice, inside: InsideView | None = None) -> TrialRecord:
    spec = CALLS.spec(0, calls, trial_s=1.0, warmup_s=0.1)
    (record,) = run_trial(
        WatchedLab(device, inside), spec, TrialEntry("r"), terms=replace(SINGLE, max_attempts=1)
    )
    return record


class WatchedLab(SimLab):
    """A simulated device that somebody pretends to monitor."""

    def __init__(self, device: SimDevice, inside: InsideView | None) -> None:
        super().__init__(device)
        self._seen = inside

    def watch_inside(self) -> AbstractContextManager[None]:
        return nullcontext()

    def seen_inside(self) -> InsideView | None:
        return self._seen


def test_below_its_threshold_a_device_loses_what_the_host_makes_it_lose() -> None:
    record = trial(700, DISTURBED)
    found = disturbed(record)
    assert found is not None
    assert found.disturbed_lost == record.loss.lost > 0
    assert found.disturbed_sent is not None
    assert 0 < found.disturbed_sent < record.loss.sent / 2
    assert found.disturbed_s == record.result.left_out_s > 0


def test_what_an_overloaded_device_loses_by_itself_is_not_the_hosts() -> None:
    record = trial(1_300, DEVICE)
    assert record.result.loss_ratio > 0.1
    assert disturbed(record) == DisturbanceCounts(disturbed_s=0.0, disturbed_sent=0, disturbed_lost=0)


def test_in_overload_the_other_bins_have_the_devices_own_loss() -> None:
    quiet, record = trial(1_300, DEVICE), trial(1_300, DISTURBED)
    assert 0 < (record.loss.disturbed_lost or 0) < record.loss.lost
    assert record.loss.rest_ratio < record.loss.ratio
    assert record.loss.rest_ratio == pytest.approx(quiet.loss.ratio, rel=0.1)


def test_a_search_without_loss_counts_what_the_host_did_not_disturb() -> None:
    record = trial(700, DISTURBED)
    row = rows.capacity_row(record, None, None, None, disturbed(record), phase="search", run=None)
    assert (row.sent, row.lost) == (record.loss.sent, record.loss.lost)
    assert row.loss_ratio == 0
    judged = CallGoal("without loss").judged(row)
    assert judged.bad_ratio == 0
    assert judged == TrialCounts(record.result.sent, 0)


def test_waiting_for_the_devices_own_monitoring_is_the_devices_own() -> None:
    (start, end), ticks = (1_000_000_000, 3_000_000_000), (0,) * 8
    always = [Sample(at, at, ticks) for at in range(start, end, 5_000_000)]
    assert trial(700, DISTURBED, view(always, start, end, 5_000_000)).result.left_out == ()
    assert trial(700, DISTURBED, view([], start, end, 100_000_000)).loss == trial(700, DISTURBED).loss


def test_where_nobody_looked_nothing_is_said() -> None:
    record = trial(700, DEVICE)
    result = record.result
    assert disturbed(replace(record, result=replace(result, windows=None))) is None
    assert result.windows is not None
    blind = replace(result, windows=replace(result.windows, looks=None))
    assert disturbed(replace(record, result=blind)) is None
    session = replace(record, host=replace(record.host, management_s=0.01))
    assert disturbed(session) is None, "a session, and nobody knows when"
    assert disturbed(replace(record, invalid=("sender late",))) is None


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
