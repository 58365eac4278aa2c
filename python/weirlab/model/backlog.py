"""Deep queues: how long a device that is offered too much loses nothing.

A load above the threshold fills the queue by the difference. With room for K packets nothing is lost within T
seconds up to a load of

    threshold + K / T,

though every packet waits longer than the one before. Only the threshold can be sustained. Of queues in
tandem, the one that loses first decides, which may be a different one for each T.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.model.base import Predictor
from weirlab.model.queueing import QueueingModel
from weirlab.model.tunnelled import NO_RULES, Tandem

DEEP: Final = 0.05
"""A queue is deep for a trial that passes without loss at a load this much (relative) above the threshold."""


@dataclass(frozen=True)
class DeviceQueue:
    """A queue of a device at one setting."""

    packets: float
    """Number of packets that it holds."""
    threshold_pps: float
    endless: bool
    """It was never seen full: it holds more."""

    def lossless_pps(self, lasts_s: float) -> float:
        """Highest load without loss within that time."""
        return self.threshold_pps + self.packets / lasts_s

    @property
    def drains_s(self) -> float:
        """How long the device takes to empty a full queue."""
        return self.packets / self.threshold_pps


@dataclass(frozen=True)
class Backlog:
    """The queues of a device at one setting, which packets pass one after the other; at least one."""

    queues: tuple[DeviceQueue, ...]

    @property
    def threshold_pps(self) -> float:
        """Highest load that never causes loss."""
        return min(one.threshold_pps for one in self.queues)

    def first(self, lasts_s: float) -> DeviceQueue:
        """The queue that first loses packets of a trial of that length."""
        return min(self.queues, key=lambda one: one.lossless_pps(lasts_s))

    def lossless_pps(self, lasts_s: float) -> float:
        """Highest load without loss within that time."""
        return self.first(lasts_s).lossless_pps(lasts_s)

    def is_deep(self, lasts_s: float) -> bool:
        """Whether a trial of that length passes at a load clearly above the sustainable one."""
        passes = self.lossless_pps(lasts_s)
        return self.first(lasts_s).endless or passes >= (1 + DEEP) * self.threshold_pps


def backlog(model: Predictor, position: float, frame_bytes: float) -> Backlog | None:
    """The queues of a model; None for models without any."""
    found = _queues(model, position, frame_bytes)
    return Backlog(tuple(found)) if found else None


def _queues(model: Predictor, position: float, frame_bytes: float) -> Sequence[DeviceQueue]:
    match model:
        case Tandem():
            behind = _queues(model.tunnel, NO_RULES, frame_bytes)
            return [*_queues(model.rules, position, frame_bytes), *behind]
        case QueueingModel():
            # In the heaviest trials, the rarest delays are those of a queue that is full.
            packets = model.queue_packets * max(curve.plateau for curve in model.delays.values())
            threshold = float(model.threshold_pps(position, frame_bytes))
            return [DeviceQueue(packets, threshold, model.endless)]
        case _:
            return []
