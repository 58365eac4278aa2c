"""Debian's xdp-filter in front of a router: packets from listed addresses are dropped in the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.base.interrupts import shielded
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.datapaths.stateless import check_stateless
from weirlab.lab.dut.rules import FAMILIES, fillers
from weirlab.lab.dut.tunnels.tunnel import lacking
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines.machine import Machine, quote
from weirlab.records import RuleSetup

MOST_RULES: Final = 2000
"""``xdp-filter ip`` takes one address, and some milliseconds."""
_TOGETHER: Final = 100
"""Addresses that one shell adds, so that it answers in time."""
_SCRIPT: Final = "/run/addresses"
_TRIED: Final = (
    "mount -t bpf bpf /sys/fs/bpf; ip link add probe0 type veth peer name probe1; "
    "xdp-filter load --mode native --policy allow probe0; xdp-filter unload probe0"
)
"""Loads it on an interface of a temporary namespace, with maps that only this shell sees."""
_COUNTERS: Final = {
    "xdp_passed": re.compile(r"XDP_PASS\s+(\d+) pkts"),
    "xdp_dropped": re.compile(r"XDP_DROP\s+(\d+) pkts"),
}


class XdpFilter(Driver):
    """A list of senders whose packets are dropped, in a hash table; the kernel forwards everything else.

    At position n, n - 1 addresses of each IP version are listed, and test traffic comes from none of them.
    """

    name = "xdp-filter"

    def __init__(self) -> None:
        self._machine: Machine | None = None
        self._ports: Sequence[str] = ()

    def check(self) -> list[str]:
        missing = lacking({"xdp-tools": ["xdp-filter"]})
        tried = missing or tool.probe("xdp-tools", ["unshare", "--mount", "sh", "-ec", _TRIED], "")
        return [why.replace("unshare", self.name, 1) for why in tried]

    @shielded
    def start(self, site: Site) -> Sequence[int]:
        # Its maps are pinned: in a file system of BPF that only this device has.
        self._machine = Machine("xdp-filter", Namespace(site.netns), site.cpu)
        self._ports = (site.inward.name, site.outward.name)
        self._run(["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"])
        return ()

    @shielded
    def stop(self) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.power_off()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_stateless(rules, self.name, MOST_RULES, linear=False)
        if rules.networks:
            raise InputError(f"the device {self.name!r} lists what it drops: it accepts no networks")
        machine = self._running()
        machine.run(["xdp-filter", "unload", "--all"])
        if not rules.position:
            return
        for port in self._ports:
            self._run(["xdp-filter", "load", "--mode", "native", "--policy", "allow", port])
        addresses = list(listed(rules))
        for begin in range(0, len(addresses), _TOGETHER):
            lines = (f"xdp-filter ip -m src {each}" for each in addresses[begin : begin + _TOGETHER])
            machine.write(_SCRIPT, "\n".join(["set -e", *lines]) + "\n")
            self._run(["sh", _SCRIPT])

    def listing(self) -> list[str]:
        return []

    def counters(self) -> Mapping[str, int]:
        """Packets that passed the list and that it dropped, of both ports."""
        if self._machine is None:
            return {}
        code, said = self._machine.run(["sh", "-c", "xdp-filter status | grep -E 'XDP_(PASS|DROP)'"])
        text = "" if code else "\n".join(said)
        return {name: sum(map(int, pattern.findall(text))) for name, pattern in _COUNTERS.items()}

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version("xdp-filter", "status", "--version"),
            "layout": "XDP in front of a router; at position n, n - 1 listed senders of each IP version are "
            "dropped, all others pass; position 0: no XDP program",
        }

    def _running(self) -> Machine:
        if self._machine is None:
            raise LabError("xdp-filter is not switched on")
        return self._machine

    def _run(self, command: Sequence[str]) -> None:
        code, said = self._running().run(command)
        if code:
            raise LabError(f"xdp-filter: {' '.join(command)} failed: {quote(said)}")


def listed(rules: RuleSetup) -> Iterator[str]:
    """The listed senders: the first host of each network that other devices match."""
    for family in FAMILIES:
        for match in fillers(family, max(0, rules.position - 1)):
            yield str(ip_network(match.source)[1])
