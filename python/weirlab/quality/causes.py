"""What spoils the streams of a capture: how much of R codec, delay, loss and jitter cost each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.quality.assess import StreamCoding, opinion
from weirlab.quality.captures import CaptureTable

F64 = npt.NDArray[np.float64]

NEAR_NS: Final = 1_000_000
"""A round trip within a building."""
NEAR_JITTER: Final = "jitter near the sender"
_COMPARABLE: Final = 0.5


def r_costs(table: CaptureTable, r: F64, depth_ms: float) -> dict[str, F64]:
    """Points of R that ``loss``, ``jitter``, ``delay`` and ``codec`` cost each stream; NaN if unknown.

    ``r`` is what was heard, behind a jitter buffer that holds packets for ``depth_ms`` if all have the same
    delay. Whatever is missing beyond codec, delay and loss is jitter's: packets that came too late for the
    buffer, and the time for which it holds the others because of such.
    """
    coded = StreamCoding(table.kinds, np.arange(len(table.kinds), dtype=np.int64))
    losses, none = table.streams.losses, np.zeros(len(r))
    here_ms = table.packet_ns / 1e6 + coded.each(lambda kind: kind.lookahead_ms) + depth_ms
    delay_ms = here_ms + np.nan_to_num(table.network_ns) / 1e6
    lost_percent = 100 * (1 - (1 - losses.count / table.streams.sent) * (1 - table.beyond))
    at_once, _ = opinion(coded, none, none, none + 1)
    whole, _ = opinion(coded, delay_ms, none, none + 1)
    in_time, _ = opinion(coded, delay_ms, lost_percent, losses.burst_ratio)
    return {
        "loss": whole - in_time,
        "jitter": in_time - r,
        "delay": at_once - whole,
        "codec": coded.each(lambda kind: kind.ie),
    }


def causes(table: CaptureTable, r: F64, depth_ms: float) -> list[tuple[str, ...]]:
    """What costs each stream most, and what costs at least half as much; empty without an R.

    Loss is that ``before the capture``, or ``behind the capture`` as receivers report it; jitter is that of
    the sender if this is near.
    """
    costs = r_costs(table, r, depth_ms)
    before = table.streams.losses.count / table.streams.sent
    listed = []
    for row in range(len(r)):
        main = _most({name: cost[row] for name, cost in costs.items()}) if np.isfinite(r[row]) else ()
        places = {"loss before the capture": before[row], "loss behind the capture": table.beyond[row]}
        near = NEAR_JITTER if table.to_sender_ns[row] <= NEAR_NS else "jitter"
        parts = {"loss": _most(places), "jitter": (near,)}
        listed.append(tuple(cause for name in main for cause in parts.get(name, (name,))))
    return listed


def _most(shares: Mapping[str, float]) -> tuple[str, ...]:
    most = max(shares.values())
    return tuple(name for name, share in shares.items() if share >= _COMPARABLE * most > 0)
