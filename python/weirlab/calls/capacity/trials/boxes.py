"""The device as a black box: what its interfaces counted beside what was sent and received."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from weirlab.records import EngineResult

OTHERS_FRAMES: Final = 16
"""So many frames of others may pass an interface during a trial: neighbours and routers announce
themselves now and then."""

NEEDED: Final = ("in_rx_packets", "out_rx_packets", "in_tx_packets", "out_tx_packets")


@dataclass(frozen=True)
class Count:
    """What went into the device and came out of it, all directions together.

    ``sent`` and ``received`` are Weir's own counts, ``entered`` and ``left`` those of the device's
    interfaces; ``entered`` has the frames that its interfaces took and those that their queues had no
    room for.
    """

    sent: int
    received: int
    """At least; with the most that it may have been in ``received_most``."""
    received_most: int
    entered: int
    left: int

    @property
    def entered_difference(self) -> int:
        """Frames that the device saw more (or fewer) than were sent."""
        return self.entered - self.sent

    @property
    def left_difference(self) -> int:
        """Frames that left the device and never arrived, or (below 0) arrived without having left."""
        if self.left > self.received_most:
            return self.left - self.received_most
        return min(self.left - self.received, 0)

    @property
    def agree(self) -> bool:
        """Do both sides of the interfaces tell the same?"""
        return max(abs(self.entered_difference), abs(self.left_difference)) <= OTHERS_FRAMES

    @property
    def disagreement(self) -> str:
        """In words; empty where there is none."""
        told = []
        if abs(self.entered_difference) > OTHERS_FRAMES:
            told.append(f"{self.sent:,} frames were sent and {self.entered:,} reached the device")
        if abs(self.left_difference) > OTHERS_FRAMES:
            told.append(f"{self.left:,} left the device and {_range(self)} arrived")
        return " and ".join(told)


def count(result: EngineResult, counters: Mapping[str, int], *, whole: bool = True) -> Count | None:
    """Both sides' counts of one trial; None where the device has no counters of both interfaces.

    Counters see the warm-up, too (``whole``; a simulated device counts the recorded part only), of
    which Weir knows how many frames were sent but not how many arrived.
    """
    if any(name not in counters for name in NEEDED):
        return None
    warmup = result.sent_warmup if whole else 0
    # Flows are complete, whatever is left out of the rest.
    arrived = int(result.flows.received.sum()) + result.duplicated
    return Count(
        sent=int(result.flows.sent.sum()) + warmup,
        received=arrived,
        received_most=arrived + warmup,
        entered=sum(counters[f"{end}_rx_packets"] + counters.get(f"{end}_rx_dropped", 0) for end in _ENDS),
        left=sum(counters[f"{end}_tx_packets"] for end in _ENDS),
    )


_ENDS: Final = ("in", "out")


def _range(count: Count) -> str:
    if count.received == count.received_most:
        return f"{count.received:,}"
    return f"{count.received:,} to {count.received_most:,}"
