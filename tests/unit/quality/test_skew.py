"""The skew of a sender's clock, estimated from planted drifts."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from weirlab.quality.captures import CaptureTable, VoicePackets, capture_table
from weirlab.quality.jitterbuffer import Buffers
from weirlab.quality.streams import clock_skews

MS = 1_000_000
PACKET_NS = 20 * MS
BEGAN_NS = 1_700_000_000 * 10**9

I64 = npt.NDArray[np.int64]


def delays(count: int, ppm: float, jitter_ms: float = 0.0, seed: int = 2) -> I64:
    """Growing delays behind a clock that is slow by ``ppm``, with exponential jitter."""
    jitter = np.random.default_rng(seed).exponential(1.0, count) * jitter_ms * MS
    return np.rint(np.arange(count) * PACKET_NS * ppm * 1e-6 + jitter).astype(np.int64)


def rate_ppm(delay: I64) -> float:
    count = len(delay)
    media = np.arange(count, dtype=np.int64) * PACKET_NS
    return float(clock_skews(np.zeros(count, np.int64), media, delay, 1)[0]) * 1e6


def heard(delay: I64, *, restarts: tuple[int, ...] = ()) -> CaptureTable:
    """A stream whose time stamps begin anew at the packets ``restarts``."""
    number = np.arange(len(delay), dtype=np.int64)
    stretch = np.searchsorted(restarts, number, side="right") if restarts else np.zeros_like(number)
    packets = VoicePackets(
        stream=np.zeros_like(number),
        arrival_ns=BEGAN_NS + number * PACKET_NS + delay,
        seq=number,
        timestamp=number * 160 + stretch * 777_777,
        speech=np.ones(len(number), dtype=np.bool_),
        payload_bytes=np.full(len(number), 160),
        stretch=stretch,
    )
    return capture_table(packets, ["PCMU"], np.array([8000]), Buffers(fixed_ms=40))


@pytest.mark.parametrize("jitter_ms", [0.0, 2.0, 8.0])
@pytest.mark.parametrize("ppm", [50.0, -80.0, 300.0, -1200.0])
def test_a_planted_skew_is_found(ppm: float, jitter_ms: float) -> None:
    assert rate_ppm(delays(15_000, ppm, jitter_ms)) == pytest.approx(ppm, abs=5)


@pytest.mark.parametrize(
    "delay",
    [
        delays(15_000, 0, 5),
        delays(500, 100),
        np.where(np.arange(15_000) < 7_000, 0, 30 * MS),
        delays(15_000, 20_000),
        (20 * MS * (1 + np.sin(np.arange(15_000) / 700))).astype(np.int64),
        np.random.default_rng(1).integers(0, 40 * MS, 1_500) + delays(1_500, 100),
    ],
    ids=["jitter", "short", "route change", "filling queue", "slow waves", "too little drift for its jitter"],
)
def test_other_delays_are_no_skew(delay: I64) -> None:
    assert rate_ppm(delay) == 0


def test_streams_are_estimated_each_for_itself() -> None:
    each = [delays(6_000, 100), delays(100, 0), delays(9_000, -200, 3)]
    stream = np.repeat([0, 1, 3], [len(delay) for delay in each])
    media = np.concatenate([np.arange(len(delay)) * PACKET_NS for delay in each])
    found = clock_skews(stream, media, np.concatenate(each) - BEGAN_NS, 4) * 1e6
    assert found == pytest.approx([100, 0, 0, -200], abs=3)


@pytest.mark.parametrize("ppm", [250.0, -250.0, 900.0])
def test_a_perfect_call_over_a_skewed_clock_sounds_as_one_without(ppm: float) -> None:
    skewed, level = heard(delays(10_000, ppm)), heard(delays(10_000, 0))
    assert skewed.skew[0] * 1e6 == pytest.approx(ppm, abs=1)
    assert np.isnan(level.skew[0])
    assert skewed.fixed.mos[0] == pytest.approx(level.fixed.mos[0], abs=0.05)
    assert skewed.adaptive.mos[0] == pytest.approx(level.adaptive.mos[0], abs=0.05)
    assert skewed.fixed.slips[0] == pytest.approx(abs(ppm) * 1e-6 * 10_000, abs=1)
    assert skewed.streams.delay_max_ns[0] < MS


def test_delays_are_without_the_skew_and_with_the_rest() -> None:
    delay = delays(10_000, 400)
    delay[4_321] += 9 * MS
    assert heard(delay).streams.delay_max_ns[0] == pytest.approx(9 * MS, abs=0.1 * MS)


def test_time_stamps_that_restart_keep_the_skew_of_their_longest_stretch() -> None:
    table = heard(delays(10_000, 200), restarts=(1_000, 8_500))
    assert table.skew[0] * 1e6 == pytest.approx(200, abs=2)
    assert table.streams.delay_max_ns[0] < MS
