"""Sums and extremes of stretches of an array that lie one after the other, some of them empty.

``start`` has one element more than there are segments: segment ``i`` is ``values[start[i]:start[i + 1]]``.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)


def starts(counts: npt.NDArray[np.integer]) -> I64:
    """Where segments of these lengths start, and the end of the last."""
    start = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=start[1:])
    return start


def owner(start: I64) -> I64:
    """Segment of every value."""
    return np.repeat(np.arange(len(start) - 1, dtype=np.int64), np.diff(start))


def total(values: npt.NDArray[Number], start: I64) -> npt.NDArray[Number]:
    """Sum of each segment; 0 of an empty one."""
    return _reduced(np.add, values, start, 0)


def largest(values: npt.NDArray[Number], start: I64, empty: float) -> npt.NDArray[Number]:
    """Largest value of each segment; ``empty`` of an empty one."""
    return _reduced(np.maximum, values, start, empty)


def smallest(values: npt.NDArray[Number], start: I64, empty: float) -> npt.NDArray[Number]:
    """Smallest value of each segment; ``empty`` of an empty one."""
    return _reduced(np.minimum, values, start, empty)


def mean(values: npt.NDArray[np.int64] | npt.NDArray[np.float64], start: I64) -> npt.NDArray[np.float64]:
    """Mean of each segment; NaN of an empty one."""
    count = np.diff(start).astype(np.float64)
    result: npt.NDArray[np.float64] = np.full(len(count), np.nan)
    np.divide(total(values.astype(np.float64), start), count, out=result, where=count > 0)
    return result


def quantiles(
    ordered: npt.NDArray[np.float64], start: I64, shares: tuple[float, ...]
) -> npt.NDArray[np.float64]:
    """Quantiles of each segment, shape (shares, segments); NaN of an empty one.

    The values of a segment have to be in ascending order; between them interpolation is linear.
    """
    count = np.diff(start)
    found = np.full((len(shares), len(count)), np.nan)
    filled = count > 0
    first, last = start[:-1][filled], count[filled] - 1
    for row, share in enumerate(shares):
        place = share * last
        below = np.floor(place).astype(np.int64)
        above = np.minimum(below + 1, last)
        low = ordered[first + below]
        found[row, filled] = low + (place - below) * (ordered[first + above] - low)
    return found


def _reduced(how: np.ufunc, values: npt.NDArray[Number], start: I64, empty: float) -> npt.NDArray[Number]:
    result = np.full(len(start) - 1, empty, dtype=values.dtype)
    filled = np.diff(start) > 0
    if filled.any():
        # Empty segments have no values, so each filled one reaches to the next.
        result[filled] = how.reduceat(values[: start[-1]], start[:-1][filled])
    return result
