"""Loss, runs, copies, order, jitter and delay of streams, against a slow and obvious reference."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import TrialError
from weirlab.quality.packets import PacketWindow, StreamPackets, unroll
from weirlab.quality.streams import Streams, jitter_estimates, measure
from weirlab.records import PacketLog

from .made_log import PACKET_NS, make_flows, make_log, sent_at

MS = 1_000_000


@dataclass
class Told:
    """What one stream went through, told one packet after the other."""

    received: int = 0
    duplicated: int = 0
    reordered: int = 0
    lost: int = 0
    runs: int = 0
    longest: int = 0
    burst_ratio: float = math.nan
    jitter: float = math.nan
    jitter_max: float = math.nan
    gap: float = math.nan
    delays: tuple[int, ...] = ()


def tell(log: PacketLog, flow: int, first: int, sent: int) -> Told:
    told, seen, greatest, estimate = Told(), set(), -1, 0.0
    estimates, gaps, delays = [], [], []
    last: tuple[int, int] | None = None
    for f, seq, left, came in zip(log.flow, log.seq, log.sent_ns, log.arrival_ns, strict=True):
        if f != flow:
            continue
        if seq in seen:
            told.duplicated += 1
            continue
        seen.add(int(seq))
        told.received += 1
        told.reordered += int(seq) < greatest
        greatest = max(greatest, int(seq))
        transit = int(came) - int(left)
        delays.append(transit)
        if last is not None:
            estimate += (abs(transit - last[0]) - estimate) / 16
            estimates.append(estimate)
            gaps.append(int(came) - last[1])
        last = (transit, int(came))
    missing = [seq not in seen for seq in range(first, first + sent)]
    runs = [len(list(group)) for is_lost, group in itertools.groupby(missing) if is_lost]
    told.lost, told.runs, told.longest = sum(missing), len(runs), max(runs, default=0)
    if 0 < told.lost < sent:
        told.burst_ratio = (told.lost / told.runs) * (1 - told.lost / sent)
    if estimates:
        told.jitter, told.jitter_max = sum(estimates) / len(estimates), max(estimates)
        told.gap = float(max(gaps))
    told.delays = tuple(delays)
    return told


def assert_as_told(found: Streams, index: int, told: Told) -> None:
    assert found.received[index] == told.received
    assert found.duplicated[index] == told.duplicated
    assert found.reordered[index] == told.reordered
    assert found.losses.count[index] == told.lost
    assert found.losses.runs[index] == told.runs
    assert found.losses.longest[index] == told.longest
    assert found.losses.burst_ratio[index] == pytest.approx(told.burst_ratio, nan_ok=True)
    assert found.jitter_ns[index] == pytest.approx(told.jitter, rel=1e-9, abs=1e-3, nan_ok=True)
    assert found.jitter_max_ns[index] == pytest.approx(told.jitter_max, rel=1e-9, abs=1e-3, nan_ok=True)
    assert found.longest_gap_ns[index] == pytest.approx(told.gap, nan_ok=True)
    if told.delays:
        quantiles = np.quantile(np.array(told.delays, dtype=np.float64), [0, 0.5, 0.95, 0.99, 1])
        assert [
            found.delay_min_ns[index], found.delay_p50_ns[index], found.delay_p95_ns[index],
            found.delay_p99_ns[index], found.delay_max_ns[index],
        ] == pytest.approx(quantiles)  # fmt: skip
        assert found.delay_mean_ns[index] == pytest.approx(np.mean(told.delays))
    else:
        assert np.isnan(found.delay_mean_ns[index])


# Per packet: lost, or its delay in half packet times (up to 600 places behind) and its copies' delays.
fate = st.one_of(
    st.just(()),
    st.tuples(st.integers(0, 4)),
    st.lists(st.integers(0, 1200), min_size=1, max_size=3).map(tuple),
)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.lists(fate, min_size=1, max_size=60)), min_size=1, max_size=4)
)
def test_any_pattern_of_loss_copies_and_displacement_is_told_exactly(
    fates: list[tuple[int, list[tuple[int, ...]]]],
) -> None:
    arrivals = [
        (flow, first + place, delay * PACKET_NS // 2 + 7 * delay + 100)
        for flow, (first, packets) in enumerate(fates)
        for place, delays in enumerate(packets)
        for delay in delays
    ]
    first_seq = [first for first, _ in fates]
    sent = [len(packets) for _, packets in fates]
    log = make_log(arrivals, len(fates), first_seq=first_seq)
    found = measure(unroll(log, make_flows(sent)))
    for flow in range(len(fates)):
        assert_as_told(found, flow, tell(log, flow, first_seq[flow], sent[flow]))


def simple(lost: set[int], n: int = 100, delay: int = MS) -> StreamPackets:
    return unroll(make_log([(0, i, delay) for i in range(n) if i not in lost], 1), make_flows([n]))


def test_losses_at_both_ends_count() -> None:
    found = measure(simple({0, 1, 2, 50, 98, 99})).losses
    assert (found.count[0], found.runs[0], found.longest[0]) == (6, 3, 3)


def test_burst_ratio_of_random_loss_is_one() -> None:
    rng = np.random.default_rng(5)
    lost = {int(i) for i in np.flatnonzero(rng.random(200_000) < 0.1)}
    assert measure(simple(lost, 200_000)).losses.burst_ratio[0] == pytest.approx(1, abs=0.02)


def test_burst_ratio_of_runs_of_five() -> None:
    # 20 % loss: random loss has runs of 1.25.
    lost = {i for i in range(1000) if i % 25 < 5}
    assert measure(simple(lost, 1000)).losses.burst_ratio[0] == pytest.approx(5 / 1.25)


def test_a_stream_of_which_nothing_came_is_all_lost() -> None:
    packets = unroll(make_log([(0, 0, MS)], 2), make_flows([1, 40]))
    found = measure(packets)
    assert (found.losses.count[1], found.losses.runs[1], found.losses.longest[1]) == (40, 1, 40)
    assert np.isnan([found.losses.burst_ratio[1], found.delay_mean_ns[1], found.longest_gap_ns[1]]).all()


def test_sent_times_of_lost_packets_come_from_their_neighbours() -> None:
    lost = {0, 1, 40, 41, 99}
    packets = simple(lost)
    assert [int(packets.sent_ns[i]) for i in sorted(lost)] == [sent_at(0, i) for i in sorted(lost)]


def test_a_window_has_what_was_sent_in_it_and_not_what_arrived() -> None:
    lost = set(range(40, 60)) | {90}
    packets = simple(lost, 100)
    window = PacketWindow(sent_at(0, 45), sent_at(0, 75))
    found = measure(packets, window)
    assert (found.sent[0], found.losses.count[0], found.losses.runs[0]) == (30, 15, 1)
    assert found.losses.longest[0] == 15
    assert found.longest_gap_ns[0] == 21 * PACKET_NS


def test_jitter_in_a_window_goes_on_from_before_it() -> None:
    arrivals = [(0, i, MS + (8 * MS if i % 2 and i < 50 else 0)) for i in range(100)]
    packets = unroll(make_log(arrivals, 1), make_flows([100]))
    whole = measure(packets)
    rough = measure(packets, PacketWindow(sent_at(0, 20), sent_at(0, 50)))
    calm = measure(packets, PacketWindow(sent_at(0, 50), sent_at(0, 100)))
    assert rough.jitter_ns[0] > whole.jitter_ns[0] > calm.jitter_ns[0] > 0
    # After the last change (one more, into the window) the estimate decays by 15/16 a packet.
    assert calm.jitter_max_ns[0] == pytest.approx(8 * MS, rel=0.06)


def test_signalling_is_no_media() -> None:
    log = make_log([(0, 0, MS), (1, 0, MS), (1, 1, MS)], 2, media=[False, True])
    packets = unroll(log, make_flows([1, 2]))
    assert packets.flow.tolist() == [1]
    assert measure(packets).received.tolist() == [2]


def test_an_incomplete_log_is_refused() -> None:
    with pytest.raises(TrialError, match="12 arrivals found no room"):
        unroll(make_log([(0, 0, MS)], 1, missed=12), make_flows([1]))


def test_a_log_of_another_trial_is_refused() -> None:
    with pytest.raises(TrialError, match="flow 0: packet 5"):
        unroll(make_log([(0, 5, MS)], 1), make_flows([3]))


def test_a_log_without_any_arrival_is_all_lost() -> None:
    found = measure(unroll(make_log([], 2), make_flows([3, 4])))
    assert found.losses.count.tolist() == [3, 4]


def test_an_undamaged_stream_behind_a_damaged_one_has_no_jitter_at_all() -> None:
    # All streams are estimated in one run: what is left over from the first must leave nothing behind.
    damaged = np.random.default_rng(1).integers(0, 10**9, 5_000)
    transit = np.concatenate([damaged, np.zeros(8_000, dtype=np.int64)])
    estimates = jitter_estimates(transit, np.array([0, 5_000, 13_000]))
    assert estimates[:5_000].max() > 10**8
    assert not estimates[5_000:].any()
