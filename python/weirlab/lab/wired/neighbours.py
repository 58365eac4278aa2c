"""How a port answers for the hosts behind it and finds the device, and what speaks against that device.

Call these inside the namespace that the port was moved to.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from ipaddress import IPv6Address
from typing import Any, Final, Literal

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import LabError
from weirlab.base.interrupts import interruptible
from weirlab.lab.linux.interface import add_address, add_neighbour, index_of
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.wired import ends
from weirlab.lab.wired.ends import WiredSetting, endpoints
from weirlab.lab.wired.ports import PortFacts
from weirlab.records import EngineResult

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

_CHANGED: Final = 3
"""Frames that were all changed on the way; fewer may be the device's own."""
_BRIDGE_MACS: Final = 3
"""A bridge may speak for itself and for each of its two ports."""
_ALLOWED_STRAYS: Final = 20
_STRAYS: Final = 0.1
"""Foreign frames, as a share of those sent, that the ramp accepts."""


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


def refuse_strangers(spaces: Sequence[Namespace], ports: Sequence[PortFacts], setting: WiredSetting) -> None:
    """Raise ``LabError`` if somebody else than the device is at one of ``ports``, each in its namespace."""
    with ExitStack() as opened:
        sockets = {
            port.name: opened.enter_context(space.call(partial(ends.open_socket, port.name)))
            for space, port in zip(spaces, ports, strict=True)
        }
        found = ends.listen(sockets, setting.listen_s)
    own = [port.mac for port in ports]
    of_device = _BRIDGE_MACS if setting.mode == "bridge" else 1
    for name, heard in found.items():
        if objection := heard.objection(own, of_device):
            raise LabError(
                f"{name}: {objection}. Test traffic belongs on cables that lead to the device alone (RFC "
                "6815); if this network is yours and carries nothing else: --shared"
            )


def refuse_copies(result: EngineResult, setting: WiredSetting, *, is_cable: bool) -> None:
    """Raise ``LabError`` if frames arrived more than once."""
    first, second = (end.port for end in setting.ends)
    if result.duplicated:
        raise LabError(
            f"{result.sent} frames sent at {first} arrived at {second} "
            f"{result.received + result.duplicated} times: there is a loop behind the ports, or the "
            f"{'cable' if is_cable else 'device'} copies frames; nothing more is sent"
        )


def refuse_strays(result: EngineResult, setting: WiredSetting, pps: float) -> None:
    """Raise ``LabError`` if others sent, too, while we sent at ``pps``, unless the network is shared."""
    if result.stray > _STRAYS * result.sent + _ALLOWED_STRAYS and not setting.shared:
        raise LabError(
            f"{result.stray} foreign frames arrived beside {result.sent} of ours at {pps:,.0f} pps: "
            "something else uses these cables, or the device mangles frames; disconnect it, or --shared"
        )


def why_no_gateway(setting: WiredSetting, side: int, version: int, *, is_swapped: bool) -> str:
    """What to check if no gateway answers at a side; ``is_swapped``: the other side's does."""
    end, other = setting.ends[side], setting.ends[1 - side]
    gateway = end.gateways[version]
    if is_swapped:
        swapped = " ".join(each.port for each in reversed(setting.ends))
        return (
            f"{other.gateways[version]} answers at {end.port}, where {gateway} should be: are the cables "
            f"swapped? Then name the ports in the other order: --between {swapped}"
        )
    return (
        f"the device does not answer at {end.port}: nobody there has the address {gateway}. Give its port "
        "that address, or name its own with --gateways; a bridge needs --mode bridge"
    )


def where_lost(setting: WiredSetting, version: Literal[4, 6], stray: int, *, is_cable: bool) -> str:
    """What to check if no frame arrives, but ``stray`` others do."""
    if stray >= _CHANGED:
        return (
            f"{stray} other frames did, so the device changes those of the test: switch off what rewrites "
            "UDP payloads, such as a proxy or a tunnel"
        )
    if is_cable:
        return "is it the same cable that is plugged into both?"
    if setting.mode == "bridge":
        return "check that the device bridges its two ports and that no filter drops the test traffic"
    to = "198.19.0.0/16" if version == 4 else "2001:2:0:2::/64"
    if (beyond := endpoints(setting.ends, version)) is not None:
        to = beyond.destination[0]
    return (
        f"the device answers on both sides, so check that it forwards, that its route to {to} leads to "
        f"{setting.ends[1].addresses[version].partition('/')[0]}, and that no filter drops UDP to port 7"
    )
