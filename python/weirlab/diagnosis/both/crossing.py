"""What happened to a connection's data between a capture at its sender and one at its receiver; pure.

Bytes are compared, not packets: network cards split what the sender's kernel hands to them, and join what
they hand to the receiver's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.trace.quantities import duration, percent, size

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

QUEUE_NS: Final = 1_000_000
"""If delays are longer than the least by this much on average, packets waited in a queue."""
PLAINLY: Final = 3.0
"""If packets wait this many times as long in one direction, the queue is in that direction alone."""


@dataclass(frozen=True)
class CaptureLeg:
    """A connection in one capture, in capture order; times in ns, by the same clock for both captures.

    ``seq``, ``payload_bytes`` and ``new_bytes`` (not seen before) describe each segment with data, at
    ``data_ns``; ``ack`` describes each packet from the receiver, at ``ack_ns``. Both count from the initial
    sequence numbers.
    """

    data_ns: Ints
    seq: Ints
    payload_bytes: Ints
    new_bytes: Ints
    ack_ns: Ints
    ack: Ints
    whole: bool
    """Nothing is missing from the capture."""

    @property
    def ends(self) -> Ints:
        """For each segment, the sequence number after its last byte."""
        return self.seq + self.payload_bytes

    def complete(self) -> Ints:
        """For each segment, the sequence number up to which nothing was missing once it had arrived.

        There must be at least one segment.
        """
        begins = np.where(self.new_bytes > 0, self.ends - self.new_bytes, np.iinfo(np.int64).max)
        missing = np.minimum.accumulate(begins[::-1])[::-1]
        reached = np.maximum.accumulate(self.ends)
        return np.asarray(np.minimum(np.append(missing[1:], reached[-1:]), reached))


@dataclass(frozen=True)
class Delay:
    """One-way delay in ns, over ``count`` packets."""

    count: int
    least: float
    mean: float
    most: float

    @property
    def waited(self) -> float:
        """The mean delay above the least one."""
        return self.mean - self.least


@dataclass(frozen=True)
class ConnectionCrossing:
    """A whole connection. Bytes are payload; ``lost_bytes`` is None if packets are missing from a capture."""

    sent_bytes: int
    again_bytes: int
    """Of these, sent again."""
    arrived_bytes: int
    twice_bytes: int
    """Of these, had already arrived: needless retransmissions."""
    lost_bytes: int | None
    """Sent but not arrived; every copy counts."""
    there: Delay | None
    """Delay of data from the sender's capture to the receiver's."""
    back: Delay | None
    """Delay of ACKs from the receiver's capture to the sender's."""


@dataclass(frozen=True)
class Delays:
    """One-way delays packet by packet: when each arrived, and how long it took; ns."""

    time_ns: Ints
    delay_ns: Ints

    def summed(self) -> Delay | None:
        """The least, mean and greatest delay; None if there are none."""
        if len(self.delay_ns) == 0:
            return None
        found = self.delay_ns
        return Delay(len(found), float(found.min()), float(found.mean()), float(found.max()))


def cross(sender: CaptureLeg, receiver: CaptureLeg) -> tuple[ConnectionCrossing, Delays, Delays]:
    """What happened between the two, and the delays of data (at the receiver) and ACKs (at the sender)."""
    there, back = _there(sender, receiver), _back(sender, receiver)
    sent, arrived = int(sender.payload_bytes.sum()), int(receiver.payload_bytes.sum())
    whole = sender.whole and receiver.whole
    found = ConnectionCrossing(
        sent_bytes=sent,
        again_bytes=sent - int(sender.new_bytes.sum()),
        arrived_bytes=arrived,
        twice_bytes=arrived - int(receiver.new_bytes.sum()),
        lost_bytes=max(sent - arrived, 0) if whole else None,
        there=there.summed(),
        back=back.summed(),
    )
    return found, there, back


def sentences(found: ConnectionCrossing) -> list[str]:
    """Sentences on what the two captures show together, but neither shows alone."""
    said = [_fate(found)]
    if found.there is not None and found.back is not None:
        said.append(_ways(found.there, found.back))
    return [each for each in said if each]


def located(before: ConnectionCrossing, behind: ConnectionCrossing) -> list[str]:
    """Sentences on which side of a capture in between packets were lost, and where they waited."""
    said = []
    lost = before.lost_bytes, behind.lost_bytes
    if lost[0] is not None and lost[1] is not None and any(lost):
        said.append(f"Before the capture in between, {size(lost[0])} was lost, and after it {size(lost[1])}.")
    if before.there is not None and behind.there is not None:
        waits = before.there.waited, behind.there.waited
        if max(waits) >= QUEUE_NS:
            said.append(
                f"Data waited {duration(waits[0])} on average before the capture in between, and "
                f"{duration(waits[1])} after it."
            )
    return said


def _fate(found: ConnectionCrossing) -> str:
    if found.lost_bytes is None:
        return "The loss between the captures is not known: packets are missing from one of them."
    if found.lost_bytes:
        said = (
            f"Between the captures, {size(found.lost_bytes)} was lost, "
            f"{percent(found.lost_bytes / max(found.sent_bytes, 1))} of what was sent."
        )
    elif found.again_bytes:
        said = "Nothing was lost between the captures, although data was retransmitted."
    else:
        return "Nothing was lost between the captures."
    if found.twice_bytes:
        said += f" {size(found.twice_bytes)} arrived twice: it was retransmitted needlessly."
    return said


def _ways(there: Delay, back: Delay) -> str:
    """A sentence: in which direction packets waited. The offset of the clocks does not matter."""
    waits = there.waited, back.waited
    longer, shorter = max(waits), min(waits)
    if longer < QUEUE_NS:
        return "There was no standing queue in either direction."
    if longer < PLAINLY * shorter:
        return (
            f"There were queues in both directions: data waited {duration(there.waited)} on average, "
            f"ACKs {duration(back.waited)}."
        )
    if there.waited > back.waited:
        return (
            f"There was a queue on the way to the receiver: data waited {duration(there.waited)} in it on "
            f"average, ACKs {duration(back.waited)} on their way back."
        )
    return (
        f"There was a queue on the way back: ACKs waited {duration(back.waited)} in it on average, "
        f"data {duration(there.waited)} on its way to the receiver."
    )


def _there(sender: CaptureLeg, receiver: CaptureLeg) -> Delays:
    """Delays of data that continued the stream and was sent only once."""
    sent, came = _fronts(sender), _fronts(receiver)
    if len(sent) == 0 or len(came) == 0:
        return _NO_DELAYS
    ends = receiver.ends[came]
    left = np.searchsorted(sender.ends[sent], ends)
    known = left < len(sent)
    known[known] &= ~_sent_again(sender, ends[known] - 1)
    times = receiver.data_ns[came][known]
    return Delays(times, times - sender.data_ns[sent][left[known]])


def _back(sender: CaptureLeg, receiver: CaptureLeg) -> Delays:
    """Delays of ACKs of new data that arrived."""
    left, came = _risen(receiver.ack), _risen(sender.ack)
    if len(left) == 0 or len(came) == 0:
        return _NO_DELAYS
    numbers, wanted = receiver.ack[left], sender.ack[came]
    at = np.searchsorted(numbers, wanted)
    known = at < len(numbers)
    known[known] &= numbers[at[known]] == wanted[known]
    times = sender.ack_ns[came][known]
    return Delays(times, times - receiver.ack_ns[left][at[known]])


def _fronts(leg: CaptureLeg) -> Ints:
    """Segments that end beyond all earlier ones and carry only new bytes."""
    rises = _risen(leg.ends)
    return np.asarray(rises[leg.new_bytes[rises] == leg.payload_bytes[rises]])


def _risen(values: Ints) -> Ints:
    """The indices of values greater than all before them."""
    if len(values) == 0:
        return np.empty(0, dtype=np.int64)
    before = np.concatenate([[np.iinfo(np.int64).min], np.maximum.accumulate(values)[:-1]])
    return np.flatnonzero(values > before)


def _sent_again(leg: CaptureLeg, byte: Ints) -> NDArray[np.bool_]:
    """Whether each byte is in a retransmitted segment."""
    again = np.flatnonzero(leg.new_bytes < leg.payload_bytes)
    if len(again) == 0:
        return np.zeros(len(byte), dtype=bool)
    order = again[np.argsort(leg.seq[again], kind="stable")]
    reaches = np.maximum.accumulate(leg.ends[order])
    at = np.searchsorted(leg.seq[order], byte, side="right") - 1
    return np.asarray((at >= 0) & (reaches[np.maximum(at, 0)] > byte))


_NO_DELAYS: Final = Delays(np.empty(0, np.int64), np.empty(0, np.int64))


AT_ONCE: Final = 0.5
"""Share of the gap at the receiver: a pair that left the sender closer together was spread on its way."""
LEAST_PAIRS: Final = 30
NEAR: Final = 0.1
"""Share of the usual gap."""
ALIKE: Final = 0.3
"""Share of the pairs that must be this near to it; a busy host scatters arrivals."""


def capacity(sender: CaptureLeg, receiver: CaptureLeg) -> tuple[float | None, int]:
    """Payload in bytes per second, and the number of pairs that show it; None if they do not.

    Whatever others send, most pairs stay together in the queue. So the usual gap between their arrivals is
    the time that the bottleneck takes for the second one, whatever share of the capacity this transfer gets
    (Dovrolis, Ramanathan, Moore: Packet-dispersion techniques and a capacity-estimation methodology, IEEE/ACM
    ToN 12(6), 2004).
    """
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
