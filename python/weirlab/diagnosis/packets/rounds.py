"""How the data in flight changes from round trip to round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from weirlab.diagnosis.timeline import Bools, Floats

GROWS: Final = 1.5
"""Growth in two round trips; slow start does it in one, with delayed ACKs (RFC 5681 section 3.1)."""
FLAT_ROUNDS: Final = 6
"""Round trips in which a congestion window in use grows by at least this number of segments."""
FLAT_AGAIN: Final = 12
"""The same after a loss: then CUBIC adds half a segment per round trip (RFC 9438 section 4.3)."""
GROWN_PER_TRIP: Final = 0.5
REGAINED: Final = 1.2
"""Round trips per segment of the window: twice what that growth takes for the 30 % that a loss costs."""
SAME_SEGMENTS: Final = 2.5
FEW_SEGMENTS: Final = 4
LEVEL_ROUNDS: Final = 12
LEVEL_TRIPS: Final = 2.5
"""Round trips in each of these rounds: if a busy host wakes the application late, most still have a burst."""
LEVEL_RATIO: Final = 1.6
"""Greatest ratio between the largest flights of rounds whose mean stays the same."""
REACHED: Final = 2 / 3
"""Share of the rounds in which the flight must reach a mark."""
LEVEL: Final = 0.1
"""Greatest change of the mean from one half of the rounds to the other, as a share of it."""
MOST_ROUNDS: Final = 1 << 20


def _most(start_s: Floats, flight_bytes: Floats, round_s: float) -> tuple[Floats, Floats]:
    """The greatest flight of each round trip, and the round trip of each piece."""
    numbers = np.minimum(np.floor((start_s - start_s[0]) / round_s), MOST_ROUNDS).astype(np.int64)
    most = np.zeros(int(numbers[-1]) + 1)
    np.maximum.at(most, numbers, flight_bytes)
    return most, numbers


def growing_until(start_s: Floats, flight_bytes: Floats, lost: Floats, round_s: float) -> float:
    """When slow start was over, in s on the same axis: the flight stopped growing, or something was lost.

    The beginning, if the flight never grew from one round trip to the next.
    """
    if len(start_s) == 0:
        return 0.0
    most, _ = _most(start_s, flight_bytes, round_s)
    number = 2
    while number < len(most) and most[number] >= GROWS * most[number - 2]:
        number += 1
    if number == 2:
        return float(start_s[0])
    grown = float(start_s[0] + number * round_s)
    losses = np.flatnonzero(lost > 0)
    return min(grown, float(start_s[losses[0]])) if len(losses) else grown


def is_flat(start_s: Floats, flight_bytes: Floats, lost: Floats, round_s: float, mss: int) -> Bools:
    """By piece: the greatest flight stayed the same for :data:`FLAT_ROUNDS`, and nothing had been lost.

    After a loss, only if a congestion window in use would have grown meanwhile (:func:`_free`). A few
    segments do not indicate a limit: there was little to send.
    """
    flat = np.zeros(len(start_s), dtype=bool)
    if len(start_s) == 0:
        return flat
    most, numbers = _most(start_s, flight_bytes, round_s)
    so_far, _ = _most(start_s, lost, round_s)
    rounds = np.zeros(len(most), dtype=bool)
    for length, after_loss in ((FLAT_ROUNDS, False), (FLAT_AGAIN, True)):
        if len(most) < length:
            break
        windows = np.lib.stride_tricks.sliding_window_view(most, length)
        steady = windows.max(axis=1) - windows.min(axis=1) <= SAME_SEGMENTS * mss
        steady &= windows.min(axis=1) >= FEW_SEGMENTS * mss
        steady &= _free(so_far, windows.max(axis=1) / mss, length, 1.0, after_loss)
        rounds |= _covered(steady, length, len(most))
    return np.asarray(rounds[numbers])


def is_level(start_s: Floats, flight_bytes: Floats, lost: Floats, round_s: float, mss: int) -> Bools:
    """By piece: the greatest flight varied for :data:`LEVEL_ROUNDS` round trips, and did not grow.

    Or it reached the same mark in most of them, and never exceeded it: what a busy host sent late in the
    others does not indicate a limit. After a loss as in :func:`is_flat`, and only if growth would show
    despite the variation.
    """
    level = np.zeros(len(start_s), dtype=bool)
    if len(start_s) == 0:
        return level
    most, numbers = _most(start_s, flight_bytes, LEVEL_TRIPS * round_s)
    if len(most) < LEVEL_ROUNDS:
        return level
    so_far, _ = _most(start_s, lost, LEVEL_TRIPS * round_s)
    windows = np.lib.stride_tricks.sliding_window_view(most, LEVEL_ROUNDS)
    half = LEVEL_ROUNDS // 2
    earlier, later = windows[:, :half].mean(axis=1), windows[:, half:].mean(axis=1)
    same = np.maximum(SAME_SEGMENTS * mss, LEVEL * earlier)
    steady = np.abs(later - earlier) <= same
    steady &= windows.max(axis=1) <= LEVEL_RATIO * windows.min(axis=1)
    steady &= windows.min(axis=1) >= FEW_SEGMENTS * mss
    mark = np.median(windows, axis=1)
    near = SAME_SEGMENTS * mss
    reached = (windows >= (mark - near)[:, None]).mean(axis=1) >= REACHED
    steady |= reached & (windows.max(axis=1) <= mark + near) & (mark >= FEW_SEGMENTS * mss)
    segments = windows.max(axis=1) / mss
    free = _free(so_far, segments, LEVEL_ROUNDS, LEVEL_TRIPS, after_loss=True)
    free &= GROWN_PER_TRIP * mss * half * LEVEL_TRIPS >= 2 * same
    steady &= free | _free(so_far, segments, LEVEL_ROUNDS, LEVEL_TRIPS, after_loss=False)
    return np.asarray(_covered(steady, LEVEL_ROUNDS, len(most))[numbers])


def _free(so_far: Floats, segments: Floats, length: int, trips: float, after_loss: bool) -> Bools:
    """By window of ``length`` rounds, each of ``trips`` round trips: nothing was lost in it, nor before.

    ``after_loss``: or so long ago that the congestion window has regained what the loss cost, and grows.
    CUBIC stays at its former size for seconds, unless Reno would exceed that by then (RFC 9438 section 4.3).
    ``so_far``: losses until the end of each round; 0 if nothing was sent in it. ``segments``: most in flight.
    """
    so_far = np.maximum.accumulate(so_far)
    before = np.concatenate([[0.0], so_far[: len(so_far) - length]])
    clean = so_far[length - 1 :] <= before
    if not after_loss:
        return np.asarray(clean & (before <= 0))
    number = np.arange(len(so_far))
    last = np.maximum.accumulate(np.where(np.diff(so_far, prepend=0.0) > 0, number, -np.inf))
    since = (number - last)[length - 1 :] * trips
    return np.asarray(clean & (since >= REGAINED * segments))


def _covered(windows: Bools, length: int, total: int) -> Bools:
    """Round trips that are in any of the windows."""
    edges = np.zeros(total + 1, dtype=np.int64)
    at = np.flatnonzero(windows)
    np.add.at(edges, at, 1)
    np.add.at(edges, at + length, -1)
    return np.asarray(np.cumsum(edges)[:total] > 0)
