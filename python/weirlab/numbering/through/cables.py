"""The cables of the device: the caller's port is on a separate bridge, and the device joins the two.

::

    caller ── port ─ bridge ─ dev0 ══ in0  device  out0 ══ dev1 ─ bridge ─ ports ── everybody else

Everything that the caller sends or receives passes the device: its bridge has no other exit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyroute2 import IPRoute

from weirlab.lab import wiring
from weirlab.lab.linux import interface
from weirlab.numbering.lab import wire

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
            wire.make_bridge(netlink, _ASIDE)
        for name, port, fd, bridge in (
            (NEAR, wiring.IN0, near_fd, _ASIDE),
            (_FAR, wiring.OUT0, far_fd, wire.BRIDGE),
        ):
            peer = {"ifname": port.name, "address": port.mac, "mtu": wire.MTU_BYTES, "net_ns_fd": fd}
            netlink.link("add", ifname=name, kind="veth", mtu=wire.MTU_BYTES, peer=peer)
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
    _set_master(number, _ASIDE if aside else wire.BRIDGE)


def _set_master(number: int, bridge: str | None) -> None:
    with IPRoute() as netlink:
        master = 0 if bridge is None else interface.index_of(netlink, bridge)
        netlink.link("set", index=interface.index_of(netlink, wire.port(number)), master=master)


def know(neighbours: Mapping[str, str]) -> None:
    """Set a host's neighbour entries for these addresses. Call inside the host."""
    with IPRoute() as netlink:
        index = interface.index_of(netlink, wire.LINK)
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
