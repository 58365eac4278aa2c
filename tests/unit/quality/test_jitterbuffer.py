"""What is played when, and what comes too late; the adaptive buffer against the paper's own words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weirlab import _engine
from weirlab.base.errors import InputError
from weirlab.quality import jitterbuffer
from weirlab.quality.jitterbuffer import Buffers
from weirlab.quality.packets import StreamPackets, unroll

from .made_log import PACKET_NS, make_flows, make_log, sent_at

MS = 1_000_000


def stream(delays: list[int | None]) -> StreamPackets:
    """One stream whose packets take these times; None is lost."""
    arrivals = [(0, i, delay) for i, delay in enumerate(delays) if delay is not None]
    return unroll(make_log(arrivals, 1), make_flows([len(delays)]))


def test_a_fixed_buffer_counts_from_the_first_packet() -> None:
    played = jitterbuffer.fixed(stream([5 * MS, MS, 65 * MS, 66 * MS, None]), Buffers(fixed_ms=60))
    assert played.late.tolist() == [False, False, False, True, False]
    assert played.delay_ns[:3] == pytest.approx(65 * MS)
    assert np.isnan(played.delay_ns[3:]).all()


def test_a_fixed_buffer_may_count_from_the_fastest_packet_of_the_first_second() -> None:
    delays: list[int | None] = [5 * MS, 2 * MS, 61 * MS, 63 * MS, *[4 * MS] * 60, MS]
    played = jitterbuffer.fixed(stream(delays), Buffers(fixed_ms=60, fixed_start="least"))
    assert np.flatnonzero(played.late).tolist() == [3]
    assert np.nanmax(played.delay_ns) == 62 * MS


def test_the_first_packet_that_arrives_is_the_first_even_if_it_was_not_sent_first() -> None:
    packets = stream([50 * MS, 3 * MS, 3 * MS])
    played = jitterbuffer.fixed(packets, Buffers(fixed_ms=10))
    assert played.late.tolist() == [True, False, False]


def test_copies_are_not_played_again() -> None:
    log = make_log([(0, 0, MS), (0, 0, 500 * MS), (0, 1, MS)], 1)
    played = jitterbuffer.fixed(unroll(log, make_flows([2])), Buffers())
    assert played.late.tolist() == [False, False]


def by_the_paper(arrivals: list[tuple[int, int, int]], buffers: Buffers) -> dict[int, tuple[bool, float]]:
    """Algorithm 4 of Ramjee et al., one packet after the other: late, play-out delay of each."""
    result: dict[int, tuple[bool, float]] = {}
    mean = deviation = slope = play = old_play = 0.0
    since = newest_sent = -np.inf
    newest, spike = -1, False
    last = before_last = 0.0
    for position, (seq, sent, transit) in enumerate(arrivals):
        n = float(transit)
        if position == 0:
            mean, deviation, last, before_last = n, PACKET_NS / 4, n, n
        else:
            update = True
            if not spike:
                if abs(n - last) > 2 * deviation + 100 * MS:
                    slope, spike = 0.0, True
            else:
                slope = slope / 2 + abs((2 * n - last - before_last) / 8)
                if slope <= 63 / 8 * MS:
                    spike, update = False, False
            if update:
                mean = mean + n - last if spike else 0.125 * n + 0.875 * mean
                deviation = 0.125 * abs(n - mean) + 0.875 * deviation
            before_last, last = last, n
        if seq > newest:
            silence = sent - newest_sent > 1.5 * PACKET_NS * (seq - newest)
            if silence or sent - since >= buffers.adjust_s * 1e9:
                depth = min(max(4 * deviation, buffers.least_ms * MS), buffers.most_ms * MS)
                old_play, play, since = play, mean + depth, sent
            newest, newest_sent = seq, sent
        delay = play if sent >= since else old_play
        result[seq] = (n > delay, delay)
    return result


steps = st.lists(
    st.one_of(st.integers(0, 40), st.integers(0, 40), st.integers(150, 400), st.none()),
    min_size=1,
    max_size=150,
)


@settings(max_examples=60)
@given(st.lists(steps, min_size=1, max_size=4))
def test_all_streams_at_once_are_buffered_as_the_paper_does_one(delays_ms: list[list[int | None]]) -> None:
    buffers = Buffers(adjust_s=0.3)
    arrivals = [
        (flow, seq, delay * MS + 5 * seq)
        for flow, row in enumerate(delays_ms)
        for seq, delay in enumerate(row)
        if delay is not None
    ]
    packets = unroll(make_log(arrivals, len(delays_ms)), make_flows([len(row) for row in delays_ms]))
    found = jitterbuffer.adaptive(packets, buffers)
    for flow in range(len(delays_ms)):
        mine = sorted((a for a in arrivals if a[0] == flow), key=lambda a: sent_at(flow, a[1]) + a[2])
        expected = by_the_paper([(seq, sent_at(flow, seq), delay) for _, seq, delay in mine], buffers)
        for seq in range(len(delays_ms[flow])):
            row = int(packets.start[flow]) + seq
            late, delay = expected.get(seq, (False, np.nan))
            assert bool(found.late[row]) == late
            assert found.delay_ns[row] == pytest.approx(np.nan if late else delay, rel=1e-9, nan_ok=True)


def test_on_a_calm_network_the_adaptive_buffer_goes_down_to_its_least_depth() -> None:
    played = jitterbuffer.adaptive(stream([3 * MS] * 500), Buffers())
    assert played.delay_ns[0] == pytest.approx(3 * MS + PACKET_NS)
    assert played.delay_ns[-1] == pytest.approx(13 * MS)
    assert not played.late.any()


def test_on_a_rough_network_it_goes_deep_enough_to_lose_little() -> None:
    rng = np.random.default_rng(11)
    delays: list[int | None] = [MS + int(x) for x in rng.exponential(12 * MS, 5000)]
    played = jitterbuffer.adaptive(stream(delays), Buffers())
    assert played.late[500:].mean() < 0.06
    assert 30 * MS < np.nanmean(played.delay_ns[500:]) < 90 * MS


def test_it_follows_a_step_of_the_delay() -> None:
    played = jitterbuffer.adaptive(stream([5 * MS] * 200 + [90 * MS] * 400), Buffers())
    late = np.flatnonzero(played.late)
    assert late.min() == 200
    assert late.max() < 260, "the buffer adjusts every 1.004 s, some 50 packets"


def test_silence_lets_it_adjust_at_once() -> None:
    # Sent times jump by half a second before packet 20: a new talk spurt.
    sent = sent_at(0, 0) + PACKET_NS * np.arange(40) + np.where(np.arange(40) >= 20, 500 * MS, 0)
    delay = np.where(np.arange(40) >= 10, 60 * MS, 5 * MS)
    log = make_log([(0, i, int(delay[i])) for i in range(40)], 1)
    changed = type(log)(**{**vars(log), "sent_ns": sent.astype(np.uint64),
                           "arrival_ns": (sent + delay).astype(np.uint64)})  # fmt: skip
    played = jitterbuffer.adaptive(unroll(changed, make_flows([40])), Buffers())
    assert played.late[10:20].all()
    assert not played.late[20:].any()


@pytest.mark.parametrize("bad", [{"fixed_ms": -1}, {"least_ms": 50, "most_ms": 20}, {"adjust_s": 0}])
def test_buffers_that_cannot_be_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match="jitter buffer"):
        Buffers(**bad)  # type: ignore[arg-type]


def drifting(ppm: float, packets: int, jitter_ms: float = 0.0) -> StreamPackets:
    """A stream of a sender whose clock is slow by ``ppm``."""
    late = np.random.default_rng(3).exponential(1.0, packets) * jitter_ms * MS
    delay = np.round(np.arange(packets) * PACKET_NS * ppm * 1e-6 + late) + 100 * MS
    return stream([int(each) for each in delay])


@pytest.mark.parametrize("ppm", [100.0, -100.0, 450.0, -1500.0])
def test_a_fixed_buffer_slips_by_a_packet_each_time_that_two_clocks_differ_by_one(ppm: float) -> None:
    played = jitterbuffer.fixed(drifting(ppm, 60_000), Buffers(fixed_ms=40))
    expected = int(abs(ppm) * 1e-6 * 60_000)
    assert expected - 1 <= played.slipped.sum() <= expected
    assert (played.late == played.slipped).all()
    assert np.nanmax(played.delay_ns) - np.nanmin(played.delay_ns) == played.slipped.sum() * PACKET_NS


def test_jitter_makes_no_slips() -> None:
    rng = np.random.default_rng(5)
    delays: list[int | None] = [MS + int(x) for x in rng.exponential(30 * MS, 20_000)]
    assert not jitterbuffer.fixed(stream(delays), Buffers()).slipped.any()


def test_a_fixed_buffer_recovers_from_a_longer_route_after_two_seconds() -> None:
    played = jitterbuffer.fixed(stream([5 * MS] * 500 + [130 * MS] * 500), Buffers(fixed_ms=60))
    late = np.flatnonzero(played.late)
    assert (late.min(), late.max()) == (500, 605)
    assert played.slipped.sum() == 6, "six packets of 20 ms are the most that 125 ms hold"


def test_a_buffer_shallower_than_two_packets_slips_by_half_its_depth() -> None:
    played = jitterbuffer.fixed(drifting(200, 30_000), Buffers(fixed_ms=10))
    assert played.slipped.sum() == 23, "120 ms of drift, in steps of 5 ms; the last 2 s are not yet followed"
    assert (played.late == played.slipped).all()


def test_a_queue_that_fills_faster_than_the_buffer_follows_makes_packets_late() -> None:
    played = jitterbuffer.fixed(drifting(100_000, 3_000), Buffers(fixed_ms=60))
    assert played.late[100:].all()


@pytest.mark.parametrize("start", [[0, 2], [0, 4], [1, 3], [0, 3, 2, 3], [0, -1, 3]])
def test_arrays_that_do_not_fit_each_other_are_refused(start: list[int]) -> None:
    ends, three = np.array(start), np.arange(3)
    lengths = np.full(len(start) - 1, 2e7)
    with pytest.raises(ValueError, match="do not fit each other"):
        _engine.adaptive_delays(ends, three, three, three, lengths, (1e7, 2e8, 1e9))
