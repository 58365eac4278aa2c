"""How a port of the tester answers for the hosts behind it, and finds the device's address (ARP, ND).

Call these inside the namespace that the port was moved to.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv6Address
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import LabError
from weirlab.base.interrupts import interruptible
from weirlab.lab.linux.interface import add_address, add_neighbour, index_of

_LOCAL_TABLE: Final = 255
_MAIN_TABLE: Final = 254
_LOCAL_PRIORITY: Final = 10
_DROP_PRIORITY: Final = 1
_TRANSPORTS: Final = (socket.IPPROTO_UDP, socket.IPPROTO_TCP)
_USE: Final = 0x01
"""NTF_USE of linux/neighbour.h: resolve it now."""
_RESOLVED: Final = 0x02 | 0x04 | 0x08 | 0x10 | 0x80
"""NUD_REACHABLE, STALE, DELAY, PROBE and PERMANENT."""
_POLL_S: Final = 0.02
_ARP: Final = 0x0806
_BROADCAST: Final = b"\xff" * 6


def ignore_transport() -> None:
    """Drop UDP and TCP packets silently, so that test packets which reach the kernel (packet sockets do not
    take them away from it) are not answered with ICMP errors or resets. ARP, ND and ICMP go on."""
    with IPRoute() as netlink:
        for family in (socket.AF_INET, socket.AF_INET6):
            # The rule for local addresses comes first otherwise. Kernels without rules keep their answers.
            with suppress(NetlinkError):
                netlink.rule("add", family=family, table=_LOCAL_TABLE, priority=_LOCAL_PRIORITY)
                for protocol in _TRANSPORTS:
                    netlink.rule(
                        "add",
                        family=family,
                        priority=_DROP_PRIORITY,
                        action="FR_ACT_BLACKHOLE",
                        ip_proto=protocol,
                    )
                netlink.rule("del", family=family, table=_LOCAL_TABLE, priority=0)


def link_local(mac: str) -> str:
    """The link-local address of an interface, the source of neighbour solicitations (RFC 4291, app. A)."""
    octets = bytes.fromhex(mac.replace(":", ""))
    host = bytes([octets[0] ^ 2]) + octets[1:3] + b"\xff\xfe" + octets[3:]
    return f"{IPv6Address(bytes([0xFE, 0x80]) + bytes(6) + host)}/64"


def set_up(name: str) -> None:
    """Set the port up, without an address."""
    with IPRoute() as netlink:
        netlink.link("set", index=index_of(netlink, name), state="up")


def carrier_changes(name: str) -> int:
    """How often the link of the port has come or gone; raises ``LabError`` if the port is gone."""
    with IPRoute() as netlink:
        if not (found := netlink.link_lookup(ifname=name)):
            raise LabError(
                f"{name} is gone: it was unplugged or removed, or its driver was unloaded; weir ports lists "
                "what is there"
            )
        (link,) = netlink.get_links(found[0])
        return int(link.get_attr("IFLA_CARRIER_CHANGES") or 0)


@interruptible
def pause(length_s: float) -> None:
    """Give the device time."""
    time.sleep(length_s)


def configure(name: str, addresses: Iterable[str], gateways: Iterable[str], hosts: Iterable[str]) -> None:
    """Give the port its addresses.

    ``hosts`` are IPv4 networks of hosts that the tester plays: the kernel answers ARP for them.
    """
    with IPRoute() as netlink:
        index = index_of(netlink, name)
        netlink.link("set", index=1, state="up")
        for address in addresses:
            ip, _, length = address.partition("/")
            add_address(netlink, index, ip, int(length))
        for gateway in gateways:
            netlink.route("replace", dst=f"{gateway}/{128 if ':' in gateway else 32}", oif=index)
        for network in hosts:
            # In the main table, where the gateway's own route is more specific.
            netlink.route("add", dst=network, oif=index, type="local", table=_MAIN_TABLE, scope=254)


def carrier(name: str, wait_s: float) -> bool:
    """Whether the port has a link, which may take the time of an auto-negotiation."""
    with IPRoute() as netlink:
        index = index_of(netlink, name)
        return bool(_until(lambda: netlink.get_links(index)[0].get_attr("IFLA_CARRIER"), wait_s))


def resolve(name: str, address: str, wait_s: float) -> str | None:
    """The MAC address of the neighbour with this address; None if nobody answers. It is then kept for good,
    so that no address resolution disturbs a trial."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with IPRoute() as netlink:
        index = index_of(netlink, name)
        netlink.neigh("replace", dst=address, ifindex=index, family=family, flags=_USE, state=0)

        def answer() -> str | None:
            for entry in netlink.get_neighbours(family=family, ifindex=index):
                if entry.get_attr("NDA_DST") == address and entry["state"] & _RESOLVED:
                    return str(entry.get_attr("NDA_LLADDR"))
            return None

        mac = _until(answer, wait_s)
        if mac:
            add_neighbour(netlink, address, mac, index)
        return mac or None


def announce(name: str, mac: bytes, address: str) -> None:
    """Tell switches and hosts where this address is: one ARP announcement (RFC 5227)."""
    ip = socket.inet_aton(address)
    arp = struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, 1, mac, ip, bytes(6), ip)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind((name, 0))
        raw.send((_BROADCAST + mac + struct.pack("!H", _ARP) + arp).ljust(60, b"\0"))


@interruptible
def _until(question: Any, wait_s: float) -> Any:
    """The first true answer, or the last one."""
    end_s = time.monotonic() + wait_s
    while not (found := question()) and time.monotonic() < end_s:
        time.sleep(_POLL_S)
    return found
