"""How the redundant pair is wired up with sender and receiver.

::

    sender           router and switch           pair           router and switch          receiver
    tx0 ──────────── in0    lan    br0 ═════════ a, b ═════════ br0    wan    out0 ──────────── rx0

The engine's frames go to the edge routers' fixed addresses. Packets enter where it hands them over, ``in0``
and ``out0``: kernel threads bound to the device's CPU take them in. What is between the routers is told in
:mod:`weirlab.lab.redundant.wiring`.
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
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.terms import FIREWALLS, SIDES, Firewall, Side

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
        with single.descriptor(netns[side]) as fd:
            netns[edge.end].call(partial(single.make_end, edge.port, edge.entry, fd))
    wiring.build({side: netns[side] for side in SIDES}, firewalls(netns), BEHIND)

    with clean.alone():
        before = {side: napi.threads(edge.entry.name) for side, edge in EDGES.items()}
        for side in SIDES:
            netns[side].call(partial(_bring_up_edge, side))
        threads = [napi.pin(EDGES[side].entry.name, before[side], cpu) for side in SIDES]

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
