"""What a bad network does to the speech of calls: losses, jitter, packets out of order, copies.

Control packets and signalling pass, and so do the first and the last packet of each stream, whose loss
could not be seen in the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.base.quantities import percent
from weirlab.base.units import NS_PER_S

Bool = npt.NDArray[np.bool_]
I64 = npt.NDArray[np.int64]

MAX_RATIO: Final = 0.5
"""Of each fault: beyond, the faults would be the rule."""
MAX_JITTER_NS: Final = NS_PER_S
_BEHIND_NS: Final = 1_000
"""How long after the packet that overtook it a late one arrives."""


@dataclass(frozen=True)
class Impairments:
    """Faults of a network, as shares of the packets of speech.

    ``loss_burst`` is the mean length of a run of lost packets: None for losses that are independent of each
    other, else the Gilbert model (E. N. Gilbert, "Capacity of a Burst-Noise Channel", 1960; lost in its bad
    state, not lost in its good one). ``jitter_ns`` is the mean of the additional exponential delay of each
    packet, by which none overtakes another of its stream. It is also the mean difference in delay of two
    packets, to which the jitter of RFC 3550 converges, as long as it is small against the packet time.
    ``reorder_ratio`` of the packets are overtaken by the next one, ``duplicate_ratio`` arrive twice.
    """

    loss_ratio: float = 0.0
    loss_burst: float | None = None
    jitter_ns: float = 0.0
    reorder_ratio: float = 0.0
    duplicate_ratio: float = 0.0
    seed: int = 1

    def __post_init__(self) -> None:
        """Raise ``InputError`` for impossible faults."""
        for name, ratio in (
            ("loss", self.loss_ratio),
            ("reordered", self.reorder_ratio),
            ("duplicated", self.duplicate_ratio),
        ):
            if not 0 <= ratio <= MAX_RATIO:
                raise InputError(
                    f"share of packets {name}: {ratio * 100:g} % is not from 0 to {percent(MAX_RATIO)}"
                )
        if not 0 <= self.jitter_ns <= MAX_JITTER_NS:
            raise InputError(
                f"jitter of {self.jitter_ns / 1e6:g} ms is not from 0 to {MAX_JITTER_NS / 1e6:g} ms"
            )
        if self.loss_burst is not None and not 1 <= self.loss_burst < math.inf:
            raise InputError(f"runs of {self.loss_burst:g} lost packets: their mean length must be 1 or more")
        if self.loss_burst is not None and self._good_to_bad > 1:
            raise InputError(
                f"a loss of {self.loss_ratio * 100:g} % in runs of {self.loss_burst:g} is not possible, "
                "because less than a packet would be left between the runs; make the runs longer"
            )

    @property
    def _good_to_bad(self) -> float:
        return self.loss_ratio / (1 - self.loss_ratio) / (self.loss_burst or 1.0)

    def lost(self, n: int, rng: np.random.Generator) -> Bool:
        """Which of ``n`` packets in a row are lost."""
        if self.loss_burst is None or not self.loss_ratio:
            return np.asarray(rng.random(n) < self.loss_ratio)
        # Runs of good and bad packets take turns; both have geometric lengths.
        pairs = 2 + int(n / (1 / self._good_to_bad + self.loss_burst) * 2)
        state = np.empty(0, dtype=np.bool_)
        while len(state) < n:
            lengths = np.empty(2 * pairs, dtype=np.int64)
            lengths[0::2] = rng.geometric(self._good_to_bad, pairs)
            lengths[1::2] = rng.geometric(1 / self.loss_burst, pairs)
            # A run may have many times as many packets as there are.
            lengths = np.minimum(lengths, n)
            state = np.concatenate([state, np.repeat(np.arange(2 * pairs) % 2 == 1, lengths)])
        return state[:n]


@dataclass(frozen=True)
class FrameArrivals:
    """The arrivals of a series of frames.

    ``frame`` is the number of each frame that arrives, in the order of arrival, shape (arrivals,), and
    ``at_ns`` its time. ``lost``, ``reordered`` and ``duplicated`` count packets by flow, shape (flows,).
    """

    frame: I64
    at_ns: I64
    lost: I64
    reordered: I64
    duplicated: I64


def impair(due_ns: I64, flow: I64, speech: Bool, flows: int, wanted: Impairments) -> FrameArrivals:
    """Send frames through a network with the faults ``wanted``.

    Parameters
    ----------
    due_ns, flow:
        Departure of each frame, in ascending order, and its flow, shapes (frames,).
    speech:
        Which of them are speech and may suffer, shape (frames,).
    flows:
        How many flows there are.
    """
    rng = np.random.default_rng(wanted.seed)
    own = np.flatnonzero(speech)
    # Stream after stream, each in the order of departure.
    own = own[np.argsort(flow[own], kind="stable")]
    of, n = flow[own], len(own)
    inner = np.ones(n, dtype=np.bool_)
    if n:
        begins = np.append(True, of[1:] != of[:-1])
        inner = ~(begins | np.append(begins[1:], True))
    lost = wanted.lost(n, rng) & inner
    at_ns = _delayed(due_ns[own], of, wanted, rng)
    overtaken = (rng.random(n) < wanted.reorder_ratio) & inner & ~lost
    # The next one has to arrive, and in time.
    overtaken[:-1] &= ~lost[1:]
    overtaken[1:] &= ~overtaken[:-1]
    late = np.flatnonzero(overtaken)
    at_ns[late] = at_ns[late + 1] + _BEHIND_NS
    twice = np.flatnonzero((rng.random(n) < wanted.duplicate_ratio) & inner & ~lost & ~overtaken)

    rest = np.flatnonzero(~speech)
    kept = np.flatnonzero(~lost)
    frame = np.concatenate([rest, own[kept], own[twice]])
    arrival = np.concatenate([due_ns[rest], at_ns[kept], at_ns[twice]])
    order = np.lexsort((frame, arrival))
    return FrameArrivals(
        frame[order],
        arrival[order],
        np.bincount(of[lost], minlength=flows),
        np.bincount(of[overtaken], minlength=flows),
        np.bincount(of[twice], minlength=flows),
    )


def _delayed(due_ns: I64, flow: I64, wanted: Impairments, rng: np.random.Generator) -> I64:
    """Arrivals with jitter; the order within a stream stays the same."""
    if not wanted.jitter_ns or not len(due_ns):
        return due_ns.copy()
    at_ns = due_ns + np.rint(rng.exponential(wanted.jitter_ns, len(due_ns))).astype(np.int64)
    # Far enough apart, all streams can be made ascending at once.
    apart = (flow - flow[0]) * (int(at_ns.max()) + 1)
    return np.asarray(np.maximum.accumulate(at_ns + apart) - apart)
