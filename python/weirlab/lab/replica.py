"""A device for single packets, before anything is measured: all of it in the calling thread's namespace.

Sender and receiver are packet sockets at the other ends of the device's cables. Frames that reach those ends
are addressed to others, so that the namespace does not receive them once more.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Final, TypeVar

from pyroute2.netlink.exceptions import NetlinkError

from weirlab.lab import wiring
from weirlab.lab.crossing import DevicePorts, socket_at
from weirlab.lab.linux import interface, syscalls
from weirlab.lab.linux.interface import Port
from weirlab.lab.linux.namespace import in_thread, write_sysctls

NEAR: Final = Port("weirtx0", "02:77:65:69:72:11", "", "")
FAR: Final = Port("weirrx0", "02:77:65:69:72:12", "", "")
"""Ends of the cables, with other addresses than the neighbours that the device knows."""

_PLACEHOLDERS: Final = ("dummy", "bridge")
"""Kinds of interfaces that carry nothing, the first one that the kernel has."""

T = TypeVar("T")


def in_private(action: Callable[[], T]) -> T:
    """Run ``action`` in a thread whose network namespace ends with it."""

    def inside() -> T:
        syscalls.unshare_net()
        return action()

    return in_thread(inside)


@contextmanager
def replica(
    ports: tuple[Port, Port], networks: tuple[Sequence[str], Sequence[str]], others: Iterable[str]
) -> Iterator[DevicePorts]:
    """A device that forwards between ``ports``, behind which ``networks`` lie; also has interfaces called
    ``others``. For use in :func:`in_private`."""
    write_sysctls(wiring.ROUTER)
    here = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        for end, port in zip((NEAR, FAR), ports, strict=True):
            wiring.make_end(end, port, here)
            interface.set_offloads(port.name, gro=False)
    finally:
        os.close(here)
    interface.bring_up([NEAR, FAR], [])
    sides = zip(ports, (wiring.TX0, wiring.RX0), networks, strict=True)
    interface.bring_up(
        ports, [route for port, neighbour, there in sides for route in wiring.behind(neighbour, port, there)]
    )
    make_placeholders(others)
    into, out_of = (wiring.mac_bytes(port.mac) for port in ports)
    sender, receiver = wiring.mac_bytes(wiring.TX0.mac), wiring.mac_bytes(wiring.RX0.mac)
    with (
        socket_at(NEAR.name) as near,
        closing(DevicePorts(near, socket_at(FAR.name), (sender, into), (receiver, out_of))) as crossing,
    ):
        yield crossing


def make_placeholders(names: Iterable[str]) -> None:
    """Make interfaces with these names in the calling thread's namespace, except those that exist.

    Rules that name an interface by ``iif``, ``oif`` or as a device can only be loaded if there is one. Names
    that no interface can have are left out: loading the rules reports them.
    """
    for name in names:
        for kind in _PLACEHOLDERS:
            with suppress(NetlinkError):
                interface.make(name, kind)
                break
