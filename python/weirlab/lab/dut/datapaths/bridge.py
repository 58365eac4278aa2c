"""A bridge of two ports, with the rules of nftables' bridge family or of ebtables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from weirlab.lab import wiring
from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import nftables, tool
from weirlab.lab.dut.rules import FAMILIES, AddressMatch, Family, chain, check_stateless
from weirlab.lab.linux import interface
from weirlab.lab.linux.namespace import Namespace, in_private, write_sysctls
from weirlab.lab.linux.syscalls import way_out
from weirlab.records import RuleSetup

_BRIDGE: Final = "br0"
_BRIDGE_MAC: Final = "02:77:65:69:72:41"
_CHAINS: Final[Mapping[Family, str]] = {4: "four", 6: "six"}
_ETHER_TYPES: Final[Mapping[Family, str]] = {4: "ip", 6: "ip6"}
_EBTABLES_TYPES: Final[Mapping[Family, str]] = {4: "IPv4", 6: "IPv6"}
_NFT_ACCEPTED: Final = re.compile(r"counter packets (\d+)")
_PCNT: Final = re.compile(r"pcnt = (\d+)")


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
