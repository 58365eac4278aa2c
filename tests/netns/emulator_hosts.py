"""Two hosts and the interfaces that an emulated link joins."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from pyroute2 import IPRoute

from weirlab.lab.linux.interface import add_neighbour
from weirlab.lab.linux.namespace import Namespace, write_sysctls

X, Y, LINK, APART = (f"weiremu{os.getpid()}{part}" for part in "xyla")
ADDRESS = {X: "10.98.0.1", Y: "10.98.0.2"}
MAC = {X: "02:00:00:00:98:01", Y: "02:00:00:00:98:02"}
BROADCAST = "10.98.0.255"
PORT = 5098


@dataclass
class Hosts:
    """Two hosts, and between them the one that emulates; no frame is sent but the test's own."""

    def build(self, second: str = LINK) -> None:
        """With the link's end at Y in the namespace ``second``."""
        for name in dict.fromkeys((X, Y, LINK, second)):
            Namespace(name).create()
            Namespace(name).call(_be_quiet)
        for name, far, near, where in ((X, "x0", "la", LINK), (Y, "y0", "lb", second)):
            Namespace(name).call(
                lambda name=name, far=far, near=near, where=where: self._host(name, far, near, where)
            )

    def remove(self) -> None:
        for name in (LINK, APART, X, Y):
            Namespace(name).remove()

    def socket(self, host: str, kind: int = socket.SOCK_DGRAM) -> socket.socket:
        """One of ``host``, bound."""
        made = Namespace(host).call(lambda: socket.socket(socket.AF_INET, kind))
        made.settimeout(30.0)
        made.bind((ADDRESS[host] if kind == socket.SOCK_STREAM else "", PORT))
        return made

    def _host(self, name: str, far: str, near: str, where: str) -> None:
        other = Y if name == X else X
        fd = os.open(Namespace(where).path, os.O_RDONLY | os.O_CLOEXEC)
        with IPRoute() as netlink:
            netlink.link(
                "add", ifname=far, kind="veth", address=MAC[name], peer={"ifname": near, "net_ns_fd": fd}
            )
            index = netlink.link_lookup(ifname=far)[0]
            netlink.addr("add", index=index, address=ADDRESS[name], prefixlen=24, broadcast=BROADCAST)
            netlink.link("set", index=index, state="up")
            # No ARP: every frame is one that the test has numbered.
            add_neighbour(netlink, ADDRESS[other], MAC[other], index)
        os.close(fd)


def _be_quiet() -> None:
    write_sysctls({"net/ipv6/conf/all/disable_ipv6": 1, "net/ipv6/conf/default/disable_ipv6": 1})
