"""A fitted device as a process of packets: what simulations and emulated links run.

``docs/model-format.md`` is the specification; ``ReferenceDevice`` follows it line by line, and the C++ core
of the modules for simulators and the engine are compared with it.

A packet stays for ``floor_ns`` at least. Behind the server, interruptions hold packets up: independent
Poisson streams of interruptions, all those of one stream of the same length. A packet that is served during
some leaves when the last of them ends. So packets keep their order whatever their gaps, and the share of
packets that stay no longer than ``floor + x`` is ``exp(-N(x))``, where ``N(x)``, the mean number of
interruptions of which more than x is left, is convex and falls in straight lines: between the levels
``-ln(share)`` of p50, p90, p99 and p99.9 by ``1 / slope``. Slopes may therefore only grow with the delay.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from weirlab.model.base import DELAYS, F64, Prediction
from weirlab.model.queueing import QueueingModel

LEVELS: Final = (3.0, *(-math.log(q) for q in (0.5, 0.9, 0.99, 0.999)), 0.0)
"""``N`` of the shares of packets at the floor, up to p50, p90, p99, p99.9, and the longest delay."""
STREAMS: Final = 4

_WEIGHTS: Final = (1000.0, 3.0, 1.0, 300.0, 1.0)
"""Of the relative errors of mean, p50, p90, p99 and p99.9: mean and p99 count, the others bend to them."""

LEAST_PLACES: Final = 16
"""Of the queue of an overloaded device. Just above the threshold delays spread from none to those of a full
queue, which still takes bursts."""


def _steps() -> F64:
    """Delays above the floor of unit slopes: mean, p50, p90, p99 and p99.9 by slope, shape (5, STREAMS)."""
    steps = np.zeros((len(DELAYS), STREAMS))
    for i in range(STREAMS):
        # The last slope goes on to the longest delay.
        top, end = LEVELS[i], LEVELS[i + 1] if i + 1 < STREAMS else 0.0
        steps[0, i] = top - end - (math.exp(-end) - math.exp(-top))
        steps[i + 1 :, i] = LEVELS[i] - LEVELS[i + 1]
    return steps


_STEPS: Final = _steps()


@dataclass(frozen=True)
class SteadyStates:
    """Of several loads; arrays of shape (n,), ``slopes_ns`` (n, STREAMS)."""

    floor_ns: F64
    slopes_ns: F64
    drop_ratio: F64
    """Share of packets that are lost before the queue: that of a device that is not overloaded."""
    rho: F64
    service_ns: F64

    @classmethod
    def of(cls, prediction: Prediction, rate_pps: npt.ArrayLike, queue_packets: float) -> Self:
        """The states that have the mean and p99 of ``prediction``, whose arrays have shape (n,)."""
        service_ns = 1e9 / prediction.threshold_pps
        rate = np.asarray(rate_pps)
        rho = rate * service_ns / 1e9
        # The full queue of an overloaded device holds every packet for so long.
        places = min(max(math.floor(queue_packets + 0.5), 1), LEAST_PLACES)
        least_ns = np.where(rho > 1.0, np.maximum(places * service_ns - 0.5e9 / rate, service_ns), service_ns)
        targets = np.stack([getattr(prediction, name) for name in DELAYS], axis=1)
        scale = np.array(_WEIGHTS) / targets
        # Unknown: the floor above the least one, the first slope, and by how much each exceeds the last.
        grown = _STEPS[:, ::-1].cumsum(axis=1)[:, ::-1]
        matrix = np.concatenate([np.ones((len(DELAYS), 1)), grown], axis=1)
        unknown = _nonnegative(matrix * scale[:, :, None], (targets - least_ns[:, None]) * scale)
        return cls(
            floor_ns=least_ns + unknown[:, 0],
            slopes_ns=unknown[:, 1:].cumsum(axis=1),
            drop_ratio=np.where(rho > 1.0, 0.0, prediction.loss_ratio),
            rho=rho,
            service_ns=service_ns,
        )

    def delays_ns(self) -> dict[str, F64]:
        """Mean and quantiles, by the names in ``DELAYS``."""
        found = self.floor_ns[:, None] + self.slopes_ns @ _STEPS.T
        return dict(zip(DELAYS, found.T, strict=True))


def _nonnegative(matrix: F64, target: F64) -> F64:
    """Least squares of ``matrix x = target`` for x >= 0; (n, r, k) and (n, r), answer (n, k).

    The best of all sets of unknowns that may differ from 0: there are few, and it is the same everywhere.
    """
    n, _, k = matrix.shape
    best, least = np.zeros((n, k)), (target**2).sum(axis=1)
    for size in range(1, k + 1):
        for used in itertools.combinations(range(k), size):
            part = matrix[:, :, used]
            normal = part.transpose(0, 2, 1) @ part
            right = (part.transpose(0, 2, 1) @ target[:, :, None])[:, :, 0]
            solved = np.linalg.solve(normal, right[:, :, None])[:, :, 0]
            misfit = (((part @ solved[:, :, None])[:, :, 0] - target) ** 2).sum(axis=1)
            better = (solved >= 0).all(axis=1) & (misfit < least)
            best[better] = 0.0
            best[np.ix_(better, used)] = solved[better]
            least = np.where(better, misfit, least)
    return best


_MOST_PACKETS: Final = 256
_SHORTEST_NS: Final = 10e6
_LONGEST_NS: Final = 1e9
_FEW_PACKETS: Final = 64
"""Of a window after a change."""
_CHANGE: Final = 0.3
"""Of ln(load): random gaps change that of 256 packets by 0.06, so this is no accident."""
_MASK: Final = (1 << 64) - 1


class SplitMix64:
    """The random numbers (Steele, Lea and Flood, OOPSLA 2014)."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def uniform(self) -> float:
        """Above 0 and at most 1."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        z = self._state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
        return (((z ^ (z >> 31)) >> 11) + 1) * 2.0**-53


class Fate(Enum):
    """What becomes of a packet."""

    FORWARDED = "forwarded"
    QUEUE_FULL = "queue full"
    LOST = "lost"
    """Before the queue."""


@dataclass(frozen=True)
class Passage:
    """When a packet that is forwarded was served, and when it leaves; ns."""

    fate: Fate
    served_ns: float = 0.0
    leaves_ns: float = 0.0


@dataclass
class ArrivalSum:
    """Packets since ``begin_ns``, with the sums of their frame sizes and positions."""

    begin_ns: float
    packets: int = 0
    frames_bytes: float = 0.0
    positions: float = 0.0

    def add(self, frame_bytes: float, position: float) -> None:
        """Count a packet."""
        self.packets += 1
        self.frames_bytes += frame_bytes
        self.positions += position

    def load(self, until_ns: float) -> tuple[float, float, float]:
        """Rate, mean frame size and mean position."""
        n = self.packets
        return n * 1e9 / (until_ns - self.begin_ns), self.frames_bytes / n, self.positions / n


class ReferenceDevice:
    """A measured device: one server and one finite queue for all interfaces, and interruptions behind it."""

    def __init__(self, model: QueueingModel, seed: int, cpus: float = 1.0) -> None:
        self._model, self._random, self._cpus = model, SplitMix64(seed), cpus
        self._inside: deque[float] = deque()
        self._last_ns = self._free_ns = self._left_ns = 0.0
        self._served_ns = -math.inf
        self._began_ns = [-math.inf] * STREAMS
        self._services: dict[tuple[float, float], float] = {}
        self._window: ArrivalSum | None = None
        self._wanted = 2

    def arrive(self, at_ns: float, frame_bytes: float, position: float) -> Passage:
        """Pass a packet of ``frame_bytes`` (FCS included); arrivals are in the order of their times."""
        at_ns = self._last_ns = max(at_ns, self._last_ns)
        self._observe(at_ns, frame_bytes, position)
        while self._inside and self._inside[0] <= at_ns:
            self._inside.popleft()
        if self._drop_ratio > 0.0 and self._random.uniform() <= self._drop_ratio:
            return Passage(Fate.LOST)
        if len(self._inside) >= self._places:
            return Passage(Fate.QUEUE_FULL)
        self._free_ns = max(self._free_ns, at_ns) + self._service_ns(position, frame_bytes) / self._cpus
        self._inside.append(self._free_ns)
        self._left_ns = max(self._left_ns, self._free_ns + self._behind_ns(self._free_ns))
        return Passage(Fate.FORWARDED, self._free_ns, self._left_ns)

    def _service_ns(self, position: float, frame_bytes: float) -> float:
        key = (position, frame_bytes)
        if key not in self._services:
            self._services[key] = 1e9 / float(self._model.threshold_pps(position, frame_bytes))
        return self._services[key]

    def _observe(self, at_ns: float, frame_bytes: float, position: float) -> None:
        """Count an arrival; the load is that of the last window that is over. A change makes them short."""
        if self._window is None:
            self._window, self._block = ArrivalSum(at_ns), ArrivalSum(at_ns)
            self._settle(self._model.profiled.rate_min_pps, frame_bytes, position)
        lasts_ns, n = at_ns - self._window.begin_ns, self._window.packets
        full = n >= self._wanted and (self._wanted < _MOST_PACKETS or lasts_ns >= _SHORTEST_NS)
        if lasts_ns > 0 and (full or (n >= 2 and lasts_ns >= _LONGEST_NS)):
            self._settle(*self._window.load(at_ns))
            self._wanted = min(2 * self._wanted, _MOST_PACKETS)
            self._window, self._block = ArrivalSum(at_ns), ArrivalSum(at_ns)
        elif self._wanted == _MOST_PACKETS and self._is_over(self._block, at_ns):
            rate_pps, mean_bytes, mean_position = self._block.load(at_ns)
            work = rate_pps / float(self._model.threshold_pps(mean_position, mean_bytes))
            self._block = ArrivalSum(at_ns)
            if abs(math.log(work / self._work)) > _CHANGE:
                self._wanted, self._window = _FEW_PACKETS, ArrivalSum(at_ns)
        self._window.add(frame_bytes, position)
        self._block.add(frame_bytes, position)

    def _is_over(self, block: ArrivalSum, at_ns: float) -> bool:
        """Whether it has all its packets, or fewer in twice their time."""
        lasts_ns, n = at_ns - block.begin_ns, block.packets
        return lasts_ns > 0 and (n >= _MOST_PACKETS or (n >= 2 and lasts_ns >= self._longest_ns))

    def _settle(self, rate_pps: float, frame_bytes: float, position: float) -> None:
        profiled = self._model.profiled
        self._work = rate_pps * self._service_ns(position, frame_bytes) / 1e9
        self._longest_ns = 2e9 * _MOST_PACKETS / rate_pps
        # Beyond the profile the nearest profiled load says more than an extrapolation.
        highest = profiled.share_max * 1e9 / self._service_ns(position, frame_bytes)
        share = max(min(rate_pps / self._cpus, highest), profiled.rate_min_pps)
        prediction = self._model.predict([share], frame_bytes, position)
        states = SteadyStates.of(prediction, share, self._model.queue_packets)
        floor_ns, service_ns = float(states.floor_ns[0]), float(states.service_ns[0])
        places = max(math.floor(self._model.queue_packets + 0.5), 1)
        queue_ns = service_ns / self._cpus
        if states.rho[0] > 1.0:
            # A queue that is full holds a packet for all but the rest of the time inside.
            places = max(math.floor(floor_ns / service_ns), min(places, LEAST_PLACES))
            queue_ns = places * service_ns - 0.5e9 / rate_pps
        self._places = max(math.floor(places * self._cpus + 0.5), 1)
        self._floor_ns = max(floor_ns - queue_ns, 0.0)
        self._drop_ratio = float(states.drop_ratio[0])
        slopes = [float(slope) for slope in states.slopes_ns[0]]
        levels = [*LEVELS[:STREAMS], 0.0]
        steps = [(high - low) * slope for high, low, slope in zip(levels, levels[1:], slopes, strict=False)]
        self._lengths_ns = [sum(steps[: i + 1]) for i in range(STREAMS)]
        self._rates = [
            (1.0 / slope - (1.0 / after if after else 0.0)) if slope > 0 else 0.0
            for slope, after in zip(slopes, [*slopes[1:], 0.0], strict=True)
        ]

    def _behind_ns(self, at_ns: float) -> float:
        """Time behind the server: until the last of the interruptions in progress ends."""
        most_ns = 0.0
        for i, (rate, length_ns) in enumerate(zip(self._rates, self._lengths_ns, strict=True)):
            if rate <= 0.0:
                continue
            since_ns = -math.log(self._random.uniform()) / rate
            if at_ns - since_ns > self._served_ns:
                self._began_ns[i] = at_ns - since_ns
            most_ns = max(most_ns, length_ns - (at_ns - self._began_ns[i]))
        self._served_ns = at_ns
        return self._floor_ns + most_ns


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
