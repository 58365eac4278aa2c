"""A simulated device under test: same interface, same records, no privileges needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.closing import Closable
from weirlab.base.errors import InputError
from weirlab.base.extras import engine_needed
from weirlab.lab.host import STATES
from weirlab.records import EngineResult, HostSample, RuleSetup
from weirlab.traffic.flows import queues
from weirlab.traffic.places import Places, flow_groups
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Traffic

_UNPACED_GAP_NS: Final = 200
"""A sender without pacing sends 5 million packets/s, as the real one does."""
_MOST_SIZES: Final = 8
"""Frame sizes whose behaviour is computed for a trial; between them it is interpolated."""

Axis = tuple[float, ...]
"""Rising values."""


@dataclass(frozen=True)
class SimDevice:
    """A server with a finite queue, modelled on the behaviour of real packet filters.

    A packet of L bytes whose match is the n-th rule is served in ``service_fixed_ns +
    n * service_per_rule_ns + L * service_per_byte_ns`` on average; outside the queue it
    takes ``base_delay_ns + L * base_per_byte_ns``. A packet that finds ``queue_packets``
    inside, the one in service included, is lost.

    The defaults resemble iptables on veth pairs: 865,000 packets/s without rules, 260,000 with 1000.
    """

    service_fixed_ns: float = 1150.0
    service_per_rule_ns: float = 2.7
    service_per_byte_ns: float = 0.05
    io_service_ns: float = 0.0
    """Service time of a second stage in series, e.g. the interface; 0 for none."""
    queue_packets: int = 256
    base_delay_ns: float = 10_000.0
    base_per_byte_ns: float = 0.0
    noise: Literal["none", "exponential", "gamma"] = "gamma"
    """Distribution of the service time around its mean."""
    noise_cv: float = 0.3
    """Coefficient of variation of ``gamma`` noise."""
    stateful_ns: float = 0.0
    """What connection tracking adds to the service time. Zero by default: it is small compared with the
    cost of the rules, which netfilter also walks for tracked connections."""
    new_flow_ns: float = 0.0
    """What the first packet of a flow costs more than another one, its answer included."""
    cross_traffic_ns: float = 1_500_000.0
    """How long each request of a management session, if there is one, takes the device's CPU."""
    cross_traffic_every_ns: float = 100_000_000.0
    """Interval between its requests."""
    disturb_ns: float = 0.0
    """How long the host takes the device's CPU away now and then; 0: never. As on a real host, the
    trial knows when."""
    disturb_every_ns: float = 50_000_000.0
    """Mean interval between these disturbances, which are random."""
    seed: int = 1

    def __post_init__(self) -> None:
        """Raises ``InputError`` for an impossible device."""
        for name, value in asdict(self).items():
            if name != "noise" and not (np.isfinite(value) and value >= 0):
                raise InputError(f"simulated device: {name} is {value}, but must be a number from 0 up")
        if self.queue_packets < 1:
            raise InputError("simulated device: queue_packets must be at least 1")
        if max(self.service_fixed_ns, self.io_service_ns) == 0:
            raise InputError("simulated device: serving a packet must take time, but service_fixed_ns is 0")
        if self.cross_traffic_every_ns <= self.cross_traffic_ns:
            raise InputError(
                f"simulated device: cross_traffic_every_ns is {self.cross_traffic_every_ns:g}, "
                f"but must be more than cross_traffic_ns ({self.cross_traffic_ns:g})"
            )
        if self.disturb_every_ns <= self.disturb_ns:
            raise InputError(
                f"simulated device: disturb_every_ns is {self.disturb_every_ns:g}, "
                f"but must be more than disturb_ns ({self.disturb_ns:g})"
            )
        if self.new_flow_ns and not self.service_per_rule_ns:
            raise InputError("simulated device: new_flow_ns needs a service_per_rule_ns above 0")
        if self.noise not in ("none", "exponential", "gamma"):
            raise InputError(
                f"simulated device: noise is {self.noise!r}, but must be none, exponential or gamma"
            )
        if self.noise == "gamma" and self.noise_cv == 0:
            raise InputError("simulated device: noise_cv is 0; use noise none for a device without noise")


@dataclass(frozen=True)
class SimulatedModel:
    """A measured device that is to be simulated."""

    name: str
    behaviour: Callable[[Axis, Axis], Mapping[str, Any]]
    """What it does at these matching positions and frame sizes, as ``weirlab._engine.simulate`` takes it."""


class SimLab(Closable):
    """The test bed around a :class:`SimDevice`. The same calls in the same order give the same results.

    With a ``model`` the device has the service times, the queue and the delays of a measured one; only cross
    traffic, disturbances and the seed remain from ``device``. With several ``cpus`` there are as many
    servers, each with a queue of its own, and flows are spread over them (:mod:`weirlab.traffic.flows`)."""

    __test__ = False

    lab = "sim"
    dut = "simulated"
    backend = "sim"

    def __init__(
        self, device: SimDevice | None = None, model: SimulatedModel | None = None, cpus: int = 1
    ) -> None:
        self._device, self._model, self._cpus = device or SimDevice(), model, cpus
        self._behaviours: dict[tuple[Axis, Axis], Mapping[str, Any]] = {}
        self._compiled: tuple[tuple[Traffic, Places], DeparturePlan] | None = None
        """The last plan: repetitions often follow each other, and that of thousands of calls takes long."""
        self._rules = RuleSetup()
        self._cross_traffic = False
        self._runs = 0
        self._elapsed_s = 0.0
        self._counters = {
            f"{port}_{counter}": 0
            for port in ("in", "out")
            for counter in ("rx_packets", "rx_dropped", "tx_packets", "tx_dropped")
        }

    @property
    def facts(self) -> Mapping[str, object]:
        several = {"dut_cpus": self._cpus} if self._cpus > 1 else {}
        if self._model is not None:
            return {"device_model": self._model.name, "device_seed": self._device.seed, **several}
        return {**{f"device_{name}": value for name, value in asdict(self._device).items()}, **several}

    def set_rules(self, rules: RuleSetup) -> None:
        if rules.position < 0:
            raise InputError(f"matching position {rules.position}: must be 0 (no rules) or more")
        self._rules = rules

    def set_cross_traffic(self, on: bool) -> None:
        """Switch interruptions of the device, as :class:`SimDevice` describes them, on or off."""
        self._cross_traffic = on

    def run(self, traffic: Traffic) -> EngineResult:
        with engine_needed():
            from weirlab._engine import simulate
        from weirlab.lab.engine import to_result

        rules, device = self._rules, self._device
        if self._compiled is None or self._compiled[0] != (traffic, rules.places):
            self._compiled = (traffic, rules.places), compile_plan(traffic, rules.places)
        plan = self._compiled[1]
        if self._cpus > 1 and plan.answers is not None:
            raise InputError(
                "answered traffic is simulated on one CPU only: leave out --dut-cpus or --answered"
            )
        settings = asdict(device) | {
            "service_fixed_ns": device.service_fixed_ns + rules.stateful * device.stateful_ns,
            "interrupt_every_ns": device.cross_traffic_every_ns,
            "interrupt_ns": self._cross_traffic * device.cross_traffic_ns,
            "positions": (positions := self._positions(traffic, len(plan.flows))),
            "servers": queues(plan.flows, plan.ip, self._cpus).tolist(),
            "seed": self._next_seed(traffic),
            "unpaced_gap_ns": _UNPACED_GAP_NS,
        }
        behaviour = self._behaviour(positions, np.unique(plan.frame_bytes))
        result = to_result(simulate(plan, settings, behaviour), plan)
        self._elapsed_s += traffic.warmup_s + traffic.duration_s
        self._count(result)
        return result

    def counters(self) -> dict[str, int]:
        """Counters over the recorded parts of all trials so far."""
        return dict(self._counters)

    def host(self) -> HostSample:
        """A host with nothing else to do: simulated time passes, and no CPU is busy."""
        idle = dict.fromkeys(STATES, 0.0) | {"idle": self._elapsed_s}
        return HostSample(wall_s=self._elapsed_s, cpu_s={"sender": dict(idle), "dut": dict(idle)})

    def close(self) -> None:
        """Nothing to remove."""

    def _count(self, result: EngineResult) -> None:
        """Count as the interfaces would: frames from the receiver's side enter where the others leave."""
        flows, log = result.flows, result.packets
        back = np.zeros(len(flows.sent), np.bool_) if log is None else log.call_flows.back
        for into, out_of, mine in (("in", "out", ~back), ("out", "in", back)):
            passed = int(flows.received[mine].sum())
            self._counters[f"{into}_rx_packets"] += passed
            self._counters[f"{into}_rx_dropped"] += int(flows.sent[mine].sum()) - passed
            self._counters[f"{out_of}_tx_packets"] += passed

    def _behaviour(
        self, positions: list[float], frames_bytes: npt.NDArray[np.uint16]
    ) -> Mapping[str, Any] | None:
        """What a measured device does to the packets of a plan; None for any other."""
        if self._model is None:
            return None
        sizes = frames_bytes.astype(np.float64)
        if len(sizes) > _MOST_SIZES:
            sizes = np.unique(np.geomspace(sizes[0], sizes[-1], _MOST_SIZES).round())
        key = (tuple(sorted(set(positions))), tuple(sizes.tolist()))
        if key not in self._behaviours:
            self._behaviours[key] = self._model.behaviour(*key)
        return self._behaviours[key]

    def _positions(self, traffic: Traffic, n_flows: int) -> list[float]:
        """Matching position of each flow."""
        rules, device = self._rules, self._device
        if traffic.flows.answered:
            # A rule in front accepts packets of known connections.
            known = [0.0] * traffic.flows.count
            if self._model is not None:
                return known + [float(rules.position)] * (n_flows - len(known))
            dearer = device.new_flow_ns / device.service_per_rule_ns if device.new_flow_ns else 0.0
            return known + [rules.position + dearer] * (n_flows - len(known))
        if len(rules.places) < 2:
            return [float(rules.position)] * n_flows
        groups = flow_groups(rules.places, traffic.flows.count)
        return [float(rules.accepting[group]) for group in groups]

    def _next_seed(self, traffic: Traffic) -> int:
        """Return a new seed, so that repeated trials differ as they would in reality."""
        self._runs += 1
        words = np.random.SeedSequence([self._device.seed, traffic.seed, self._runs]).generate_state(1)
        return int(words[0])
