"""Puts the device, built by its driver, between the caller and everybody else.

::

    caller ── port ─ bridge ─ dev0 ══ in0  device  out0 ══ dev1 ─ bridge ─ ports ── everybody else

Everything that the caller sends or receives passes the device: its bridge has no other exit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Final, Protocol

from pyroute2 import IPRoute

from weirlab.base.errors import MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.lab import wiring
from weirlab.lab.base import Site
from weirlab.lab.clean import LabOwnership
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.inventory import InterfaceCounters
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.linux.syscalls import explained
from weirlab.numbering.lab import switch
from weirlab.numbering.lab.device import PassageDevice, PassageRow, Total, passed, total

NEAR: Final = "dev0"
_FAR: Final = "dev1"
"""The switch's ends of the cables to the device."""
_ASIDE: Final = "br1"
"""The bridge with the caller."""
_MASTER: Final = 0x04
"""NTF_MASTER of linux/neighbour.h: the entry is the bridge's."""
_BEHIND_IT: Final = 0x40
"""NUD_NOARP: the address is behind the port, for ever."""


def plug_in(near_fd: int, far_fd: int) -> None:
    """Make the cables to the device, between the two bridges. Call inside the switch."""
    with IPRoute() as netlink:
        if not netlink.link_lookup(ifname=_ASIDE):
            switch.make_bridge(netlink, _ASIDE)
        for name, port, fd, bridge in (
            (NEAR, wiring.IN0, near_fd, _ASIDE),
            (_FAR, wiring.OUT0, far_fd, switch.BRIDGE),
        ):
            peer = {"ifname": port.name, "address": port.mac, "mtu": switch.MTU_BYTES, "net_ns_fd": fd}
            netlink.link("add", ifname=name, kind="veth", mtu=switch.MTU_BYTES, peer=peer)
            interface.set_offloads(name, gro=False)
            index, master = interface.index_of(netlink, name), interface.index_of(netlink, bridge)
            netlink.link("set", index=index, master=master, state="up")
        # The device gets only frames for it, not those that the bridge floods: its ports count calls alone.
        index = interface.index_of(netlink, _FAR)
        netlink.brport("set", index=index, unicast_flood=0)
        netlink.fdb("add", ifindex=index, lladdr=wiring.OUT0.mac, flags=_MASTER, state=_BEHIND_IT)


def unplug_host(number: int) -> None:
    """Take a host's port off its bridge: nothing comes from it or to it. Call inside the switch."""
    _set_master(number, None)


def plug_host(number: int, *, aside: bool) -> None:
    """Move a host's port to the caller's bridge, or back to the bridge of the others."""
    _set_master(number, _ASIDE if aside else switch.BRIDGE)


def _set_master(number: int, bridge: str | None) -> None:
    with IPRoute() as netlink:
        master = 0 if bridge is None else interface.index_of(netlink, bridge)
        netlink.link("set", index=interface.index_of(netlink, switch.port(number)), master=master)


def know(neighbours: Mapping[str, str]) -> None:
    """Set a host's neighbour entries for these addresses. Call inside the host."""
    with IPRoute() as netlink:
        index = interface.index_of(netlink, switch.LINK)
        for address, mac in neighbours.items():
            interface.add_neighbour(netlink, address, mac, index)


def bring_up(port: interface.Port, hosts: Mapping[str, str]) -> None:
    """Set up the device's port, behind which are ``hosts``: MAC address by address."""
    interface.set_offloads(port.name, gro=False)
    routes = [
        interface.IpRoute(f"{address}/{128 if ':' in address else 32}", address, mac, port.name)
        for address, mac in hosts.items()
    ]
    interface.bring_up([port], routes)


_PATIENCE_S: Final = 5.0
"""Time for packets to get from the caller's port to the device."""
_LOOK_S: Final = 0.01
_SILENCE_S: Final = 0.05


class CallerPassage(Protocol):
    """What is between the caller and everybody else."""

    @property
    def title(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, object]: ...

    def carrying(self, address: str) -> AbstractContextManager[None]: ...

    def beside_traffic(self) -> AbstractContextManager[None]: ...

    def passed(self, index: int) -> list[PassageRow]: ...

    def close(self) -> None: ...


class DirectPassage:
    """Nothing but the switch."""

    title = ""

    @property
    def facts(self) -> Mapping[str, object]:
        return {}

    def carrying(self, address: str) -> AbstractContextManager[None]:
        return nullcontext()

    def beside_traffic(self) -> AbstractContextManager[None]:
        return nullcontext()

    def passed(self, index: int) -> list[PassageRow]:
        return []

    def close(self) -> None:
        pass


class DevicePassage:
    """A device between one host of the lab, the caller, and all others.

    Endpoints may talk to each other directly: a device between all endpoints and all engines would miss that
    speech. Beside the caller, all speech passes it, and all signalling from and to the caller. For another
    caller it is built anew: its routes never change, and nothing is in it that an earlier caller left.

    Parameters
    ----------
    hosts:
        Namespaces by address, in the order of the switch's ports.

    Raises
    ------
    MissingCapability
        The driver lacks something.
    """

    def __init__(
        self, device: PassageDevice, claim: LabOwnership, switch: Namespace, hosts: Mapping[str, Namespace]
    ) -> None:
        if missing := device.driver.check():
            raise MissingCapability(f"device {device.driver.name}: {'; '.join(missing)}")
        self.title = device.title
        self._rules, self._driver = device.rules, device.driver
        self._switch, self._hosts = switch, hosts
        parts = ("dut", "far")[: self._driver.gateways]
        self._gateways = [Namespace(claim.namespace_name(part)) for part in parts]
        self._built = ExitStack()
        self._at: str | None = None
        self._first = self._before = self._now = Total()
        self._events = 0
        """Events of the device during the last passage."""

    @property
    def facts(self) -> Mapping[str, object]:
        """The facts about the device for the manifest."""
        found = {f"dut_{name}": fact for name, fact in self._driver.facts().items()}
        return {"device": self.title, **found}

    @contextmanager
    def carrying(self, address: str) -> Iterator[None]:
        """Within the context, all packets of the host at ``address`` pass the device, which counts them.

        Raises ``LabError`` if the device cannot be built, or exits by itself.
        """
        if address == self._at:
            self._driver.settle()
        else:
            self._place(address)
        self._before = self._now
        events = self._driver.events()
        yield
        self._events = self._driver.events() - events
        self._driver.check_alive()
        self._now = self._counted()

    def beside_traffic(self) -> AbstractContextManager[None]:
        """Start the planned events of the device, and wait for their end when the context exits."""
        return self._driver.beside_traffic()

    def passed(self, index: int) -> list[PassageRow]:
        """What passed the device in the last passage, as rows of the call with that number."""
        return passed(index, self._before, self._now, self._events)

    @shielded
    def close(self) -> None:
        """End the device. May be called twice."""
        self._at = None
        self._driver.stop()
        self._built.close()

    @shielded
    def _place(self, address: str) -> None:
        self._take_away()
        number = [*self._hosts].index(address)
        others = self._neighbours(address)
        with explained("the device"):
            near, far = self._wire({address: switch.mac(number)}, others)
        # If anything fails from here, the caller must become everybody's neighbour again.
        self._at = address
        hosts = (_networks([address]), _networks(others))
        caller = _host(wiring.TX0, address, switch.mac(number))
        second = None if far is near else far.name
        cpu = max(os.sched_getaffinity(0))
        site = Site(near.name, wiring.IN0, wiring.OUT0, caller, wiring.RX0, cpu, second, hosts)
        self._driver.start(site)
        self._driver.apply(site, self._rules)
        self._switch.call(partial(unplug_host, number))
        self._meter(number, near, far)
        self._know(address, dict.fromkeys(others, wiring.IN0.mac), wiring.OUT0.mac)
        self._switch.call(partial(plug_host, number, aside=True))
        # Packets that the caller sent while it was unplugged were lost. The device's ports are read first: a
        # packet on its way from there to the caller would otherwise seem to bypass the device.
        ports = self._silent_ports()
        self._first, self._now = total(self._caller.read(), ports, Total()), Total()

    def _wire(self, here: Mapping[str, str], there: Mapping[str, str]) -> tuple[Namespace, Namespace]:
        near, far = self._gateways[0], self._gateways[-1]
        for gateway in self._gateways:
            self._built.callback(gateway.remove)
            gateway.create()
            gateway.call(partial(write_sysctls, wiring.ROUTER))
        with near.descriptor() as near_fd, far.descriptor() as far_fd:
            self._switch.call(partial(plug_in, near_fd, far_fd))
        if near is not far and self._driver.joined:
            wiring.join(near, far)
        near.call(partial(bring_up, wiring.IN0, here))
        far.call(partial(bring_up, wiring.OUT0, there))
        return near, far

    def _meter(self, number: int, near: Namespace, far: Namespace) -> None:
        self._caller = InterfaceCounters(self._switch, {"caller": switch.port(number), "near": NEAR})
        self._ports = [
            InterfaceCounters(near, {"in": wiring.IN0.name}),
            InterfaceCounters(far, {"out": wiring.OUT0.name}),
        ]
        for each in (self._caller, *self._ports):
            self._built.callback(each.close)

    def _take_away(self) -> None:
        """Let the caller be a neighbour of all others again, and end the device."""
        if (address := self._at) is None:
            return
        number = [*self._hosts].index(address)
        self._switch.call(partial(unplug_host, number))
        self._know(address, self._neighbours(address), switch.mac(number))
        self._driver.stop()
        self._built.close()
        self._switch.call(partial(plug_host, number, aside=False))
        self._at = None

    def _neighbours(self, address: str) -> dict[str, str]:
        """MAC address by address of all others; hosts of the other IP version never talk to the caller."""
        macs = {each: switch.mac(rank) for rank, each in enumerate(self._hosts)}
        return {
            each: mac for each, mac in macs.items() if each != address and (":" in each) == (":" in address)
        }

    def _know(self, address: str, others: Mapping[str, str], own: str) -> None:
        """Set the neighbour entries of the caller and of the others."""
        self._hosts[address].call(partial(know, others))
        for other in others:
            self._hosts[other].call(partial(know, {address: own}))

    def _counted(self) -> Total:
        """The counters, once everything that the caller has sent has reached the device."""
        caller = self._caller.read()
        end_s = time.monotonic() + _PATIENCE_S
        while (now := total(caller, self._at_ports(), self._first)).missed_there > self._before.missed_there:
            if time.monotonic() > end_s:
                break
            time.sleep(_LOOK_S)
        return now

    def _silent_ports(self) -> dict[str, int]:
        """The counters at the device's ports once they stand still: at its start it reports its groups."""
        until, before = time.monotonic() + _PATIENCE_S, self._at_ports()
        while True:
            time.sleep(_SILENCE_S)
            now = self._at_ports()
            if now == before or time.monotonic() > until:
                return now
            before = now

    def _at_ports(self) -> dict[str, int]:
        device: dict[str, int] = {}
        for meter in self._ports:
            device |= meter.read()
        return device


def _networks(addresses: Mapping[str, str] | list[str]) -> tuple[str, ...]:
    return tuple(f"{address}/{128 if ':' in address else 32}" for address in addresses)


def _host(port: Port, address: str, mac: str) -> Port:
    """The caller as the neighbour at the device's inward port."""
    (network,) = _networks([address])
    return Port(switch.LINK, mac, *((port.ipv4, network) if ":" in address else (network, port.ipv6)))
