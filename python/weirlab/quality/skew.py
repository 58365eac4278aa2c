"""How much faster or slower than the capture's clock a sender's clock runs.

The least delay of a stream drifts evenly if the two clocks differ; queues and jitter only add to it. The
estimate is the line under all delays that comes closest to them (S. Moon, P. Skelly, D. Towsley, "Estimation
and removal of clock skew from network delay measurements", IEEE INFOCOM 1999).
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.quality.segments import I64

F64 = npt.NDArray[np.float64]

MOST: Final = 2e-3
"""The largest skew that is believed: crystals err by up to 1e-4, some sound cards by 1e-3. A delay that grows
faster is that of a queue, or the time stamps count at another rate."""
SHORTEST_NS: Final = 20_000_000_000
"""In a shorter stream, skew is smaller than what queues do."""
_LEAST_DRIFT_NS: Final = 1e6
_SCATTER_SHARE: Final = 0.25
"""How far the least delays may be from the line, as a share of the whole drift."""
_BINS: Final = 64
_LEAST_BINS: Final = 16
_ROUNDS: Final = 3
"""The least delay of a bin counts at its middle: right once the drift within the bin is taken off."""


def estimate(stream: I64, media_ns: I64, transit_ns: I64, streams: int) -> F64:
    """Growth of the delay per media time of each stream, shape (streams,); 0 if no skew shows.

    ``stream``, ``media_ns`` and ``transit_ns`` are of shape (packets,): the packets' streams, times by the
    sender's clock, and arrivals less these. 1e-4 means that the sender's clock is slow by 100 millionths.
    """
    first = np.full(streams, np.iinfo(np.int64).max)
    last = np.full(streams, np.iinfo(np.int64).min)
    np.minimum.at(first, stream, media_ns)
    np.maximum.at(last, stream, media_ns)
    found = np.zeros(streams)
    # Compared before they are subtracted: a stream without packets has none.
    long = np.flatnonzero(last > first)
    long = long[last[long] - first[long] >= SHORTEST_NS]
    if not len(long):
        return found
    place = np.full(streams, -1)
    place[long] = np.arange(len(long))
    chosen = place[stream] >= 0
    row = place[stream[chosen]]
    span = (last[long] - first[long]).astype(np.float64)
    since = (media_ns[chosen] - first[long][row]).astype(np.float64)
    share = since / span[row]
    cell = row * _BINS + np.minimum((share * _BINS).astype(np.int64), _BINS - 1)
    base = np.full(len(long), np.iinfo(np.int64).max)
    np.minimum.at(base, row, transit_ns[chosen])
    transit = (transit_ns[chosen] - base[row]).astype(np.float64)

    middle = (np.arange(_BINS) + 0.5) / _BINS
    drift = np.zeros(len(long))
    scatter = np.zeros(len(long))
    for _ in range(_ROUNDS):
        least = np.full(len(long) * _BINS, np.inf)
        np.minimum.at(least, cell, transit - drift[row] * share)
        for number, delays in enumerate(least.reshape(-1, _BINS)):
            filled = np.isfinite(delays)
            slope, height = _line_below(middle[filled], delays[filled])
            drift[number] += slope
            enough = filled.sum() >= _LEAST_BINS
            above = delays[filled] - (height + slope * middle[filled])
            scatter[number] = np.quantile(above, 0.9) if enough else np.inf
    shows = (np.abs(drift) >= _LEAST_DRIFT_NS) & (scatter <= _SCATTER_SHARE * np.abs(drift))
    rate = drift / span
    found[long] = np.where(shows & (np.abs(rate) <= MOST), rate, 0)
    return found


def _line_below(x: F64, y: F64) -> tuple[float, float]:
    """Slope and height at 0 of the line that has all points on or above it, and the least mean distance.

    It is the edge of the lower hull over the mean of ``x``, which ascends.
    """
    hull: list[int] = []
    for point in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[point] - x[a]) < (y[point] - y[a]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(point)
    if len(hull) < 2:
        return 0.0, float(y[0])
    edge = min(max(int(np.searchsorted(x[hull], x.mean())), 1), len(hull) - 1)
    a, b = hull[edge - 1], hull[edge]
    slope = float((y[b] - y[a]) / (x[b] - x[a]))
    return slope, float(y[a] - slope * x[a])
