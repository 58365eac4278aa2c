"""A guest between ports of the lab, and what drivers of such devices share.

Call these inside :meth:`weirlab.lab.linux.namespace.Namespace.call`.
"""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyroute2 import IPRoute

from weirlab.base.errors import InputError, MissingCapability
from weirlab.base.interrupts import shielded
from weirlab.lab import wiring
from weirlab.lab.base import Driver
from weirlab.lab.dut import tool
from weirlab.lab.linux import interface
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines import qemu
from weirlab.lab.machines.guest import Guest

_END: Final = "end of what weir writes"

_TUNSETIFF: Final = 0x400454CA
_TUNSETPERSIST: Final = 0x400454CB
_IFF_TAP: Final = 0x0002
_IFF_NO_PI: Final = 0x1000
_INGRESS: Final = 0xFFFF0000
_ALL: Final = 0x0003
"""ETH_P_ALL of linux/if_ether.h."""


@dataclass(frozen=True)
class GuestPort:
    """A port of the guest, its neighbour, and the networks reached through that neighbour."""

    port: Port
    neighbour: Port
    networks: Sequence[str]
    mtu_bytes: int = wiring.MTU_BYTES


def network_script(sides: Sequence[GuestPort]) -> str:
    """Make the guest forward between its ports; all neighbour entries are permanent."""
    return "\n".join(_network_lines(sides)) + "\n"


def write_script(path: str, text: str) -> str:
    """Write ``text`` to a file of the guest."""
    return pipe_script(["cat", f">{path}"], text)


def pipe_script(command: Sequence[str], text: str) -> str:
    """Run ``command`` with ``text`` as its standard input."""
    return f"{' '.join(command)} <<'{_END}'\n{text.rstrip()}\n{_END}\n"


def counter_script(names: Mapping[str, str]) -> str:
    """Print the files of ``names`` in order, one number per line."""
    return f"cat {' '.join(names.values())}\n"


def port_counters(ports: Mapping[str, str]) -> dict[str, str]:
    """Counter files of the guest's kernel, by role and counter, for the interfaces in ``ports``."""
    kinds = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
    return {
        f"{role}_{kind}": f"/sys/class/net/{name}/statistics/{kind}"
        for role, name in ports.items()
        for kind in kinds
    }


def _network_lines(sides: Sequence[GuestPort]) -> Iterator[str]:
    yield "set -e"
    for key, value in wiring.ROUTER.items():
        yield f"[ ! -e /proc/sys/{key} ] || echo {value} >/proc/sys/{key}"
    yield "ip link set lo up"
    for side in sides:
        port = side.port
        yield "for each in /sys/class/net/*; do"
        yield f'  [ "$(cat "$each/address")" != {port.mac} ] || ip link set "${{each##*/}}" name {port.name}'
        yield "done"
        yield f"ip link set {port.name} addrgenmode none mtu {side.mtu_bytes}"
        yield f"ip address add {port.ipv4} dev {port.name}"
        yield f"ip address add {port.ipv6} dev {port.name} nodad"
        yield f"ip link set {port.name} up"
        for address in (side.neighbour.ipv4, side.neighbour.ipv6):
            yield _known(address.partition("/")[0], side.neighbour.mac, port.name)
    for side in sides:
        for route in wiring.behind(side.neighbour, side.port, side.networks):
            yield f"ip route add {route.network} via {route.gateway} dev {route.name} onlink"


def _known(address: str, mac: str, name: str) -> str:
    return f"ip neighbour replace {address} lladdr {mac} dev {name} nud permanent"


def plug_in(port: str, tap: str, mtu_bytes: int) -> None:
    """Make ``tap`` and hand every frame that arrives at one end to the other, before the kernel processes it.

    The tap exists as long as its namespace.
    """
    _make_tap(tap)
    interface.set_offloads(tap, gro=False)
    with IPRoute() as netlink:
        ends = [interface.index_of(netlink, name) for name in (port, tap)]
        netlink.link("set", index=ends[1], mtu=mtu_bytes, state="up")
        for here, there in (ends, reversed(ends)):
            _redirect(netlink, here, there)


def _make_tap(name: str) -> None:
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _TUNSETIFF, struct.pack("16sH22x", name.encode(), _IFF_TAP | _IFF_NO_PI))
        fcntl.ioctl(fd, _TUNSETPERSIST, 1)
    finally:
        os.close(fd)


def _redirect(netlink: Any, here: int, there: int) -> None:
    netlink.tc("add", "ingress", here, _INGRESS)
    netlink.tc(
        "add-filter",
        "u32",
        here,
        parent=_INGRESS,
        prio=1,
        protocol=_ALL,
        target=0x10000,
        keys=["0x0/0x0+0"],
        action={"kind": "mirred", "direction": "egress", "action": "redirect", "ifindex": there},
    )


_TAP: Final = "vm-"
"""Prefix of the names of taps; the rest is the name of the connected port."""


def missing() -> list[str]:
    """What is missing for Weir's own guests, one sentence each."""
    found = qemu.missing()
    try:
        qemu.find()
    except MissingCapability as error:
        found.append(str(error))
    return found


def between(name: str, netns: str, cpu: int | None, sides: Sequence[GuestPort]) -> Guest:
    """Weir's own guest, not switched on yet, with the ports of ``sides`` in the namespace ``netns``."""
    nics = plugged(netns, [(side.port, side.mtu_bytes) for side in sides])
    return Guest(name, Namespace(netns), cpu, qemu.boot(qemu.find()), nics)


def plugged(netns: str, ports: Sequence[tuple[Port, int]]) -> list[qemu.Nic]:
    """Interfaces for a guest in place of ``ports`` (each with its MTU) in the namespace."""
    made = []
    for port, mtu_bytes in ports:
        nic = qemu.Nic(f"{_TAP}{port.name}", port.mac, mtu_bytes)
        Namespace(netns).call(partial(plug_in, port.name, nic.tap, nic.mtu_bytes))
        made.append(nic)
    return made


def begin(guest: Guest, sides: Sequence[GuestPort]) -> None:
    """Wait until a guest that was switched on is up, and give it its addresses and routes."""
    guest.wait()
    guest.do(network_script(sides))


class VirtualDriver(Driver):
    """A device of one or two virtual machines, which forward by themselves."""

    forwards = True
    takes_turns = True
    _guests: Sequence[Guest] = ()

    def check(self) -> list[str]:
        return missing()

    def check_alive(self) -> None:
        for guest in self._guests:
            guest.check()

    @shielded
    def stop(self) -> None:
        guests, self._guests = self._guests, ()
        for guest in guests:
            guest.power_off()

    def listing(self) -> list[str]:
        raise InputError(
            "a virtual machine has no management interface: leave out cross traffic, or choose another device"
        )


def version() -> str:
    """Version of QEMU."""
    return tool.version(qemu.PROGRAM)


def facts(guests: Sequence[Guest]) -> Mapping[str, Any]:
    """Facts about running guests for the manifest; none without guests."""
    if not guests:
        return {}
    return {
        **accelerated(guests),
        "guest_kernel": guests[0].release,
        "boot_s": [round(guest.boot_s, 1) for guest in guests],
    }


def accelerated(guests: Sequence[Guest]) -> Mapping[str, Any]:
    """The accelerators of running guests, and whether they are emulated."""
    if not guests:
        return {}
    used = {guest.accelerator for guest in guests}
    return {"accelerator": " and ".join(sorted(used)), "emulated": "tcg" in used}


def counted(guest: Guest, role: str, files: Mapping[str, str]) -> dict[str, int]:
    """The guest's own counters, by ``role`` and the names of ``files``."""
    lines = guest.do(counter_script(files)).split()
    return {f"{role}_{name}": int(line) for name, line in zip(files, lines, strict=True)}


def inner_sides(inward: Port, outward: Port, sender: Port, receiver: Port) -> list[GuestPort]:
    """The two ports of a single device."""
    return [GuestPort(inward, sender, wiring.SENDERS), GuestPort(outward, receiver, wiring.RECEIVERS)]
