from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.calls.failover.switches.switch import CallGaps, around, call_gaps, outage
from weirlab.quality.packets import PacketArrivals, StreamPackets, place_all

MS = 1_000_000
PACKET = 20 * MS
EVENT = 1000 * MS
END = 3000 * MS
LAST_PART = 500 * MS


def packets(lost: list[set[int]], sent: int = 150, delay: int = MS) -> StreamPackets:
    """Streams of a packet every 20 ms from time 0 on, without those that are ``lost``."""
    rows, streams = [], []
    for i, gone in enumerate(lost):
        came = [seq for seq in range(sent) if seq not in gone]
        rows += [i * sent + seq for seq in came]
        streams += [i] * len(came)
    row, stream = np.array(rows, np.int64), np.array(streams, np.int64)
    sent_ns = (row % sent) * PACKET
    return place_all(
        PacketArrivals(stream, row, sent_ns, sent_ns + delay),
        flow=np.arange(len(lost)),
        start=np.arange(len(lost) + 1, dtype=np.int64) * sent,
        packet_ns=np.full(len(lost), PACKET, np.int64),
    )


def gaps(*lost: set[int]) -> CallGaps:
    found = packets(list(lost))
    return call_gaps(found, np.arange(len(lost)), np.zeros(len(lost), np.bool_), EVENT, END, LAST_PART)


def test_a_gap_lasts_from_the_last_arrival_before_the_loss_to_the_first_one_after_it() -> None:
    found = gaps(set(range(52, 60)))
    assert found.gap_ns[0] == 9 * PACKET
    assert found.excess_ns[0] == 8 * PACKET
    assert found.begins_ns[0] == 51 * PACKET + MS - EVENT
    assert found.ends_ns[0] == 60 * PACKET + MS - EVENT
    assert found.survived[0]


def test_without_loss_the_gap_is_the_packet_time() -> None:
    found = gaps(set())
    assert found.gap_ns[0] == PACKET
    assert found.excess_ns[0] == 0


def test_what_was_over_before_the_event_does_not_count() -> None:
    found = gaps(set(range(10, 40)))
    assert found.gap_ns[0] == PACKET


def test_what_begins_long_after_the_switch_is_not_its_doing() -> None:
    found = packets([set(range(120, 140))])
    (gap,) = call_gaps(
        found, np.array([0]), np.zeros(1, np.bool_), EVENT, END, LAST_PART, until_ns=MS * 100
    ).gap_ns
    assert gap == PACKET
    assert outage(found, np.array([True]), EVENT, END, until_ns=MS * 100).gap_ns == PACKET


def test_a_stream_that_never_comes_back_is_dead_until_the_end_of_the_trial() -> None:
    found = gaps(set(range(55, 150)), set())
    assert found.dead.tolist() == [True, False]
    assert found.gap_ns[0] == END - (54 * PACKET + MS)
    assert np.isnan(found.ends_ns[0])


def test_a_stream_that_was_over_by_itself_has_no_gap_at_its_end() -> None:
    found = packets([set()], sent=60)
    (gap,) = call_gaps(found, np.array([0]), np.zeros(1, np.bool_), EVENT, END, LAST_PART).gap_ns
    assert gap == PACKET


def test_a_stream_that_had_not_begun_has_no_gap_and_did_not_die() -> None:
    found = gaps(set(range(150)), set(range(80)))
    assert not found.begun.any()
    assert np.isnan(found.gap_ns).all()
    assert not found.dead.any()
    assert not found.survived.any()


def test_the_outage_of_a_direction_is_the_time_without_any_call() -> None:
    found = packets([set(range(52, 60)), set(range(54, 62))])
    both = outage(found, np.array([True, True]), EVENT, END)
    assert both.gap_ns == 60 * PACKET - 53 * PACKET
    assert both.ends_ns == 60 * PACKET + MS - EVENT


def test_an_outage_that_never_ends_lasts_until_the_end() -> None:
    found = outage(packets([set(range(55, 150))]), np.array([True]), EVENT, END)
    assert found.gap_ns == END - (54 * PACKET + MS)
    assert np.isnan(found.ends_ns)


@given(st.lists(st.sets(st.integers(0, 149)), min_size=1, max_size=6))
def test_gaps_are_those_that_a_plain_loop_finds(lost: list[set[int]]) -> None:
    found = gaps(*lost)
    for i, gone in enumerate(lost):
        arrivals = [seq * PACKET + MS for seq in range(150) if seq not in gone]
        if not arrivals or arrivals[0] >= EVENT:
            assert np.isnan(found.gap_ns[i])
            continue
        ends = [*arrivals[1:], END] if 149 in gone else arrivals[1:]
        pairs = [b - a for a, b in zip(arrivals, ends, strict=False) if b > EVENT]
        assert found.gap_ns[i] == pytest.approx(max(pairs)) if pairs else np.isnan(found.gap_ns[i])


def test_bins_count_what_departed_arrived_and_was_lost() -> None:
    found = packets([set(range(52, 60)), set()])
    series = around(found, np.array([False, True]), EVENT, -100 * MS, 400 * MS, 20 * MS)
    assert len(series.start_ns) == 50
    forward, back = ~series.back, series.back
    assert series.sent[forward].sum() == series.sent[back].sum() == 25
    assert series.lost[forward].sum() == 8
    assert series.lost[back].sum() == 0
    assert series.received[forward].sum() == 17
    quiet = series.start_ns[forward][series.received[forward] == 0]
    assert quiet.tolist() == [(52 * 20 - 1000 + 20 * k) * MS for k in range(8)]
    assert np.isnan(series.delay_max_ns[forward][series.received[forward] == 0]).all()
