"""The link bridged by the kernel's own bridge, and copied to the logger by nftables: where XDP cannot run."""

from __future__ import annotations

import errno
import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from weirlab.base.errors import LabError, MissingCapability, WeirError
from weirlab.lab.linux.inventory import inside
from weirlab.lab.linux.namespace import write_sysctls
from weirlab.lab.linux.syscalls import way_out
from weirlab.link.host.journal import Journal, delete_link
from weirlab.link.host.tools import FAMILY, delete_table, first_line, nft
from weirlab.link.settings import TapSettings

DIFFERENCES: Final = (
    "pause frames (01:80:c2:00:00:01) end at the bridge",
    "frames not forwarded are known only from interface counters: the bridge itself counts nothing",
    "copies are made and time stamps taken in the kernel's network stack, later than at the driver",
)
"""How this differs from the XDP bridge."""

_PORT_MASK: Final = 0xFFFD
"""Groups 01-80-C2-00-00-0X that a port forwards: all that the kernel allows, so all but pause frames."""
_BRIDGE_MASK: Final = 0xFFF8
"""The same for the bridge, if ports do not support it (before Linux 4.15)."""


class KernelBridge:
    """A bridge between the two ends, which acts like a cable: no spanning tree, no addresses, no learning.

    Everything it makes is named after the journal's identifier. Its counters have the form of those of the
    engine's ``Tap``.
    """

    xdp_mode = ""
    warnings: Sequence[str] = ()

    def __init__(self, settings: TapSettings, journal: Journal) -> None:
        self._settings = settings
        self._name = f"weir-{journal.identifier}"
        self._table = f"weir_{journal.identifier}"
        self._closed: dict[str, Any] | None = None
        if settings.mirror is not None:
            journal.note("table", settings.netns, self._table)
            inside(settings.netns, self._duplicate)
        journal.note("bridge", settings.netns, self._name)
        try:
            inside(settings.netns, self._bridge)
        except NetlinkError as error:
            raise _explained(error) from error
        self._start = self._last = self._read()

    def counters(self) -> dict[str, Any]:
        """Counters as of ``weirlab._engine.Tap.counters``; nothing is copied into a ring.

        If they cannot be read, returns the last ones.
        """
        if self._closed is not None:
            return self._closed
        # A host that has no process or descriptor left for reading counters still has the bridge.
        with suppress(OSError, RuntimeError):
            self._last = self._read()
        now, then = self._last, self._start
        taken = {key: now[key] - then[key] for key in now}
        # Neither the bridge nor a driver counts frames that the other end refused.
        found: dict[str, Any] = {"assumed": True}
        for side, other in (("a", "b"), ("b", "a")):
            received, forwarded = taken[f"{side}_rx_packets"], taken[f"{other}_tx_packets"]
            found[side] = {
                "received": received,
                # The host itself may have sent frames on that interface; then more left than arrived.
                "forwarded": min(forwarded, received),
                "not_forwarded": max(received - forwarded, 0),
                "copied": 0,
                "not_copied": 0,
                "cut": 0,
                "bytes": taken[f"{side}_rx_bytes"],
            }
        if self._settings.mirror is not None:
            # As above: what the host itself sends there is no copy.
            sent = min(taken["mirror"], taken["copies"])
            found["mirror"] = {"sent": sent, "not_sent": taken["copies"] - sent, "waiting": 0}
        return found

    def ring_fds(self) -> list[int]:
        """There is no ring."""
        return []

    def close(self) -> None:
        """Remove the bridge and the duplication. May be called twice."""
        if self._closed is None:
            self._closed = self.counters()
            inside(self._settings.netns, self._remove)

    def _bridge(self) -> None:
        with IPRoute() as netlink:
            netlink.link(
                "add",
                ifname=self._name,
                kind="bridge",
                br_stp_state=0,
                br_forward_delay=0,
                br_mcast_snooping=0,
                br_group_fwd_mask=_BRIDGE_MASK,
            )
            bridge = netlink.link_lookup(ifname=self._name)[0]
            # This host's neighbour discovery and multicast reports do not belong on the link.
            write_sysctls({f"net/ipv6/conf/{self._name}/disable_ipv6": 1})
            for name in (self._settings.a, self._settings.b):
                port = netlink.link_lookup(ifname=name)[0]
                netlink.link("set", index=port, master=bridge)
                # Without learning, every frame goes to the other end, wherever its addresses were seen.
                netlink.brport("set", index=port, learning=0)
                with suppress(NetlinkError):
                    netlink.brport("set", index=port, group_fwd_mask=_PORT_MASK)
            netlink.link("set", index=bridge, state="up")

    def _duplicate(self) -> None:
        mac = self._settings.logger_mac
        assert mac is not None
        address = ":".join(f"{byte:02x}" for byte in mac)
        ends, mirror = f'"{self._settings.a}", "{self._settings.b}"', self._settings.mirror
        rules = f"""
table {FAMILY} {self._table} {{
  counter copies {{ }}
  counter mirrored {{ }}
  chain from_link {{ type filter hook ingress devices = {{ {ends} }} priority -300;
    counter name "copies" dup to "{mirror}"; }}
  chain to_logger {{ type filter hook egress device "{mirror}" priority 0;
    ether daddr set {address} counter name "mirrored"; }}
}}
"""
        try:
            done = nft("-f", "-", text=rules)
        except MissingCapability as error:
            raise MissingCapability(
                f"copies to a logger without XDP need nft: {error}; install nftables, or record on this host "
                "(--write, no --mirror)"
            ) from error
        if done.returncode != 0:
            raise MissingCapability(
                f"nftables cannot copy frames to {mirror}: {first_line(done)}; its egress hook "
                "needs Linux 5.16 and nft 1.0.1; without them, record on this host (--write, no --mirror)"
            )

    def _read(self) -> dict[str, int]:
        return inside(self._settings.netns, self._counters)

    def _counters(self) -> dict[str, int]:
        found: dict[str, int] = {}
        with IPRoute() as netlink:
            for side, name in (("a", self._settings.a), ("b", self._settings.b)):
                for index in netlink.link_lookup(ifname=name):
                    statistics = next(iter(netlink.get_links(index))).get_attr("IFLA_STATS64")
                    break
                else:
                    raise LabError(f"{name} is gone: the interface was removed, and the link with it")
                for key in ("rx_packets", "tx_packets", "rx_bytes"):
                    found[f"{side}_{key}"] = int(statistics[key])
        if self._settings.mirror is not None:
            listed = nft("-j", "list", "counters", "table", FAMILY, self._table)
            entries = json.loads(listed.stdout)["nftables"] if listed.returncode == 0 else []
            packets = {
                entry["counter"]["name"]: entry["counter"]["packets"]
                for entry in entries
                if "counter" in entry
            }
            found["copies"], found["mirror"] = packets.get("copies", 0), packets.get("mirrored", 0)
        return found

    def _remove(self) -> None:
        delete_link(self._name)
        if self._settings.mirror is not None:
            # If that fails, the journal tries again and reports it.
            with suppress(OSError, WeirError):
                delete_table(self._table)


def _explained(error: NetlinkError) -> LabError | MissingCapability:
    if error.code == errno.EPERM:
        return MissingCapability(f"no right to make a bridge; {way_out(PermissionError(error.code, ''))}")
    if error.code == errno.EOPNOTSUPP:
        return MissingCapability("this kernel has no bridge (CONFIG_BRIDGE): modprobe bridge, or use XDP")
    return LabError(f"the link cannot be bridged: {error}")
