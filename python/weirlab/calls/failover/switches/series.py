"""What departed and arrived around an event, in bins of time. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.quality.packets import StreamPackets
from weirlab.quality.segments import I64, owner
from weirlab.records import F64

BIN_NS: Final = 5_000_000
FROM_NS: Final = -2_000_000_000
TO_NS: Final = 12_000_000_000


@dataclass(frozen=True)
class SwitchSeries:
    """One row per direction and bin, shapes (rows,); ``start_ns`` counts from the event."""

    back: npt.NDArray[np.bool_]
    start_ns: I64
    sent: I64
    """Departed in the bin."""
    received: I64
    """Arrived in the bin; second copies left out."""
    lost: I64
    """Departed in the bin and never arrived."""
    delay_max_ns: F64
    """Of what arrived in the bin; NaN where nothing did."""


def around(
    packets: StreamPackets,
    back: npt.NDArray[np.bool_],
    event_ns: int,
    from_ns: int = FROM_NS,
    to_ns: int = TO_NS,
    bin_ns: int = BIN_NS,
) -> SwitchSeries:
    """Count both directions in bins of ``bin_ns`` between ``from_ns`` and ``to_ns`` from the event.

    ``back`` has the direction of each stream, shape (streams,).
    """
    bins = -(-(to_ns - from_ns) // bin_ns)
    lost, way = packets.lost, back[owner(packets.start)]
    departed = (packets.sent_ns - event_ns - from_ns) // bin_ns
    arrived = np.where(lost, -1, (packets.arrival_ns - event_ns - from_ns) // bin_ns)
    delay = (packets.arrival_ns - packets.sent_ns).astype(np.float64)
    start = from_ns + np.arange(bins, dtype=np.int64) * bin_ns
    parts = [
        _direction(departed[way == side], arrived[way == side], lost[way == side], delay[way == side], bins)
        for side in (False, True)
        if bool((back == side).any())
    ]
    directions = [side for side in (False, True) if bool((back == side).any())]
    sent, received, gone, longest = (np.concatenate(part) for part in zip(*parts, strict=True))
    return SwitchSeries(
        back=np.repeat(np.asarray(directions, np.bool_), bins),
        start_ns=np.tile(start, len(directions)),
        sent=sent.astype(np.int64),
        received=received.astype(np.int64),
        lost=gone.astype(np.int64),
        delay_max_ns=longest,
    )


def _direction(
    departed: I64, arrived: I64, lost: npt.NDArray[np.bool_], delay: F64, bins: int
) -> tuple[F64, F64, F64, F64]:
    """Sent, received, lost and longest delay of one direction, shapes (bins,)."""
    went, came = (departed >= 0) & (departed < bins), (arrived >= 0) & (arrived < bins)
    longest = np.full(bins, -1.0)
    np.maximum.at(longest, arrived[came], delay[came])
    return (
        _count(departed[went], bins),
        _count(arrived[came], bins),
        _count(departed[went & lost], bins),
        np.where(longest < 0, np.nan, longest),
    )


def _count(places: I64, bins: int) -> F64:
    return np.bincount(places, minlength=bins).astype(np.float64)
