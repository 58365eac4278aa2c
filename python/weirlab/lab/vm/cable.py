"""The cable between a port of a namespace and an interface of a guest: a tap, and frames handed over by tc.

Call these inside :meth:`weirlab.lab.linux.namespace.Namespace.call`.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import Any, Final

from pyroute2 import IPRoute

from weirlab.lab.linux import interface

_TUNSETIFF: Final = 0x400454CA
_TUNSETPERSIST: Final = 0x400454CB
_IFF_TAP: Final = 0x0002
_IFF_NO_PI: Final = 0x1000
_INGRESS: Final = 0xFFFF0000
_ALL: Final = 0x0003
"""ETH_P_ALL of linux/if_ether.h."""


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
