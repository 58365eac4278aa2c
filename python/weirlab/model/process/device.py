"""The reference: one packet after the other, without a clock."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final

from weirlab.model.process.steady import LEAST_PLACES, LEVELS, STREAMS, SteadyStates
from weirlab.model.queueing import QueueingModel

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
