"""Part of a long series of points, in columns of pixels that keep its extremes; pure.

Points are in order of time. To summarise nine million of them in milliseconds, the least, greatest and sum of
every 16 in a row are stored with them. A column takes whole blocks from there, and its ends from the points.
Columns with very many points begin with a block, so that no page of the points themselves has to be read into
memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

I64 = NDArray[np.int64]
F64 = NDArray[np.float64]

BLOCK: Final = 16
MANY: Final = 64 * BLOCK
"""Points per column from which on it may begin up to a block too late, which is a 64th of its width."""


@dataclass(frozen=True)
class Points:
    """``time_ns`` in order; from ``low`` to ``high``; ``block_*`` summarise every ``BLOCK`` in a row.

    ``block_ns`` is the time of the first of these; None in arrays of earlier versions.
    """

    time_ns: I64
    low: I64
    high: I64
    block_low: I64
    block_high: I64
    block_sum: F64
    block_ns: I64 | None = None

    def __len__(self) -> int:
        return len(self.time_ns)


@dataclass(frozen=True)
class Spans:
    """A column per row: time of its first point, least ``low``, greatest and mean ``high``."""

    time_ns: I64
    low: I64
    high: I64
    mean: F64


def blocks(low: I64, high: I64) -> tuple[I64, I64, F64]:
    """Least of ``low``, greatest and sum of ``high``, of every ``BLOCK`` points in a row."""
    starts = np.arange(0, len(low), BLOCK)
    if not len(starts):
        nothing: I64 = np.empty(0, np.int64)
        return nothing, nothing, np.empty(0)
    return (
        np.minimum.reduceat(low, starts),
        np.maximum.reduceat(high, starts),
        np.add.reduceat(high.astype(np.float64), starts),
    )


def spans(points: Points, from_ns: int, to_ns: int, columns: int) -> Spans:
    """The points from ``from_ns`` to ``to_ns``, both included, and the ones before and after them.

    Up to ``columns`` points are left as they are; more are put into ``columns`` columns of equal time, except
    for the shift that :data:`MANY` allows.
    """
    first = max(int(np.searchsorted(points.time_ns, from_ns, "left")) - 1, 0)
    end = min(int(np.searchsorted(points.time_ns, to_ns, "right")) + 1, len(points))
    if end - first <= columns:
        high = np.asarray(points.high[first:end])
        return Spans(
            np.asarray(points.time_ns[first:end]),
            np.asarray(points.low[first:end]),
            high,
            high.astype(np.float64),
        )
    width_ns = (to_ns - from_ns) // columns + 1
    edges = from_ns + width_ns * np.arange(columns + 1, dtype=np.int64)
    block_ns = points.block_ns if end - first >= MANY * columns else None
    if block_ns is None:
        inner = np.searchsorted(points.time_ns, edges, "left").clip(first, end)
    else:
        inner = (np.searchsorted(block_ns, edges, "left") * BLOCK).clip(first, end)
    # The points before and after have their own columns.
    cuts = np.unique(np.concatenate(([first, min(first + 1, end), max(end - 1, first), end], inner)))
    starts, ends = cuts[:-1], cuts[1:]
    low, high, total = _reduced(points, starts, ends)
    return Spans(_times(points, starts, block_ns), low, high, total / (ends - starts))


def thinned(time_ns: I64, from_ns: int, to_ns: int, most: int) -> tuple[I64, int]:
    """Indices of the points in the time, or of every n-th if there are more than ``most``; and how many are
    left out.
    """
    first, end = np.searchsorted(time_ns, (from_ns, to_ns + 1), "left")
    number = int(end - first)
    chosen = np.arange(first, end, max(1, -(-number // most)), dtype=np.int64)
    return chosen, number - len(chosen)


def rates(
    time_ns: I64, total: I64, from_ns: int, to_ns: int, width_ns: int, origin_ns: int
) -> tuple[I64, F64]:
    """Rates per second, in blocks of ``width_ns`` that are aligned with ``origin_ns``.

    ``total[n]`` is the sum over the points up to ``n``. Returns the beginning of each block and its rate.
    """
    begin = origin_ns + (from_ns - origin_ns) // width_ns * width_ns
    edges = np.arange(begin, to_ns + width_ns + 1, width_ns, dtype=np.int64)
    if len(edges) < 2 or not len(time_ns):
        return np.empty(0, np.int64), np.empty(0)
    before = np.searchsorted(time_ns, edges, "left") - 1
    sums = np.where(before < 0, 0, np.asarray(total)[before.clip(0)])
    return edges[:-1], np.diff(sums) * 1e9 / width_ns


def round_width(least_ns: float) -> int:
    """The least of 1, 2, 5, 10, 20, ... ns that is no less than ``least_ns``."""
    scale = 1
    while True:
        for factor in (1, 2, 5):
            if factor * scale >= least_ns:
                return factor * scale
        scale *= 10


def _times(points: Points, at: I64, block_ns: I64 | None) -> I64:
    """Times of these points; for those that begin a block, from ``block_ns`` if it is given."""
    if block_ns is None:
        return np.asarray(points.time_ns[at])
    found, begins = np.empty(len(at), np.int64), at % BLOCK == 0
    found[begins] = block_ns[at[begins] // BLOCK]
    found[~begins] = points.time_ns[at[~begins]]
    return found


def _reduced(points: Points, starts: I64, ends: I64) -> tuple[I64, I64, F64]:
    """Least, greatest and sum of the points of each column; none is empty, and the next begins at its end."""
    whole_from, whole_to = -(-starts // BLOCK), ends // BLOCK
    long = whole_to > whole_from
    number = np.arange(len(starts))
    low = np.full(len(starts), np.iinfo(np.int64).max)
    high = np.full(len(starts), np.iinfo(np.int64).min)
    total = np.zeros(len(starts))
    # The part of a column outside whole blocks: fewer than a block at each end, or all of it.
    left = np.concatenate((starts, np.where(long, whole_to * BLOCK, ends)))
    right = np.concatenate((np.where(long, whole_from * BLOCK, ends), ends))
    there = right > left
    lengths, column = (right - left)[there], np.concatenate((number, number))[there]
    if len(lengths):
        rows = _ranges(left[there], lengths)
        at = np.concatenate(([0], np.cumsum(lengths)[:-1]))
        highs = points.high[rows]
        lows = highs if points.low is points.high else points.low[rows]
        np.minimum.at(low, column, np.minimum.reduceat(lows, at))
        np.maximum.at(high, column, np.maximum.reduceat(highs, at))
        np.add.at(total, column, np.add.reduceat(highs.astype(np.float64), at))
    if long.any():
        end = whole_to[long][-1]
        # Every second one is for what is between two columns, and is dropped.
        between = np.stack((whole_from[long], whole_to[long]), axis=1).ravel()[:-1]
        low[long] = np.minimum(low[long], np.minimum.reduceat(points.block_low[:end], between)[::2])
        high[long] = np.maximum(high[long], np.maximum.reduceat(points.block_high[:end], between)[::2])
        total[long] += np.add.reduceat(points.block_sum[:end], between)[::2]
    return low, high, total


def _ranges(starts: I64, lengths: I64) -> I64:
    """``lengths[0]`` numbers from ``starts[0]`` on, and so on for all."""
    shift = np.repeat(starts - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return np.asarray(shift + np.arange(len(shift)), dtype=np.int64)
