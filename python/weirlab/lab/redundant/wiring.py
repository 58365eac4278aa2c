"""How the redundant pair is wired up.

::

                        lan (router and switch)          wan (router and switch)
    sender   tx0 ────── in0  br0 ── a0 ── lan0  a  wan0 ── a0 ── br0  out0 ────── rx0   receiver
                             .1  └─ b0 ── lan0  b  wan0 ── b0 ─┘  .1
                        192.0.2.0/24    sync0 │ sync0     203.0.113.0/24
                                      198.51.100.0/24

The virtual addresses, 192.0.2.254 and 203.0.113.254, are the gateways of the edge routers
``lan`` and ``wan``: a neighbour table and a bridge of this kernel follow the pair from one
firewall to the other, while the engine's frames go to the edge routers' fixed addresses.
Router and switch of a side share a namespace, which saves a hop.

Packets enter where the engine hands them over, ``in0`` and ``out0``: kernel threads bound
to the device's CPU take them in. All hops behind follow on that CPU by the backlog
(``netif_rx``), without rings of their own: those hold 256 packets and overflow when their
threads take turns. Only IPv4 passes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyroute2 import IPRoute

from weirlab.lab import clean
from weirlab.lab import wiring as single
from weirlab.lab.linux import interface, napi
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.redundant.terms import FIREWALLS, SIDES, Firewall, Side

PARTS: Final = ("tx", "lan", "fwa", "fwb", "wan", "rx")

SYNC_LINK: Final = "sync0"
"""The firewalls' interfaces on the cable that joins them."""

LINK_GROUP: Final = 119
"""Of a firewall's interfaces, so that one command sets all of them down."""

PREFIX_LENGTH: Final = 24

_PREFIX: Final = {"lan": "192.0.2", "wan": "203.0.113", "sync": "198.51.100"}
"""Networks for documentation (RFC 5737)."""

_HOST: Final[dict[Firewall, int]] = {"a": 2, "b": 3}
_BRIDGE: Final = "br0"
_BRIDGE_MAC: Final[dict[Side, str]] = {"lan": "02:77:65:69:72:10", "wan": "02:77:65:69:72:20"}

_FIREWALL: Final = {**single.ROUTER, **single.WITHOUT_IPV6}
_EDGE: Final = {**_FIREWALL, **single.SWITCH}


@dataclass(frozen=True)
class Network:
    """The network between an edge router and the pair."""

    side: Side
    end: str
    """Part that sends and receives on this side."""
    port: Port
    entry: Port
    """The edge router's interface towards ``port``."""
    beyond: tuple[str, ...]
    """Networks behind the pair."""
    behind: tuple[str, ...]
    """Networks on this side."""

    @property
    def router(self) -> str:
        return f"{_PREFIX[self.side]}.1"

    @property
    def virtual(self) -> str:
        """The address that the two firewalls share."""
        return f"{_PREFIX[self.side]}.254"

    @property
    def link(self) -> str:
        """Interface of the firewalls in this network."""
        return f"{self.side}0"

    def address(self, firewall: Firewall) -> str:
        """The firewall's own."""
        return f"{_PREFIX[self.side]}.{_HOST[firewall]}"


_SENDERS: Final = single.SENDERS[:1]
_RECEIVERS: Final = single.RECEIVERS[:1]

NETWORKS: Final[dict[Side, Network]] = {
    "lan": Network("lan", "tx", single.TX0, single.IN0, _RECEIVERS, _SENDERS),
    "wan": Network("wan", "rx", single.RX0, single.OUT0, _SENDERS, _RECEIVERS),
}

LINKS: Final = (*(network.link for network in NETWORKS.values()), SYNC_LINK)
"""Interfaces of each firewall."""


def sync_address(firewall: Firewall) -> str:
    """Of a firewall on the cable that joins the two."""
    return f"{_PREFIX['sync']}.{_HOST[firewall]}"


def part(firewall: Firewall) -> str:
    """Which part plays ``firewall``."""
    return f"fw{firewall}"


def build(netns: Mapping[str, Namespace], cpu: int) -> list[int]:
    """Make all namespaces and wire them up; the firewalls have no rules and no virtual addresses yet.

    ``cpu`` does the receive work of all parts. Returns the process numbers of the kernel
    threads that it begins in.
    """
    for name in PARTS:
        netns[name].create()
    for name, values in {
        **dict.fromkeys(("tx", "rx"), single.QUIET),
        **dict.fromkeys(("lan", "wan"), _EDGE),
        **dict.fromkeys(("fwa", "fwb"), _FIREWALL),
    }.items():
        netns[name].call(partial(write_sysctls, values))

    for side, network in NETWORKS.items():
        netns[side].call(partial(make_bridge, side))
        with single.descriptor(netns[side]) as fd:
            netns[network.end].call(partial(single.make_end, network.port, network.entry, fd))
        for firewall in FIREWALLS:
            with single.descriptor(netns[part(firewall)]) as fd:
                port = f"{firewall}0"
                netns[side].call(partial(_make_cable, port, network.link, fd, _BRIDGE))
    with single.descriptor(netns[part("b")]) as fd:
        netns[part("a")].call(partial(_make_cable, SYNC_LINK, SYNC_LINK, fd))
    for firewall in FIREWALLS:
        netns[part(firewall)].call(partial(_bring_up_firewall, firewall))

    with clean.alone():
        before = {side: napi.threads(network.entry.name) for side, network in NETWORKS.items()}
        for side, network in NETWORKS.items():
            netns[side].call(partial(_bring_up_edge, network))
        threads = [napi.pin(NETWORKS[side].entry.name, before[side], cpu) for side in SIDES]

    for network, networks in zip(NETWORKS.values(), (single.RECEIVERS, single.SENDERS), strict=True):
        routes = single.behind(network.entry, network.port, networks)
        netns[network.end].call(partial(interface.bring_up, [network.port], routes))
    return threads


def forget_past() -> None:
    """Take away the daemons' addresses and interfaces, which a firewall loses with its power.

    Call inside its namespace.
    """
    virtual = {network.virtual for network in NETWORKS.values()}
    with IPRoute() as netlink:
        for link in netlink.get_links():
            info = link.get_attr("IFLA_LINKINFO")
            if info is not None and info.get_attr("IFLA_INFO_KIND") == "macvlan":
                netlink.link("del", index=link["index"])
        for address in netlink.get_addr():
            if (ip := address.get_attr("IFA_LOCAL")) in virtual:
                netlink.addr("del", index=address["index"], address=ip, prefixlen=address["prefixlen"])


def plug_in() -> None:
    """Set the links of a firewall up and enter its routes, which go when a link goes down.

    Call inside its namespace.
    """
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        for name in LINKS:
            netlink.link("set", index=interface.index_of(netlink, name), state="up")
        for network in NETWORKS.values():
            index = interface.index_of(netlink, network.link)
            interface.add_neighbour(netlink, network.router, _BRIDGE_MAC[network.side], index)
            for behind in network.behind:
                netlink.route("replace", dst=behind, gateway=network.router, oif=index)


def make_bridge(side: Side) -> None:
    """Make the switch of a side. Call inside its namespace."""
    with IPRoute() as netlink:
        interface.create_bridge(netlink, _BRIDGE, single.MTU_BYTES, _BRIDGE_MAC[side])


def _make_cable(here: str, there: str, there_fd: int, bridge: str | None = None) -> None:
    """From ``here``, a port of ``bridge`` if there is one, to the namespace behind ``there_fd``."""
    with IPRoute() as netlink:
        netlink.link(
            "add",
            ifname=here,
            kind="veth",
            mtu=single.MTU_BYTES,
            peer={"ifname": there, "mtu": single.MTU_BYTES, "net_ns_fd": there_fd},
        )
        interface.set_offloads(here, gro=False)
        if bridge is not None:
            index = interface.index_of(netlink, here)
            netlink.link("set", index=index, master=interface.index_of(netlink, bridge), state="up")


def _bring_up_firewall(firewall: Firewall) -> None:
    addresses = {network.link: network.address(firewall) for network in NETWORKS.values()}
    with IPRoute() as netlink:
        for name, address in {**addresses, SYNC_LINK: sync_address(firewall)}.items():
            interface.set_offloads(name, gro=False)
            index = interface.index_of(netlink, name)
            netlink.link("set", index=index, group=LINK_GROUP)
            netlink.addr("add", index=index, address=address, prefixlen=PREFIX_LENGTH)
    plug_in()


def _bring_up_edge(network: Network) -> None:
    entry = network.entry
    interface.set_offloads(entry.name, gro=True)
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        bridge, index = (interface.index_of(netlink, name) for name in (_BRIDGE, entry.name))
        netlink.addr("add", index=bridge, address=network.router, prefixlen=PREFIX_LENGTH)
        address, _, length = entry.ipv4.partition("/")
        netlink.addr("add", index=index, address=address, prefixlen=int(length))
        for number in (bridge, index):
            netlink.link("set", index=number, state="up")
        gateway = network.port.address
        interface.add_neighbour(netlink, gateway, network.port.mac, index)
        for behind in network.behind:
            netlink.route("add", dst=behind, gateway=gateway, oif=index)
        for beyond in network.beyond:
            netlink.route("add", dst=beyond, gateway=network.virtual, oif=bridge)
    single.thread_receiving((entry,))
