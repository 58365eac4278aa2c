"""Several devices in a row, each in namespaces of its own, as one device under test.

::

    sender   first device        second device            last device   receiver
    tx0 ──── in0      out0 ──── in0 (one or two) out0 ──── in0    out0 ──── rx0
             192.0.2.129 ────── 192.0.2.130 192.0.2.133 ── 192.0.2.134

The cables in between have no rings: what arrives is worked off where it was sent, on the CPU of all devices.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from ipaddress import ip_interface, ip_network
from typing import Final, Literal

from pyroute2 import IPRoute

from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.base.interrupts import shielded
from weirlab.base.quoting import quoted
from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut.nftables import OUTSIDE
from weirlab.lab.dut.rules import BlackBox
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import IpRoute, Port
from weirlab.lab.linux.inventory import InterfaceCounters
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.records import JOINT, RuleSetup

MOST: Final = 8
_FIRST_HOST: Final = 16
"""Number of the first device's further addresses in the networks of test traffic, which flows leave free."""
_IN: Final = wiring.IN0.name
_OUT: Final = wiring.OUT0.name


def parts(name: str) -> list[str]:
    """The devices that ``name`` means, one if it is no chain."""
    return name.split(JOINT)


@dataclass(frozen=True)
class ChainCable:
    """The cable behind a device of a chain."""

    near: Port
    """The port of the device on the sender's side."""
    far: Port
    networks: tuple[str, ...]
    """The networks of its addresses."""


def cable(number: int) -> ChainCable:
    """The cable behind the device with that number, from 0; addresses in TEST-NET-1 (RFC 5737)."""
    first, net6 = 128 + 4 * number, f"2001:db8:0:{0x100 + number:x}::"
    macs = (f"02:77:65:69:72:{0x50 + 2 * number + end:02x}" for end in (0, 1))
    near, far = (
        Port(name, mac, f"192.0.2.{first + end}/30", f"{net6}{end}/120")
        for name, mac, end in zip((_OUT, _IN), macs, (1, 2), strict=True)
    )
    return ChainCable(near, far, (f"192.0.2.{first}/30", f"{net6}/120"))


@dataclass(frozen=True)
class ChainLink:
    """A device of a chain in its place."""

    driver: Driver
    site: Site
    outer: str
    """The namespace that has the device's outward port."""


class DeviceChain(Driver):
    """Devices in a row.

    Rules belong to the first of them that is a filter, see :meth:`ruled`; all others have none.

    Parameters
    ----------
    drivers:
        The devices, from the sender to the receiver.

    Raises
    ------
    InputError
        There are too few or too many, or the first or the last one is no router.
    """

    gateways = 2
    joined = False

    def __init__(self, drivers: Sequence[Driver]) -> None:
        self.name = JOINT.join(driver.name for driver in drivers)
        if not 2 <= len(drivers) <= MOST:
            raise InputError(f"a chain of {len(drivers)} devices: it takes 2 to {MOST}")
        if any(isinstance(driver, BlackBox) for driver in drivers):
            raise InputError("your own device between two ports is no part of a chain, which is built here")
        for driver in (drivers[0], drivers[-1]):
            if driver.bridges:
                raise InputError(
                    f"{quoted(driver.name)} forwards frames unchanged, so it cannot begin or end a chain; "
                    "put it between two routers, e.g. forward"
                )
        self.drivers = tuple(drivers)
        self.takes_turns = any(driver.takes_turns for driver in drivers)
        self.tracks = any(driver.tracks for driver in drivers)
        self.translates = any(driver.translates for driver in drivers)
        self.files = tuple(path for driver in drivers for path in driver.files)
        ips: tuple[Literal[4, 6], ...] = (4, 6)
        self.carries = tuple(ip for ip in ips if all(ip in driver.carries for driver in drivers))
        # The first device's inner port, and the last one's.
        self.inner = (
            drivers[0].inner[0] if drivers[0].gateways == 2 else _OUT,
            drivers[-1].inner[1] if drivers[-1].gateways == 2 else _IN,
        )
        self._links: list[ChainLink] = []
        self._made: list[Namespace] = []
        self._opened = ExitStack()
        self._meters: list[InterfaceCounters] = []

    @property
    def ruled(self) -> int:
        """Number, from 0, of the device that gets the rules: the first with one namespace that has rules."""
        return next(
            (n for n, one in enumerate(self.drivers) if one.gateways == 1 and one.name != "forward"), 0
        )

    def open_files(self, inputs: Inputs) -> None:
        for driver in self.drivers:
            driver.open_files(inputs)

    def check(self) -> list[str]:
        return [f"{driver.name}: {missing}" for driver in self.drivers for missing in driver.check()]

    @shielded
    def start(self, site: Site) -> Sequence[int]:
        assert site.far is not None
        self._links = list(self._placed(site, site.far))
        present = {site.netns, site.far}
        for link in self._links:
            for name in dict.fromkeys((link.site.netns, link.outer)):
                namespace = Namespace(name)
                if name not in present:
                    namespace.create()
                    self._made.append(namespace)
                sysctls = wiring.QUIET if link.driver.forwards else wiring.ROUTER
                namespace.call(partial(write_sysctls, sysctls))
        for n, (link, following) in enumerate(zip(self._links, self._links[1:], strict=False)):
            ends = cable(n)
            with Namespace(following.site.netns).descriptor() as fd:
                Namespace(link.outer).call(partial(wiring.make_end, ends.near, ends.far, fd))
        for link in self._links:
            self._bring_up(link, site)
        processes: list[int] = []
        for link in self._links:
            if link.driver.gateways == 2 and link.driver.joined:
                wiring.join(Namespace(link.site.netns), Namespace(link.outer))
            self._opened.callback(link.driver.stop)
            processes += link.driver.start(link.site)
        for n, (link, following) in enumerate(zip(self._links, self._links[1:], strict=False), start=1):
            self._meter(link.outer, {f"hop{n}_out": _OUT})
            self._meter(following.site.netns, {f"hop{n + 1}_in": _IN})
        return processes

    @shielded
    def stop(self) -> None:
        self._meters, self._links = [], []
        made, self._made = self._made, []
        try:
            self._opened.close()
        finally:
            for namespace in made:
                namespace.remove()

    def beside_traffic(self) -> AbstractContextManager[None]:
        @contextmanager
        def all_beside() -> Iterator[None]:
            with ExitStack() as stack:
                for driver in self.drivers:
                    stack.enter_context(driver.beside_traffic())
                yield

        return all_beside()

    def check_alive(self) -> None:
        for driver in self.drivers:
            driver.check_alive()

    def holds(self) -> bool | None:
        held = [driver.holds() for driver in self.drivers]
        known = [one for one in held if one is not None]
        return True if any(known) else None if len(known) < len(held) else False

    def settle(self) -> None:
        for driver in self.drivers:
            driver.settle()

    def longest_packet_bytes(self, ip: Literal[4, 6]) -> int | None:
        found = (driver.longest_packet_bytes(ip) for driver in self.drivers)
        return min((length for length in found if length is not None), default=None)

    def apply(self, site: Site, rules: RuleSetup) -> None:
        for n, link in enumerate(self._links):
            link.driver.apply(link.site, rules if n == self.ruled else RuleSetup(both_ways=rules.both_ways))

    def counters(self) -> Mapping[str, int]:
        """The devices' own, after ``hop1_`` and so on; and those of the ports between them."""
        found: dict[str, int] = {}
        for n, link in enumerate(self._links, start=1):
            found |= {f"hop{n}_{name}": count for name, count in link.driver.counters().items()}
        for meter in self._meters:
            found |= meter.read()
        return found

    def events(self) -> int:
        return sum(driver.events() for driver in self.drivers)

    def facts(self) -> Mapping[str, object]:
        found: dict[str, object] = {}
        for n, driver in enumerate(self.drivers, start=1):
            found |= {f"hop{n}": driver.name, **{f"hop{n}_{k}": v for k, v in driver.facts().items()}}
        return {
            "layout": f"{len(self.drivers)} devices in a row on one CPU, each in namespaces of its own; "
            f"rules in the device {self.ruled + 1}, {self.drivers[self.ruled].name}",
            "rules_hop": self.ruled + 1,
            **found,
        }

    def _placed(self, site: Site, far: str) -> Iterator[ChainLink]:
        last = len(self.drivers) - 1
        for n, driver in enumerate(self.drivers):
            letter = string.ascii_lowercase[n]
            inner = site.netns if n == 0 else site.further(f"hop{letter}")
            outer = inner
            if driver.gateways == 2:
                outer = far if n == last else site.further(f"hop{letter}far")
            elif n == last:
                inner = outer = far
            before = cable(n - 1).networks if n else ()
            behind = cable(n).networks if n < last else ()
            if self.translates:
                # Packets may come from the outer address of any device before this one.
                before = (*(net for number in range(n) for net in cable(number).networks), *OUTSIDE)
            yield ChainLink(
                driver,
                replace(
                    site,
                    netns=inner,
                    far=outer if driver.gateways == 2 else None,
                    inward=site.inward if n == 0 else cable(n - 1).far,
                    outward=site.outward if n == last else cable(n).near,
                    sender=self._neighbour(n, -1, site.sender),
                    receiver=self._neighbour(n, 1, site.receiver),
                    hosts=((*site.hosts[0], *before), (*site.hosts[1], *behind)),
                    prefix=letter,
                ),
                outer,
            )

    def _neighbour(self, n: int, step: Literal[-1, 1], end: Port) -> Port:
        """The next port with an address on one side of device ``n``; frames for it pass bridges unchanged."""
        other = n + step
        while 0 <= other < len(self.drivers) and self.drivers[other].bridges:
            other += step
        if not 0 <= other < len(self.drivers):
            return end
        return cable(other - 1).far if step > 0 else cable(other).near

    def _bring_up(self, link: ChainLink, site: Site) -> None:
        """Set the ports of a device up that are not the lab's, with its routes."""
        place = link.site
        sides = (
            (place.netns, place.inward, place.sender, (*wiring.SENDERS, *place.hosts[0]), site.inward),
            (link.outer, place.outward, place.receiver, (*wiring.RECEIVERS, *place.hosts[1]), site.outward),
        )
        for netns, port, neighbour, networks, labs in sides:
            own = {port.ipv4, port.ipv6}
            reached = [network for network in networks if not _contains(network, own)]
            if port == labs:
                # The lab has brought it up, with its own routes.
                continue
            if link.driver.bridges:
                reached, port = [], replace(port, ipv4="", ipv6="")
            routes = wiring.behind(neighbour, port, reached)
            # Gateways of strongSwan need an address of their own in the networks that they join.
            inside = wiring.TX0 if labs == site.inward else wiring.RX0
            further = _beside(inside, _FIRST_HOST + self._links.index(link)) if place.far else ()
            Namespace(netns).call(partial(_bring_up_port, port, routes, further))

    def _meter(self, netns: str, names: Mapping[str, str]) -> None:
        meter = InterfaceCounters(Namespace(netns), names)
        self._opened.callback(meter.close)
        self._meters.append(meter)


def _bring_up_port(port: Port, routes: Sequence[IpRoute], further: Sequence[str]) -> None:
    interface.set_offloads(port.name, gro=False)
    interface.bring_up([port], routes)
    with IPRoute() as netlink:
        for address in further:
            index = interface.index_of(netlink, port.name)
            interface.add_address(netlink, index, address, 128 if ":" in address else 32)


def _beside(port: Port, host: int) -> tuple[str, str]:
    """The addresses with this host number in the networks of ``port``."""
    return (str(ip_interface(port.ipv4).network[host]), str(ip_interface(port.ipv6).network[host]))


def _contains(network: str, addresses: Iterable[str]) -> bool:
    """Whether one of the addresses, each with a prefix length or empty, is in the network."""
    return any(ip_interface(address).ip in ip_network(network) for address in addresses if address)
