"""What all test beds in network namespaces of this machine share."""

from __future__ import annotations

import platform
import time
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from weirlab.base.closing import Closable
from weirlab.base.errors import InputError
from weirlab.base.extras import engine_needed
from weirlab.base.interrupts import interruptible
from weirlab.base.quoting import quoted
from weirlab.base.units import FCS_BYTES
from weirlab.lab import clean, wiring
from weirlab.lab.base import Driver
from weirlab.lab.cores import Cores, aside, choose, share_a_core
from weirlab.lab.host import HostReader
from weirlab.lab.isolation import pages
from weirlab.lab.linux import scheduling
from weirlab.lab.linux.inventory import InterfaceCounters
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.linux.syscalls import explained
from weirlab.records import SLOWEST_UNPACED_PPS, EngineResult, HostSample, RuleSetup
from weirlab.traffic.calls.codecs import ETHERNET_BYTES
from weirlab.traffic.places import Places
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Rate, Traffic

if TYPE_CHECKING:
    from weirlab._engine import Engine

BackendChoice = Literal["auto", "xdp", "af_packet"]

_WARM_UP_S: Final = 0.15
_WARM_UP_PARTS: Final = 3
"""All parts of a round must be fast: warm free memory may come before cold memory."""
_WARM_UP_ROUNDS: Final = 33
_MOST_WAITS: Final = 20
"""Waits of 100 ms after a trial for what the kernel holds: 2 s in all, as in RFC 2544 section 23."""


class NamespaceBed(Closable):
    """Base of test beds in namespaces: ownership, engine, counters, and complete removal."""

    __test__ = False

    lab = "netns"
    _parts: tuple[str, ...] = ("tx", "rx")
    _sender = wiring.TX0
    _receiver = wiring.RX0
    _receives = wiring.RX0.name
    """The interface at which the engine receives."""
    _destination = wiring.RX0
    """The destination of the sender's frames."""
    _back_destination = wiring.TX0
    """The destination of frames from the receiver's side, when calls are answered."""
    _engine_options: Mapping[str, object] = {}
    """Further ones of ``weirlab._engine.Engine``."""
    _places: Places = ()
    """The positions at which the rules accept test traffic, if there are several."""

    def __init__(self, backend: BackendChoice, cores: Cores | None, isolated: bool = True) -> None:
        self._backend = backend
        self._engine: Engine | None = None
        self._opened = ExitStack()
        self._meters: list[InterfaceCounters] = []
        self._threads: list[int] = []
        self._waits_left = 0
        clean.clean()
        self._cores = cores or choose()
        self._host = HostReader({"sender": self._cores.sender, "dut": self._cores.dut}, handover=_handover_ns)
        self._claim = clean.LabOwnership()
        self._netns = {part: Namespace(self._claim.namespace_name(part)) for part in self._parts}
        try:
            self._pages_refused = self._opened.enter_context(pages.short_lists(clean.LOCKS))
            # Before the device's threads are bound: the kernel would unbind them.
            if isolated:
                self._claim.isolate({*self._cores.senders, self._cores.dut}, self._spared())
            with explained("the lab"):
                self._build()
                self._add_meter("tx", {"tx": self._sender.name})
                self._add_meter("rx", {"rx": self._receiver.name})
        except BaseException:
            self.close()
            raise

    @property
    def backend(self) -> str:
        """How packets are sent and received; finding out loads the engine's programs."""
        return str(self._loaded_engine().backend)

    @property
    def facts(self) -> Mapping[str, object]:
        engine, isolation = self._engine, self._claim.isolation
        unusual = {
            "fallback_reason": None if engine is None else engine.fallback_reason,
            "real_time_refused": None if engine is None else engine.real_time_refused,
            "isolation": None if isolation is None else isolation.words,
        }
        return {
            "kernel": platform.release(),
            "sender_cpu": self._cores.sender,
            **({"sender_cpus": list(self._cores.senders)} if self._cores.further else {}),
            "dut_cpu": self._cores.dut,
            "cpus_share_a_core": share_a_core(self._cores),
            "mtu_bytes": wiring.MTU_BYTES,
            "page_lists": f"usual: {refused}" if (refused := self._pages_refused) else "short",
            **{name: fact for name, fact in unusual.items() if fact},
        }

    @property
    def namespaces(self) -> Mapping[str, str]:
        """Name of the namespace of each part (``tx``, ``dut``, ``rx``)."""
        return {part: netns.name for part, netns in self._netns.items()}

    def run(self, traffic: Traffic) -> EngineResult:
        return self.play(compile_plan(traffic, self._places))

    def play(self, plan: DeparturePlan) -> EngineResult:
        """Send a schedule unchanged."""
        from weirlab.lab.engine import to_result

        engine = self._loaded_engine()
        self._waits_left = _MOST_WAITS
        with self._host.polling(), aside((*self._cores.senders, self._cores.dut)):
            raw = engine.run(
                plan,
                _macs(self._sender.mac, self._destination.mac),
                _macs(self._receiver.mac, self._back_destination.mac),
                holds=self._holds,
            )
        result = to_result(raw, plan)
        self._host.leave_out((time.monotonic_ns() - result.record_end_ns) / 1e9)
        return result

    def counters(self) -> dict[str, int]:
        values: dict[str, int] = {}
        for meter in self._meters:
            values |= meter.read()
        return values

    def host(self) -> HostSample:
        return self._host.sample()

    def close(self) -> None:
        """Remove everything that this lab made. May be called twice."""
        self._meters = []
        try:
            self._close_engine()
        finally:
            try:
                self._opened.close()
            finally:
                self._claim.release()

    @abstractmethod
    def _build(self) -> None:
        """Create and connect the namespaces."""

    def _holds(self) -> bool | None:
        """Whether the device still holds packets; None if that is not known.

        What waits for a thread of the kernel that does not get its CPU is late because of the host, not lost
        by the device.
        """
        self._waits_left -= 1
        return True if self._waits_left >= 0 and scheduling.waiting() else None

    def _spared(self) -> Sequence[int]:
        """Further CPUs, which are neither isolated nor given other work."""
        return ()

    def _add_meter(self, part: str, interfaces: Mapping[str, str], *, ip: bool = False) -> None:
        meter = InterfaceCounters(self._netns[part], interfaces, ip=ip)
        self._opened.callback(meter.close)
        self._meters.append(meter)

    def _loaded_engine(self) -> Engine:
        if self._engine is None:
            self._engine = open_engine(
                tx_netns=self._netns["tx"].name,
                tx_if=self._sender.name,
                rx_netns=self._netns["rx"].name,
                rx_if=self._receives,
                tx_cpus=self._cores.senders,
                spin_cpu=self._cores.dut,
                device_threads=self._threads,
                backend=self._backend,
                **self._engine_options,
            )
            self._warm_up(self._engine)
        return self._engine

    def _close_engine(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def _warm_up(self, engine: Engine) -> None:
        """Prepare the engine for its first trial."""
        warm_up(engine, self._sender.mac, self._destination.mac)


def open_engine(**options: Any) -> Engine:
    """Open ``weirlab._engine.Engine``, which is only imported now."""
    with engine_needed():
        from weirlab._engine import Engine
    return Engine(**options)


@interruptible
def warm_up(engine: Engine, sender_mac: str, receiver_mac: str) -> None:
    """Send until frames use memory that has been touched before.

    On a virtual machine the host may back memory only when it is touched, and reclaim it
    after it has been free for a while: at some 5 µs per page, the first hundreds of
    thousands of frames would be sent thirty times more slowly.
    """
    import numpy as np

    is_xdp = engine.backend == "xdp"
    length_s = _WARM_UP_S if is_xdp else _WARM_UP_S / _WARM_UP_PARTS
    plan = compile_plan(Traffic(Rate(0.0, "max"), warmup_s=0.0, duration_s=length_s))
    for _ in range(_WARM_UP_ROUNDS):
        raw = engine.run(plan, _macs(sender_mac, receiver_mac))
        slowest = min(part.sum() for part in np.array_split(raw["series"]["sent"], _WARM_UP_PARTS))
        if not is_xdp or slowest >= SLOWEST_UNPACED_PPS * length_s / _WARM_UP_PARTS:
            return


def _macs(source: str, destination: str) -> tuple[bytes, bytes]:
    return wiring.mac_bytes(source), wiring.mac_bytes(destination)


def _handover_ns(cpu: int, other: int) -> float | None:
    from weirlab._engine import handover_ns

    return handover_ns(cpu, other)


class PlainPair(NamespaceBed):
    """Sender and receiver with nothing but a veth pair between them, to measure Weir's own error.

    The sending CPU also receives, so the cable adds no queue and no wake-up. With ``apart``, a kernel thread
    on the CPU that otherwise carries the device receives, which shows what the sender alone can do. Other
    programs that bind themselves to the sender's CPU need ``isolated`` to be False.
    """

    dut = "none"

    def __init__(
        self,
        backend: BackendChoice = "auto",
        cores: Cores | None = None,
        *,
        apart: bool = False,
        isolated: bool = True,
    ) -> None:
        self._apart = apart
        super().__init__(backend, cores, isolated)

    def set_rules(self, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError(
                "a plain pair has no device under test: only matching position 0, stateless, is possible"
            )

    def set_cross_traffic(self, on: bool) -> None:
        if on:
            raise InputError("a plain pair has no device under test to hold a management session with")

    def _build(self) -> None:
        receiver_cpu = self._cores.dut if self._apart else None
        self._threads = wiring.build_plain(self._netns["tx"], self._netns["rx"], receiver_cpu)


def check_fit(driver: Driver, frame_bytes: int, ip: Literal[4, 6]) -> None:
    """Raise ``InputError`` for frames that the device would drop or fragment, whatever its rules.

    What happens to them says nothing about those that fit.
    """
    if ip not in driver.carries:
        raise InputError(f"the device {quoted(driver.name)} does not carry IPv{ip}")
    longest = driver.longest_packet_bytes(ip)
    packet_bytes = frame_bytes - ETHERNET_BYTES - FCS_BYTES
    if longest is not None and packet_bytes > longest:
        raise InputError(
            f"frames of {frame_bytes:,} B do not fit into the tunnel {driver.name}: their IP packets have "
            f"{packet_bytes:,} B, and with an MTU of {wiring.BETWEEN_MTU_BYTES:,} B between the gateways "
            f"at most {longest:,} B pass unfragmented; "
            f"use frames of {longest + ETHERNET_BYTES + FCS_BYTES:,} B at most"
        )
