"""The test bed between two ports of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from weirlab.base.errors import InputError, LabError
from weirlab.lab import wiring
from weirlab.lab.base import DutDriver, Site
from weirlab.lab.cores import Cores
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import write_sysctls
from weirlab.lab.linux.privilege import explained
from weirlab.lab.namespaces import BackendChoice, NamespaceBed
from weirlab.lab.wired import neighbours, ports
from weirlab.lab.wired.ends import WiredEnd, endpoints, refuse_others
from weirlab.records import EngineResult, RuleSetup
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

if TYPE_CHECKING:
    from weirlab._engine import Engine

WiredMode = Literal["routed", "bridge"]

_CARRIER_S: Final = 6.0
_ANSWER_S: Final = 3.0
_SWAPPED_S: Final = 1.0
_ETHERNET_BYTES: Final = 18
"""Header and FCS, which the MTU leaves out."""
_PROBES: Final = Traffic(Rate(10.0), Constant(128), warmup_s=0.0, duration_s=1.0)
"""Ten frames in a second."""
_ROUNDS: Final = 3
"""A device whose link has just come up may not forward for a second or two (duplicate address detection)."""
_HOSTS: Final = (
    ("198.18.0.0/17", "198.18.128.0/17"),
    ("198.19.0.0/17", "198.19.128.0/17"),
)
"""Hosts that sender and receiver play, in two halves: more specific than a /16 of a port's own address."""


@dataclass(frozen=True)
class WiredSetting:
    """Which ports, how the device forwards between them, and what the user permits."""

    ends: tuple[WiredEnd, WiredEnd]
    mode: WiredMode = "routed"
    take: bool = False
    """Whether addresses of the ports are given up for the duration of the test."""
    allow: Sequence[str] = ()
    """Networks outside the benchmarking ones to which test traffic may go."""


class WiredBed(NamespaceBed):
    """Sender and receiver at two ports of this machine, with the user's own device between them.

    The ports are moved into the namespaces of sender and receiver, and moved back at the end. Their MAC
    addresses, names and MTUs stay.

    Parameters
    ----------
    setting:
        The ports and the addresses.
    driver:
        What sets up the device, if anything does; None for a patch cable instead of a device.
    backend:
        ``xdp``, ``af_packet``, or ``auto`` for the first by which frames arrive.
    version:
        IP version of the first frames.

    Raises
    ------
    InputError, LabError, MissingCapability
        A port cannot be used, or the device does not answer.
    """

    lab = "wired"

    def __init__(
        self,
        setting: WiredSetting,
        driver: DutDriver | None,
        backend: BackendChoice = "auto",
        cores: Cores | None = None,
        *,
        version: Literal[4, 6] = 4,
    ) -> None:
        self._setting = setting
        self._driver = driver
        self._version = version
        self._rules: RuleSetup | None = None
        self._fallback = ""
        refuse_others(setting.ends, version, setting.allow)
        super().__init__(backend, cores)

    @property
    def dut(self) -> str:
        return "none" if self._driver is None else self._driver.name

    @property
    def facts(self) -> Mapping[str, object]:
        first, second = self._ports
        sender, receiver = self._setting.ends
        return {
            **super().facts,
            **({"fallback_reason": self._fallback} if self._fallback else {}),
            "between": [first.name, second.name],
            "drivers": [first.driver, second.driver],
            "speed_mbps": [first.speed_mbps, second.speed_mbps],
            "mtu_bytes": min(first.mtu_bytes, second.mtu_bytes),
            "addresses": [sender.addresses[self._version], receiver.addresses[self._version]],
            "mode": "cable" if self._driver is None else self._setting.mode,
            **(
                {} if self._driver is None else {f"dut_{name}": v for name, v in self._driver.facts().items()}
            ),
        }

    def counters(self) -> dict[str, int]:
        own = {} if self._driver is None else self._driver.counters()
        return {**super().counters(), **own}

    def set_rules(self, rules: RuleSetup) -> None:
        if rules == self._rules:
            return
        self._rules = None
        if self._driver is not None:
            self._driver.apply(self.site, rules)
        elif replace(rules, both_ways=False) != RuleSetup():
            raise InputError("a cable has no rules: only matching position 0, stateless, is possible")
        self._rules = rules
        self._places = rules.places

    def set_cross_traffic(self, on: bool) -> None:
        if on:
            raise InputError(
                "a management session needs a device that Weir builds; leave --cross-traffic out with --lab "
                "wired"
            )

    def run(self, traffic: Traffic) -> EngineResult:
        version = traffic.flows.ip
        refuse_others(self._setting.ends, version, self._setting.allow)
        return self.play(compile_plan(traffic, self._places, endpoints(self._setting.ends, version)))

    def play(self, plan: DeparturePlan) -> EngineResult:
        """Send a schedule unchanged."""
        longest, mtu = int(plan.frame_bytes.max()), min(port.mtu_bytes for port in self._ports)
        if longest > mtu + _ETHERNET_BYTES:
            raise InputError(
                f"frames of {longest} bytes do not fit the ports' MTU of {mtu} bytes; send shorter ones, or "
                "raise the MTU of both ports and of the device"
            )
        self._meet(plan.ip)
        return super().play(plan)

    @property
    def site(self) -> Site:
        """Where a driver finds the device: its ports as the tester knows them."""
        into, out_of = (
            Port("", self._next_hops.get((side, 4), ""), f"{end.gateways[4]}/32", f"{end.gateways[6]}/128")
            for side, end in enumerate(self._setting.ends)
        )
        return Site("", into, out_of, self._sender, self._receiver, self._cores.dut)

    def close(self) -> None:
        """Put the ports back and remove everything that this lab made. May be called twice."""
        try:
            if self._driver is not None:
                self._driver.stop()
        finally:
            super().close()

    def _build(self) -> None:
        setting = self._setting
        self._ports = ports.choose([end.port for end in setting.ends], take=setting.take)
        self._next_hops: dict[tuple[int, int], str] = {}
        self._sender, self._receiver = (
            Port(port.name, port.mac, end.addresses[4], end.addresses[6])
            for port, end in zip(self._ports, setting.ends, strict=True)
        )
        self._receives = self._receiver.name
        for side, part in enumerate(self._parts):
            space, end = self._netns[part], setting.ends[side]
            space.create()
            space.call(partial(write_sysctls, wiring.QUIET))
            space.call(neighbours.ignore_transport)
            self._claim.borrow(end.port, space)
            plays = endpoints(setting.ends, 4) is None
            space.call(
                partial(
                    neighbours.configure,
                    end.port,
                    (*end.addresses.values(), neighbours.link_local(self._ports[side].mac)),
                    end.gateways.values(),
                    _HOSTS[side] if plays else (),
                )
            )
        for side, part in enumerate(self._parts):
            name = setting.ends[side].port
            if not self._netns[part].call(partial(neighbours.carrier, name, _CARRIER_S)):
                raise LabError(
                    f"{name} has no carrier: plug its cable into the device, and switch the device's port on"
                )
        if self._driver is not None:
            self._driver.start(self.site)
        self.set_rules(RuleSetup())
        self._meet(self._version)
        self._prove()

    def _prove(self) -> None:
        """Send ten frames, which must arrive once each, by the first back end that can do that."""
        probes = replace(_PROBES, flows=Flows(ip=self._version))
        for _ in range(_ROUNDS):
            result = self.run(probes)
            if result.received:
                break
        if not result.received and self._backend == "auto" and result.backend == "xdp":
            self._close_engine()
            self._backend = "af_packet"
            result = self.run(probes)
            self._fallback = "frames sent by XDP do not arrive, those sent by packet sockets do"
        first, second = (port.name for port in self._ports)
        device = "cable" if self._driver is None else "device"
        if not result.received:
            raise LabError(
                f"none of {result.sent} frames sent at {first} arrived at {second}: {self._where_lost()}"
            )
        if result.duplicated:
            raise LabError(
                f"{result.sent} frames sent at {first} arrived at {second} "
                f"{result.received + result.duplicated} times: there is a loop behind the ports, or the "
                f"{device} copies frames; nothing more is sent"
            )

    def _where_lost(self) -> str:
        if self._driver is None:
            return "is it the same cable that is plugged into both?"
        if self._setting.mode == "bridge":
            return "check that the device bridges its two ports and that no filter drops the test traffic"
        receiver = self._setting.ends[1]
        to = "198.19.0.0/16" if self._version == 4 else "2001:2:0:2::/64"
        if (beyond := endpoints(self._setting.ends, self._version)) is not None:
            to = beyond.destination[0]
        return (
            f"the device answers on both sides, so check that it forwards, that its route to {to} leads to "
            f"{receiver.addresses[self._version].partition('/')[0]}, and that no filter drops UDP to port 7"
        )

    def _meet(self, version: int) -> None:
        """Find out, once for each IP version, to which MAC addresses the ends send."""
        if (0, version) in self._next_hops:
            return
        if self._driver is None or self._setting.mode == "bridge":
            found = [self._receiver.mac, self._sender.mac]
            for part, port, end in zip(
                self._parts, (self._sender, self._receiver), self._setting.ends, strict=True
            ):
                mac = wiring.mac_bytes(port.mac)
                self._netns[part].call(partial(neighbours.announce, port.name, mac, end.host))
        else:
            found = [self._next_hop(side, version) for side in (0, 1)]
        self._next_hops.update({(side, version): mac for side, mac in enumerate(found)})
        into, out_of = self.site.inward, self.site.outward
        self._destination, self._back_destination = replace(into, mac=found[0]), replace(out_of, mac=found[1])

    def _next_hop(self, side: int, version: int) -> str:
        end = self._setting.ends[side]
        gateway = end.gateways[version]
        with explained("the way to the device"):
            found = self._netns[self._parts[side]].call(
                partial(neighbours.resolve, end.port, gateway, _ANSWER_S)
            )
        if found is None and self._answers(side, other := self._setting.ends[1 - side].gateways[version]):
            raise LabError(
                f"{other} answers at {end.port}, where {gateway} should be: the cables are swapped; name the "
                f"ports in the other order: --between {' '.join(port.name for port in reversed(self._ports))}"
            )
        if found is None:
            raise LabError(
                f"the device does not answer at {end.port}: nobody there has the address {gateway}. Give its "
                f"port that address, or name its own with --gateways; a bridge needs --mode bridge"
            )
        return found

    def _answers(self, side: int, address: str) -> bool:
        """Whether somebody at this side has ``address``."""
        name = self._setting.ends[side].port
        return bool(
            self._netns[self._parts[side]].call(partial(neighbours.resolve, name, address, _SWAPPED_S))
        )

    def _warm_up(self, engine: Engine) -> None:
        """A port leads to somebody's device: nothing is sent to it before a trial."""
