"""What the times of packets show: lateness, delay, jitter, delta. Pure; all times in ns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.quality import distribution

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

LATENESS: Final = "lateness"
DELAY: Final = "delay"
JITTER: Final = "jitter"
DELTA: Final = "delta"
QUANTITIES: Final = (LATENESS, DELAY, JITTER, DELTA)

_GAIN: Final = 1 / 16
"""RFC 3550, 6.4.1."""


@dataclass(frozen=True)
class Times:
    """The packets of one direction; arrays of the shape (calls, packets), 0 where there was none."""

    due_ns: I64
    sent_ns: I64
    """When the sender began to build the packet."""
    heard_ns: I64
    """When the receiver had decrypted and checked it."""


@dataclass(frozen=True)
class Figures:
    """What the recorded packets of both directions show; a value per packet of which it is known."""

    due: int
    """Packets that should have been sent."""
    unsent: int
    """Of these, those that were not."""
    lost: int
    """Sent, and not heard."""
    values: Mapping[str, F64]
    """By quantity."""
    overdue: F64
    """From when a packet was due until it was heard."""
    call_jitter: F64
    """Mean jitter of each stream of which two packets were heard."""

    def bad(self, late_ns: float) -> int:
        """Packets that were heard later than that after they were due, or not at all."""
        return self.unsent + self.lost + int(np.count_nonzero(self.overdue > late_ns))

    def distribution(self, quantity: str) -> Iterator[tuple[float, float, int]]:
        """Bins with something in them: from (inclusive), to, how many."""
        return distribution.counted(self.values[quantity])


def times(begins_ns: int, phases_ns: I64, period_ns: int, sent_ns: I64, heard_ns: I64) -> Times:
    """With when packets were due: a packet time apart, from each stream's own start on."""
    due = begins_ns + phases_ns[:, None] + period_ns * np.arange(sent_ns.shape[1], dtype=np.int64)
    return Times(due, np.asarray(sent_ns, np.int64), np.asarray(heard_ns, np.int64))


def figures(ways: Sequence[Times], warmup_packets: int) -> Figures:
    """Of both directions together, without the first packets of each stream."""
    due = unsent = lost = 0
    values: dict[str, list[F64]] = {quantity: [] for quantity in QUANTITIES}
    overdue: list[F64] = []
    per_call: list[F64] = []
    for way in ways:
        recorded = np.zeros(way.due_ns.shape, bool)
        recorded[:, warmup_packets:] = True
        was_sent, was_heard = way.sent_ns > 0, way.heard_ns > 0
        due += int(recorded.sum())
        unsent += int((recorded & ~was_sent).sum())
        lost += int((recorded & was_sent & ~was_heard).sum())
        there = recorded & was_heard
        values[LATENESS].append(_chosen(way.sent_ns - way.due_ns, recorded & was_sent))
        values[DELAY].append(_chosen(way.heard_ns - way.sent_ns, there))
        overdue.append(_chosen(way.heard_ns - way.due_ns, there))
        jitter, delta = arrivals(way)
        follows = there & ~np.isnan(delta)
        values[JITTER].append(jitter[follows])
        values[DELTA].append(delta[follows])
        counted = follows.sum(axis=1)
        sums = np.where(follows, jitter, 0.0).sum(axis=1)
        per_call.append(sums[counted > 0] / counted[counted > 0])
    return Figures(
        due=due,
        unsent=unsent,
        lost=lost,
        values={quantity: np.concatenate(parts) for quantity, parts in values.items()},
        overdue=np.concatenate(overdue),
        call_jitter=np.concatenate(per_call),
    )


def arrivals(way: Times) -> tuple[F64, F64]:
    """Jitter (RFC 3550, 6.4.1) after each packet, and its time after the one heard before it (delta).

    RTP time stamps are those of when packets were due. Shape (calls, packets); NaN where a packet was not
    heard, and for delta also at the first one of each stream.
    """
    calls, packets = way.due_ns.shape
    heard = way.heard_ns > 0
    overdue = (way.heard_ns - way.due_ns).astype(np.float64)
    jitter, delta = np.full((calls, packets), np.nan), np.full((calls, packets), np.nan)
    estimate = np.zeros(calls)
    before_overdue, before_ns = np.full(calls, np.nan), np.zeros(calls, np.int64)
    for number in range(packets):
        there = heard[:, number]
        change = np.abs(overdue[:, number] - before_overdue)
        # The first one of a stream changes nothing.
        follows = there & ~np.isnan(change)
        estimate = np.where(follows, estimate + (change - estimate) * _GAIN, estimate)
        jitter[there, number] = estimate[there]
        delta[follows, number] = (way.heard_ns[:, number] - before_ns)[follows]
        before_overdue = np.where(there, overdue[:, number], before_overdue)
        before_ns = np.where(there, way.heard_ns[:, number], before_ns)
    return jitter, delta


def _chosen(values: I64, which: npt.NDArray[np.bool_]) -> F64:
    return values[which].astype(np.float64)


def quantile(values: F64, share: float) -> float:
    """NaN of nothing."""
    return float(np.quantile(values, share)) if len(values) else float("nan")


def highest(values: F64) -> float:
    """NaN of nothing."""
    return float(values.max()) if len(values) else float("nan")


def mean(values: F64) -> float:
    """NaN of nothing."""
    return float(values.mean()) if len(values) else float("nan")
