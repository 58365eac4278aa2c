"""A firewall that obeys the queueing law exactly, packet by packet, whose parameters fits must recover."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weirlab.records import Observation

LOADS_BELOW = (0.02, 0.1, 0.3, 0.5, 0.7, 0.85, 0.93)
LOADS_ABOVE = (1.1, 1.3, 1.6)


@dataclass(frozen=True)
class QueueDevice:
    """A server with a finite queue; each packet takes at least ``io_ns``, or longer for the rules."""

    fixed_ns: float = 1200.0
    per_rule_ns: float = 2.7
    per_byte_ns: float = 0.0
    io_ns: float = 0.0
    queue_packets: int = 256
    base_ns: float = 9000.0
    base_per_byte_ns: float = 0.0
    wake_ns: float = 0.0
    wake_pps: float = 20_000.0

    def service_ns(self, position: float, frame_bytes: float = 64.0) -> float:
        rules = self.fixed_ns + self.per_rule_ns * position + self.per_byte_ns * frame_bytes
        return max(rules, self.io_ns)


def simulate(
    device: QueueDevice,
    rate_pps: float,
    frame_bytes: float = 64.0,
    position: float = 0.0,
    poisson: bool = False,
    packets: int = 5000,
    seed: int = 0,
) -> Observation:
    """One trial, event by event: an arrival that finds ``queue_packets`` in the system is lost."""
    rng = np.random.default_rng(seed)
    gap = 1e9 / rate_pps
    # At 1.1 times the threshold, one packet in eleven stays: the queue is full after 11 times its length.
    warmup = 12 * device.queue_packets if gap < device.service_ns(position, frame_bytes) else 1000
    n = packets + warmup
    gaps = rng.exponential(gap, n) if poisson else np.full(n, gap)
    service = device.service_ns(position, frame_bytes)
    outside = device.base_ns + device.base_per_byte_ns * frame_bytes
    outside += device.wake_ns / (1 + rate_pps / device.wake_pps)
    present: deque[float] = deque()
    left = 0.0
    delays: list[float] = []
    lost = 0
    arrivals = np.cumsum(gaps)
    for i, arrival in enumerate(arrivals.tolist()):
        while present and present[0] <= arrival:
            present.popleft()
        if len(present) >= device.queue_packets:
            lost += i >= warmup
            continue
        left = max(arrival, left) + service
        present.append(left)
        if i >= warmup:
            delays.append(left - arrival + outside)
    values = np.array(delays)
    recorded_s = (arrivals[-1] - arrivals[warmup - 1]) / 1e9
    p50, p90, p99, p999 = np.quantile(values, (0.5, 0.9, 0.99, 0.999))
    return Observation(
        rate_pps=packets / recorded_s,
        frame_bytes=frame_bytes,
        position=position,
        forwarding_pps=len(values) / recorded_s,
        loss_ratio=lost / packets,
        delay_mean_ns=float(values.mean()),
        delay_p50_ns=float(p50),
        delay_p90_ns=float(p90),
        delay_p99_ns=float(p99),
        jitter_ns=float(np.abs(np.diff(values)).mean()),
        delay_p999_ns=float(p999),
        gap_scv=float(poisson),
        packets=len(values),
    )


def profile(
    device: QueueDevice,
    positions: Iterable[float] = (0, 50, 100, 400, 1000),
    frames: Iterable[float] = (64.0,),
    loads: Sequence[float] = LOADS_BELOW + LOADS_ABOVE,
    poisson: bool = False,
    packets: int = 3000,
) -> list[Observation]:
    """Trials at shares of each setting's own threshold."""
    frames = tuple(frames)
    settings = [(n, frame, load) for n in positions for frame in frames for load in loads]
    return [
        simulate(device, load * 1e9 / device.service_ns(n, frame), frame, n, poisson, packets, seed)
        for seed, (n, frame, load) in enumerate(settings)
    ]
