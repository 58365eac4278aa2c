"""Whether a sender kept a pace, by when its segments came by."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from weirlab.diagnosis.packets.pacing import paced
from weirlab.diagnosis.packets.sends import SenderEvents

MSS = 1448
US = 1_000


def segments(gaps_us: NDArray[np.float64]) -> SenderEvents:
    """One by one, with these gaps; no ACKs."""
    at_ns = np.concatenate([[0], np.cumsum(gaps_us * US)]).astype(np.int64)
    count = len(at_ns)
    every = np.ones(count, dtype=bool)
    return SenderEvents(
        at_ns=at_ns.astype(np.float64),
        data=every,
        acks=~every,
        sent=(np.arange(count, dtype=np.int64) + 1) * MSS,
        payload_bytes=np.full(count, MSS, dtype=np.int64),
        acked=np.zeros(count, dtype=np.int64),
        anew=~every,
    )


@pytest.mark.parametrize("spread_us", [242.0, 260.0])
def test_a_flight_that_the_path_has_spread_is_no_pace(spread_us: float) -> None:
    # Eight segments per round trip of 100 ms, some of which came closer: as at 50 Mbit/s.
    flight = np.array([40.0, *[spread_us] * 6, 100_000.0])
    found = paced(segments(np.tile(flight, 40)), MSS, np.zeros(8 * 40 + 1))
    assert not found.any()


def test_a_pace_is_found_although_the_host_stalls_at_times() -> None:
    # Two segments right behind each other, 3 ms apart; every twentieth time 10 ms.
    pair = np.array([10.0, 3_000.0])
    gaps = np.tile(pair, 200)
    gaps[1::40] = 10_000.0
    found = paced(segments(gaps), MSS, np.zeros(len(gaps) + 1))
    assert found.mean() > 0.9
