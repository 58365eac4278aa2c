"""The packet filter of nftables, with a flowtable or with address translation behind its rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.rules import (
    FAMILIES,
    AddressMatch,
    Family,
    accepted,
    chain,
    check,
    check_single,
    fillers,
)
from weirlab.records import ESTABLISHED, RuleSetup

Layout = Literal["linear", "set", "vmap"]

_ACCEPTED: Final = re.compile(r"established,related counter packets (\d+)")

COMMAND: Final = ("nft", "-f", "-")
LISTING: Final = ("nft", "list", "ruleset")
FLUSH: Final = "flush ruleset; "
"""Goes in front of a ruleset, in the same transaction."""

_FAMILY_WORDS: Final[dict[Family, str]] = {4: "ip", 6: "ip6"}
_ADDRESS_TYPES: Final[dict[Family, str]] = {4: "ipv4_addr", 6: "ipv6_addr"}
_LAYOUTS: Final[dict[Layout, tuple[str, str]]] = {
    "linear": ("nftables", "linear rules in chain forward, the accepting rule last, or one at each place"),
    "set": (
        "nftables-set",
        "one rule, accepting sources from a set with as many networks as the position says",
    ),
    "vmap": ("nftables-vmap", "one rule with a verdict map of as many source networks as the position says"),
}
FAST_LISTING: Final = ("nft", "list", "chain", "inet", "weir_fast", "forward")
"""Prints the chain whose counter tells how many packets did not bypass the rules."""

SLOW: Final = "flowtable_slow"
"""The name of that counter."""
_FAST_TABLE: Final = """table inet weir_fast {{
  flowtable fast {{ hook ingress priority filter; devices = {{ {devices} }}; }}
  chain forward {{
    type filter hook forward priority filter + 10; policy accept;
    counter
    meta l4proto {{ tcp, udp }} flow add @fast
  }}
}}
"""
"""Goes after the rules: flows that they accept take the fast path from their second packet on."""
_PASSED: Final = re.compile(r"counter packets (\d+)")
Translation = Literal["masquerade", "static"]

_LISTINGS: Final = tuple(("nft", "list", "chain", ip, "weir_nat", "leaving") for ip in ("ip", "ip6"))

_MASQUERADE: Final = """table {ip} weir_nat {{
  chain leaving {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname "{outward}" counter masquerade
  }}
}}
"""
_STATIC: Final = """table {ip} weir_nat {{
  chain leaving {{
    type nat hook postrouting priority srcnat; policy accept;
    oifname "{outward}" counter snat {ip} prefix to {ip} saddr map {{ {inside} : {outside} }}
  }}
  chain coming {{
    type nat hook prerouting priority dstnat; policy accept;
    iifname "{outward}" dnat {ip} prefix to {ip} daddr map {{ {outside} : {inside} }}
  }}
}}
"""
_TEXTS: Final[Mapping[Translation, str]] = {"masquerade": _MASQUERADE, "static": _STATIC}
_NAT_NAMES: Final[Mapping[Translation, str]] = {"masquerade": "nat", "static": "nat-static"}
_NAT_LAYOUTS: Final[Mapping[Translation, str]] = {
    "masquerade": "all senders get the address of the outer port (masquerade)",
    "static": "each sender has an outer address of its own, which anybody may send to (1:1)",
}
_NETWORKS: Final = (("ip", "198.18.0.0/16", "10.200.0.0/16"), ("ip6", "2001:2:0:1::/64", "fd00:200:0:1::/64"))
"""The senders' networks of both IP versions, and the outer addresses of ``nat-static``."""
OUTSIDE: Final = tuple(outside for _, _, outside in _NETWORKS)


class Nftables(Driver):
    """One base chain per IP version, loaded in one transaction.

    With ``set`` and ``vmap``, the matching position is the number of elements, including the test traffic's.
    """

    def __init__(self, layout: Layout = "linear") -> None:
        self.layout: Layout = layout
        self.name = _LAYOUTS[layout][0]
        self._site: Site | None = None
        self._answered = False
        """Whether there is a rule for known connections."""

    def check(self) -> list[str]:
        return tool.probe("nftables", COMMAND, self.text(RuleSetup(position=2), None))

    def text(self, rules: RuleSetup, site: Site | None) -> str:
        """The whole ruleset; without a ``site``, for a namespace that only has the interface ``lo``."""
        return ruleset(rules, self.layout)

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check(rules)
        if self.layout != "linear":
            check_single(rules, self.name)
        tool.load(site.netns, COMMAND, self.text(rules, site), source="generated rules", prefix=FLUSH)
        self._site, self._answered = site, rules.answered

    def counters(self) -> Mapping[str, int]:
        if self._site is None or not self._answered:
            return {}
        commands = [["nft", "list", "chain", word, "weir", "forward"] for word in _FAMILY_WORDS.values()]
        return {ESTABLISHED: tool.counted(self._site.netns, commands, _ACCEPTED)}

    def listing(self) -> list[str]:
        return list(LISTING)

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version("nft"),
            "layout": f"{_LAYOUTS[self.layout][1]}; position 0: chain without rules, policy accept; "
            "otherwise policy drop",
        }


def ruleset(rules: RuleSetup, layout: Layout) -> str:
    """The tables in nft syntax."""
    return "\n".join(line for family in FAMILIES for line in _table(family, rules, layout)) + "\n"


def _table(family: Family, rules: RuleSetup, layout: Layout) -> Iterator[str]:
    word = _FAMILY_WORDS[family]
    yield f"table {word} weir {{"
    if rules.position and layout != "linear":
        yield from _collection(family, rules, layout)
    yield "  chain forward {"
    yield f"    type filter hook forward priority filter; policy {'drop' if rules.position else 'accept'};"
    if rules.stateful:
        yield "    ct state invalid drop"
    if rules.answered:
        yield "    ct state established,related counter accept"
    if rules.position:
        if layout == "linear":
            for match in chain(family, rules):
                yield f"    {match_words(word, match)} accept"
        elif layout == "set":
            yield f"    {word} saddr @networks accept"
        else:
            yield f"    {word} saddr vmap @networks"
    yield "  }"
    yield "}"


def _collection(family: Family, rules: RuleSetup, layout: Layout) -> Iterator[str]:
    networks = [match.source for match in fillers(family, rules.position - 1)]
    # A filler's verdict never applies to test traffic; drop would show at once if it did.
    fill, accept = (" : drop", " : accept") if layout == "vmap" else ("", "")
    elements = [f"{network}{fill}" for network in networks] + [f"{accepted(family, rules).source}{accept}"]
    kind = _ADDRESS_TYPES[family]
    yield f"  {'map' if layout == 'vmap' else 'set'} networks {{"
    yield f"    type {kind}{' : verdict' if layout == 'vmap' else ''}; flags interval;"
    yield "    elements = { " + ", ".join(elements) + " }"
    yield "  }"


def match_words(family_word: str, match: AddressMatch) -> str:
    """A match in nft syntax."""
    words = f"{family_word} saddr {match.source} {family_word} daddr {match.destination}"
    if match.protocol is not None:
        words += f" {match.protocol} dport {match.port}"
    return words


class Flowtable(Nftables):
    """Linear rules in front of a flowtable in software; it tracks connections whatever the rules are.

    Only the first packets of a flow meet the rules, so the matching position hardly matters for long flows.
    """

    tracks = True

    def __init__(self) -> None:
        super().__init__("linear")
        self.name = "flowtable"

    def text(self, rules: RuleSetup, site: Site | None) -> str:
        return ruleset(rules, self.layout) + fast_table("lo" if site is None else fast_ports(site))

    def counters(self) -> Mapping[str, int]:
        """``flowtable_slow``: packets that went through the rules instead of the flowtable."""
        if self._site is None:
            return super().counters()
        return {**super().counters(), SLOW: slow_packets(tool.printed(self._site.netns, FAST_LISTING))}

    def facts(self) -> Mapping[str, object]:
        return {
            **super().facts(),
            "layout": "linear rules; flows that they accept bypass them from the second packet on (flowtable "
            "in software)",
        }


def fast_ports(site: Site) -> str:
    """The device's ports, as nft lists them."""
    return f"{site.inward.name}, {site.outward.name}"


def fast_table(ports: str) -> str:
    """The table with the flowtable of these ports."""
    return _FAST_TABLE.format(devices=ports)


def slow_packets(listed: str) -> int:
    """The packets that the listed chain counted."""
    return sum(map(int, _PASSED.findall(listed)))


class Nat(Nftables):
    """Linear rules, and translation of the senders' addresses when packets leave.

    The rules see the addresses of the senders. The first packet of a connection is translated by a rule, all
    others by connection tracking.
    """

    tracks = True
    translates = True

    def __init__(self, translation: Translation) -> None:
        super().__init__("linear")
        self.translation: Translation = translation
        self.name = _NAT_NAMES[translation]

    def text(self, rules: RuleSetup, site: Site | None) -> str:
        outward = "lo" if site is None else site.outward.name
        tables = (
            _TEXTS[self.translation].format(ip=ip, outward=outward, inside=inside, outside=outside)
            for ip, inside, outside in _NETWORKS
        )
        return ruleset(rules, self.layout) + "".join(tables)

    def counters(self) -> Mapping[str, int]:
        """``nat_connections``: connections that were translated."""
        if self._site is None:
            return super().counters()
        translated = tool.counted(self._site.netns, _LISTINGS, _PASSED)
        return {**super().counters(), "nat_connections": translated}

    def facts(self) -> Mapping[str, object]:
        return {**super().facts(), "layout": f"linear rules; {_NAT_LAYOUTS[self.translation]}"}
