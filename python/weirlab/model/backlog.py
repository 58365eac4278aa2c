"""Deep queues: for so long, a device that is offered too much loses nothing.

A load above the threshold fills the queue by the difference. With room for K packets nothing is lost within T
seconds up to

    threshold + K / T,

though every packet waits longer than the one before. What lasts is the threshold alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.model.base import Predictor
from weirlab.model.queueing import Queueing
from weirlab.model.tunnelled import NO_RULES, Tandem

DEEP: Final = 0.05
"""A queue is deep for a trial that it lets pass without loss at a load higher than the threshold by this."""


@dataclass(frozen=True)
class Backlog:
    """The queue of a device at one setting."""

    packets: float
    """It holds so many."""
    threshold_pps: float
    endless: bool
    """It was never seen full: it holds more."""

    def lossless_pps(self, lasts_s: float) -> float:
        """Highest load of which nothing is lost within that time."""
        return self.threshold_pps + self.packets / lasts_s

    def is_deep(self, lasts_s: float) -> bool:
        """Whether a trial of that length passes with clearly more than what lasts."""
        return self.lossless_pps(lasts_s) >= (1 + DEEP) * self.threshold_pps

    @property
    def drains_s(self) -> float:
        """How long the device works on a full queue."""
        return self.packets / self.threshold_pps


def backlog(model: Predictor, position: float, frame_bytes: float, lasts_s: float) -> Backlog | None:
    """The queue that first loses packets of a trial of that length; None for models without queues."""
    found = _queues(model, position, frame_bytes)
    return min(found, key=lambda one: one.lossless_pps(lasts_s), default=None)


def _queues(model: Predictor, position: float, frame_bytes: float) -> Sequence[Backlog]:
    match model:
        case Tandem():
            behind = _queues(model.tunnel, NO_RULES, frame_bytes)
            return [*_queues(model.rules, position, frame_bytes), *behind]
        case Queueing():
            # In the heaviest trials, the rarest delays are those of a queue that is full.
            packets = model.queue_packets * max(curve.plateau for curve in model.delays.values())
            threshold = float(model.threshold_pps(position, frame_bytes))
            return [Backlog(packets, threshold, model.endless)]
        case _:
            return []
