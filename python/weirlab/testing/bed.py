"""A test bed that computes what a firewall with a finite queue would do, its clock, and a noisy host."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np

from weirlab.base.closing import Closable
from weirlab.lab import wiring
from weirlab.lab.base import Site
from weirlab.model.base import DELAYS, F64
from weirlab.records import Backend, EngineResult, HostSample, Observation, RuleSetup
from weirlab.testing.results import make_result
from weirlab.traffic.load import offered_pps
from weirlab.traffic.sizes import mean_bytes
from weirlab.traffic.spec import Traffic

_TIMES = (*DELAYS, "jitter_ns")


class FakeClock:
    """Call it for seconds, as ``time.monotonic``; ``now`` gives the same as a date in UTC."""

    def __init__(self, start: datetime = datetime(2026, 11, 21, 7, 25, tzinfo=UTC)) -> None:
        self._start = start
        self.elapsed_s = 0.0

    def __call__(self) -> float:
        return self.elapsed_s

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self.elapsed_s)

    def advance(self, seconds: float) -> None:
        self.elapsed_s += seconds


_STATES = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait")


@dataclass(frozen=True)
class FakeDevice:
    """One server with a queue: service time ``fixed + per_rule * position + per_byte * size``, in ns.

    Below the threshold the delay is the base delay plus that of an M/D/1 queue (cut at the
    queue's length), above it the base delay plus a full queue.
    """

    service_fixed_ns: float = 1150.0
    service_per_rule_ns: float = 2.5
    service_per_byte_ns: float = 0.0
    queue_packets: int = 256
    base_delay_ns: float = 12_000.0
    sender_max_pps: float = 5e6
    livelock_pps: float = math.inf
    """Load above which it forwards nothing."""

    def service_ns(self, position: float, frame_bytes: float) -> float:
        return (
            self.service_fixed_ns
            + self.service_per_rule_ns * position
            + self.service_per_byte_ns * frame_bytes
        )

    def threshold_pps(self, position: float, frame_bytes: float) -> float:
        return 1e9 / self.service_ns(position, frame_bytes)

    def loss_ratio(self, rate: float, position: float, frame_bytes: float) -> float:
        if rate > self.livelock_pps:
            return 1.0
        return max(0.0, 1.0 - self.threshold_pps(position, frame_bytes) / rate)

    def delay_mean_ns(self, rate: float, position: float, frame_bytes: float) -> float:
        service = self.service_ns(position, frame_bytes)
        load = rate * service / 1e9
        full = float(self.queue_packets)
        waiting = full if load >= 1 else min(full, load / (2 * (1 - load)) + 1)
        return self.base_delay_ns + waiting * service


@dataclass(frozen=True)
class TrialDisturbance:
    """What the host does to one trial of the :class:`FakeBed`."""

    steal_s: Mapping[str, float] = field(default_factory=dict)
    """Seconds of CPU taken away, by role."""
    slipped_ns: int = 0
    achieved_share: float = 1.0
    """Share of the nominal load that the sender gets out."""
    softnet_dropped: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    """Added to the device's counters."""
    dead_bins: int = 0
    """Number of 10 ms bins, from the second on, in which every packet is lost."""
    nothing_arrives: bool = False


Outcome = EngineResult | BaseException | TrialDisturbance | None


class FakeBed(Closable):
    """A ``TestBed`` that answers from a script and, when that is used up, from formulas.

    ``script`` gives one entry per call of ``run``: a result to return, an exception to
    raise, a :class:`TrialDisturbance`, or None for an undisturbed trial. ``rules_seen`` and
    ``traffic_seen`` record the calls. Each call advances ``clock`` by the time that it would
    take; a trial takes ``overhead_s`` in addition to its traffic.
    """

    __test__ = False

    def __init__(
        self,
        device: FakeDevice = FakeDevice(),
        script: Iterable[Outcome] = (),
        *,
        clock: FakeClock | None = None,
        set_rules_s: float = 0.0,
        overhead_s: float = 0.0,
        dut: str = "fake",
        lab: str = "sim",
        backend: Backend = "sim",
    ) -> None:
        self.device = device
        self.rules = RuleSetup()
        self.rules_seen: list[RuleSetup] = []
        self.cross_traffic = False
        self.traffic_seen: list[Traffic] = []
        self.closed = False
        self._script = iter(script)
        self._clock = clock
        self._set_rules_s = set_rules_s
        self._overhead_s = overhead_s
        self._dut, self._lab, self._backend = dut, lab, backend
        self._wall_s = 0.0
        self._steal_s: dict[str, float] = {"sender": 0.0, "dut": 0.0}
        self._softnet_dropped = 0
        self._counters: dict[str, int] = dict.fromkeys(
            ("in_rx_packets", "in_rx_dropped", "out_tx_packets", "out_tx_dropped"), 0
        )

    @property
    def lab(self) -> str:
        return self._lab

    @property
    def dut(self) -> str:
        return self._dut

    @property
    def backend(self) -> str:
        return self._backend

    @property
    def facts(self) -> Mapping[str, object]:
        return {"cores": {"sender": 0, "dut": 1}, "made_of": "formulas"}

    def set_rules(self, rules: RuleSetup) -> None:
        self.rules = rules
        self.rules_seen.append(rules)
        self._pass(self._set_rules_s)

    def set_cross_traffic(self, on: bool) -> None:
        """Keep the setting; it costs the device made of formulas nothing."""
        self.cross_traffic = on

    def run(self, traffic: Traffic) -> EngineResult:
        self.traffic_seen.append(traffic)
        outcome = next(self._script, None)
        if isinstance(outcome, BaseException):
            raise outcome
        trouble = outcome if isinstance(outcome, TrialDisturbance) else TrialDisturbance()
        result = outcome if isinstance(outcome, EngineResult) else self._compute(traffic, trouble)
        self._account(traffic, result, trouble)
        return result

    def counters(self) -> dict[str, int]:
        return dict(self._counters)

    def host(self) -> HostSample:
        cpu_s = {
            role: {**dict.fromkeys(_STATES, 0.0), "softirq": self._wall_s * 0.3, "steal": steal}
            for role, steal in self._steal_s.items()
        }
        return HostSample(
            wall_s=self._wall_s, cpu_s=cpu_s, memory_used_bytes=1 << 30, softnet_dropped=self._softnet_dropped
        )

    def close(self) -> None:
        self.closed = True

    def _pass(self, seconds: float) -> None:
        if self._clock is not None:
            self._clock.advance(seconds)

    def _compute(self, traffic: Traffic, trouble: TrialDisturbance) -> EngineResult:
        nominal = offered_pps(traffic)
        rate = min(nominal, self.device.sender_max_pps) * trouble.achieved_share
        size, position = mean_bytes(traffic.sizes), self.rules.mean_position
        result = make_result(
            rate,
            duration_s=traffic.duration_s,
            warmup_s=traffic.warmup_s,
            loss_ratio=1.0 if trouble.nothing_arrives else self.device.loss_ratio(rate, position, size),
            delay_mean_ns=self.device.delay_mean_ns(rate, position, size),
            flows=traffic.flows.count,
            slipped_ns=trouble.slipped_ns,
            backend=self._backend,
        )
        return _with_dead_bins(result, trouble.dead_bins)

    def _account(self, traffic: Traffic, result: EngineResult, trouble: TrialDisturbance) -> None:
        wall_s = traffic.warmup_s + traffic.duration_s
        self._wall_s += wall_s
        self._pass(wall_s + self._overhead_s)
        for role, seconds in trouble.steal_s.items():
            self._steal_s[role] = self._steal_s.get(role, 0.0) + seconds
        self._softnet_dropped += trouble.softnet_dropped
        self._add("in_rx_packets", result.sent + result.sent_warmup)
        self._add("out_tx_packets", result.received)
        for name, value in trouble.counters.items():
            self._add(name, value)

    def _add(self, name: str, value: int) -> None:
        self._counters[name] = self._counters.get(name, 0) + value


def _with_dead_bins(result: EngineResult, n: int) -> EngineResult:
    """``result`` with nothing received in ``n`` bins; histogram and flows shrink in proportion."""
    if n == 0:
        return result
    series = result.series
    received = series.received.copy()
    received[1 : 1 + n] = 0
    left = int(received.sum())
    share = left / max(result.received, 1)
    flow_received = np.floor(result.flows.received * share).astype(np.uint64)
    return replace(
        result,
        received=left,
        lost=result.sent - left,
        series=replace(series, received=received),
        histogram=replace(result.histogram, count=np.floor(result.histogram.count * share).astype(np.uint64)),
        flows=replace(result.flows, received=flow_received, lost=result.flows.sent - flow_received),
    )


STOLEN: Final = TrialDisturbance(steal_s={"dut": 0.2})
"""A trial that the host spoils."""


def disturbed(share: float, seed: int = 1) -> Iterator[TrialDisturbance | None]:
    """Spoil this share of the trials, independently of each other."""
    draw = random.Random(seed)
    while True:
        yield STOLEN if draw.random() < share else None


def bursts(clock: Callable[[], float], quiet_s: float, busy_s: float) -> Iterator[TrialDisturbance | None]:
    """Alternate between a quiet and a busy host by the ``clock``; trials while it is busy do not count."""
    while True:
        yield STOLEN if clock() % (quiet_s + busy_s) >= quiet_s else None


SITE: Final = Site("weir-none", wiring.IN0, wiring.OUT0, wiring.TX0, wiring.RX0, 1)


@dataclass(frozen=True)
class HostNoise:
    """How the host spoils trials; a change in the device's speed changes the queueing delay as well."""

    scatter: float = 0.05
    """Standard deviation of ln(speed) from trial to trial."""
    outliers: float = 0.1
    """Share of the trials that a neighbour slows down by 10 to 40 %. Nothing makes a device faster."""
    drift: float = 0.04
    """Amplitude of ln(speed) over the run, which lasts one period."""
    single: float = 0.5
    """Share of the settings with one valid trial; the others have three."""

    def trials(self, truths: Sequence[Observation], seed: int) -> list[Observation]:
        """Trials of the settings in ``truths``, which are what a quiet host would measure."""
        rng = np.random.default_rng(seed)
        counts = np.where(rng.random(len(truths)) < self.single, 1, 3)
        rows = rng.permutation(np.repeat(np.arange(len(truths)), counts))
        when = np.linspace(0.0, 2.0 * math.pi, len(rows)) + rng.uniform(0.0, 2.0 * math.pi)
        speeds = self._speeds(rng, when)
        return [_at_speed(truths[row], float(speed)) for row, speed in zip(rows, speeds, strict=True)]

    def _speeds(self, rng: np.random.Generator, when: F64) -> F64:
        disturbed = rng.random(len(when)) < self.outliers
        slowed = np.where(disturbed, 1.0 - rng.uniform(0.1, 0.4, len(when)), 1.0)
        return np.asarray(
            slowed * np.exp(self.drift * np.sin(when) + rng.normal(0.0, self.scatter, len(when)))
        )


def _at_speed(truth: Observation, speed: float) -> Observation:
    """``truth`` with the device's CPU at ``speed`` times its usual speed."""
    forwarding = truth.forwarding_pps * speed if truth.loss_ratio > 0 else truth.forwarding_pps
    forwarding = min(forwarding, truth.rate_pps)
    times = {name: getattr(truth, name) / speed for name in _TIMES}
    return replace(truth, forwarding_pps=forwarding, loss_ratio=1.0 - forwarding / truth.rate_pps, **times)
