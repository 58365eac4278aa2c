"""The test bed between two ports of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from weirlab.base.errors import InputError, LabError
from weirlab.base.units import NS_PER_S
from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site
from weirlab.lab.cores import Cores
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import write_sysctls
from weirlab.lab.linux.syscalls import explained
from weirlab.lab.namespaces import BackendChoice, NamespaceBed
from weirlab.lab.remote.device import ExternalDevice
from weirlab.lab.wired import neighbours, ports
from weirlab.lab.wired.ends import WiredSetting, endpoints, refuse_others
from weirlab.records import REFUSED, EngineResult, HostSample, RuleSetup
from weirlab.traffic.plan import DeparturePlan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

if TYPE_CHECKING:
    from weirlab._engine import Engine

_CARRIER_S: Final = 6.0
_ANSWER_S: Final = 3.0
_SWAPPED_S: Final = 1.0
_ETHERNET_BYTES: Final = 18
"""Header and FCS, which the MTU leaves out."""
_PROBES: Final = Traffic(Rate(10.0), Constant(128), warmup_s=0.0, duration_s=0.3)
"""Three frames."""
_ROUNDS: Final = 2
_PAUSE_S: Final = 2.0
"""A device whose link has just come up may not forward for a second or two (duplicate address detection)."""
_RAMP_PPS: Final = (1_000.0, 10_000.0)
"""Loads of a tenth of a second before a higher one."""
_RAMP_S: Final = 0.1
_HOSTS: Final = (("198.18.0.0/17", "198.18.128.0/17"), ("198.19.0.0/17", "198.19.128.0/17"))
"""Hosts that sender and receiver play, in two halves: more specific than a /16 of a port's own address."""


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
    tell:
        Gets what was checked before the first trial, sentence by sentence.

    Raises
    ------
    InputError, LabError, MissingCapability
        A port cannot be used, or the device does not answer.
    """

    lab = "wired"
    _engine_options: Mapping[str, object] = {"program_at_sender": True}

    def __init__(
        self,
        setting: WiredSetting,
        driver: Driver | None,
        backend: BackendChoice = "auto",
        cores: Cores | None = None,
        *,
        version: Literal[4, 6] = 4,
        tell: Callable[[str], None] = lambda checked: None,
    ) -> None:
        self._setting = setting
        self._driver = driver
        self._version = version
        self._rules: RuleSetup | None = None
        self._fallback = ""
        self._refused = 0
        """Frames that the sending ports did not take."""
        self._ramped_pps = 0.0
        self._tell = tell
        refuse_others(setting.ends, version, setting.allow)
        super().__init__(backend, cores)
        try:
            self._prove()
        except BaseException:
            self.close()
            raise

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
        return {**super().counters(), **own, REFUSED: self._refused}

    def set_rules(self, rules: RuleSetup) -> None:
        if rules == self._rules:
            return
        if rules.position and endpoints(self._setting.ends, self._version) is not None:
            raise InputError(
                "rules are set for test traffic in 198.18.0.0/15 and 2001:2::/48, and with these addresses "
                "none would meet them: leave out --addresses, or --change and --rules"
            )
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
        return self.play(self.compiled(traffic))

    def compiled(self, traffic: Traffic) -> DeparturePlan:
        """The schedule of ``traffic``; raises ``InputError`` if it may not leave by these ports."""
        version = traffic.flows.ip
        refuse_others(self._setting.ends, version, self._setting.allow)
        return compile_plan(traffic, self._places, endpoints(self._setting.ends, version))

    def play(self, plan: DeparturePlan) -> EngineResult:
        """Send a schedule unchanged."""
        self.prepare(plan)
        return self._send(plan)

    def prepare(self, plan: DeparturePlan) -> None:
        """Everything that comes before ``plan``: checks, neighbours, lower loads."""
        refuse_others(self._setting.ends, plan.ip, self._setting.allow)
        longest, mtu = int(plan.frame_bytes.max()), min(port.mtu_bytes for port in self._ports)
        if longest > mtu + _ETHERNET_BYTES:
            raise InputError(
                f"frames of {longest} bytes do not fit the ports' MTU of {mtu} bytes; send shorter ones, or "
                "raise the MTU of both ports and of the device"
            )
        self._meet(plan.ip)
        if isinstance(self._driver, ExternalDevice):
            self._driver.keep((plan.warmup_ns + plan.duration_ns) / NS_PER_S)
        for pps in _RAMP_PPS:
            if self._ramped_pps < pps < plan.nominal_pps or (self._ramped_pps < pps and not plan.paced):
                self._ramp(pps, plan.ip)
        self._loaded_engine()

    def play_once(self, plan: DeparturePlan) -> EngineResult:
        """Send a schedule after :meth:`prepare`; raises ``LabError`` if a link goes down meanwhile."""
        flaps = self._flaps()
        result = super().play(plan)
        if self._flaps() != flaps:
            raise LabError(
                f"the link of {' or '.join(port.name for port in self._ports)} went down during the trial: "
                "connect the port and both firewalls to a switch"
            )
        return result

    def forwards(self) -> bool:
        """Whether three frames arrive."""
        result = self._send(self.compiled(_PROBES))
        return result.sent == result.received

    def relocated(self) -> str:
        """Which gateway has another MAC address than at first, in words; empty if none has."""
        if self._driver is None or self._setting.mode == "bridge":
            return ""
        for (side, version), mac in self._next_hops.items():
            if (found := self._next_hop(side, version)) != mac:
                return f"{self._setting.ends[side].gateways[version]} moved from {mac} to {found}"
        return ""

    def _send(self, plan: DeparturePlan) -> EngineResult:
        """Send a schedule; again, once, if a link went down meanwhile.

        Drivers of hardware take the link down for a moment when an XDP program is attached.
        """
        self._loaded_engine()
        for is_last in (False, True):
            flaps, before = self._flaps(), self.left()
            result = super().play(plan)
            if self._flaps() == flaps:
                break
            self._await_carrier()
            if is_last:
                raise LabError(
                    f"the link of {' or '.join(port.name for port in self._ports)} went down during the "
                    "trial, twice: check cables and ports; does the device restart under load?"
                )
            self._await_path(plan.ip)
        if plan.media is None and plan.answers is None:
            self._refused += max(result.sent + result.sent_warmup - (self.left() - before), 0)
        return result

    def _await_path(self, version: Literal[4, 6]) -> None:
        """After a link was down, the device may have to look for its neighbours first."""
        traffic = replace(_PROBES, flows=Flows(ip=version))
        for _ in range(_ROUNDS):
            result = super().play(compile_plan(traffic, (), endpoints(self._setting.ends, version)))
            if result.received == result.sent:
                break
            neighbours.pause(_PAUSE_S)

    def _ramp(self, pps: float, version: Literal[4, 6]) -> None:
        """A tenth of a second at a lower load, which must not come back in copies."""
        traffic = Traffic(Rate(pps), Constant(128), Flows(ip=version), warmup_s=0.0, duration_s=_RAMP_S)
        result = self._send(compile_plan(traffic, (), endpoints(self._setting.ends, version)))
        neighbours.refuse_copies(result, self._setting, is_cable=self._driver is None)
        neighbours.refuse_strays(result, self._setting, pps)
        self._ramped_pps = pps

    def _flaps(self) -> list[int]:
        """How often the links of both ports have changed."""
        return [
            self._netns[part].call(partial(neighbours.carrier_changes, port.name))
            for part, port in zip(self._parts, self._ports, strict=True)
        ]

    def left(self) -> int:
        """Frames that have left the sender's port, as it counts them itself."""
        return super().counters()["tx_tx_packets"]

    def host(self) -> HostSample:
        """As of all beds; with a login to the device, clock and temperature are the device's."""
        sample = super().host()
        if not isinstance(self._driver, ExternalDevice) or not self._driver.has_login:
            return sample
        device = self._driver.reading
        return replace(sample, frequency_mhz=device.frequency_mhz, temperature_c=device.temperature_c)

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
        self._threads = list(setting.device_threads)
        self._tell(f"{' and '.join(port.summary for port in self._ports)}: nothing else uses them")
        for side, part in enumerate(self._parts):
            space = self._netns[part]
            space.create()
            space.call(partial(write_sysctls, wiring.QUIET))
            space.call(neighbours.ignore_transport)
            self._claim.borrow(setting.ends[side].port, space)
            space.call(partial(neighbours.set_up, setting.ends[side].port))
        self._await_carrier()
        self._tell("both have a link")
        if not setting.shared:
            neighbours.refuse_strangers([self._netns[part] for part in self._parts], self._ports, setting)
            self._tell("no switch and no other host is connected to them")
        plays = endpoints(setting.ends, 4) is None
        for side, part in enumerate(self._parts):
            end = setting.ends[side]
            self._netns[part].call(
                partial(
                    neighbours.configure,
                    end.port,
                    (*end.addresses.values(), neighbours.link_local(self._ports[side].mac)),
                    end.gateways.values(),
                    _HOSTS[side] if plays else (),
                )
            )
        if self._driver is not None:
            self._driver.start(self.site)
        self.set_rules(RuleSetup())
        self._meet(self._version)

    def _prove(self) -> None:
        """Send ten frames, which must arrive once each, by the first back end that can do that."""
        probes = replace(_PROBES, flows=Flows(ip=self._version))
        sent, received = 0, 0
        for number in range(_ROUNDS):
            result = self.run(probes)
            sent, received = sent + result.sent, received + result.received
            if received or number == _ROUNDS - 1:
                break
            neighbours.pause(_PAUSE_S)
        if not received and self._backend == "auto" and result.backend == "xdp":
            self._close_engine()
            self._backend = "af_packet"
            result = self.run(probes)
            sent, received = sent + result.sent, result.received
            self._fallback = "frames sent by XDP do not arrive, those sent by packet sockets do"
        first, second = (port.name for port in self._ports)
        if not received:
            is_cable = self._driver is None
            why = neighbours.where_lost(self._setting, self._version, result.stray, is_cable=is_cable)
            raise LabError(f"none of {sent} frames sent at {first} arrived at {second}: {why}")
        neighbours.refuse_copies(result, self._setting, is_cable=self._driver is None)
        how = "XDP" if result.backend == "xdp" else "packet sockets"
        why = f" ({self._fallback})" if self._fallback else ""
        self._tell(
            f"{received} of {sent} frames sent at {first} arrived at {second}, each once, by {how}{why}"
        )

    def _await_carrier(self) -> None:
        for part, port in zip(self._parts, self._ports, strict=True):
            if not self._netns[part].call(partial(neighbours.carrier, port.name, _CARRIER_S)):
                raise LabError(
                    f"{port.name} has no carrier: plug its cable into the device, and switch the device's "
                    "port on"
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
            for end, hop in zip(self._setting.ends, found, strict=True):
                self._tell(f"{end.port}: {end.gateways[version]} is {hop}")
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
        if found is None:
            is_swapped = self._answers(side, self._setting.ends[1 - side].gateways[version])
            raise LabError(neighbours.why_no_gateway(self._setting, side, version, is_swapped=is_swapped))
        return found

    def _answers(self, side: int, address: str) -> bool:
        """Whether somebody at this side has ``address``."""
        name = self._setting.ends[side].port
        return bool(
            self._netns[self._parts[side]].call(partial(neighbours.resolve, name, address, _SWAPPED_S))
        )

    def _warm_up(self, engine: Engine) -> None:
        """A port leads to somebody's device: nothing is sent to it before a trial."""
