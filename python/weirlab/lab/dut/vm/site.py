"""A guest between ports of the lab, and what drivers of such devices share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from weirlab.base.errors import MissingCapability
from weirlab.lab import wiring
from weirlab.lab.dut import tool
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.vm import cable, image, qemu, scripts
from weirlab.lab.vm.guest import Guest
from weirlab.lab.vm.scripts import GuestPort

_TAP: Final = "vm-"
"""Prefix of the names of taps; the rest is the name of the connected port."""

NO_SESSION: Final = (
    "a virtual machine has no management interface: leave out cross traffic, or choose another device"
)


def missing() -> list[str]:
    """What is missing for Weir's own guests, one sentence each."""
    found = qemu.missing()
    try:
        image.find()
    except MissingCapability as error:
        found.append(str(error))
    return found


def between(name: str, netns: str, cpu: int | None, sides: Sequence[GuestPort]) -> Guest:
    """Weir's own guest, not switched on yet, with the ports of ``sides`` in the namespace ``netns``."""
    nics = plugged(netns, [(side.port, side.mtu_bytes) for side in sides])
    return Guest(name, Namespace(netns), cpu, qemu.boot(image.find()), nics)


def plugged(netns: str, ports: Sequence[tuple[Port, int]]) -> list[qemu.Nic]:
    """Interfaces for a guest in place of ``ports`` (each with its MTU) in the namespace."""
    made = []
    for port, mtu_bytes in ports:
        nic = qemu.Nic(f"{_TAP}{port.name}", port.mac, mtu_bytes)
        Namespace(netns).call(partial(cable.plug_in, port.name, nic.tap, nic.mtu_bytes))
        made.append(nic)
    return made


def begin(guest: Guest, sides: Sequence[GuestPort]) -> None:
    """Wait until a guest that was switched on is up, and give it its addresses and routes."""
    guest.wait()
    guest.do(scripts.network(sides))


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
    lines = guest.do(scripts.counters(files)).split()
    return {f"{role}_{name}": int(line) for name, line in zip(files, lines, strict=True)}


def inner_sides(inward: Port, outward: Port, sender: Port, receiver: Port) -> list[GuestPort]:
    """The two ports of a single device."""
    return [GuestPort(inward, sender, wiring.SENDERS), GuestPort(outward, receiver, wiring.RECEIVERS)]
