"""From the packet log of a trial to what each caller heard."""

from __future__ import annotations

import numpy as np
import pytest

from weirlab.quality import emodel
from weirlab.quality.assess import call_table
from weirlab.quality.emodel import EmodelParameters
from weirlab.quality.jitterbuffer import Buffers
from weirlab.quality.packets import PacketWindow
from weirlab.records import CallTable
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.spec import CallClass, Calls

from .made_log import PACKET_NS, make_flows, make_log, sent_at

MS = 1_000_000
G711 = Calls((CallClass(parse_codec("g711")),), 1)


def table_of(lost: set[int], n: int = 500, calls: Calls = G711, delay: int = MS) -> CallTable:
    log = make_log([(0, i, delay) for i in range(n) if i not in lost], 1)
    return call_table(log, make_flows([n]), calls)


def test_a_perfect_call_loses_only_what_its_delay_costs() -> None:
    table = table_of(set(), delay=2 * MS)
    # 20 ms of packet, 2 ms of network, 60 ms of buffer.
    assert table.playout_fixed_ns[0] == pytest.approx(82 * MS)
    expected = emodel.rate(EmodelParameters(t=82.0, ta=82.0, tr=164.0))
    assert table.mos_fixed[0] == pytest.approx(float(expected.mos))
    # The adaptive buffer is shallower, so the call is better through it.
    assert table.mos[0] == table.mos_adaptive[0] > table.mos_fixed[0]
    assert table.r_factor[0] > float(expected.r)


def test_loss_and_its_burst_ratio_reach_the_e_model() -> None:
    lost = {i for i in range(500) if i % 50 in (7, 8)}
    table = table_of(lost)
    assert (table.lost[0], table.loss_runs[0], table.longest_run[0]) == (20, 10, 2)
    assert table.burst_ratio[0] == pytest.approx(2 * 0.96)
    delay = table.playout_fixed_ns[0] / MS
    expected = emodel.rate(EmodelParameters(t=delay, ta=delay, tr=2 * delay, bpl=25.1, ppl=4.0, burst_r=1.92))
    assert table.mos_fixed[0] == pytest.approx(float(expected.mos))


def test_late_packets_count_as_lost_for_the_listener() -> None:
    log = make_log([(0, i, 100 * MS if i % 25 == 3 else MS) for i in range(500)], 1)
    table = call_table(log, make_flows([500]), G711)
    assert (table.lost[0], table.late_fixed[0]) == (0, 20)
    # The late packet comes after the four behind it; each jump in delay is 99 ms.
    delay = table.playout_fixed_ns[0] / MS
    expected = emodel.rate(EmodelParameters(t=delay, ta=delay, tr=2 * delay, bpl=25.1, ppl=4.0))
    assert table.mos_fixed[0] == pytest.approx(float(expected.mos))


def test_the_codec_brings_its_own_delay_and_impairment() -> None:
    table = table_of(set(), calls=Calls((CallClass(parse_codec("g729")),), 1), delay=MS)
    assert table.playout_fixed_ns[0] == pytest.approx(86 * MS), "5 ms of look-ahead"
    expected = emodel.rate(EmodelParameters(t=86.0, ta=86.0, tr=172.0, ie=11.0))
    assert table.mos_fixed[0] == pytest.approx(float(expected.mos))


def test_codecs_of_every_band_are_rated_by_their_own_model() -> None:
    kinds = tuple(CallClass(parse_codec(name), share=0.25) for name in ("g711", "g722", "opus", "ilbc"))
    log = make_log([(flow, i, MS) for flow in range(4) for i in range(100)], 4, call_class=[0, 1, 2, 3])
    table = call_table(log, make_flows([100] * 4), Calls(kinds, 4))
    assert table.r_factor[0] < 94 < table.r_factor[1] < 117 < table.r_factor[2] < 148
    assert np.isnan(table.mos[3]), "nobody has published values for iLBC"


def test_a_call_of_which_nothing_came_has_mos_1() -> None:
    log = make_log([(0, i, MS) for i in range(50)], 2)
    table = call_table(log, make_flows([50, 50]), G711)
    assert (table.mos[1], table.r_factor[1], table.lost[1]) == (1, 0, 50)
    assert np.isnan([table.delay_mean_ns[1], table.playout_fixed_ns[1]]).all()


def test_every_call_of_a_trunk_has_a_row() -> None:
    log = make_log(
        [(flow, i, MS) for flow in range(3) for i in range(10)],
        3, call=[0, 0, 4], carried=[4, 4, 1], back=[False, True, False],
    )  # fmt: skip
    table = call_table(log, make_flows([10] * 3), G711)
    assert table.call.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 4]
    assert table.back.tolist() == [False] * 4 + [True] * 4 + [False]
    assert set(table.sent.tolist()) == {10}


def test_flows_that_sent_nothing_and_signalling_have_no_rows() -> None:
    log = make_log([(1, 0, MS), (2, 0, MS)], 3, media=[True, True, False])
    table = call_table(log, make_flows([0, 1, 1]), G711)
    assert table.call.tolist() == [1]


def test_a_gap_costs_the_ten_seconds_around_it_more_than_the_whole_call() -> None:
    n, gap = 3000, set(range(1500, 1600))
    log = make_log([(0, i, MS) for i in range(n) if i not in gap], 1)
    window = PacketWindow(sent_at(0, 1300), sent_at(0, 1800))
    whole = call_table(log, make_flows([n]), G711)
    around = call_table(log, make_flows([n]), G711, window=window)
    assert (around.sent[0], around.lost[0]) == (500, 100)
    assert around.longest_gap_ns[0] == whole.longest_gap_ns[0] == 101 * PACKET_NS
    assert around.mos[0] < whole.mos[0] < 4.3


def test_without_concealment_g711_bears_less_loss() -> None:
    lost = set(range(0, 500, 50))
    log = make_log([(0, i, MS) for i in range(500) if i not in lost], 1)
    concealed, bare = (
        call_table(log, make_flows([500]), G711, Buffers(concealment=c)).mos[0] for c in (True, False)
    )
    assert bare < concealed - 0.5


def test_g726_that_loses_nothing_is_rated_by_itu_values_alone() -> None:
    table = table_of(set(), calls=Calls((CallClass(parse_codec("g726-32")),), 1))
    expected = emodel.rate(EmodelParameters(t=81.0, ta=81.0, tr=162.0, ie=7.0))
    assert table.mos_fixed[0] == pytest.approx(float(expected.mos))
