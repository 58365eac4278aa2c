"""The capacity of a bottleneck from pairs of segments that were sent together.

Whatever others send, most pairs stay together in the queue. So the usual gap between their arrivals is the
time that the bottleneck takes for the second one, whatever share of the capacity this transfer gets
(Dovrolis, Ramanathan, Moore: Packet-dispersion techniques and a capacity-estimation methodology, IEEE/ACM
ToN 12(6), 2004).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from weirlab.diagnosis.both.crossing import CaptureLeg

    Floats = NDArray[np.float64]

AT_ONCE: Final = 0.5
"""Share of the gap at the receiver: a pair that left the sender closer together was spread on its way."""
LEAST_PAIRS: Final = 30
NEAR: Final = 0.1
"""Share of the usual gap."""
ALIKE: Final = 0.3
"""Share of the pairs that must be this near to it; a busy host scatters arrivals."""


def capacity(sender: CaptureLeg, receiver: CaptureLeg) -> tuple[float | None, int]:
    """Payload in bytes per second, and the number of pairs that show it; None if they do not."""
    gaps, payload = _gaps(sender, receiver)
    if len(gaps) < LEAST_PAIRS:
        return None, 0
    usual = _mode(gaps)
    near = np.abs(gaps - usual) <= NEAR * usual
    if near.mean() < ALIKE:
        return None, 0
    return payload / float(np.median(gaps[near])) * 1e9, int(near.sum())


def _gaps(sender: CaptureLeg, receiver: CaptureLeg) -> tuple[Floats, int]:
    """Gaps in ns between arrivals of two full segments that were sent once, one right after the other."""
    none = np.empty(0)
    if len(receiver.seq) < 2 or len(sender.seq) == 0:
        return none, 0
    # The most common size: network cards join some segments.
    sizes, counts = np.unique(receiver.payload_bytes, return_counts=True)
    full = int(sizes[np.argmax(counts * sizes)])
    whole = (receiver.payload_bytes == full) & (receiver.new_bytes == full)
    next_to = whole[1:] & whole[:-1] & (receiver.seq[1:] == receiver.ends[:-1])
    at = np.flatnonzero(next_to) + 1
    once = sender.new_bytes == sender.payload_bytes
    ends = np.maximum.accumulate(sender.ends)
    left = np.searchsorted(ends, receiver.ends[at])
    before = np.searchsorted(ends, receiver.ends[at - 1])
    known = (left < len(ends)) & (before < len(ends))
    left, before, at = left[known], before[known], at[known]
    at, left, before = (each[once[left] & once[before]] for each in (at, left, before))
    gaps = (receiver.data_ns[at] - receiver.data_ns[at - 1]).astype(np.float64)
    sent = sender.data_ns[left] - sender.data_ns[before]
    return gaps[(gaps > 0) & (sent <= AT_ONCE * gaps)], full


def _mode(values: Floats) -> float:
    """The half-sample mode (Bickel, Fruehwirth, CSDA 50(12), 2006) of the logarithms: ratios count."""
    left = np.sort(np.log(values))
    while len(left) > 3:
        half = -(-len(left) // 2)
        widths = left[half - 1 :] - left[: len(left) - half + 1]
        at = int(np.argmin(widths))
        left = left[at : at + half]
    return float(np.exp(np.mean(left)))
