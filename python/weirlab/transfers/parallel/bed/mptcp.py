"""Multipath TCP of the kernel: whether it is there, and over which addresses it joins subflows.

The server announces an address for each further path (ADD_ADDR, RFC 8684); the client joins a subflow to it.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from weirlab.lab.finding import Finding

PROTOCOL: Final = 262
"""``IPPROTO_MPTCP`` of linux/in.h; Python has no name for it."""
_ENABLED: Final = Path("/proc/sys/net/mptcp/enabled")
_SIGNAL: Final = 1
"""``MPTCP_PM_ADDR_FLAG_SIGNAL``."""
_MOST: Final = 8
"""``MPTCP_PM_ADDR_MAX``."""


def missing() -> str:
    """Why this kernel has no multipath TCP, with the way out; empty if it has."""
    try:
        if _ENABLED.read_text().strip() == "0":
            return "it is switched off: sysctl -w net.mptcp.enabled=1"
    except OSError:
        return "this kernel is built without it (CONFIG_MPTCP)"
    try:
        socket.socket(socket.AF_INET, socket.SOCK_STREAM, PROTOCOL).close()
    except OSError as error:
        return f"the kernel refuses a socket ({error.strerror})"
    return ""


def finding() -> Finding:
    """What ``weir doctor`` says about it."""
    if why := missing():
        remedy = "the scenario parallel-sockets compares the other methods"
        return Finding("multipath TCP", False, why, remedy, essential=False)
    return Finding("multipath TCP", True, "of the kernel, for comparison with parallel sockets")


def announce(addresses: Sequence[str]) -> None:
    """Have servers in this namespace announce ``addresses``; those announced before are forgotten."""
    from pyroute2 import MPTCP

    with MPTCP() as netlink:
        netlink.endpoint("flush")
        netlink.limits("set", subflows=_MOST, rcv_add_addrs=_MOST)
        for address in addresses:
            netlink.endpoint("add", addr=address, flags=_SIGNAL)


def accept_announced() -> None:
    """Have clients in this namespace join a subflow to every address that a server announces."""
    announce(())
