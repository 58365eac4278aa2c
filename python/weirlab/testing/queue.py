"""A firewall that obeys the queueing law exactly, packet by packet, whose parameters fits must recover."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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


F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrafficStep:
    """A stretch of constant traffic; ``poisson`` or constant gaps."""

    duration_ns: float
    rate_pps: float
    position: float = 0.0
    frame_bytes: float = 64.0
    poisson: bool = False


@dataclass(frozen=True)
class StepBins:
    """Results by departure time from the start of the first load, over all repetitions.

    Shapes (bins,): packets ``sent`` and ``received`` (sums), and the mean delay, NaN if
    nothing was received.
    """

    start_ns: F64
    sent: F64
    received: F64
    delay_mean_ns: F64

    @property
    def loss_ratio(self) -> F64:
        return np.asarray(1.0 - self.received / self.sent)


def simulate_steps(
    device: QueueDevice,
    loads: Sequence[TrafficStep],
    bin_ns: float,
    repetitions: int = 1,
    warmup_ns: float = 0.0,
    seed: int = 0,
) -> StepBins:
    """Send ``loads`` one after the other, ``repetitions`` times, after a warm-up under the first one.

    A packet's service time is that of its own load, however long it waits. One that finds
    ``queue_packets`` in the system is lost.
    """
    total_ns = sum(load.duration_ns for load in loads)
    bins = int(np.ceil(total_ns / bin_ns - 1e-9))
    sent, received, delay = np.zeros(bins), np.zeros(bins), np.zeros(bins)
    for repetition in range(repetitions):
        rng = np.random.default_rng([seed, repetition])
        times, service, outside = _arrivals(device, loads, warmup_ns, rng)
        passed, delays = _serve(times, service, device.queue_packets)
        recorded = times >= 0
        which = np.minimum(times[recorded] // bin_ns, bins - 1).astype(np.intp)
        arrived = passed[recorded]
        sent += np.bincount(which, minlength=bins)
        received += np.bincount(which[arrived], minlength=bins)
        total = (delays + outside)[recorded][arrived]
        delay += np.bincount(which[arrived], total, minlength=bins)
    mean: F64 = np.full(bins, np.nan)
    np.divide(delay, received, out=mean, where=received > 0)
    return StepBins(np.asarray(np.arange(bins) * bin_ns, dtype=np.float64), sent, received, mean)


def _arrivals(
    device: QueueDevice, loads: Sequence[TrafficStep], warmup_ns: float, rng: np.random.Generator
) -> tuple[F64, F64, F64]:
    """Arrival times from ``-warmup_ns`` on; each packet's service time, and its delay outside the queue."""
    times, service, outside = [], [], []
    begin = -warmup_ns
    end = 0.0
    for load in loads:
        end += load.duration_ns
        gap = 1e9 / load.rate_pps
        n = int((end - begin) / gap * 1.2 + 200)
        # Constant gaps begin at a random phase, as trials do.
        gaps = rng.exponential(gap, n) if load.poisson else np.full(n, gap)
        at = begin + np.cumsum(gaps) - (0.0 if load.poisson else gap * rng.random())
        at = at[at < end]
        times.append(at)
        service.append(np.full(len(at), device.service_ns(load.position, load.frame_bytes)))
        path = device.base_ns + device.base_per_byte_ns * load.frame_bytes
        path += device.wake_ns / (1 + load.rate_pps / device.wake_pps)
        outside.append(np.full(len(at), path))
        begin = end
    return np.concatenate(times), np.concatenate(service), np.concatenate(outside)


def _serve(times: F64, service: F64, places: int) -> tuple[npt.NDArray[np.bool_], F64]:
    """Which packets pass, and how long each of them is in the queue and its server."""
    passed = np.zeros(len(times), dtype=np.bool_)
    delays = np.zeros(len(times))
    present: deque[float] = deque()
    left = 0.0
    for i, (arrival, needed) in enumerate(zip(times.tolist(), service.tolist(), strict=True)):
        while present and present[0] <= arrival:
            present.popleft()
        if len(present) >= places:
            continue
        left = (arrival if not present else left) + needed
        present.append(left)
        passed[i] = True
        delays[i] = left - arrival
    return passed, delays
