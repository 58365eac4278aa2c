"""Lateness, delay, jitter and delta from the times of packets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab.calls.ipsec.endpoints.rows import (
    DELAY,
    DELTA,
    JITTER,
    LATENESS,
    Times,
    arrivals,
    figures,
    highest,
    mean,
    quantile,
    times,
)
from weirlab.quality.distribution import EDGES_NS

PERIOD = 20_000_000


def way(delays: list[list[int]], late: int = 500, phases: list[int] | None = None) -> Times:
    """Packets with these delays; None for a lost one, -1 for one that was not sent."""
    shape = np.array(delays)
    sent, heard = np.zeros(shape.shape, np.int64), np.zeros(shape.shape, np.int64)
    made = times(1000, np.array(phases or [0] * len(delays)), PERIOD, sent, heard)
    was_sent = shape != UNSENT
    sent[was_sent] = (made.due_ns + late)[was_sent]
    was_heard = was_sent & (shape != LOST)
    heard[was_heard] = (sent + shape)[was_heard]
    return Times(made.due_ns, sent, heard)


LOST, UNSENT = -1, -2


def test_packets_are_due_a_packet_time_apart_from_the_start_of_their_stream() -> None:
    found = way([[10, 10], [10, 10]], phases=[0, 700])
    assert found.due_ns.tolist() == [[1000, 1000 + PERIOD], [1700, 1700 + PERIOD]]


def test_jitter_is_that_of_rfc_3550() -> None:
    # Differences of 1600, 1600 and 0 ns: 100, 100 + 1500/16, and that less a sixteenth.
    jitter, delta = arrivals(way([[10, 1610, 10, 10]]))
    second = 100 + (1600 - 100) / 16
    assert jitter[0].tolist() == pytest.approx([0, 100, second, second - second / 16])
    assert delta[0, 1:].tolist() == [PERIOD + 1600, PERIOD - 1600, PERIOD]
    assert math.isnan(delta[0, 0])


def test_a_lost_packet_lengthens_delta_and_changes_no_jitter() -> None:
    jitter, delta = arrivals(way([[10, LOST, 10, UNSENT, 1610]]))
    assert np.isnan(jitter[0]).tolist() == [False, True, False, True, False]
    assert jitter[0, [0, 2, 4]].tolist() == pytest.approx([0, 0, 100])
    assert delta[0, [2, 4]].tolist() == [2 * PERIOD, 2 * PERIOD + 1600]


def test_lost_and_unsent_packets_are_counted_and_the_warm_up_is_left_out() -> None:
    ways = [way([[LOST, 10, 20, LOST], [10, 10, 10, 10]]), way([[10, 10, UNSENT, 10], [10, 10, 10, 10]])]
    found = figures(ways, warmup_packets=1)
    assert (found.due, found.unsent, found.lost) == (12, 1, 1)
    assert len(found.values[DELAY]) == 10
    assert len(found.values[LATENESS]) == 11
    assert set(found.values[LATENESS]) == {500.0}
    # The first packet of the first stream is lost: nothing comes before the second one.
    assert len(found.values[JITTER]) == len(found.values[DELTA]) == 9
    assert len(found.call_jitter) == 4


def test_a_packet_is_bad_if_it_is_late_or_never_comes() -> None:
    found = figures([way([[10, 10_000, LOST, UNSENT, 9_500]])], warmup_packets=0)
    assert found.bad(10_000) == 3
    assert found.bad(9_999) == 4
    assert found.bad(1e9) == 2


def test_of_nothing_there_are_no_figures() -> None:
    found = figures([way([[LOST, LOST]])], warmup_packets=0)
    assert (found.due, found.lost, found.bad(1e9)) == (2, 2, 2)
    jitter = found.values[JITTER]
    assert all(math.isnan(value) for value in (quantile(jitter, 0.5), highest(jitter), mean(jitter)))
    assert list(found.distribution(JITTER)) == []


@settings(max_examples=60)
@given(st.lists(st.lists(st.integers(0, 10**11), min_size=4, max_size=4), min_size=1, max_size=4))
def test_distributions_hold_every_packet_within_its_bin(delays: list[list[int]]) -> None:
    found = figures([way(delays)], warmup_packets=0)
    bins = list(found.distribution(DELAY))
    assert sum(packets for _, _, packets in bins) == len(found.values[DELAY])
    for from_ns, to_ns, packets in bins:
        values = found.values[DELAY]
        top = to_ns if to_ns < EDGES_NS[-1] else math.inf
        assert int(((values >= from_ns) & (values < top)).sum()) == packets


@settings(max_examples=60)
@given(st.lists(st.integers(-1, 10**6), min_size=2, max_size=40))
def test_streams_side_by_side_have_the_jitter_that_each_has_alone(delays: list[int]) -> None:
    both, _ = arrivals(way([delays, delays[::-1]]))
    alone, _ = arrivals(way([delays]))
    np.testing.assert_allclose(both[0], alone[0])
    assert np.nanmax(np.append(both, 0)) <= 10**6
