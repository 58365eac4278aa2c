"""What two captures show together, and neither of them alone; plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Fates:
    """Of segments, as the sender's capture has them. The first four add up to all that were sent again."""

    lost: int
    """What had been sent before was lost between the captures."""
    late: int
    """It was not lost: later segments overtook it. And copies that followed from such a one."""
    dropped: int
    """It arrived, and the receiver's host never acknowledged it."""
    needless: int
    """It arrived, and its ACK came too late or not at all."""
    overtaken: int
    """Segments that later ones overtook, whether they were sent again or not."""
    overtaken_s: float
    """How late the last of these came at most."""
    duplicated: int
    """Segments that arrived more often than they were sent."""
    acks: int
    """Packets of the receiver."""
    acks_lost: int
    """Of these, lost between the captures."""

    @property
    def again(self) -> int:
        """Segments sent again."""
        return self.lost + self.late + self.dropped + self.needless


@dataclass(frozen=True)
class Between:
    """All of it; times in s, None where they are not known."""

    fates: Fates | None
    """None where packets are missing from a capture."""
    there_s: float | None
    """What data waited on its way to the receiver, on average, beyond the least delay."""
    answer_s: float | None
    """From the data that an ACK is for to the ACK, on average: the receiver's host, delayed ACKs included."""
    back_s: float | None
    """What ACKs waited on their way back, on average."""
    capacity_bps: float | None
    """Of the bottleneck: how far apart it let go of segments that were sent at once."""
    pairs: int
    """Pairs of segments that show it."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "fates": None if self.fates is None else vars(self.fates)}


def read(document: Mapping[str, Any]) -> Between:
    """The inverse of :meth:`Between.document`; raises ``LookupError`` or ``TypeError`` for something else."""
    fates = document["fates"]
    return Between(**{**document, "fates": None if fates is None else Fates(**fates)})
