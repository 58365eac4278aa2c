"""Steady states on a grid of loads, for engines that interpolate instead of predicting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from weirlab.model.base import F64
from weirlab.model.process.steady import STREAMS, SteadyStates
from weirlab.model.queueing import QueueingModel

_LEAST_RHO: Final = 1e-4
_BEYOND: Final = 1e-9
"""A load just above the threshold has another state than one just below it."""


@dataclass(frozen=True)
class BehaviourGrid:
    """What a device does at ``rhos`` (k,) times the threshold, for each of ``positions`` (p,) and
    ``frames_bytes`` (f,).

    ``service_ns`` has shape (p, f); ``states`` (p, f, k, 2 + STREAMS): floor, drop ratio and slopes.
    """

    positions: F64
    frames_bytes: F64
    rhos: F64
    service_ns: F64
    states: F64
    queue_packets: int
    rate_min_pps: float

    @classmethod
    def of(cls, model: QueueingModel, positions: Sequence[float], frames_bytes: Sequence[float]) -> Self:
        """The grid of ``model``; both axes rise."""
        place, frame = np.array(positions, np.float64), np.array(frames_bytes, np.float64)
        top = max(model.profiled.share_max, 1.2)
        below = [*np.geomspace(_LEAST_RHO, 0.5, 96), *(1.0 - np.geomspace(0.48, 1e-3, 96)), 1.0]
        above = [1.0 + _BEYOND, *(1.0 + np.geomspace(1e-3, 0.1, 24)), *np.geomspace(1.12, max(top, 1.2), 24)]
        rhos = np.array([*below, *above])
        service_ns = 1e9 / model.threshold_pps(place[:, None], frame[None, :])
        shape = (len(place), len(frame), len(rhos))
        rate = np.maximum(rhos / service_ns[:, :, None] * 1e9, model.profiled.rate_min_pps)
        prediction = model.predict(
            rate.ravel(),
            np.broadcast_to(frame[None, :, None], shape).ravel(),
            np.broadcast_to(place[:, None, None], shape).ravel(),
        )
        found = SteadyStates.of(prediction, rate.ravel(), model.queue_packets)
        states = np.concatenate([found.floor_ns[:, None], found.drop_ratio[:, None], found.slopes_ns], axis=1)
        return cls(
            positions=place,
            frames_bytes=frame,
            rhos=rhos,
            service_ns=service_ns,
            states=states.reshape(*shape, 2 + STREAMS),
            queue_packets=max(math.floor(model.queue_packets + 0.5), 1),
            rate_min_pps=model.profiled.rate_min_pps,
        )

    def plain(self) -> dict[str, Any]:
        """For the engine: flat lists in C order."""
        return {
            "positions": self.positions.tolist(),
            "frames_bytes": self.frames_bytes.tolist(),
            "rhos": self.rhos.tolist(),
            "service_ns": self.service_ns.ravel().tolist(),
            "states": self.states.ravel().tolist(),
            "queue_packets": self.queue_packets,
            "rate_min_pps": self.rate_min_pps,
        }
