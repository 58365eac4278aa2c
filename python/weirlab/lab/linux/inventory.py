"""What the kernel reports of a network namespace: interfaces, counters, tracked connections."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pyroute2 import IPRoute, NFCTSocket

from weirlab.base.errors import InputError, MissingCapability
from weirlab.lab.linux import namespace, syscalls
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.linux.syscalls import way_out

_LOOPBACK: Final = 0x8
_UP: Final = 0x1
_ETHERNET: Final = 1
"""ARPHRD_ETHER of linux/if_arp.h."""

T = TypeVar("T")

_INTERFACE: Final = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped", "rx_errors", "tx_errors")

_IP: Final = {
    "ip_received": ("InReceives", "Ip6InReceives"),
    "ip_delivered": ("InDelivers", "Ip6InDelivers"),
    "ip_header_errors": ("InHdrErrors", "Ip6InHdrErrors"),
    "ip_address_errors": ("InAddrErrors", "Ip6InAddrErrors"),
    "ip_discarded": ("InDiscards", "Ip6InDiscards"),
    "ip_no_route": ("OutNoRoutes", "Ip6InNoRoutes"),
}
_SNMP_BYTES: Final = 16384


@dataclass(frozen=True)
class InterfaceFacts:
    """One interface."""

    name: str
    index: int
    mac: str = ""
    kind: str = ""
    """Of virtual ones: ``veth``, ``bridge``, ``vlan``; empty for hardware."""
    up: bool = True
    loopback: bool = False
    ethernet: bool = True
    wireless: bool = False
    master: str = ""
    xdp: int = 0
    """ID of the attached XDP program; 0 for none."""
    lower_index: int = 0
    """The interface that a VLAN or the like is on top of, in the same namespace; 0 for none."""
    addresses: tuple[str, ...] = ()
    mtu_bytes: int = 1500
    carrier: bool = True
    """Whether its cable leads to a port that is up; not known while it is down."""
    peer_index: int = 0
    """The other end of a veth pair."""
    peer_netns_id: int | None = None
    """Its namespace as this one numbers it; None: this one itself."""


def inside(netns: str | None, action: Callable[[], T]) -> T:
    """Run ``action`` in the namespace ``netns`` (None: this one) and return its result.

    Raises ``InputError`` if there is no such namespace, ``MissingCapability`` without the right to enter.
    """
    if netns is None:
        return action()
    place = namespace.Namespace(netns)
    if not place.path.exists():
        names = sorted(path.name for path in namespace.DIRECTORY.glob("*"))
        raise InputError(
            f"--netns {netns}: there is no such namespace; there are: {', '.join(names) or 'none'}"
        )
    try:
        return place.call(action)
    except PermissionError as error:
        raise MissingCapability(
            f"the namespace {netns} cannot be entered: {error.strerror}; {way_out(error)}"
        ) from error


def look(netns: str | None = None) -> dict[str, InterfaceFacts]:
    """Every interface of the namespace, by name."""
    return inside(netns, _look)


def _look() -> dict[str, InterfaceFacts]:
    with IPRoute() as netlink:
        links = list(netlink.get_links())
        addresses: dict[int, list[str]] = {}
        for each in netlink.get_addr():
            text = f"{each.get_attr('IFA_ADDRESS')}/{each['prefixlen']}"
            # Every interface that is up has one of these; it was not configured.
            if not text.startswith("fe80:"):
                addresses.setdefault(each["index"], []).append(text)
    names = {link["index"]: str(link.get_attr("IFLA_IFNAME")) for link in links}
    sysfs = _sysfs()
    try:
        return {
            names[link["index"]]: _facts(link, names, tuple(addresses.get(link["index"], ())), sysfs)
            for link in links
        }
    finally:
        if sysfs is not None:
            os.close(sysfs)


def _facts(
    link: Any, names: Mapping[int, str], addresses: tuple[str, ...], sysfs: int | None
) -> InterfaceFacts:
    name = names[link["index"]]
    info, xdp = link.get_attr("IFLA_LINKINFO"), link.get_attr("IFLA_XDP")
    kind = str(info.get_attr("IFLA_INFO_KIND") or "") if info is not None else ""
    return InterfaceFacts(
        name=name,
        index=link["index"],
        mac=str(link.get_attr("IFLA_ADDRESS") or ""),
        kind=kind,
        up=bool(link["flags"] & _UP),
        loopback=bool(link["flags"] & _LOOPBACK),
        ethernet=link["ifi_type"] == _ETHERNET,
        wireless=sysfs is not None and any(_exists(sysfs, name, each) for each in ("wireless", "phy80211")),
        master=names.get(link.get_attr("IFLA_MASTER") or 0, ""),
        xdp=int(xdp.get_attr("IFLA_XDP_PROG_ID") or 0) if xdp is not None else 0,
        addresses=addresses,
        lower_index=_lower(link, kind),
        mtu_bytes=int(link.get_attr("IFLA_MTU") or 0),
        carrier=bool(link.get_attr("IFLA_CARRIER")),
        peer_index=int(link.get_attr("IFLA_LINK") or 0) if kind == "veth" else 0,
        peer_netns_id=link.get_attr("IFLA_LINK_NETNSID"),
    )


def _lower(link: Any, kind: str) -> int:
    if kind == "veth" or link.get_attr("IFLA_LINK_NETNSID") is not None:
        return 0
    return int(link.get_attr("IFLA_LINK") or 0)


def _sysfs() -> int | None:
    """/sys of this namespace; None if it cannot be mounted, and then no interface counts as wireless."""
    try:
        return syscalls.mount_sysfs()
    except OSError:
        return None


def _exists(sysfs: int, name: str, entry: str) -> bool:
    try:
        os.stat(f"class/net/{name}/{entry}", dir_fd=sysfs)
    except OSError:
        return False
    return True


class InterfaceCounters:
    """Reads the counters of the given interfaces, without entering the namespace again.

    Parameters
    ----------
    namespace:
        Where the interfaces are.
    interfaces:
        Name of each interface by the prefix that its counters get (``in`` gives ``in_rx_packets``).
    ip:
        Whether to read the IP layer's counters too (IPv4 and IPv6 together).
    """

    def __init__(self, namespace: Namespace, interfaces: Mapping[str, str], *, ip: bool = False) -> None:
        self._interfaces = dict(interfaces)
        self._sysfs = namespace.call(syscalls.mount_sysfs)
        self._snmp: list[int] = []
        if ip:
            # A file opened inside keeps reporting on the namespace it was opened in.
            self._snmp = namespace.call(
                lambda: [
                    os.open(f"/proc/thread-self/net/{name}", os.O_RDONLY | os.O_CLOEXEC)
                    for name in ("snmp", "snmp6")
                    if os.path.exists(f"/proc/thread-self/net/{name}")
                ]
            )

    def read(self) -> dict[str, int]:
        """All counters, cumulative since the interfaces were made."""
        values: dict[str, int] = {}
        for prefix, name in self._interfaces.items():
            for counter in _INTERFACE:
                values[f"{prefix}_{counter}"] = self._statistic(name, counter)
        if self._snmp:
            values |= ip_counters([os.pread(fd, _SNMP_BYTES, 0).decode() for fd in self._snmp])
        return values

    def close(self) -> None:
        """Release the namespace. May be called twice."""
        descriptors, self._snmp, self._sysfs = [*self._snmp, self._sysfs], [], -1
        for fd in descriptors:
            if fd >= 0:
                os.close(fd)

    def _statistic(self, name: str, counter: str) -> int:
        path = f"class/net/{name}/statistics/{counter}"
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._sysfs)
        try:
            return int(os.read(fd, 32))
        finally:
            os.close(fd)


def ip_counters(texts: list[str]) -> dict[str, int]:
    """IPv4 and IPv6 counters added up, from /proc/net/snmp and /proc/net/snmp6.

    What a packet filter drops is not counted here, and what is forwarded is counted
    before the filter or behind it, depending on the kernel: for that compare the interfaces.
    """
    raw: dict[str, int] = {}
    for text in texts:
        lines = text.splitlines()
        for names, numbers in itertools.pairwise(lines):
            if names.startswith("Ip:") and numbers.startswith("Ip:"):
                raw |= dict(zip(names.split()[1:], map(int, numbers.split()[1:]), strict=False))
                break
        for line in lines:
            words = line.split()
            if len(words) == 2 and words[0].startswith("Ip6"):
                raw[words[0]] = int(words[1])
    return {name: sum(raw.get(source, 0) for source in sources) for name, sources in _IP.items()}


_STATISTICS: Final = Path("/proc/thread-self/net/stat/nf_conntrack")
_DROPPED: Final = ("drop", "early_drop")


def parse_dropped(text: str) -> int:
    """Connections that the kernel's statistics count as refused or given up because the table was full."""
    names, *rows = (line.split() for line in text.splitlines())
    return sum(int(row[names.index(name)], 16) for row in rows for name in _DROPPED)


def dropped_connections() -> int:
    """Those of the calling thread's namespace so far; 0 if nothing counts them."""
    return parse_dropped(_STATISTICS.read_text()) if _STATISTICS.exists() else 0


def forget_connections() -> None:
    """Drop every tracked connection of the calling thread's namespace, of both IP versions."""
    with NFCTSocket(nfgen_family=socket.AF_UNSPEC) as table:
        table.flush()
