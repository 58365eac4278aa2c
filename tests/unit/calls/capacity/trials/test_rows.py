"""What a trial with calls leaves behind."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from weirlab.calls.capacity.trials.keeper import summed
from weirlab.calls.capacity.trials.losses import dropping
from weirlab.calls.capacity.trials.rows import (
    CallQuality,
    CapacityRow,
    call_mos,
    capacity_row,
    gap_rows,
    heard,
    inside_rows,
)
from weirlab.calls.capacity.trials.search import CallTraffic
from weirlab.records import FlowTable, PacketLog
from weirlab.store.frames import frame_of, rows_of
from weirlab.testing import make_call_table, make_record
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.plan import CallFlows

from .. import made


def setting(**changes: object) -> CallTraffic:
    return CallTraffic(Calls(classes=(CallClass(parse_codec("g711")),), count=1, **changes))  # type: ignore[arg-type]


def test_a_call_is_as_good_as_its_worse_direction() -> None:
    table = make_call_table(3)
    mos = np.array([4.4, 3.5, 4.2, 4.1, 2.0, 4.4])
    found = heard(replace(table, mos=mos), 4.0)
    np.testing.assert_allclose(call_mos(replace(table, mos=mos)), [3.5, 4.1, 2.0])
    assert found.good_share == pytest.approx(1 / 3)
    assert found.poor_share == pytest.approx(2 / 3)
    assert found.mos_min == 2.0


def test_percentiles_say_that_so_many_calls_are_at_most_so_good() -> None:
    table = make_call_table(100)
    mos = np.repeat(np.linspace(1.01, 2.0, 100), 2)
    found = heard(replace(table, mos=mos), 4.0)
    assert found.mos_p1 == pytest.approx(1.01)
    assert found.mos_p50 == pytest.approx(1.50)


def test_calls_whose_quality_is_not_known_are_left_out() -> None:
    table = make_call_table(2)
    found = heard(replace(table, mos=np.full(4, np.nan)), 4.0)
    assert np.isnan(found.good_share)
    assert np.isnan(found.mos_min)


def test_loss_is_told_by_direction() -> None:
    table = make_call_table(2)
    lost = np.array([0, 10, 0, 30], np.uint64)
    found = heard(replace(table, lost=lost), 4.0)
    assert found.loss_forward == 0
    assert found.loss_back == pytest.approx(0.2)


def test_calls_one_way_have_no_loss_back() -> None:
    assert np.isnan(heard(make_call_table(2, both=False), 4.0).loss_back)


def test_a_row_has_every_column_measured_or_not() -> None:
    spec = setting().spec(400, 10, trial_s=0.1, warmup_s=0.0)
    record = make_record(spec=spec, role="calls")
    row = capacity_row(record, heard(make_call_table(10), 4.0), None, None, phase="sweep", run=3)
    table = frame_of(CapacityRow, [row])
    assert rows_of(CapacityRow, table)[0].mos_p1 == row.mos_p1
    assert table["position"].item() == 400
    assert table["calls"].item() == 10
    assert table["counters_agree"].item() is None
    assert table["cpu_idle"].item() is None
    assert table["samples_due"].item() is None
    bare = capacity_row(record, None, None, None, phase="search", run=None)
    frame = frame_of(CapacityRow, [bare])
    assert all(frame[field.name].item() is None for field in fields(CallQuality))
    assert inside_rows(record, None, "in0", "out0") == []


def test_flows_are_summed_by_direction() -> None:
    flows = FlowTable(
        sent=np.array([10, 20, 30], np.uint64),
        received=np.array([10, 0, 30], np.uint64),
        lost=np.array([0, 20, 0], np.uint64),
        duplicated=np.array([1, 0, 2], np.uint64),
        reordered=np.zeros(3, np.uint64),
        delay_min_ns=np.array([5.0, np.nan, 3.0]),
        delay_mean_ns=np.array([10.0, np.nan, 20.0]),
        delay_max_ns=np.array([50.0, np.nan, 70.0]),
        jitter_ns=np.array([1.0, np.nan, np.nan]),
        longest_gap_ns=np.array([7.0, np.nan, 9.0]),
    )
    two = summed(flows, [np.array([True, False, True]), np.array([False, True, False])])
    assert two.sent.tolist() == [40, 20]
    assert two.lost.tolist() == [0, 20]
    assert two.delay_mean_ns[0] == pytest.approx(17.5)
    assert two.jitter_ns[0] == pytest.approx(1.0)
    assert (two.delay_min_ns[0], two.delay_max_ns[0], two.longest_gap_ns[0]) == (3.0, 70.0, 9.0)
    assert np.isnan(two.delay_mean_ns[1])


def line(calls: int, loss: float, position: int = 0, **more: Any) -> CapacityRow:
    return made.capacity_row(calls, position=position, loss_ratio=loss, **more)


def test_the_device_drops_where_most_trials_lose_something() -> None:
    rows = [line(500, 0), line(1000, 0), line(1000, 0), line(1000, 0.5), line(1500, 0.1), line(2000, 0.3)]
    (found,) = dropping(rows)
    assert (found.carried, found.dropped, found.most) == (1000, 1500, 2000)
    assert (found.carried_pps, found.dropped_pps) == (100_000, 150_000)
    assert found.loss_ratio == pytest.approx(0.1)


def test_a_device_that_drops_nothing_or_everything_has_no_limit_in_between() -> None:
    nothing, everything = dropping([line(500, 0), line(900, 0, 400), line(500, 0.2, 400)])
    assert (nothing.carried, nothing.dropped) == (500, None)
    assert (everything.carried, everything.dropped) == (None, 500)


def test_trials_of_searches_and_spoiled_ones_do_not_count() -> None:
    assert dropping([line(500, 1, valid=False), line(500, 1, phase="search")]) == []


def test_what_a_call_adds_depends_on_who_talks() -> None:
    assert setting().call_pps == 100
    assert setting(directions="back").call_pps == 50
    assert setting().spec(0, 5, trial_s=0.1, warmup_s=0).rules.both_ways
    assert not setting(directions="forward").spec(0, 5, trial_s=0.1, warmup_s=0).rules.both_ways


def test_columns_begin_with_the_attempt_and_end_with_what_was_seen_inside() -> None:
    columns = frame_of(CapacityRow, []).columns
    assert (columns[0], columns[-1], len(columns)) == ("trial_id", "connections_max", 52)


def test_gaps_between_packets_are_counted_at_both_ends_and_by_direction() -> None:
    flow = np.array([0, 0, 1, 0, 1], np.uint32)
    sent = np.array([0, 10_000, 500, 20_000, 40_500], np.uint64)
    log = PacketLog(
        flow=flow,
        seq=np.array([0, 1, 0, 2, 1], np.uint32),
        sent_ns=sent,
        # The second packet of the first flow waits for 5 µs.
        arrival_ns=sent + np.array([100, 5_100, 100, 100, 100], np.uint64),
        first_seq=np.zeros(2, np.uint64),
        call_flows=CallFlows(
            back=np.array([False, True]),
            carries_media=np.ones(2, np.bool_),
            call=np.zeros(2, np.uint32),
            calls_carried=np.ones(2, np.uint32),
            call_class=np.zeros(2, np.int64),
            packet_ns=np.full(2, 20_000_000),
        ),
    )
    record = make_record()
    found = gap_rows(replace(record, result=replace(record.result, packets=log)))
    gaps: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
    for row in found:
        gaps.setdefault((row.direction, row.place), []).append((row.lower_ns, row.upper_ns, row.count))
    assert [count for *_, count in gaps["forward", "sender"]] == [2]
    assert [count for *_, count in gaps["forward", "receiver"]] == [1, 1]
    assert sum(low <= 40_000 < high for low, high, _ in gaps["back", "receiver"]) == 1
    assert not gap_rows(record), "no packets, no gaps"
