"""What all tunnels share: two gateways with their daemons, the rules behind one, the MTU."""

from __future__ import annotations

import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from weirlab.base import programs
from weirlab.base.errors import InputError, LabError, MissingCapability
from weirlab.base.interrupts import interruptible, shielded
from weirlab.base.quoting import quoted
from weirlab.base.units import NS_PER_S
from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site, TrafficActionRunner
from weirlab.lab.dut import iptables
from weirlab.lab.dut.tunnels.events import After, understood
from weirlab.lab.linux import interface, scheduling
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines.machine import CRITICAL, Machine, quote
from weirlab.records import RuleSetup
from weirlab.traffic.encapsulation.encapsulations import ENCAPSULATIONS, Encapsulation, inner_mtu
from weirlab.traffic.encapsulation.packets import VoicePacket

IpVersion = Literal[4, 6]

_PATIENCE_S: Final = 15.0
"""Time limit for the tunnel to come up, and for its queues to drain."""
_LOOK_S: Final = 0.05
_ANSWER_S: Final = 0.1
"""Time limit for a datagram to pass the tunnel: less than the delay of a daemon whose queue is full."""
_PORT: Final = 9
_WORDS: Final = 6


@dataclass(frozen=True)
class TunnelSuite:
    """A cipher suite, by its name in the gateway's own configuration."""

    name: str
    encapsulation: str
    """The name of its formula, see :data:`~weirlab.traffic.encapsulation.encapsulations.ENCAPSULATIONS`."""


@dataclass(frozen=True)
class Gateway:
    """One of the two ends of a tunnel."""

    machine: Machine
    namespace: Namespace
    address: str
    """Its address on the cable between the gateways."""
    peer: str
    """Address of the other gateway on that cable."""
    own_networks: tuple[str, ...]
    """The networks behind this gateway."""
    networks: tuple[str, ...]
    """The networks behind the other gateway, reached through the tunnel."""


class EncapsulationDriver(Driver, ABC):
    """Two gateways whose tunnel has a cipher suite and a formula for its packet sizes.

    Parameters
    ----------
    suites:
        The suites that the gateways support, the default first.
    suite:
        Name of one of them; None for the default.

    Raises
    ------
    InputError
        There is no such suite.
    """

    gateways = 2
    takes_turns = True
    product: str
    """Its name in messages."""
    kind: str
    """Name without the suite."""
    natt = False
    """Whether ESP is in UDP."""
    most_bytes: int | None = None
    """Longest packet that the gateways themselves take, if that is less than what would fit."""

    def __init__(self, suites: Sequence[TunnelSuite], suite: str | None) -> None:
        self.suite = _chosen(self.product, suites, suite)
        self.name = f"{self.kind}:{self.suite.name}" if self.suite.name else self.kind

    @property
    def encapsulation(self) -> Encapsulation:
        """The formula for its packet sizes."""
        return next(each for each in ENCAPSULATIONS if each.name == self.suite.encapsulation)

    def longest_packet_bytes(self, ip: IpVersion) -> int:
        voice = VoicePacket(0, ip=ip, outer_ip=4, natt=self.natt)
        fits = inner_mtu(self.encapsulation, voice, wiring.BETWEEN_MTU_BYTES)
        return fits if self.most_bytes is None else min(fits, self.most_bytes)

    def described(self, filters: str) -> dict[str, object]:
        """Facts about the tunnel; ``filters`` names the filter of the near gateway's rules."""
        return {
            "layout": f"{self.product} between two gateways; rules in the near one, by {filters}",
            "suite": self.suite.name or "its only one",
            "encapsulation": self.encapsulation.title + (" in UDP" if self.natt else ""),
            "between_mtu_bytes": wiring.BETWEEN_MTU_BYTES,
            "longest_packet_bytes": self.longest_packet_bytes(4),
        }


class Tunnel(EncapsulationDriver):
    """Two gateways and a tunnel between them.

    Rules, if any, are loaded with iptables in the near gateway, where they see packets in the clear.

    Parameters
    ----------
    suites:
        As of :class:`EncapsulationDriver`.
    asked:
        Name of one of them, then the events during traffic (:mod:`.events`), separated by colons; None for
        the default suite and no events.

    Raises
    ------
    InputError
        There is no such suite, or the gateways do not support an event.
    """

    rekeys_after: frozenset[After] = frozenset()
    """The units after which the gateways can rekey."""
    returns = False
    """Whether a gateway that died can be restarted."""

    def __init__(self, suites: Sequence[TunnelSuite], asked: str | None) -> None:
        wanted = understood(self.kind, asked, self.rekeys_after, returns=self.returns)
        super().__init__(suites, wanted.suite)
        self.rekey, self.outage = wanted.rekey, wanted.outage
        self.name = ":".join(word for word in (self.name, *wanted.words) if word)
        self._machines: list[Machine] = []
        self._between: tuple[socket.socket, socket.socket] | None = None
        self._ends: tuple[Gateway, Gateway] | None = None
        self._beside = TrafficActionRunner()
        self._outages: list[int] = []
        """Duration of each outage, in ns."""
        self._filter: iptables.Iptables | None = None
        self._tokens = 0

    @abstractmethod
    def check(self) -> list[str]:
        """What is missing, as of :class:`~weirlab.lab.base.Driver`."""

    def start(self, site: Site) -> Sequence[int]:
        near, far = self._ends = self._switch_on(site)
        self.begin(near, far)
        self._open_probe(site, near, far)
        self._until(self._passes, "the tunnel did not come up")
        return [process for machine in self._machines for process in machine.processes]

    @abstractmethod
    def begin(self, near: Gateway, far: Gateway) -> None:
        """Start and configure the gateways, and route traffic through the tunnel."""

    @shielded
    def stop(self) -> None:
        between, self._between = self._between, None
        for end in between or ():
            end.close()
        machines, self._machines = self._machines, []
        for machine in machines:
            machine.power_off()

    def beside_traffic(self) -> AbstractContextManager[None]:
        return self._beside.running(None if self.outage is None else self._suffer)

    def fail(self, near: Gateway) -> None:
        """Kill the daemon of the near gateway; only if :attr:`returns`."""
        raise NotImplementedError

    def revive(self, near: Gateway, far: Gateway) -> None:
        """Restart it, with everything that it needs; only if :attr:`returns`."""
        raise NotImplementedError

    def counters(self) -> Mapping[str, int]:
        """How often and how long the near gateway was down, if outages were requested."""
        if self.outage is None:
            return {}
        return {"near_outages": len(self._outages), "near_outage_us": sum(self._outages) // 1000}

    def events(self) -> int:
        return len(self._outages)

    def check_alive(self) -> None:
        for machine in self._machines:
            # Its answer comes after the reports of all processes that ended before.
            machine.output("")
            machine.check()

    def settle(self) -> None:
        # A daemon queues what it cannot send yet; a datagram that returns in time found the queues empty.
        self._until(self._passes, "nothing passed the tunnel")

    def apply(self, site: Site, rules: RuleSetup) -> None:
        if self._filter is None:
            if not rules.position and not rules.stateful:
                return
            chosen = iptables.usual()
            if missing := chosen.check():
                raise MissingCapability(f"rules behind {self.name} need iptables: {'; '.join(missing)}")
            self._filter = chosen
        self._filter.apply(site, rules)

    def listing(self) -> list[str]:
        return [] if self._filter is None else self._filter.listing()

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": self.version(),
            **self.described("iptables"),
            **({} if self.rekey is None else {"rekey": self.rekey.text}),
            **({} if self.outage is None else {"outage": self.outage.text}),
            **({} if self._filter is None else {f"rules_{k}": v for k, v in self._filter.facts().items()}),
        }

    @abstractmethod
    def version(self) -> str:
        """Version of the tool."""

    def rekey_now(self) -> None:
        """Have the gateways switch to new keys during traffic; ``InputError`` if they cannot."""
        raise InputError(f"{self.product} cannot rekey on demand")

    def daemon(self, gateway: Gateway, name: str, command: Sequence[str]) -> None:
        """Start a daemon with the same priority as the kernel's receiving threads."""
        gateway.machine.start(name, command, nice=CRITICAL)

    def route(self, gateway: Gateway, name: str) -> None:
        """Route the networks behind the other gateway through the interface ``name``, once that exists."""

        def routed() -> bool:
            mtu_bytes = self.longest_packet_bytes(4)
            return gateway.namespace.call(lambda: interface.send_through(name, gateway.networks, mtu_bytes))

        self._until(routed, f"there was no interface {name} on {gateway.machine.name}")

    def command(self, gateway: Gateway, command: Sequence[str], patience_s: float = _PATIENCE_S) -> None:
        """Run a command until it succeeds, at least once; its output is reported if it does not."""
        said: list[str] = []

        def done() -> bool:
            code, said[:] = gateway.machine.run(command)
            return code == 0

        what = f"{' '.join(command)} failed on {gateway.machine.name}"
        self._until(done, what, said, patience_s)

    def _suffer(self) -> None:
        """Carry out the outage, timed from the beginning of a trial; none if the trial ends first."""
        assert self.outage is not None
        assert self._ends is not None
        near, far = self._ends
        if not self._beside.comes(round(self.outage.at_s * NS_PER_S)):
            return
        self.fail(near)
        died_ns = time.monotonic_ns()
        self._beside.at(lambda: self.revive(near, far), died_ns + round(self.outage.lasts_s * NS_PER_S))
        scheduling.shorten_all(near.machine.processes)
        self._until(self._passes, "nothing passed the tunnel after the near gateway had returned")
        self._outages.append(time.monotonic_ns() - died_ns)

    def _switch_on(self, site: Site) -> tuple[Gateway, Gateway]:
        assert site.far is not None
        made = []
        senders, receivers = (*wiring.SENDERS, *site.hosts[0]), (*wiring.RECEIVERS, *site.hosts[1])
        ends = (
            ("the near gateway", site.netns, wiring.NEAR, wiring.FAR, senders, receivers),
            ("the far gateway", site.far, wiring.FAR, wiring.NEAR, receivers, senders),
        )
        for name, netns, here, there, own, networks in ends:
            namespace = Namespace(netns)
            machine = Machine(name, namespace, site.cpu)
            self._machines.append(machine)
            made.append(Gateway(machine, namespace, here.address, there.address, own, networks))
        near, far = made
        return near, far

    def _open_probe(self, site: Site, near: Gateway, far: Gateway) -> None:
        """Open sockets in the gateways, with addresses behind the tunnel."""
        addresses = [(port.address, _PORT) for port in (site.inward, site.outward)]
        opened = []
        for gateway, address in zip((near, far), addresses, strict=True):
            opened.append(gateway.namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
            opened[-1].bind(address)
            opened[-1].settimeout(_ANSWER_S)
        opened[0].connect(addresses[1])
        opened[1].connect(addresses[0])
        self._between = opened[0], opened[1]

    def _passes(self) -> bool:
        """Whether a datagram passes the tunnel and its answer returns, soon enough."""
        assert self._between is not None
        near, far = self._between
        self._tokens += 1
        token = self._tokens.to_bytes(8, "big")
        return _sent(near, far, token) and _sent(far, near, token)

    @interruptible
    def _until(
        self,
        condition: Callable[[], bool],
        otherwise: str,
        said: Sequence[str] = (),
        patience_s: float = _PATIENCE_S,
    ) -> None:
        end_s = time.monotonic() + patience_s
        while not condition():
            self.check_alive()
            if time.monotonic() > end_s:
                waited = f" for {patience_s:g} s" if patience_s else ""
                raise LabError(f"{self.name}: {otherwise}{waited}; {self._words(said)}")
            time.sleep(_LOOK_S)

    def _words(self, said: Sequence[str]) -> str:
        """The output of the failed command and of the daemons."""
        words = [f"it says: {quote(said)}"] if said else []
        words += [
            f"{name} on {machine.name} says: {quote(machine.output(name)[-_WORDS:])}"
            for machine in self._machines
            for name in sorted(machine.running)
        ]
        return "; ".join(words) or "there is no daemon to ask"


def _sent(source: socket.socket, destination: socket.socket, token: bytes) -> bool:
    """Whether ``token`` gets from one socket to the other in time."""
    try:
        source.send(token)
        while destination.recv(len(token)) != token:
            # The token of an earlier attempt.
            pass
    except OSError:
        # Too late; or the kernel reports that the other side refused, or that there is no route yet.
        return False
    return True


def _chosen(product: str, suites: Sequence[TunnelSuite], name: str | None) -> TunnelSuite:
    if name is None:
        return suites[0]
    found = next((suite for suite in suites if suite.name == name), None)
    if found is None or not name:
        known = ", ".join(suite.name for suite in suites if suite.name)
        has = f"suites are {known}" if known else "it only has one, so give none"
        raise InputError(f"{product} has no suite {quoted(name)}; {has}")
    return found


def lacking(programs_by_package: Mapping[str, Sequence[str]]) -> list[str]:
    """What to install, one sentence for each package of which a program is missing."""
    found = []
    for package, names in programs_by_package.items():
        absent = [name for name in names if not _is_there(name)]
        if absent:
            found.append(f"{' and '.join(absent)} not installed: apt install {package}")
    return found


def _is_there(name: str) -> bool:
    return Path(name).exists() if name.startswith("/") else programs.find(name) is not None
