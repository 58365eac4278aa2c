"""The lab in network namespaces of this machine, and its plain cable."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site
from weirlab.lab.cores import Cores, threads_of
from weirlab.lab.crossing import DevicePorts, FourTuple, answers_astray, answers_follow, directions
from weirlab.lab.dut.aiming import RuleTraffic, networks
from weirlab.lab.linux import scheduling
from weirlab.lab.linux.inventory import dropped_connections, forget_connections
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.linux.syscalls import explained
from weirlab.lab.monitoring.session import PERIOD_NS, ManagementSession, Sampler
from weirlab.lab.monitoring.view import InsideView, Sample, view
from weirlab.lab.namespaces import BackendChoice, NamespaceBed, check_fit
from weirlab.records import TABLE_FULL, EngineResult, RuleEncounters, RuleSetup
from weirlab.traffic.plan import NEXT_FLOW, DeparturePlan
from weirlab.traffic.schedule import OPENING_GAP_NS, compile_plan
from weirlab.traffic.spec import Traffic

_FIRST_TIMEOUTS: Final = ("udp_timeout", "tcp_timeout_syn_recv")
"""Of connections with a packet and its answer."""
_USUAL_TIMEOUT_S: Final = 30
_PROBES: Final = 3
"""How often a packet is sent to find out where those of its flow arrive."""
_CONNTRACK_MAX: Final = Path("/proc/sys/net/netfilter/nf_conntrack_max")


class NetnsLab(NamespaceBed):
    """Sender, device under test and receiver in separate namespaces on one machine.

    The device is what ``driver`` makes of its namespace: by default this machine's kernel, which forwards
    between the interfaces ``in0`` and ``out0`` through a filter. Kernel threads on a separate CPU do its
    receive work.

    Parameters
    ----------
    driver:
        Sets up the filter, see :func:`weirlab.lab.dut.make`.
    backend:
        ``xdp``, ``af_packet``, or ``auto`` for the first that works.
    cores:
        CPUs to use; :func:`weirlab.lab.cores.choose` decides by default.
    aimed:
        The test traffic that the device's rules accept, and the names of the device's interfaces; None for
        the benchmarking ranges, ``in0`` and ``out0``.
    answered:
        Whether test traffic will be answered: generated rules then begin with one for known connections.

    Raises
    ------
    MissingCapability
        If a privilege, a tool or a kernel feature is missing.
    LabError
        If the lab cannot be built, or the filter refuses its first ruleset.
    """

    _parts: tuple[str, ...] = ("tx", "dut", "rx")

    def __init__(
        self,
        driver: Driver,
        backend: BackendChoice = "auto",
        cores: Cores | None = None,
        aimed: RuleTraffic | None = None,
        *,
        answered: bool = False,
    ) -> None:
        if missing := driver.check():
            raise MissingCapability(f"device {driver.name}: {'; '.join(missing)}")
        self._driver = driver
        if driver.gateways == 2:
            self._parts = ("tx", "dut", "far", "rx")
        self._destination, self._back_destination = (
            (wiring.RX0, wiring.TX0) if driver.bridges else (wiring.IN0, wiring.OUT0)
        )
        self._aimed = aimed
        self._answered = answered
        self._ports = wiring.IN0, wiring.OUT0
        if aimed is not None:
            self._ports = replace(wiring.IN0, name=aimed.inward), replace(wiring.OUT0, name=aimed.outward)
        self._rules: RuleSetup | None = None
        self._slice_ns = 0
        """Time slices of the device's threads, if not the default ones."""
        self._uncounted: Counter[str] = Counter()
        """What packets that are no part of a trial added to the counters."""
        self._session: ManagementSession | None = None
        self._sampler: Sampler | None = None
        self._seen: InsideView | None = None
        super().__init__(backend, cores)

    @property
    def dut(self) -> str:
        return self._driver.name

    @property
    def facts(self) -> Mapping[str, object]:
        return {
            **super().facts,
            "napi": f"threaded, bound to CPU {self._cores.dut}",
            **({"slice_ns": self._slice_ns} if self._slice_ns else {}),
            **{f"dut_{name}": value for name, value in self._driver.facts().items()},
            **({} if self._aimed is None else {"test_traffic": self._aimed.note}),
        }

    def counters(self) -> dict[str, int]:
        read = {**super().counters(), **self._driver.counters()}
        if self._answered:
            read[TABLE_FULL] = self._netns["dut"].call(dropped_connections)
        return {name: value - self._uncounted[name] for name, value in read.items()}

    @property
    def position(self) -> int | None:
        if self._aimed is None:
            return None
        met = self._aimed.checked.met if self._aimed.checked is not None else None
        return self._aimed.compared if met is None else round(met)

    def as_sent(self, traffic: Traffic) -> Traffic:
        if self._aimed is None or traffic.calls is not None:
            return traffic
        return replace(traffic, flows=replace(traffic.flows, l4=self._aimed.l4, ip=self._aimed.ip))

    @property
    def drops(self) -> bool:
        return self._aimed is not None and self._aimed.drops

    def dropped(self, counters: Mapping[str, int]) -> int | None:
        return None if self._aimed is None else self._aimed.dropped(counters)

    def rules_met(self, counters: Mapping[str, int], sent: int) -> RuleEncounters | None:
        return None if self._aimed is None else self._aimed.rules_met(counters, sent)

    def set_rules(self, rules: RuleSetup) -> None:
        if rules == self._rules:
            return
        self._rules = None
        self._driver.apply(self.site, replace(rules, answered=self._answered))
        self._rules = rules
        self._places = rules.places

    @shielded
    def set_cross_traffic(self, on: bool) -> None:
        """Open or end a management session with the device."""
        if on == (self._session is not None):
            return
        if not on:
            self._end_session()
            return
        if "mgmt" not in self._netns:
            station = Namespace(self._claim.namespace_name("mgmt"))
            with explained("the lab"):
                wiring.build_management(self._netns["dut"], station)
            self._netns["mgmt"] = station
        self._session = ManagementSession(
            self._netns["dut"], self._netns["mgmt"], self._cores, self._driver.listing()
        )
        self._account()

    @contextmanager
    @shielded
    def watch_inside(self) -> Iterator[None]:
        """Run a sampler inside the device, on its CPU, during traffic, for as long as the context lasts."""
        sampler = Sampler(self._netns["dut"], self._cores.dut, self._inside)
        self._sampler = sampler
        self._account()
        try:
            yield
        finally:
            self._sampler = self._seen = None
            self._account()
            sampler.close()

    def settle(self) -> None:
        """Wait until the device has nothing left of an earlier trial."""
        self._driver.settle()

    def seen_inside(self) -> InsideView | None:
        """What the sampler saw during the last traffic; None without a sampler."""
        return self._seen

    def close(self) -> None:
        try:
            self._end_session()
        finally:
            super().close()

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._account()
            session.close()

    def _account(self) -> None:
        """Have host samples report the CPU time of the session and the sampler."""
        guests = [guest for guest in (self._session, self._sampler) if guest is not None]
        self._host.manage((lambda: sum(guest.cpu_s() for guest in guests)) if guests else None)

    def run(self, traffic: Traffic) -> EngineResult:
        self._check_room_for_states(traffic)
        if (aimed := self._aimed) is None:
            return super().run(traffic)
        try:
            plan = compile_plan(self.as_sent(traffic), self._places, aimed.endpoints)
        except InputError as error:
            raise InputError(f"{error} ({aimed.sentence})") from error
        return self.play(plan)

    def play(self, plan: DeparturePlan) -> EngineResult:
        """Send a schedule unchanged, sampled from inside if a sampler runs.

        Calls are new to a stateful device: connections of earlier calls would otherwise fill its table, the
        more so the longer the lab is used.
        """
        self._seen = None
        check_fit(self._driver, int(plan.frame_bytes.max()), plan.ip)
        if plan.answers is not None:
            with explained("the lab"):
                self._netns["dut"].call(partial(_expect_new_flows, plan))
        if plan.media is not None and self._rules is not None and self._rules.stateful:
            with explained("the lab"):
                self._netns["dut"].call(forget_connections)
        with self._answering(plan) as followed, self._driver.beside_traffic():
            result = self._watched(followed)
        self._driver.check_alive()
        return result

    @contextmanager
    def _answering(self, plan: DeparturePlan) -> Iterator[DeparturePlan]:
        """``plan`` with answers that follow the device's translation of addresses.

        Raises ``LabError`` if the device translates otherwise afterwards.
        """
        forward, back = directions(plan)
        if not (self._driver.translates and len(back)):
            yield plan
            return
        into, out_of = self._ports
        crossing = DevicePorts.between(
            (self._netns["tx"], wiring.TX0.name),
            (self._netns["rx"], wiring.RX0.name),
            (wiring.mac_bytes(wiring.TX0.mac), wiring.mac_bytes(into.mac)),
            (wiring.mac_bytes(wiring.RX0.mac), wiring.mac_bytes(out_of.mac)),
        )
        with closing(crossing):
            before = self._arrivals(crossing, plan, forward)
            yield answers_follow(plan, before)
            after = self._arrivals(crossing, plan, forward)
        changed = answers_astray(plan, before, after)
        if changed:
            raise LabError(
                f"the device gave {changed:,} of {len(after):,} flows other addresses or ports than those to "
                "which answers went, so that these got lost. Either it forgets connections while nobody "
                "speaks: make the trial shorter, or let the calls stand. Or this machine was too busy to "
                "find the addresses out before: repeat it"
            )

    def _arrivals(
        self, crossing: DevicePorts, plan: DeparturePlan, flows: npt.NDArray[np.int64]
    ) -> dict[int, FourTuple]:
        """Where a packet of each flow arrives, without these packets in the device's counters."""
        begun, found = self.counters(), dict[int, FourTuple]()
        flows = flows[np.isin(flows, plan.flow)]
        # A busy machine may deliver one too late.
        for _ in range(_PROBES):
            found |= crossing.arrivals(plan, flows[~np.isin(flows, list(found))])
        self._uncounted.update({name: value - begun[name] for name, value in self.counters().items()})
        return found

    def _watched(self, plan: DeparturePlan) -> EngineResult:
        if self._sampler is None:
            return super().play(plan)
        self._sampler.watch()
        try:
            result = super().play(plan)
        finally:
            samples = [self._by_role(sample) for sample in self._sampler.report()]
        self._seen = view(samples, result.record_start_ns, result.record_end_ns, PERIOD_NS)
        return result

    def _holds(self) -> bool | None:
        held = self._driver.holds()
        return super()._holds() if held is None else held

    @property
    def site(self) -> Site:
        """Where the driver finds the device."""
        into, out_of = self._ports
        far = self._netns["far"].name if "far" in self._netns else None
        return Site(self._netns["dut"].name, into, out_of, wiring.TX0, wiring.RX0, self._cores.dut, far)

    def _build(self) -> None:
        netns, driver = self._netns, self._driver
        kernel = wiring.build_through_device(
            netns["tx"],
            [netns[part] for part in ("dut", "far") if part in netns],
            netns["rx"],
            wiring.KernelWork(self._cores.dut, not driver.forwards, self._answered, driver.bridges),
            self._ports,
            self._networks(),
        )
        if "far" in netns and driver.joined:
            wiring.join(netns["dut"], netns["far"])
        into, out_of = self._ports
        self._opened.callback(driver.stop)
        if driver.takes_turns:
            # Warming up floods the device, and a daemon may need seconds to work off what that leaves behind.
            self._loaded_engine()
            processes = driver.start(self.site)
            # Threads take turns on the device's CPU, and a real-time thread does not yield to another: so the
            # engine, which would give them real-time priority, is not told about them.
            for thread in (*kernel, *(each for process in processes for each in threads_of(process))):
                # It may have ended. Without short slices other work interferes more often, which trials show.
                with suppress(OSError):
                    scheduling.shorten(thread)
                    self._slice_ns = scheduling.slice_ns(thread)
            kernel += scheduling.backlog_thread(self._cores.dut)
        else:
            processes = driver.start(self.site)
            self._threads = [*kernel, *processes]
        if "far" in netns:
            self._add_meter("dut", {"in": into.name, "near": driver.inner[0]}, ip=True)
            self._add_meter("far", {"far": driver.inner[1], "out": out_of.name})
        else:
            self._add_meter("dut", {"in": into.name, "out": out_of.name}, ip=True)
        self._host.watch(kernel, processes)
        self.set_rules(RuleSetup())

    def _networks(self) -> tuple[Sequence[str], Sequence[str]]:
        """The networks behind the device's two ports."""
        endpoints = None if self._aimed is None else self._aimed.endpoints
        return networks(endpoints, translates=self._driver.translates)

    @property
    def _inside(self) -> tuple[str, str]:
        """Interfaces through which packets pass the device, or the near one of two gateways."""
        into, out_of = self._ports
        return into.name, self._driver.inner[0] if "far" in self._netns else out_of.name

    def _by_role(self, sample: Sample) -> Sample:
        """``sample`` with the default interface names, whatever the user's rules call them."""
        usual = dict(zip(self._inside, (wiring.IN0.name, wiring.OUT0.name), strict=True))
        return replace(sample, counters={usual[name]: each for name, each in sample.counters.items()})

    def _check_room_for_states(self, traffic: Traffic) -> None:
        """Raise ``LabError`` if connections exceed the kernel's table: such drops are not the filter's."""
        tracks = self._driver.tracks or self._answered or (self._rules is not None and self._rules.stateful)
        if not tracks or not _CONNTRACK_MAX.exists():
            return
        room, wanted = int(_CONNTRACK_MAX.read_text()), connections(traffic)
        if wanted > room:
            raise LabError(
                f"{wanted} connections do not fit into this kernel's connection table ({room}); "
                f"use fewer flows or calls, or: sysctl -w net.netfilter.nf_conntrack_max={2 * wanted}"
            )


def _expect_new_flows(plan: DeparturePlan) -> None:
    """Have connection tracking, in the calling thread's namespace, begin without connections, and forget
    those with a single packet soon, so that its table does not fill; a known flow's next one comes in time.
    """
    assert plan.answers is not None
    forget_connections()
    known_share = float((plan.flow == NEXT_FLOW).mean())
    again_s = 0.0
    if known_share:
        # Flows are opened at a rate of their own, before the load.
        gap_s = max(1 / (plan.nominal_pps * known_share), OPENING_GAP_NS / 1e9)
        again_s = len(plan.flows) * gap_s
    seconds = max(1, math.ceil(2 * again_s))
    if seconds > _USUAL_TIMEOUT_S:
        raise InputError(
            f"{len(plan.flows):,} known flows: connection tracking forgets each before its next packet; use "
            "fewer flows, a higher rate or a smaller share of new packets"
        )
    write_sysctls({f"net/netfilter/nf_conntrack_{name}": seconds for name in _FIRST_TIMEOUTS})


def connections(traffic: Traffic) -> int:
    """How many connections a firewall sees; both directions of a call are one."""
    answered = traffic.calls is not None and traffic.calls.directions == "both"
    return traffic.flows.count // 2 if answered else traffic.flows.count
