"""What this machine lacks for redundant pairs."""

from __future__ import annotations

import re

from pyroute2.netlink.exceptions import NetlinkError

from weirlab.lab.dut import nftables, tool
from weirlab.lab.finding import Finding
from weirlab.lab.linux import syscalls
from weirlab.lab.linux.counters import forget_connections
from weirlab.lab.linux.namespace import in_thread
from weirlab.lab.redundant import wiring
from weirlab.lab.redundant.conntrackd import Conntrackd
from weirlab.lab.redundant.keepalived import Keepalived
from weirlab.lab.redundant.ucarp import Ucarp


def finding() -> Finding:
    """What ``weir doctor`` says about redundant pairs."""
    name = "redundant pairs"
    if lacking := missing():
        remedy = "follow the advice; all else works without"
        return Finding(name, False, "; ".join(lacking), remedy, essential=False)
    return Finding(name, True, versions())


def missing() -> list[str]:
    """One sentence each with the way out, empty if pairs can be built; the kernel's part is tried."""
    protocol, states = Keepalived(), Conntrackd()
    lacking = [*protocol.check(), *Ucarp().check(), *states.check()]
    lacking += tool.probe(
        "nftables", nftables.COMMAND, wiring.pair_rules(protocol, "192.0.2.0/24") + wiring.ADMIT
    )

    def build() -> None:
        syscalls.unshare_net()
        wiring.make_bridge("lan")
        forget_connections()

    try:
        in_thread(build)
    except PermissionError:
        lacking.append("bridges and connection tables could not be tried: run as root")
    except (OSError, NetlinkError) as error:
        lacking.append(
            f"the kernel lacks bridges or netlink access to its connection table ({error}): "
            "modprobe bridge nf_conntrack_netlink"
        )
    return lacking


def versions() -> str:
    """Of the daemons, for people."""
    told = {
        "keepalived": tool.version("keepalived"),
        "ucarp": tool.version("ucarp", "-h"),
        "conntrackd": tool.version("conntrackd", "-v"),
    }
    found = {name: re.search(r"\d+(\.\d+)+", text) for name, text in told.items()}
    return ", ".join(f"{name} {match[0]}" for name, match in found.items() if match)
