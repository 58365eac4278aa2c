"""The test bed of a redundant pair."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.calls.failover.bed import wiring
from weirlab.calls.failover.bed.schedule import compiled
from weirlab.lab import wiring as single
from weirlab.lab.beside import TrafficActionRunner
from weirlab.lab.cores import Cores
from weirlab.lab.namespaces import BackendChoice, NamespaceBed
from weirlab.lab.redundant.base import AddressProtocol, PairEvent, Transition
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.pair import FirewallPair, Policy
from weirlab.lab.redundant.terms import FIREWALLS, Firewall, Side
from weirlab.lab.redundant.wiring import NETWORKS
from weirlab.records import EngineResult, RuleSetup
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.spec import Traffic

_CONNTRACK_MAX: Final = Path("/proc/sys/net/netfilter/nf_conntrack_max")


class RedundantLab(NamespaceBed):
    """Two firewalls between two sides; see ``wiring`` for the picture. ``close`` leaves nothing behind.

    Typical use::

        with RedundantLab(Keepalived(advert_s=0.1), Conntrackd()) as lab:
            lab.settle()

            def during() -> None:
                lab.at(lab.close_admission, start_ns + 1_000_000_000)
                lab.at(lab.cut, start_ns + 6_000_000_000)

            result = lab.run(traffic, during)
            lab.restore()
            lab.settle()

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
    _parts = wiring.PARTS
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
        self._pair_or_none: FirewallPair | None = None
        self._beside = TrafficActionRunner()
        if missing := [*protocol.check(), *self._states.check()]:
            raise MissingCapability("; ".join(missing))
        super().__init__(backend, cores)
        try:
            # Warming up floods whatever is there, and would leave states.
            self._loaded_engine()
            netns = wiring.firewalls(self._netns)
            self._pair_or_none = FirewallPair(
                netns, protocol, self._states, self._cores.dut, wiring.BEHIND, Policy(nat)
            )
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
    def expected_failover_s(self) -> tuple[float, float]:
        """Earliest and latest take-over after a hard failure, by the protocol's timers."""
        return self._protocol.expected_failover_s

    @property
    def transitions(self) -> list[Transition]:
        """Every change of the virtual addresses so far, in order."""
        return self._pair.transitions

    @property
    def events(self) -> list[PairEvent]:
        """Everything done to the pair so far, in order."""
        return self._pair.events

    def settle(self) -> Firewall:
        """Wait for one master and one backup that stay so; which one is master.

        Raises ``LabError`` with what the daemons say if that does not come about.
        """
        return self._pair.settle()

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
        self._pair.check()
        return result

    def at(self, event: Callable[[], object], at_ns: int) -> None:
        """Do ``event`` when CLOCK_MONOTONIC shows ``at_ns``; for ``during``."""
        self._beside.at(event, at_ns)

    def open_admission(self) -> None:
        """Admit new calls from the LAN side, as at first."""
        self._pair.open_admission()

    def close_admission(self) -> int:
        """From now on only packets of known states pass; number of states at the master."""
        return self._pair.close_admission()

    def step_down(self) -> PairEvent:
        """Soft: the master gives up by its protocol's administrative means."""
        return self._pair.step_down()

    def cut(self) -> PairEvent:
        """Hard: the master's daemons are killed, then its links go down, as if it lost its power."""
        return self._pair.cut()

    def restore(self) -> PairEvent:
        """Undo the last ``step_down``, or boot the firewall that was cut (without states of its own)."""
        return self._pair.restore()

    def master(self) -> Firewall | Literal["both"] | None:
        """Who holds both virtual addresses; ``both`` if one is held by both, None if nobody holds all."""
        return self._pair.master()

    def holders(self) -> Mapping[Side, frozenset[Firewall]]:
        """Who holds the virtual address of each side."""
        return self._pair.holders()

    def states(self, which: Firewall) -> int:
        """Entries of the connection table in that firewall's kernel; the pair's own traffic has none."""
        return self._pair.states(which)

    def calls_begun(self) -> int:
        """Calls that the master has a state for."""
        master = self.master()
        return 0 if master is None or master == "both" else self.states(master)

    def surviving(self) -> int:
        """Of the states known when admission was closed, those at the present master."""
        return self._pair.surviving()

    def clear_states(self) -> None:
        """Forget all connections, in both firewalls."""
        self._pair.clear_states()

    def set_rules(self, rules: RuleSetup) -> None:
        if replace(rules, both_ways=False) != RuleSetup():
            raise InputError("a redundant pair has rules of its own: only matching position 0 is possible")

    def set_cross_traffic(self, on: bool) -> None:
        if on:
            raise InputError("a redundant pair has no management session")

    def close(self) -> None:
        pair, self._pair_or_none = self._pair_or_none, None
        try:
            if pair is not None:
                pair.close()
        finally:
            super().close()

    @property
    def _pair(self) -> FirewallPair:
        if self._pair_or_none is None:
            raise LabError("the lab is closed")
        return self._pair_or_none

    def _build(self) -> None:
        self._threads = wiring.build(self._netns, self._cores.dut)
        self._host.watch(self._threads)
        for side, edge in wiring.EDGES.items():
            self._add_meter(side, {side: edge.entry.name})
        for firewall in FIREWALLS:
            links = {f"{firewall}_{network.side}": network.link for network in NETWORKS.values()}
            self._add_meter(wiring.part(firewall), links)

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
