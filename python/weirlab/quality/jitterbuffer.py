"""Jitter buffers: when each packet would have been played out, and which packets came too late.

A buffer plays each packet a fixed time after it was sent (its *play-out delay*), until it finds a better
delay. The one-way delay itself, which it cannot know, cancels out: only differences of delay matter.

The sender's clock and the receiver's never run alike, so that a buffer slowly runs empty or full. Real ones
then *slip*: they insert or skip some speech, and go on at another delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab import _engine
from weirlab.base.errors import InputError
from weirlab.quality import segments
from weirlab.quality.packets import BOOL, StreamPackets
from weirlab.quality.segments import I64

F64 = npt.NDArray[np.float64]

BufferChoice = Literal["best", "fixed", "adaptive"]
"""The buffer behind which a call is heard: one kind for all, or for each call the better kind."""

_MS: Final = 1e6

_SLIP_SPAN_PACKETS: Final = 50
"""The fixed buffer compares its delay with the network's after so many packets."""


@dataclass(frozen=True)
class Buffers:
    """The two jitter buffers that every call is put through.

    ``fixed_ms``
        Depth of the fixed buffer: a packet as fast as the reference waits this long.
    ``fixed_start``
        What the depth is counted from: the ``first`` packet's delay, as in a telephone, or the
        ``least`` delay of the first second.
    ``least_ms``, ``most_ms``
        Limits of the adaptive buffer's depth; sound hardware takes speech in blocks of 10 ms.
    ``adjust_s``
        Without silences the adaptive buffer adjusts this often; 1.004 s is the mean talk spurt of
        ITU-T P.59.
    ``concealment``
        Whether G.711 decoders conceal losses (G.711 Appendix I).
    """

    fixed_ms: float = 60.0
    fixed_start: Literal["first", "least"] = "first"
    least_ms: float = 10.0
    most_ms: float = 200.0
    adjust_s: float = 1.004
    concealment: bool = True

    def __post_init__(self) -> None:
        """Raise ``InputError`` for an impossible buffer."""
        if not (self.fixed_ms >= 0 and 0 <= self.least_ms <= self.most_ms and self.adjust_s > 0):
            raise InputError(
                f"jitter buffer of {self.fixed_ms:g} ms (fixed), {self.least_ms:g} to {self.most_ms:g} ms "
                f"(adaptive, adjusted every {self.adjust_s:g} s): depths are 0 ms or more, the greatest not "
                "below the least, and the time between adjustments above 0 s"
            )

    def describe(self, choice: BufferChoice) -> str:
        """``fixed, 60 ms``."""
        told = {
            "best": f"the better one of fixed, {self.fixed_ms:g} ms, and adaptive, per caller",
            "fixed": f"fixed, {self.fixed_ms:g} ms",
            "adaptive": f"adaptive, {self.least_ms:g} to {self.most_ms:g} ms",
        }
        return told[choice]


USUAL: Final = Buffers()


@dataclass(frozen=True)
class PlayOut:
    """What a buffer does with every packet, shapes (packets,)."""

    late: BOOL
    """Arrived, but was not played: after its play-out time, or skipped or replaced by a slip."""
    slipped: BOOL
    """Those of ``late`` that a slip cost."""
    delay_ns: F64
    """From sending to playing; NaN for packets that did not arrive, or were not played."""


def fixed(packets: StreamPackets, buffers: Buffers) -> PlayOut:
    """A buffer that plays every packet at the same delay after it was sent, until it slips.

    It follows the least delay of the last 100 packets, which jitter does not change and clock skew does. Once
    that has changed by a packet time (by half the depth, in a buffer shallower than two packets), the
    buffer skips a packet or conceals one, so that it keeps its depth (Perkins, "RTP: Audio and Video for the
    Internet", chapter 6, "Compensation for clock skew").
    """
    start = packets.timed_start
    row = packets.timed
    transit = packets.arrival_ns[row] - packets.sent_ns[row]
    if buffers.fixed_start == "first":
        reference = np.zeros(len(start) - 1, dtype=np.int64)
        filled = np.diff(start) > 0
        reference[filled] = transit[start[:-1][filled]]
    else:
        began = segments.smallest(packets.sent_ns[row], start, 0)
        early = packets.sent_ns[row] < np.repeat(began, np.diff(start)) + 1_000_000_000
        early_start = segments.starts(segments.total(early.astype(np.int64), start))
        reference = segments.smallest(transit[early], early_start, 0)
    depth = buffers.fixed_ms * _MS
    delay = np.repeat(reference.astype(np.float64) + depth, np.diff(start))
    step = packets.packet_ns.astype(np.float64)
    if depth:
        step = np.minimum(step, depth / 2)
    shift, slipped = _slips(transit, start, step)
    return _played(packets, transit, delay + shift, slipped)


def _slips(transit: I64, start: I64, step_ns: F64) -> tuple[F64, BOOL]:
    """By how much slips have changed the delay at each packet, and the packets that they cost.

    ``transit`` and ``start`` are those of the packets in order of arrival; a slip of a stream changes the
    delay by its ``step_ns``.
    """
    counts = np.diff(start)
    spans = -(-counts // _SLIP_SPAN_PACKETS)
    span_start = segments.starts(spans)
    position = np.arange(len(transit)) - np.repeat(start[:-1], counts)
    span = np.repeat(span_start[:-1], counts) + position // _SLIP_SPAN_PACKETS
    least = segments.smallest(transit, np.append(np.flatnonzero(np.diff(span, prepend=-1)), len(span)), 0)
    shift = np.zeros(int(span_start[-1]))
    steps = np.zeros(int(span_start[-1]), dtype=np.int64)
    # Streams by descending length: those that still have an n-th span come first.
    order = np.argsort(-spans, kind="stable")
    aligned = np.zeros(len(order))
    for index in range(2, int(spans.max(initial=0))):
        still = order[: int(np.count_nonzero(spans > index))]
        here = span_start[still] + index
        now = np.minimum(least[here - 1], least[here - 2]).astype(np.float64)
        if index == 2:
            aligned[: len(still)] = now
        steps[here] = np.trunc((now - aligned[: len(still)]) / step_ns[still]).astype(np.int64)
        change = steps[here] * step_ns[still]
        aligned[: len(still)] += change
        shift[here] = shift[here - 1] + change
    return shift[span], position % _SLIP_SPAN_PACKETS < np.abs(steps)[span]


def adaptive(packets: StreamPackets, buffers: Buffers) -> PlayOut:
    """A buffer that follows the network: algorithm 4 of Ramjee et al. 1994, with delay spikes.

    It keeps an average of the delay and of its deviation, and plays a talk spurt at the average plus
    four deviations. While a spike lasts (one delay 100 ms beyond the one before) the average follows
    the delay itself. The paper adjusts between talk spurts; if there are none for ``adjust_s``, the
    buffer adjusts within speech, as those that stretch and compress speech do. The limits of the depth
    and the start, one packet time deep, are not in the paper.

    References
    ----------
    R. Ramjee, J. Kurose, D. Towsley, H. Schulzrinne, "Adaptive playout mechanisms for packetized audio
    applications in wide-area networks", IEEE INFOCOM 1994.
    """
    row = packets.timed
    transit = packets.arrival_ns[row] - packets.sent_ns[row]
    delay = _engine.adaptive_delays(
        packets.timed_start,
        row,
        packets.sent_ns[row],
        transit,
        packets.packet_ns.astype(np.float64),
        (buffers.least_ms * _MS, buffers.most_ms * _MS, buffers.adjust_s * 1e9),
    )
    return _played(packets, transit, delay, np.zeros(len(delay), dtype=np.bool_))


def _played(packets: StreamPackets, transit: I64, delay: F64, slipped: BOOL) -> PlayOut:
    """What happens to packets that have these play-out delays, in the order of ``packets.timed``."""
    unplayed = slipped | (transit > delay)
    late, cost = np.zeros((2, len(packets.sent_ns)), dtype=np.bool_)
    late[packets.timed], cost[packets.timed] = unplayed, slipped
    played = np.full(len(packets.sent_ns), np.nan)
    played[packets.timed] = np.where(unplayed, np.nan, delay)
    return PlayOut(late, cost, played)
