"""Bridges of two ports: the kernel's, with rules of nftables or ebtables, and Open vSwitch in user space."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from weirlab.base.errors import LabError
from weirlab.base.interrupts import shielded
from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import nftables, tool
from weirlab.lab.dut.datapaths.ingress import MachineDriver
from weirlab.lab.dut.rules import FAMILIES, AddressMatch, Family, chain, check_stateless
from weirlab.lab.dut.tunnels.tunnel import lacking
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace, in_private, write_sysctls
from weirlab.lab.linux.syscalls import way_out
from weirlab.lab.machines.machine import CRITICAL, Machine, quote
from weirlab.records import RuleSetup

_BRIDGE: Final = "br0"
_BRIDGE_MAC: Final = "02:77:65:69:72:41"
_CHAINS: Final[Mapping[Family, str]] = {4: "four", 6: "six"}
_ETHER_TYPES: Final[Mapping[Family, str]] = {4: "ip", 6: "ip6"}
_EBTABLES_TYPES: Final[Mapping[Family, str]] = {4: "IPv4", 6: "IPv6"}
_NFT_ACCEPTED: Final = re.compile(r"counter packets (\d+)")
_PCNT: Final = re.compile(r"pcnt = (\d+)")

SWITCH: Final = "weir"
_DATABASE: Final = "unix:/run/db.sock"
_SCHEMA: Final = Path("/usr/share/openvswitch/vswitch.ovsschema")
_FLOWS: Final = "/run/flows"
_TUN: Final = Path("/dev/net/tun")
MOST_RULES: Final = 60_000
"""Each flow has a priority of its own, of 16 bits."""
_KINDS: Final[Mapping[str, Sequence[str]]] = {
    "AF_XDP": ("type=afxdp-nonpmd", "options:xdp-mode=generic"),
    "packet sockets": ("type=system",),
}
"""How the switch can get at frames, the faster way first: not every build and kernel has AF_XDP."""
_PATIENCE_S: Final = 30.0
_LOOK_S: Final = 0.02
_LOOKUPS: Final = re.compile(r"lookups: hit:(\d+) missed:(\d+)")
_PROTOCOLS: Final[Mapping[Family, tuple[str, str, str]]] = {
    4: ("ip", "nw_src", "nw_dst"),
    6: ("ipv6", "ipv6_src", "ipv6_dst"),
}


class Bridge(Driver):
    """Two ports of a bridge; the bridge family of nftables filters between them."""

    name = "bridge"
    forwards = True
    bridges = True

    def __init__(self) -> None:
        self._netns: str | None = None
        """The device's namespace, while there are rules."""

    def check(self) -> list[str]:
        return [*_missing_in_kernel(), *tool.probe("nftables", nftables.COMMAND, ruleset(RuleSetup(2)))]

    def start(self, site: Site) -> Sequence[int]:
        namespace = Namespace(site.netns)
        namespace.call(partial(write_sysctls, wiring.SWITCH))
        stations = {site.inward.name: site.sender.mac, site.outward.name: site.receiver.mac}
        namespace.call(lambda: interface.bridge_ports(_BRIDGE, _BRIDGE_MAC, wiring.MTU_BYTES, stations))
        return ()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_stateless(rules, self.name)
        self.load(site.netns, rules)
        self._netns = site.netns if rules.position else None

    def load(self, netns: str, rules: RuleSetup) -> None:
        """Replace the rules in the namespace."""
        command, text = nftables.COMMAND, ruleset(rules)
        tool.load(netns, command, text, source="generated rules", prefix=nftables.FLUSH)

    def listing(self) -> list[str]:
        return list(nftables.LISTING)

    def counters(self) -> Mapping[str, int]:
        """``bridge_filtered``: IP packets that came to the rules."""
        if self._netns is None:
            return {}
        listing = [["nft", "list", "chain", "bridge", "weir", "forward"]]
        return {"bridge_filtered": tool.counted(self._netns, listing, _NFT_ACCEPTED)}

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version("nft"),
            "layout": "a bridge with two ports; linear rules in the bridge family, a chain for each IP "
            "version; position 0: policy accept; otherwise policy drop",
        }


class EbtablesBridge(Bridge):
    """Two ports of a bridge; ebtables filters between them."""

    name = "bridge-ebtables"

    _COMMAND: Final = ("ebtables-restore",)

    def check(self) -> list[str]:
        return [*_missing_in_kernel(), *tool.probe("iptables", self._COMMAND, ebtables_ruleset(RuleSetup(2)))]

    def load(self, netns: str, rules: RuleSetup) -> None:
        tool.load(netns, self._COMMAND, ebtables_ruleset(rules), source="generated rules")

    def listing(self) -> list[str]:
        return ["ebtables", "-L", "--Lc"]

    def counters(self) -> Mapping[str, int]:
        if self._netns is None:
            return {}
        return {"bridge_filtered": tool.counted(self._netns, [["ebtables", "-L", "FORWARD", "--Lc"]], _PCNT)}

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version("ebtables"),
            "layout": "a bridge with two ports; linear rules of ebtables, a chain for each IP version; "
            "position 0: policy ACCEPT; otherwise policy DROP",
        }


def ruleset(rules: RuleSetup) -> str:
    """The table of the bridge family in nft syntax; packets of other protocols than IP pass."""
    return "\n".join(_nft_lines(rules)) + "\n"


def ebtables_ruleset(rules: RuleSetup) -> str:
    """The table filter in the format of ebtables-save."""
    return "\n".join(_ebtables_lines(rules)) + "\n"


def _nft_lines(rules: RuleSetup) -> Iterator[str]:
    yield "table bridge weir {"
    if rules.position:
        for family in FAMILIES:
            yield f"  chain {_CHAINS[family]} {{"
            for match in chain(family, rules):
                yield f"    {nftables.match_words(_ETHER_TYPES[family], match)} accept"
            yield "  }"
    yield "  chain forward {"
    yield f"    type filter hook forward priority filter; policy {'drop' if rules.position else 'accept'};"
    if rules.position:
        jumps = (f"{_ETHER_TYPES[family]} : jump {_CHAINS[family]}" for family in FAMILIES)
        yield f"    counter ether type vmap {{ {', '.join(jumps)} }}"
    yield "  }"
    yield "}"


def _ebtables_lines(rules: RuleSetup) -> Iterator[str]:
    yield "*filter"
    yield ":INPUT ACCEPT"
    yield f":FORWARD {'DROP' if rules.position else 'ACCEPT'}"
    yield ":OUTPUT ACCEPT"
    if not rules.position:
        return
    for family in FAMILIES:
        yield f":{_CHAINS[family]} RETURN"
    for family in FAMILIES:
        yield f"-A FORWARD -p {_EBTABLES_TYPES[family]} -j {_CHAINS[family]}"
    for family in FAMILIES:
        for match in chain(family, rules):
            words = f"-p {_EBTABLES_TYPES[family]} {_ebtables_words(family, match)}"
            yield f"-A {_CHAINS[family]} {words} -j ACCEPT"


def _ebtables_words(family: Family, match: AddressMatch) -> str:
    ip = _ETHER_TYPES[family]
    words = f"--{ip}-src {match.source} --{ip}-dst {match.destination}"
    if match.protocol is not None:
        words += f" --{ip}-proto {match.protocol} --{ip}-dport {match.port}"
    return words


def _missing_in_kernel() -> list[str]:
    try:
        if in_private(lambda: interface.can_make("bridge")):
            return []
    except OSError as error:
        return [f"whether this kernel has bridges could not be tried: {error.strerror}; {way_out(error)}"]
    return ["this kernel has no bridges: modprobe bridge"]


class OpenVswitch(MachineDriver):
    """A switch with two ports in user space (``datapath_type=netdev``), and OpenFlow rules between them.

    The matching position counts rules by priority. The switch caches the outcome for each flow, so that only
    the first packet meets the rules.
    """

    name = "openvswitch"
    product = "Open vSwitch"
    forwards = True
    bridges = True
    takes_turns = True

    _kind: str | None = None

    def check(self) -> list[str]:
        missing = lacking({"openvswitch-switch": ["ovs-vswitchd", "ovsdb-server", "ovs-vsctl", str(_SCHEMA)]})
        if not _TUN.exists():
            missing.append(f"{_TUN} is missing, which a switch in user space needs: modprobe tun")
        return missing

    @shielded
    def start(self, site: Site) -> Sequence[int]:
        self._machine = machine = Machine("Open vSwitch", Namespace(site.netns), site.cpu)
        environment = ["env", "OVS_RUNDIR=/run", "OVS_LOGDIR=/run", "OVS_DBDIR=/run"]
        self._run(["ovsdb-tool", "create", "/run/conf.db", str(_SCHEMA)])
        machine.start(
            "ovsdb-server",
            [*environment, "ovsdb-server", "/run/conf.db", f"--remote=p{_DATABASE}", "-vconsole:warn"],
        )
        self._until_it_runs(["ovs-vsctl", f"--db={_DATABASE}", "--timeout=1", "--no-wait", "init"])
        threads = ["other_config:n-handler-threads=1", "other_config:n-revalidator-threads=1"]
        self._configure("--no-wait", "set", "Open_vSwitch", ".", *threads)
        command = [*environment, "ovs-vswitchd", _DATABASE, "--pidfile", "-vconsole:off"]
        machine.start("ovs-vswitchd", command, nice=CRITICAL)
        refusals = {}
        for kind in _KINDS:
            refusals[kind] = self._refusal((site.inward.name, site.outward.name), kind)
            if not refusals[kind]:
                self._kind = kind
                return machine.processes
        told = "; ".join(f"{kind}: {refusal}" for kind, refusal in refusals.items())
        raise LabError(f"Open vSwitch takes neither kind of port ({told})")

    def check_alive(self) -> None:
        self._running().check()

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check_stateless(rules, self.name, MOST_RULES)
        self._running().write(_FLOWS, openflow(rules))
        # A bundle is a transaction.
        self._run(self._control("--bundle", "replace-flows", SWITCH, _FLOWS))

    def counters(self) -> Mapping[str, int]:
        """Packets whose fate the switch knew from earlier ones, and those that it compared with the rules."""
        if self._machine is None:
            return {}
        command = ["env", "OVS_RUNDIR=/run", "sh", "-c", "ovs-appctl dpctl/show -s | grep lookups"]
        found = _LOOKUPS.search(" ".join(self._run(command)))
        return {} if found is None else {"switch_known": int(found[1]), "switch_compared": int(found[2])}

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version("ovs-vswitchd"),
            "layout": "a switch in user space (datapath netdev); OpenFlow rules by priority, whose outcome "
            "is cached for each flow; position 0: everything passes",
            **({} if self._kind is None else {"sockets": self._kind}),
        }

    def _refusal(self, ports: Sequence[str], kind: str) -> str:
        """Why the ports cannot be of this kind; empty if the switch has them."""
        words = ["add-br", SWITCH, "--", "set", "bridge", SWITCH, "datapath_type=netdev", "fail_mode=secure"]
        for n, port in enumerate(ports, start=1):
            options = [f"ofport_request={n}", *_KINDS[kind]]
            words += ["--", "add-port", SWITCH, port, "--", "set", "interface", port, *options]
        self._configure("--timeout=20", *words)
        answers = [" ".join(self._configure("get", "interface", port, "error")) for port in ports]
        refusal = next((answer for answer in answers if answer != "[]"), "")
        if refusal:
            self._configure("--timeout=20", "del-br", SWITCH)
        return refusal

    def _control(self, *words: str) -> list[str]:
        return ["env", "OVS_RUNDIR=/run", "ovs-ofctl", *words]

    def _configure(self, *words: str) -> list[str]:
        return self._run(["ovs-vsctl", f"--db={_DATABASE}", *words])

    def _until_it_runs(self, command: Sequence[str]) -> None:
        end_s = time.monotonic() + _PATIENCE_S
        while (answer := self._running().run(command))[0]:
            self._running().check()
            if time.monotonic() > end_s:
                raise LabError(f"Open vSwitch does not answer within {_PATIENCE_S:g} s: {quote(answer[1])}")
            time.sleep(_LOOK_S)


def openflow(rules: RuleSetup) -> str:
    """The flows in the syntax of ovs-ofctl: from port 1 to port 2, and back."""
    return "\n".join(_flows(rules)) + "\n"


def _flows(rules: RuleSetup) -> Iterator[str]:
    for here, there in ((1, 2), (2, 1)):
        if not rules.position:
            yield f"in_port={here} actions=output:{there}"
            continue
        for family in FAMILIES:
            for n, match in enumerate(chain(family, rules)):
                priority = rules.position - n
                yield f"priority={priority},in_port={here},{_words(family, match)} actions=output:{there}"


def _words(family: Family, match: AddressMatch) -> str:
    ip, source, destination = _PROTOCOLS[family]
    protocol = ip if match.protocol is None else match.protocol + ("6" if family == 6 else "")
    words = f"{protocol},{source}={match.source},{destination}={match.destination}"
    return words if match.port is None else f"{words},tp_dst={match.port}"
