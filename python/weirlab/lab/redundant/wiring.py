"""How the two firewalls of a redundant pair are connected, between two edge routers.

::

         lan (router and switch)            wan (router and switch)
                br0 ── a0 ── lan0  a  wan0 ── a0 ── br0
                .1  └─ b0 ── lan0  b  wan0 ── b0 ─┘  .1
            100.64.1.0/24      sync0 │ sync0      100.64.2.0/24
                                100.64.3.0/24

The virtual addresses, 100.64.1.254 and 100.64.2.254, are the gateways of the edge routers
``lan`` and ``wan``: a neighbour table and a bridge of this kernel follow the pair from one
firewall to the other. Router and switch of a side share a namespace, which saves a hop.

Hops receive packets through the backlog (``netif_rx``), on the CPU of the previous hop, without rings: these
hold 256 packets and would overflow when their threads take turns. Only IPv4 passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from pyroute2 import IPRoute

from weirlab.lab import wiring as single
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace, write_sysctls
from weirlab.lab.redundant.base import FIREWALLS, SIDES, AddressProtocol, Firewall, Side

Behind = Mapping[Side, Sequence[str]]
"""Networks behind the edge router of each side."""

BRIDGE: Final = "br0"

SYNC_LINK: Final = "sync0"
"""The firewalls' interfaces on the cable between them."""

LINK_GROUP: Final = 119
"""Group of a firewall's interfaces, so that one command sets all of them down."""

PREFIX_LENGTH: Final = 24

_PREFIX: Final = {"lan": "100.64.1", "wan": "100.64.2", "sync": "100.64.3"}
"""From the shared address space (RFC 6598), which no host of test traffic or of a plan uses."""

_HOST: Final[dict[Firewall, int]] = {"a": 2, "b": 3}
_BRIDGE_MAC: Final[dict[Side, str]] = {"lan": "02:77:65:69:72:10", "wan": "02:77:65:69:72:20"}
_OTHER: Final[dict[Side, Side]] = {"lan": "wan", "wan": "lan"}

IPV4_ROUTER: Final = {**single.ROUTER, **single.WITHOUT_IPV6}

STATE_TIMEOUTS: Final = {
    # A silent stream must not lose its state during a trial, and neither must a replica.
    "net/netfilter/nf_conntrack_udp_timeout": 3600,
    "net/netfilter/nf_conntrack_udp_timeout_stream": 3600,
}

ADMIT: Final = "add rule ip weir admission accept\n"
REFUSE: Final = "flush chain ip weir admission\n"


@dataclass(frozen=True)
class EdgeNetwork:
    """The network between an edge router and the pair."""

    side: Side

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
        """The firewall's own address."""
        return f"{_PREFIX[self.side]}.{_HOST[firewall]}"


NETWORKS: Final[dict[Side, EdgeNetwork]] = {side: EdgeNetwork(side) for side in SIDES}

LINKS: Final = (*(network.link for network in NETWORKS.values()), SYNC_LINK)
"""Interfaces of each firewall."""


def sync_address(firewall: Firewall) -> str:
    """Address of a firewall on the cable that joins the two."""
    return f"{_PREFIX['sync']}.{_HOST[firewall]}"


ADDRESSES: Final = frozenset(
    {
        *(each.router for each in NETWORKS.values()),
        *(each.virtual for each in NETWORKS.values()),
        *(each.address(firewall) for each in NETWORKS.values() for firewall in FIREWALLS),
        *map(sync_address, FIREWALLS),
    }
)
"""All addresses that the edge routers and the firewalls have towards each other."""


def build(
    edges: Mapping[Side, Namespace],
    firewalls: Mapping[Firewall, Namespace],
    behind: Behind,
    bridge: str = BRIDGE,
    mtu_bytes: int = single.MTU_BYTES,
) -> None:
    """Make the firewalls and connect them to each other and to a ``bridge`` in each edge router.

    The edge routers exist and have routes to what is ``behind`` them. The firewalls have no rules and no
    virtual addresses yet.
    """
    for firewall in FIREWALLS:
        firewalls[firewall].create()
        firewalls[firewall].call(partial(write_sysctls, IPV4_ROUTER))
    for side, network in NETWORKS.items():
        edges[side].call(partial(write_sysctls, single.SWITCH))
        edges[side].call(partial(_make_edge, side, behind[_OTHER[side]], bridge, mtu_bytes))
        for firewall in FIREWALLS:
            with firewalls[firewall].descriptor() as fd:
                port = f"{firewall}0"
                edges[side].call(partial(_make_cable, port, network.link, fd, mtu_bytes, bridge))
    with firewalls["b"].descriptor() as fd:
        firewalls["a"].call(partial(_make_cable, SYNC_LINK, SYNC_LINK, fd, mtu_bytes))
    for firewall in FIREWALLS:
        firewalls[firewall].call(partial(_bring_up_firewall, firewall, behind))


def forget_past() -> None:
    """Remove the daemons' addresses and interfaces, which a firewall loses with its power.

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


def plug_in(behind: Behind) -> None:
    """Set the links of a firewall up and add its routes, which are lost when a link goes down.

    Call inside its namespace.
    """
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        for name in LINKS:
            netlink.link("set", index=interface.index_of(netlink, name), state="up")
        for network in NETWORKS.values():
            index = interface.index_of(netlink, network.link)
            interface.add_neighbour(netlink, network.router, _BRIDGE_MAC[network.side], index)
            for beyond in behind[network.side]:
                netlink.route("replace", dst=beyond, gateway=network.router, oif=index)


def make_bridge(side: Side, name: str = BRIDGE, mtu_bytes: int = single.MTU_BYTES) -> None:
    """Make the switch of a side. Call inside its namespace."""
    with IPRoute() as netlink:
        interface.create_bridge(netlink, name, mtu_bytes, _BRIDGE_MAC[side])


def _make_edge(side: Side, beyond: Sequence[str], bridge: str, mtu_bytes: int) -> None:
    """Make the switch of a side, and have its router send to networks ``beyond`` through the pair."""
    make_bridge(side, bridge, mtu_bytes)
    network = NETWORKS[side]
    with IPRoute() as netlink:
        index = interface.index_of(netlink, bridge)
        netlink.addr("add", index=index, address=network.router, prefixlen=PREFIX_LENGTH)
        netlink.link("set", index=index, state="up")
        for each in beyond:
            netlink.route("add", dst=each, gateway=network.virtual, oif=index)


def _make_cable(here: str, there: str, there_fd: int, mtu_bytes: int, bridge: str | None = None) -> None:
    """Make a cable from ``here``, a port of ``bridge`` if given, to the namespace behind ``there_fd``."""
    with IPRoute() as netlink:
        netlink.link(
            "add",
            ifname=here,
            kind="veth",
            mtu=mtu_bytes,
            peer={"ifname": there, "mtu": mtu_bytes, "net_ns_fd": there_fd},
        )
        interface.set_offloads(here, gro=False)
        if bridge is not None:
            index = interface.index_of(netlink, here)
            netlink.link("set", index=index, master=interface.index_of(netlink, bridge), state="up")


def _bring_up_firewall(firewall: Firewall, behind: Behind) -> None:
    addresses = {network.link: network.address(firewall) for network in NETWORKS.values()}
    with IPRoute() as netlink:
        for name, address in {**addresses, SYNC_LINK: sync_address(firewall)}.items():
            interface.set_offloads(name, gro=False)
            index = interface.index_of(netlink, name)
            netlink.link("set", index=index, group=LINK_GROUP)
            netlink.addr("add", index=index, address=address, prefixlen=PREFIX_LENGTH)
    plug_in(behind)


def pair_rules(
    protocol: AddressProtocol, translated: str | None = None, admits: Sequence[Side] = ("lan",)
) -> str:
    """The ruleset in nft syntax.

    ``translated`` is a network whose calls get the virtual address of the WAN side. Calls may begin on the
    sides in ``admits``.
    """
    sources = ", ".join(f'"{link}"' for side in admits for link in protocol.links(side))
    lines = [
        "table ip weir {",
        "  chain admission {",
        "  }",
        "  chain forward {",
        "    type filter hook forward priority filter; policy drop;",
        # Known calls. "established" would leave out those in which only one side has spoken.
        "    ct status confirmed accept",
        "    ct state invalid drop",
        f"    iifname {{ {sources} }} jump admission",
        "  }",
        # Only forwarded traffic gets a state: the pair's own messages belong to no call.
        "  chain own {",
        "    type filter hook output priority raw; policy accept;",
        "    notrack",
        "  }",
        "  chain arriving {",
        "    type filter hook prerouting priority raw; policy accept;",
        f'    iifname "{SYNC_LINK}" notrack',
        "    ip daddr 224.0.0.0/4 notrack",
        "  }",
    ]
    if translated is not None:
        wan = NETWORKS["wan"]
        links = ", ".join(f'"{link}"' for link in protocol.links("wan"))
        lines += [
            "  chain translate {",
            "    type nat hook postrouting priority srcnat; policy accept;",
            f"    ip saddr {translated} oifname {{ {links} }} snat to {wan.virtual}",
            "  }",
        ]
    return "\n".join([*lines, "}"]) + "\n"
