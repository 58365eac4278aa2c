"""When packets left their sender, by its time stamps."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from weirlab.diagnosis.packets.departures import departures

from .made import MS

Ints = NDArray[np.int64]

START = 1_800_000_000 * 1_000 * MS
WAY = 20 * MS


def stamped(left: Ints, tick: int = MS) -> NDArray[np.float64]:
    """By a clock that is soon beyond 32 bits."""
    return ((left // tick + 2**32 - 50) % 2**32).astype(np.float64)


def steady(count: int = 2_000, every: int = 730_139) -> Ints:
    return START + np.arange(count, dtype=np.int64) * every


@pytest.mark.parametrize("tick", [1_000, MS, 4 * MS, 10 * MS])
def test_a_queue_is_what_comes_later_than_the_least_delayed(tick: int) -> None:
    left = steady()
    queue = np.where(np.arange(len(left)) % 1_000 < 600, 0, 30 * MS)
    came = left + WAY + queue
    found = departures(came, stamped(left, tick))
    assert found is not None
    assert found.tick_ns == tick
    # As if they had come by without a queue, never too early, and true to a tick: the least delayed packet
    # may have left a moment after one.
    off = found.left_ns - (left + WAY)
    assert off.min() >= -0.02 * tick
    assert off.max() <= 1.05 * tick
    waited = found.waited_ns(came)
    assert waited[queue == 0].max() == 0
    assert waited[queue > 0] == pytest.approx(30 * MS, abs=1.05 * tick)


def test_without_a_queue_times_are_those_of_the_capture() -> None:
    left = steady()
    found = departures(left + WAY, stamped(left))
    assert found is not None
    assert found.left_ns.tolist() == (left + WAY).tolist()


@pytest.mark.parametrize("drift", [-8e-5, 8e-5])
def test_clocks_that_drift_apart_are_no_queue(drift: float) -> None:
    left = steady(count=60_000, every=1_000_003)
    came = left + WAY + ((left - START) * drift).astype(np.int64)
    found = departures(came, stamped(left))
    assert found is not None
    assert found.waited_ns(came).max() < 0.1 * MS


def test_a_queue_that_grows_is_no_clock_that_drifts() -> None:
    left = steady()
    came = left + WAY + np.maximum((left - START - 50 * MS) // 50, 0)
    found = departures(came, stamped(left))
    assert found is not None
    assert found.waited_ns(came)[-1] == pytest.approx((left[-1] - START - 50 * MS) // 50, abs=1.1 * MS)


def test_an_unknown_clock_tells_nothing() -> None:
    left = steady()
    assert departures(left + WAY, stamped(left, 1_700_000)) is None
    assert departures(left + WAY, np.full(len(left), np.nan)) is None
    assert departures(left[:10] + WAY, stamped(left[:10])) is None


def test_a_reset_without_a_time_stamp_left_when_it_came() -> None:
    left = steady(count=100)
    tsval = stamped(left)
    tsval[-1] = np.nan
    found = departures(left + WAY, tsval)
    assert found is not None
    assert found.left_ns[-1] == left[-1] + WAY
