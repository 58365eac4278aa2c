"""Columns of pixels: least, greatest and mean of all points in them, whatever the number of points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.web.captures import columns
from weirlab.web.captures.columns import I64, Points


def points(time_ns: I64, low: I64, high: I64) -> Points:
    return Points(time_ns, low, high, *columns.blocks(low, high), time_ns[:: columns.BLOCK])


def walk(number: int, seed: int, burst: bool) -> Points:
    random = np.random.default_rng(seed)
    gaps = random.integers(0, 1000, number)
    if burst:
        gaps[:: max(number // 3, 1)] *= 1_000_000
    low = np.cumsum(random.integers(-50, 60, number)).astype(np.int64)
    return points(np.cumsum(gaps).astype(np.int64), low, low + random.integers(0, 100, number))


@given(
    number=st.integers(1, 3000), seed=st.integers(0, 99), burst=st.booleans(),
    part=st.tuples(st.floats(0, 1), st.floats(0, 1)), width=st.integers(10, 80),
)  # fmt: skip
def test_columns_keep_what_a_look_at_every_point_finds(
    number: int, seed: int, burst: bool, part: tuple[float, float], width: int
) -> None:
    made = walk(number, seed, burst)
    last = int(made.time_ns[-1])
    from_ns, to_ns = sorted(int(share * last) for share in part)
    to_ns += 1
    drawn = columns.spans(made, from_ns, to_ns, width)
    first = max(int(np.searchsorted(made.time_ns, from_ns)) - 1, 0)
    end = min(int(np.searchsorted(made.time_ns, to_ns, "right")) + 1, number)
    assert drawn.low.min() == made.low[first:end].min()
    assert drawn.high.max() == made.high[first:end].max()
    assert len(drawn.time_ns) <= max(width + 3, 1)
    starts = np.searchsorted(made.time_ns, drawn.time_ns, "left").clip(first)
    # Of points at the same time the first decides.
    if len(np.unique(drawn.time_ns)) == len(drawn.time_ns) and len(np.unique(made.time_ns)) == number:
        for row, (a, b) in enumerate(zip(starts, [*starts[1:], end], strict=True)):
            assert drawn.low[row] == made.low[a:b].min()
            assert drawn.high[row] == made.high[a:b].max()
            assert drawn.mean[row] == pytest.approx(made.high[a:b].mean())


def test_one_odd_point_among_a_million_is_seen() -> None:
    number = 1_000_000
    high = np.full(number, 10, np.int64)
    high[654_321] = 99
    made = points(np.arange(number, dtype=np.int64) * 1000, high * 0, high)
    drawn = columns.spans(made, 0, number * 1000, 1000)
    (at,) = np.flatnonzero(drawn.high == 99)
    assert drawn.time_ns[at] <= 654_321_000 < drawn.time_ns[at + 1]
    assert len(drawn.high) <= 1003


def test_columns_of_very_many_points_begin_with_a_block_and_still_keep_every_extreme() -> None:
    number, width = 40_000, 20
    made = walk(number, 7, burst=False)
    last = int(made.time_ns[-1])
    rough = columns.spans(made, 0, last, width)
    exact = columns.spans(replace(made, block_ns=None), 0, last, width)
    starts = np.searchsorted(made.time_ns, rough.time_ns)
    inner = starts[2:-1]
    assert (inner % columns.BLOCK == 0).all()
    shifted = inner - np.searchsorted(made.time_ns, exact.time_ns)[2:-1]
    assert (shifted >= 0).all()
    assert (shifted < columns.BLOCK).all()
    for row, (a, b) in enumerate(zip(starts, [*starts[1:], number], strict=True)):
        assert (rough.low[row], rough.high[row]) == (made.low[a:b].min(), made.high[a:b].max())
        assert rough.mean[row] == pytest.approx(made.high[a:b].mean())


def test_few_points_are_left_as_they_are() -> None:
    made = walk(50, 1, burst=False)
    drawn = columns.spans(made, 0, int(made.time_ns[-1]), 100)
    assert drawn.time_ns.tolist() == made.time_ns.tolist()
    assert drawn.mean.tolist() == made.high.tolist()


def test_of_many_events_every_nth_is_kept_and_the_rest_counted() -> None:
    time_ns = np.arange(1000, dtype=np.int64)
    chosen, left_out = columns.thinned(time_ns, 0, 999, 100)
    assert (len(chosen), left_out) == (100, 900)
    chosen, left_out = columns.thinned(time_ns, 10, 12, 100)
    assert (chosen.tolist(), left_out) == ([10, 11, 12], 0)


def test_rates_add_up_to_what_was_sent() -> None:
    time_ns = np.array([0, 10, 20, 95, 100], np.int64)
    total = np.cumsum(np.array([5, 5, 5, 5, 5], np.int64))
    begin, rate = columns.rates(time_ns, total, 0, 100, 50, 0)
    assert begin.tolist() == [0, 50, 100]
    assert (rate * 50 / 1e9).tolist() == [15, 5, 5]


@pytest.mark.parametrize(("least", "width"), [(0.5, 1), (3, 5), (5, 5), (11, 20), (51e6, 100_000_000)])
def test_bars_have_round_widths(least: float, width: int) -> None:
    assert columns.round_width(least) == width
