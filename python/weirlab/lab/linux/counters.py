"""Counters of a network namespace: its interfaces, its IP layer, and the connections that it tracks."""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyroute2 import NFCTSocket

from weirlab.lab.linux import syscalls
from weirlab.lab.linux.namespace import Namespace

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
