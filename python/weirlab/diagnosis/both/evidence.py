"""What two captures show together, and neither of them alone; plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RetransmissionCounts:
    """Counts of segments in the sender's capture. The first four add up to all retransmissions."""

    lost: int
    """The earlier copy was lost between the captures."""
    late: int
    """It was not lost: later segments overtook it. Further copies that followed from this count, too."""
    dropped: int
    """It arrived, but the receiver's host did not acknowledge it."""
    needless: int
    """It arrived, but its ACK came too late or not at all."""
    overtaken: int
    """Segments that later ones overtook, whether they were sent again or not."""
    overtaken_s: float
    """The longest time by which one of these was late."""
    duplicated: int
    """Segments that arrived more often than they were sent."""
    acks: int
    """Packets that the receiver sent."""
    acks_lost: int
    """Of these, lost between the captures."""

    @property
    def again(self) -> int:
        """Retransmitted segments."""
        return self.lost + self.late + self.dropped + self.needless


@dataclass(frozen=True)
class PathEvidence:
    """All of the evidence; times in s, None if they are not known."""

    fates: RetransmissionCounts | None
    """None if packets are missing from a capture."""
    there_s: float | None
    """How long data waited on its way to the receiver, on average, beyond the least delay."""
    answer_s: float | None
    """Mean time from data to its ACK at the receiver's host, delayed ACKs included."""
    back_s: float | None
    """How long ACKs waited on their way back, on average."""
    capacity_bps: float | None
    """Capacity of the bottleneck, from the spacing of segments that were sent together."""
    pairs: int
    """Pairs of segments that show the capacity."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "fates": None if self.fates is None else vars(self.fates)}


def read(document: Mapping[str, Any]) -> PathEvidence:
    """The inverse of :meth:`Between.document`; raises ``LookupError`` or ``TypeError`` for something else."""
    fates = document["fates"]
    return PathEvidence(**{**document, "fates": None if fates is None else RetransmissionCounts(**fates)})
