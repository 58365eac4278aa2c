"""Whether a sender paced its segments, from a capture beside it.

A pacer lets a burst go, waits for as long as the burst takes at its rate, and lets the next one go, whenever
ACKs come. Linux makes bursts of a millisecond, or of two segments (``tcp_tso_autosize``). An application that
writes evenly hardly ever writes whole segments, and so few; what ACKs let out leaves right behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from weirlab.diagnosis.sends import Events
    from weirlab.diagnosis.timeline import Bools, Floats

APART_S: Final = 0.0002
"""Between bursts."""
BURSTS: Final = 32
"""That are looked at together."""
BURST_S, BURST_SEGMENTS, ROOMY = 0.001, 2, 1.5
"""A pacer's burst: the longer of the two, and how much more it may be."""
MOSTLY: Final = 0.9
"""Share of the bursts that are of whole segments."""
NEAR: Final = 0.3
EVENLY: Final = 0.6
"""Share of the bursts whose time per byte is within ``NEAR`` of the usual one."""
SOON: Final = 0.15
"""Of the time from burst to burst: so soon behind an ACK it may have been let out by it."""
MOST_CHANCE: Final = 0.75
"""Where ACKs come all the time, none says anything."""


def paced(events: Events, mss: int) -> Bools:
    """By event: the sender kept a pace of its own. ``mss`` in bytes."""
    found = np.zeros(len(events.at_ns), dtype=bool)
    before = np.concatenate([[np.iinfo(np.int64).min], events.sent[:-1]])
    new = np.flatnonzero(events.data & (events.sent > before))
    if len(new) < BURSTS:
        return found
    gaps_s = np.diff(events.at_ns[new]) / 1e9
    begin = new[np.concatenate([[True], gaps_s > APART_S])]
    if len(begin) <= BURSTS:
        return found
    at_s = (events.at_ns[begin] - events.at_ns[0]) / 1e9
    first = events.sent[begin] - events.payload_bytes[begin]
    sizes, gaps = np.diff(first).astype(np.float64), np.diff(at_s)
    acks = np.flatnonzero(events.acks)
    acks_s = (events.at_ns[acks] - events.at_ns[0]) / 1e9
    last = np.searchsorted(acks_s, at_s, side="right") - 1
    since = np.where(last >= 0, at_s - acks_s[np.maximum(last, 0)], np.inf) if len(acks) else np.full(
        len(at_s), np.inf
    )
    for start in range(0, len(sizes) - BURSTS + 1, BURSTS // 2):
        some = slice(start, start + BURSTS)
        if _is_even(sizes[some], gaps[some], mss) and not _follows(at_s[some], gaps[some], since[some], acks_s):
            found[begin[start] : begin[start + BURSTS]] = True
    return found


def _is_even(sizes: Floats, gaps: Floats, mss: int) -> bool:
    """Small bursts of whole segments, each as far behind the one before as that was long."""
    if float((sizes % mss == 0).mean()) < MOSTLY or (sizes <= 0).any():
        return False
    rate = float(sizes.sum() / gaps.sum())
    if float(np.median(sizes)) > ROOMY * max(BURST_SEGMENTS * mss, rate * BURST_S):
        return False
    each = gaps / sizes
    usual = float(np.median(each))
    return float((np.abs(each - usual) <= NEAR * usual).mean()) >= EVENLY


def _follows(at_s: Floats, gaps: Floats, since: Floats, acks_s: Floats) -> bool:
    """Whether ACKs may have let the bursts out: many more are right behind one than would be by chance."""
    soon = SOON * float(np.median(gaps))
    within = acks_s[(acks_s >= at_s[0]) & (acks_s <= at_s[-1])]
    near = float(np.minimum(np.diff(within), soon).sum()) + soon if len(within) else 0.0
    chance = near / max(float(at_s[-1] - at_s[0]), 1e-9)
    return chance > MOST_CHANCE or float((since <= soon).mean()) > (1 + chance) / 2
