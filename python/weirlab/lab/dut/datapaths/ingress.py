"""Filters in front of a router: of tc's classifier flower, and Debian's xdp-filter in the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Final

from weirlab.base.errors import InputError, LabError
from weirlab.base.interrupts import shielded
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.rules import FAMILIES, AddressMatch, Family, chain, check_stateless, fillers
from weirlab.lab.dut.tunnels.tunnel import lacking
from weirlab.lab.linux.namespace import Namespace
from weirlab.lab.machines.machine import Machine, quote
from weirlab.records import RuleSetup

COMMAND: Final = ("tc", "-batch", "-")
MOST_FILTERS: Final = 60_000
"""Each filter has a preference of its own, of 16 bits."""
_PROTOCOLS: Final[Mapping[Family, str]] = {4: "ip", 6: "ipv6"}
_SENT: Final = re.compile(r"gact action (pass|drop)\b.*?Sent \d+ bytes (\d+) pkt", re.DOTALL)
MOST_ADDRESSES: Final = 2000
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


class TcFlower(Driver):
    """Filters at the ingress of both ports, each with a preference of its own; the kernel forwards.

    Filters of the same preference and mask would share a hash table. With one each, packets are compared with
    them one by one.
    """

    name = "tc-flower"

    def __init__(self) -> None:
        self._site: Site | None = None
        """The device, while it has filters."""

    def check(self) -> list[str]:
        return tool.probe("iproute2", COMMAND, filters(RuleSetup(position=2), ["lo"]))

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_stateless(rules, self.name, MOST_FILTERS)
        ports = [site.inward.name, site.outward.name]
        tool.load(site.netns, COMMAND, filters(rules, ports), source="generated filters")
        self._site = site if rules.position else None

    def listing(self) -> list[str]:
        return ["tc", "-s", "filter", "show", "dev", "in0", "ingress"]

    def counters(self) -> Mapping[str, int]:
        """Packets that the filters accepted and dropped at both ports."""
        if self._site is None:
            return {}
        names = (self._site.inward.name, self._site.outward.name)
        said = [tool.printed(self._site.netns, shown(name)) for name in names]
        return counted("\n".join(said))

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version("tc", "-V"),
            "layout": "filters of tc flower at the ingress of both ports, each with a preference of its own, "
            "in a chain for each IP version; position 0: no filters",
        }


def shown(port: str) -> list[str]:
    """The command that prints the filters of a port with their counters."""
    return ["tc", "-s", "filter", "show", "dev", port, "ingress"]


def counted(text: str) -> dict[str, int]:
    """``flower_accepted`` and ``flower_dropped`` from what :func:`shown` printed."""
    found = {"pass": 0, "drop": 0}
    for action, count in _SENT.findall(text):
        found[action] += int(count)
    return {"flower_accepted": found["pass"], "flower_dropped": found["drop"]}


def filters(rules: RuleSetup, ports: list[str]) -> str:
    """Commands of a batch for tc that replace all filters of the ports."""
    return "\n".join(line for port in ports for line in _lines(rules, port)) + "\n"


def _lines(rules: RuleSetup, port: str) -> Iterator[str]:
    # With the queueing discipline go the filters of all its chains; there may be none yet.
    yield f"qdisc replace dev {port} clsact"
    yield f"qdisc del dev {port} clsact"
    yield f"qdisc add dev {port} clsact"
    if not rules.position:
        return
    for family in FAMILIES:
        protocol = _PROTOCOLS[family]
        begin = f"filter add dev {port} ingress chain {family} protocol {protocol}"
        for n, match in enumerate(chain(family, rules), start=1):
            yield f"{begin} pref {n} flower {_words(match)} action pass"
        yield f"{begin} pref {rules.position + 1} flower action drop"
    for n, family in enumerate(FAMILIES, start=1):
        yield (
            f"filter add dev {port} ingress protocol {_PROTOCOLS[family]} pref {n} flower "
            f"action goto chain {family}"
        )


def _words(match: AddressMatch) -> str:
    words = f"src_ip {match.source} dst_ip {match.destination}"
    if match.protocol is not None:
        words = f"ip_proto {match.protocol} {words} dst_port {match.port}"
    return words


class MachineDriver(Driver):
    """A device of programs in a machine that has the device's namespace."""

    product: str
    """Its name in messages."""
    _machine: Machine | None = None

    @shielded
    def stop(self) -> None:
        machine, self._machine = self._machine, None
        if machine is not None:
            machine.power_off()

    def _running(self) -> Machine:
        if self._machine is None:
            raise LabError(f"{self.product} is not switched on")
        return self._machine

    def _run(self, command: Sequence[str]) -> list[str]:
        """What a command prints that must succeed."""
        machine = self._running()
        code, said = machine.run(command)
        if code:
            machine.check()
            raise LabError(f"{self.product}: {' '.join(command)} failed: {quote(said)}")
        return said


class XdpFilter(MachineDriver):
    """A list of senders whose packets are dropped, in a hash table; the kernel forwards everything else.

    At position n, n - 1 addresses of each IP version are listed, and test traffic comes from none of them.
    """

    name = product = "xdp-filter"
    _ports: Sequence[str] = ()

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

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_stateless(rules, self.name, MOST_ADDRESSES, linear=False)
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


def listed(rules: RuleSetup) -> Iterator[str]:
    """The listed senders: the first host of each network that other devices match."""
    for family in FAMILIES:
        for match in fillers(family, max(0, rules.position - 1)):
            yield str(ip_network(match.source)[1])
