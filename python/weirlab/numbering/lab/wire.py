"""One switch, and a host for every address of a plan: namespaces, each with a cable.

All hosts are neighbours, regardless of the networks of their addresses: each has only its own address, and
treats every other one as on-link. Routing between networks is not part of a numbering plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from ipaddress import ip_address
from typing import Any, Final

from pyroute2 import IPRoute

from weirlab.lab import wiring
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace, write_sysctls

MTU_BYTES: Final = 9000
"""Even a SIP message with all its routes is not fragmented, unless by a device."""

BRIDGE: Final = "br0"
LINK: Final = "eth0"
_SWITCH: Final = {
    **wiring.QUIET,
    # Firewalls must not filter what a switch forwards; some hosts let them, for containers.
    "net/bridge/bridge-nf-call-iptables": 0,
    "net/bridge/bridge-nf-call-ip6tables": 0,
    "net/bridge/bridge-nf-call-arptables": 0,
}


_HOST: Final = {
    **wiring.QUIET,
    # A connection to a host that is cut off fails after 3 s: as long as Kamailio waits for an answer by UDP.
    "net/ipv4/tcp_syn_retries": 1,
}


def parts(count: int) -> list[str]:
    """Names of ``count`` hosts: ``ha``, ``hb``, ... ``haa``; names of a lab's parts have only letters."""
    return [f"h{_letters(number)}" for number in range(count)]


def _letters(number: int) -> str:
    rest, last = divmod(number, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("a") + last)


def port(number: int) -> str:
    """The switch's port to the host with that number."""
    return f"p{number}"


def build(switch: Namespace, hosts: Mapping[str, Namespace]) -> None:
    """Make the switch and the ``hosts``, by address, and wire them up."""
    switch.create()
    switch.call(partial(write_sysctls, _SWITCH))
    switch.call(_make_bridge)
    for number, (address, host) in enumerate(hosts.items()):
        host.create()
        host.call(partial(write_sysctls, _HOST))
        with wiring.descriptor(host) as fd:
            switch.call(partial(_make_cable, number, fd))
        host.call(partial(_bring_up, address, [*hosts]))


def set_link(number: int, *, up: bool) -> None:
    """Set the switch's port to a host up or down. Call inside the switch."""
    with IPRoute() as netlink:
        netlink.link("set", index=interface.index_of(netlink, port(number)), state="up" if up else "down")


def _make_bridge() -> None:
    with IPRoute() as netlink:
        make_bridge(netlink, BRIDGE)


def make_bridge(netlink: Any, name: str) -> None:
    """Make a bridge and set it up."""
    # Without spanning tree, ports forward at once.
    netlink.link("add", ifname=name, kind="bridge", br_stp_state=0, br_mcast_snooping=0)
    netlink.link("set", index=interface.index_of(netlink, name), mtu=MTU_BYTES, state="up")


def _make_cable(number: int, there_fd: int) -> None:
    name = port(number)
    with IPRoute() as netlink:
        peer = {"ifname": LINK, "address": mac(number), "mtu": MTU_BYTES, "net_ns_fd": there_fd}
        netlink.link("add", ifname=name, kind="veth", mtu=MTU_BYTES, peer=peer)
        interface.set_offloads(name, gro=False)
        netlink.link(
            "set",
            index=interface.index_of(netlink, name),
            master=interface.index_of(netlink, BRIDGE),
            state="up",
        )


def mac(number: int) -> str:
    """The MAC address of the host with that number."""
    return f"02:77:65:69:{number >> 8:02x}:{number & 0xFF:02x}"


def _bring_up(address: str, everybody: Sequence[str]) -> None:
    """Give the host its address, and permanent neighbour entries for all others.

    Calls to a host that is cut off are then sent and can be seen, and no resolution delays a first call.
    """
    interface.set_offloads(LINK, gro=False)
    six = ip_address(address).version == 6
    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")
        index = interface.index_of(netlink, LINK)
        interface.add_address(netlink, index, address, 128 if six else 32)
        netlink.link("set", index=index, state="up")
        netlink.route("add", dst="::/0" if six else "0.0.0.0/0", oif=index, scope=0 if six else 253)
        for number, neighbour in enumerate(everybody):
            if neighbour != address and (":" in neighbour) == six:
                interface.add_neighbour(netlink, neighbour, mac(number), index)


def bound(port_number: int, transport: str = "udp") -> bool:
    """Does a program listen for datagrams or connections at this port? Call inside the host."""
    return port_number in _ports(_tables(transport))


def _tables(transport: str) -> Iterator[str]:
    for name in (transport, f"{transport}6"):
        # /proc/net is that of the process, not of the thread.
        with open(f"/proc/thread-self/net/{name}") as table:
            yield from table.readlines()[1:]


def _ports(lines: Sequence[str] | Iterator[str]) -> set[int]:
    """The local ports of lines of ``/proc/net/udp`` or ``tcp`` that have no peer."""
    columns = (line.split() for line in lines)
    return {int(column[1].rpartition(":")[2], 16) for column in columns if not column[2].strip("0:")}
