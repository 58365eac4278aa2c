"""What happened to each media stream: loss and its runs, copies, order, jitter, delay, gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dtbsv

from weirlab.quality import segments
from weirlab.quality.packets import BOOL, PacketWindow, StreamPackets
from weirlab.quality.segments import I64

F64 = npt.NDArray[np.float64]

_ROUNDING: Final = 1e-12


@dataclass(frozen=True)
class StreamLosses:
    """Lost packets and their unbroken runs, shapes (streams,)."""

    count: I64
    runs: I64
    longest: I64
    burst_ratio: F64
    """BurstR of G.107, 7.5: mean length of a run over that of random loss, 1 / (1 - p). NaN if nothing or
    everything was lost."""


@dataclass(frozen=True)
class Streams:
    """Shapes (streams,); NaN if nothing, or for jitter and gaps too little, arrived."""

    sent: I64
    received: I64
    duplicated: I64
    reordered: I64
    losses: StreamLosses
    delay_min_ns: F64
    delay_mean_ns: F64
    delay_p50_ns: F64
    delay_p95_ns: F64
    delay_p99_ns: F64
    delay_max_ns: F64
    jitter_ns: F64
    """Mean over the packets of the RFC 3550 estimate after each of them."""
    jitter_max_ns: F64
    longest_gap_ns: F64
    """Longest time between two arrivals, the later of which belongs to the window."""


def measure(packets: StreamPackets, window: PacketWindow | None = None) -> Streams:
    """Each stream, or its part that was sent in the window.

    Jitter is estimated over the whole stream and then averaged over the window, so that the
    estimate does not restart there.
    """
    start, inside = packets.start, packets.within(window)
    chosen = inside.astype(np.int64)
    came = inside & ~packets.lost

    row = packets.timed
    kept = inside[row]
    kept_start = _kept_starts(kept, packets.timed_start)
    transit = packets.arrival_ns[row] - packets.sent_ns[row]
    jitter = jitter_estimates(transit, packets.timed_start)
    # The estimate after the first packet is 0 because nothing is known yet, so it is left out.
    known = _behind_first(kept, packets.timed_start)
    known_start = _kept_starts(known, packets.timed_start)
    second = _behind_first(inside[packets.arrived], packets.arrived_start)
    gaps = np.diff(packets.arrival_ns[packets.arrived], prepend=0)[second]

    delay = _ordered(transit[kept], kept_start)
    p50, p95, p99 = segments.quantiles(delay, kept_start, (0.5, 0.95, 0.99))
    return Streams(
        sent=segments.total(chosen, start),
        received=segments.total(came.astype(np.int64), start),
        duplicated=segments.total(packets.copies.astype(np.int64) * chosen, start),
        reordered=segments.total((packets.reordered & inside).astype(np.int64), start),
        losses=losses(packets.lost, inside, start),
        delay_min_ns=segments.smallest(delay, kept_start, np.nan),
        delay_mean_ns=segments.mean(transit[kept], kept_start),
        delay_p50_ns=p50,
        delay_p95_ns=p95,
        delay_p99_ns=p99,
        delay_max_ns=segments.largest(delay, kept_start, np.nan),
        jitter_ns=segments.mean(jitter[known], known_start),
        jitter_max_ns=segments.largest(jitter[known], known_start, np.nan),
        longest_gap_ns=segments.largest(
            gaps.astype(np.float64), _kept_starts(second, packets.arrived_start), np.nan
        ),
    )


def losses(lost: BOOL, inside: BOOL, start: I64) -> StreamLosses:
    """Runs of losses in the packets ``inside``, which have to be contiguous in each stream.

    Packets sent in a stretch of time are; a run at either end counts with its length inside.
    """
    # Without the packets outside, those inside are neighbours.
    taken = lost[inside]
    inner = segments.starts(segments.total(inside.astype(np.int64), start))
    begins = taken.copy()
    begins[1:] &= ~taken[:-1]
    # A run does not go on in the next stream.
    edges = inner[:-1][np.diff(inner) > 0]
    begins[edges] = taken[edges]
    count = segments.total(taken.astype(np.int64), inner)
    runs = segments.total(begins.astype(np.int64), inner)

    first = np.flatnonzero(begins)
    which = np.cumsum(begins)[taken] - 1
    length = np.bincount(which, minlength=len(first)).astype(np.int64)
    longest = segments.largest(length, segments.starts(runs), 0)

    sent = np.diff(inner).astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = count / runs * (1 - count / sent)
    some = (count > 0) & (count < sent)
    return StreamLosses(count, runs, longest, np.where(some, ratio, np.nan))


def jitter_estimates(transit_ns: I64, start: I64) -> F64:
    """RFC 3550, A.8: J after every packet, in order of arrival; 0 after the first of each stream."""
    change = np.abs(np.diff(transit_ns, prepend=0)).astype(np.float64)
    heads = start[:-1][np.diff(start) > 0]
    change[heads] = 0
    if not len(change):
        return change
    # J' = J + (|D| - J) / 16, run over all streams at once; what a stream has left over from the one
    # before, and decays as (15/16)^k, is taken off again.
    estimate = _solved(15 / 16, change / 16)
    carried = np.zeros(len(start) - 1)
    carried[np.diff(start) > 0] = np.where(heads > 0, estimate[heads - 1], 0)
    position = np.arange(len(change)) - np.repeat(start[:-1], np.diff(start))
    left = np.repeat(carried, np.diff(start)) * (15 / 16) ** (position + 1.0)
    own = estimate - left
    # Rounding errors are no jitter.
    return np.where(own > _ROUNDING * left, own, 0)


def _solved(share: float, added: F64) -> F64:
    """``y[i] = share * y[i - 1] + added[i]``: a triangular matrix with two diagonals, one of them of ones."""
    diagonals = np.empty((2, len(added)), order="F")
    diagonals[0], diagonals[1] = 1.0, -share
    return np.asarray(dtbsv(1, diagonals, added, lower=1, diag=1))


def _behind_first(kept: BOOL, start: I64) -> BOOL:
    """``kept`` without the first packet of each stream, which has none before it."""
    behind = kept.copy()
    behind[start[:-1][np.diff(start) > 0]] = False
    return behind


def _kept_starts(kept: BOOL, start: I64) -> I64:
    return segments.starts(segments.total(kept.astype(np.int64), start))


def _ordered(values: I64, start: I64) -> F64:
    """Values ascending within each segment.

    One sort of whole numbers that have the segment in their upper bits: faster than sorting by two keys.
    """
    if not len(values):
        return values.astype(np.float64)
    lowest = int(values.min())
    bits = max(int(values.max()) - lowest, 1).bit_length()
    if bits + max(len(start), 1).bit_length() > 62:
        by = np.lexsort((values, segments.owner(start)))
        return values[by].astype(np.float64)
    key = (segments.owner(start) << bits) | (values - lowest)
    key.sort()
    return ((key & ((1 << bits) - 1)) + lowest).astype(np.float64)


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


def clock_skews(stream: I64, media_ns: I64, transit_ns: I64, streams: int) -> F64:
    """Growth of the delay per media time of each stream, shape (streams,); 0 if no skew shows.

    The least delay of a stream drifts evenly if the two clocks differ; queues and jitter only add to it. The
    estimate is the line under all delays that comes closest to them (S. Moon, P. Skelly, D. Towsley,
    "Estimation and removal of clock skew from network delay measurements", IEEE INFOCOM 1999).

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
