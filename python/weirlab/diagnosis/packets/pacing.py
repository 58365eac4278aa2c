"""Whether a sender paced its segments, judged by when they left.

A pacer sends a burst, waits for as long as the burst takes at its rate, and sends the next one, independently
of ACKs. Linux makes bursts of a millisecond, or of two segments (``tcp_tso_autosize``). An application that
writes evenly hardly ever writes whole segments, and so few; what ACKs release leaves right after them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from weirlab.diagnosis.packets.sends import SenderEvents
    from weirlab.diagnosis.timeline import Bools, Floats

APART_S: Final = 0.0002
"""Least time between bursts."""
BURSTS: Final = 32
"""Bursts that are examined together."""
BURST_S, BURST_SEGMENTS, ROOMY = 0.001, 2, 1.5
"""A pacer's burst: the longer of the two, and the factor by which it may be larger."""
MOSTLY: Final = 0.9
"""Share of the bursts that must consist of whole segments."""
NEAR: Final = 0.3
EVENLY: Final = 0.6
"""Share of the bursts whose time per byte must be within ``NEAR`` of the usual one."""
LASTING: Final = 0.5
"""Share of the time that those must take: data that the path spreads is even, too, within each flight."""
SOON: Final = 0.15
"""Share of the time between bursts: a burst this soon after an ACK may have been released by it."""
FASTER: Final = 1.5
"""Factor by which the rate within a burst must exceed that of the bursts."""
FEW: Final = 0.2
"""Share of the bursts that may have met a queue."""
MOST_CHANCE: Final = 0.75
"""Share of the time near ACKs above which they come too often to show anything."""


def paced(events: SenderEvents, mss: int, waited_s: Floats | None) -> Bools:
    """By event: whether the sender paced itself.

    Parameters
    ----------
    events
        In the order of the sender.
    mss
        In bytes.
    waited_s
        By event, the time in queues before the point of capture; None at the sender. Only there can be seen
        whether ACKs released segments. Elsewhere the segments must have met no queue, and the rate within
        bursts must be higher than that of the bursts: otherwise the path has spread them.
    """
    found = np.zeros(len(events.at_ns), dtype=bool)
    before = np.concatenate([[np.iinfo(np.int64).min], events.sent[:-1]])
    new = np.flatnonzero(events.data & (events.sent > before))
    if len(new) < BURSTS:
        return found
    begins = np.concatenate([[True], np.diff(events.at_ns[new]) / 1e9 > APART_S])
    begin, last = new[begins], new[np.concatenate([begins[1:], [True]])]
    if len(begin) <= BURSTS:
        return found
    at_s = (events.at_ns[begin] - events.at_ns[0]) / 1e9
    sizes = np.diff(events.sent[begin] - events.payload_bytes[begin]).astype(np.float64)
    gaps = np.diff(at_s)
    acks_s = (events.at_ns[events.acks] - events.at_ns[0]) / 1e9
    inner_s = (events.at_ns[last] - events.at_ns[begin]) / 1e9
    inner = events.sent[last] - events.sent[begin]
    for start in range(0, len(sizes) - BURSTS + 1, BURSTS // 2):
        some = slice(start, start + BURSTS)
        if not _is_even(sizes[some], gaps[some], mss):
            continue
        if waited_s is None:
            alone = not _follows(at_s[some], gaps[some], acks_s)
        else:
            rate = float(sizes[some].sum() / gaps[some].sum())
            faster = float(inner[some].sum()) > FASTER * rate * float(inner_s[some].sum())
            alone = faster and float((waited_s[begin[some]] > 0).mean()) < FEW
        if alone:
            found[begin[start] : begin[start + BURSTS]] = True
    return found


def _is_even(sizes: Floats, gaps: Floats, mss: int) -> bool:
    """Whether these are small bursts of whole segments, with gaps in proportion to their sizes."""
    if float((sizes % mss == 0).mean()) < MOSTLY or (sizes <= 0).any():
        return False
    rate = float(sizes.sum() / gaps.sum())
    if float(np.median(sizes)) > ROOMY * max(BURST_SEGMENTS * mss, rate * BURST_S):
        return False
    each = gaps / sizes
    usual = float(np.median(each))
    near = np.abs(each - usual) <= NEAR * usual
    return float(near.mean()) >= EVENLY and float(gaps[near].sum()) >= LASTING * float(gaps.sum())


def _follows(at_s: Floats, gaps: Floats, acks_s: Floats) -> bool:
    """Whether ACKs may have released the bursts: many more follow one closely than would by chance."""
    soon = SOON * float(np.median(gaps))
    within = acks_s[(acks_s >= at_s[0]) & (acks_s <= at_s[-1])]
    near = float(np.minimum(np.diff(within), soon).sum()) + soon if len(within) else 0.0
    chance = near / max(float(at_s[-1] - at_s[0]), 1e-9)
    last = np.searchsorted(acks_s, at_s, side="right") - 1
    since = np.full(len(at_s), np.inf)
    since[last >= 0] = at_s[last >= 0] - acks_s[last[last >= 0]]
    return chance > MOST_CHANCE or float((since <= soon).mean()) > (1 + chance) / 2
