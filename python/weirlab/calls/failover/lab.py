"""The test bed of a redundant pair: its wiring, its schedule, and what this machine lacks.

::

    sender           router and switch           pair           router and switch          receiver
    tx0 ──────────── in0    lan    br0 ═════════ a, b ═════════ br0    wan    out0 ──────────── rx0

The engine's frames go to the edge routers' fixed addresses. Packets enter where it hands them over, ``in0``
and ``out0``: kernel threads bound to the device's CPU take them in. What is between the routers is told in
:mod:`weirlab.lab.redundant.wiring`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.lab import clean
from weirlab.lab import wiring as single
from weirlab.lab.base import TrafficActionRunner
from weirlab.lab.cores import Cores
from weirlab.lab.dut import nftables, tool
from weirlab.lab.finding import Finding
from weirlab.lab.linux import interface, scheduling
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.inventory import forget_connections
from weirlab.lab.linux.namespace import Namespace, in_private, write_sysctls
from weirlab.lab.namespaces import BackendChoice, NamespaceBed
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.base import FIREWALLS, SIDES, AddressProtocol, Firewall, Side
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.pair import FirewallPair, Policy
from weirlab.lab.redundant.ucarp import Ucarp
from weirlab.lab.redundant.wiring import NETWORKS
from weirlab.records import EngineResult, RuleSetup
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Traffic


@lru_cache(maxsize=1)
def compiled(traffic: Traffic) -> DeparturePlan:
    """The schedule of ``traffic``, every packet of it; the last one stays, since all attempts send the same.

    Raises ``InputError`` for what cannot be sent.
    """
    return compile_plan(traffic)


PARTS: Final = ("tx", "lan", "fwa", "fwb", "wan", "rx")

BEHIND: Final[wiring.Behind] = {"lan": single.SENDERS[:1], "wan": single.RECEIVERS[:1]}
"""IPv4 alone."""


@dataclass(frozen=True)
class Edge:
    """Where traffic enters the router of a side."""

    end: str
    """Part that sends and receives on this side."""
    port: Port
    entry: Port
    """The edge router's interface towards ``port``."""


EDGES: Final[dict[Side, Edge]] = {
    "lan": Edge("tx", single.TX0, single.IN0),
    "wan": Edge("rx", single.RX0, single.OUT0),
}


def part(firewall: Firewall) -> str:
    """Which part plays ``firewall``."""
    return f"fw{firewall}"


def firewalls(netns: Mapping[str, Namespace]) -> dict[Firewall, Namespace]:
    """The firewalls among the parts."""
    return {firewall: netns[part(firewall)] for firewall in FIREWALLS}


def build(netns: Mapping[str, Namespace], cpu: int) -> list[int]:
    """Make all namespaces and wire them up; the firewalls have no rules and no virtual addresses yet.

    ``cpu`` does the receive work of all parts. Returns the process numbers of the kernel
    threads that it begins in.
    """
    for side, edge in EDGES.items():
        netns[edge.end].create()
        netns[side].create()
        netns[edge.end].call(partial(write_sysctls, single.QUIET))
        netns[side].call(partial(write_sysctls, wiring.IPV4_ROUTER))
        with netns[side].descriptor() as fd:
            netns[edge.end].call(partial(single.make_end, edge.port, edge.entry, fd))
    wiring.build({side: netns[side] for side in SIDES}, firewalls(netns), BEHIND)

    with clean.alone():
        before = {side: scheduling.threads(edge.entry.name) for side, edge in EDGES.items()}
        for side in SIDES:
            netns[side].call(partial(_bring_up_edge, side))
        threads = [scheduling.pin(EDGES[side].entry.name, before[side], cpu) for side in SIDES]

    for edge, networks in zip(EDGES.values(), (single.RECEIVERS, single.SENDERS), strict=True):
        routes = single.behind(edge.entry, edge.port, networks)
        netns[edge.end].call(partial(interface.bring_up, [edge.port], routes))
    return threads


def _bring_up_edge(side: Side) -> None:
    edge = EDGES[side]
    interface.set_offloads(edge.entry.name, gro=True)
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        index = interface.index_of(netlink, edge.entry.name)
        address, _, length = edge.entry.ipv4.partition("/")
        netlink.addr("add", index=index, address=address, prefixlen=int(length))
        netlink.link("set", index=index, state="up")
        interface.add_neighbour(netlink, edge.port.address, edge.port.mac, index)
        for behind in BEHIND[side]:
            netlink.route("add", dst=behind, gateway=edge.port.address, oif=index)
    single.thread_receiving((edge.entry,))


_CONNTRACK_MAX: Final = Path("/proc/sys/net/netfilter/nf_conntrack_max")


class RedundantLab(NamespaceBed):
    """Two firewalls between two sides; see ``wiring`` for the picture. ``close`` leaves nothing behind.

    Typical use::

        with RedundantLab(Keepalived(advert_s=0.1), Conntrackd()) as lab:
            lab.pair.settle()

            def during() -> None:
                lab.at(lab.pair.close_admission, start_ns + 1_000_000_000)
                lab.at(lab.pair.cut, start_ns + 6_000_000_000)

            result = lab.run(traffic, during)
            lab.pair.restore()
            lab.pair.settle()

    Parameters
    ----------
    protocol:
        ``Keepalived(...)`` or ``Ucarp(...)``: which firewall has the virtual addresses.
    states:
        How connection states are synchronised; with conntrackd by default.
    nat:
        Whether the calls leave by the virtual address of the WAN side. Traffic can then only go
        forward: the sender cannot know the addresses that packets back would have to go to.
    backend, cores:
        As for :class:`weirlab.lab.netns.NetnsLab`.

    Raises
    ------
    MissingCapability
        If privileges, a daemon or a kernel feature are missing.
    LabError
        If the lab cannot be built, or a daemon does not start.
    """

    lab = "redundant"
    looks_inside = True
    _parts = PARTS
    _destination = single.IN0
    _back_destination = single.OUT0

    def __init__(
        self,
        protocol: AddressProtocol,
        states: Conntrackd | None = None,
        nat: bool = False,
        backend: BackendChoice = "auto",
        cores: Cores | None = None,
    ) -> None:
        self._protocol = protocol
        self._states = states or Conntrackd()
        self._nat = nat
        self._pair: FirewallPair | None = None
        self._beside = TrafficActionRunner()
        if missing := [*protocol.check(), *self._states.check()]:
            raise MissingCapability("; ".join(missing))
        super().__init__(backend, cores)
        try:
            # Warming up floods whatever is there, and would leave states.
            self._loaded_engine()
            netns = firewalls(self._netns)
            self._pair = FirewallPair(netns, protocol, self._states, self._cores.dut, BEHIND, Policy(nat))
        except BaseException:
            self.close()
            raise

    @property
    def dut(self) -> str:
        return self._protocol.name

    @property
    def facts(self) -> Mapping[str, object]:
        return {
            **super().facts,
            "napi": f"threaded at the edge, bound to CPU {self._cores.dut}",
            "nat": self._nat,
            **{f"protocol_{name}": value for name, value in self._protocol.facts().items()},
            **{f"states_{name}": value for name, value in self._states.facts().items()},
        }

    @property
    def pair(self) -> FirewallPair:
        """The firewalls; raises ``LabError`` if the lab is closed."""
        if self._pair is None:
            raise LabError("the lab is closed")
        return self._pair

    @property
    def expected_failover_s(self) -> tuple[float, float]:
        """Earliest and latest take-over after a hard failure, by the protocol's timers."""
        return self._protocol.expected_failover_s

    def run(self, traffic: Traffic, during: Callable[[], object] | None = None) -> EngineResult:
        """Send ``traffic`` and count; ``during`` runs beside it in a thread of its own.

        What ``during`` raises is raised when the trial has ended. Raises ``LabError`` if a daemon
        has ended by itself meanwhile, ``InputError`` for traffic that cannot pass the pair.
        """
        return self.play(compiled(traffic), during)

    def play(self, plan: DeparturePlan, during: Callable[[], object] | None = None) -> EngineResult:
        """As :meth:`run`, with a schedule."""
        self._refuse(plan)
        with self._beside.running(during):
            result = super().play(plan)
        self.pair.check()
        return result

    def at(self, event: Callable[[], object], at_ns: int) -> None:
        """Do ``event`` when CLOCK_MONOTONIC shows ``at_ns``; for ``during``."""
        self._beside.at(event, at_ns)

    def calls_begun(self) -> int:
        """Calls that the master has a state for."""
        master = self.pair.master()
        return 0 if master is None or master == "both" else self.pair.states(master)

    def set_rules(self, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError("a redundant pair has rules of its own: only matching position 0 is possible")

    def set_cross_traffic(self, on: bool) -> None:
        if on:
            raise InputError("a redundant pair has no management session")

    def close(self) -> None:
        pair, self._pair = self._pair, None
        try:
            if pair is not None:
                pair.close()
        finally:
            super().close()

    def _build(self) -> None:
        self._threads = build(self._netns, self._cores.dut)
        self._host.watch(self._threads)
        for side, edge in EDGES.items():
            self._add_meter(side, {side: edge.entry.name})
        for firewall in FIREWALLS:
            links = {f"{firewall}_{network.side}": network.link for network in NETWORKS.values()}
            self._add_meter(part(firewall), links)

    def _refuse(self, plan: DeparturePlan) -> None:
        if plan.ip != 4:
            raise InputError("the redundant pair forwards IPv4 only")
        if self._nat and plan.media is not None and plan.media.flows.back.any():
            raise InputError(
                "with NAT only forward streams can be sent: the addresses that packets back must go to "
                "are chosen by the firewall; send in one direction, or without NAT"
            )
        room = int(_CONNTRACK_MAX.read_text()) if _CONNTRACK_MAX.exists() else None
        # What both sides of a call send each other is one connection; so many may have no answer at all.
        answered = plan.media is not None and bool(plan.media.flows.back.any())
        most = len(plan.flows) // 2 if answered else len(plan.flows)
        if room is not None and most > room:
            raise LabError(
                f"{most} connections do not fit into the connection table of this kernel ({room}); "
                f"use fewer, or: sysctl -w net.netfilter.nf_conntrack_max={2 * most}"
            )


def finding() -> Finding:
    """What ``weir doctor`` says about redundant pairs."""
    name = "redundant pairs"
    if lacking := missing():
        remedy = "follow the advice; all else works without"
        return Finding(name, False, "; ".join(lacking), remedy, essential=False)
    return Finding(name, True, versions())


def missing() -> list[str]:
    """One sentence each with the way out, empty if pairs can be built; the kernel's part is tried."""
    protocol, states = Keepalived(), Conntrackd()
    lacking = [*protocol.check(), *Ucarp().check(), *states.check()]
    lacking += tool.probe(
        "nftables", nftables.COMMAND, wiring.pair_rules(protocol, "192.0.2.0/24") + wiring.ADMIT
    )

    def build() -> None:
        wiring.make_bridge("lan")
        forget_connections()

    try:
        in_private(build)
    except PermissionError:
        lacking.append("bridges and connection tables could not be tried: run as root")
    except (OSError, NetlinkError) as error:
        lacking.append(
            f"the kernel lacks bridges or netlink access to its connection table ({error}): "
            "modprobe bridge nf_conntrack_netlink"
        )
    return lacking


def versions() -> str:
    """Of the daemons, for people."""
    told = {
        "keepalived": tool.version("keepalived"),
        "ucarp": tool.version("ucarp", "-h"),
        "conntrackd": tool.version("conntrackd", "-v"),
    }
    found = {name: re.search(r"\d+(\.\d+)+", text) for name, text in told.items()}
    return ", ".join(f"{name} {match[0]}" for name, match in found.items() if match)
