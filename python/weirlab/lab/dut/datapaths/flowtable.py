"""A flowtable behind the rules of nftables: flows that they accept bypass them from then on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from weirlab.lab.base import Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.nftables import Nftables, ruleset
from weirlab.records import RuleSetup

LISTING: Final = ("nft", "list", "chain", "inet", "weir_fast", "forward")
"""Prints the chain whose counter tells how many packets did not bypass the rules."""

SLOW: Final = "flowtable_slow"
"""The name of that counter."""
_TABLE: Final = """table inet weir_fast {{
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


class Flowtable(Nftables):
    """Linear rules in front of a flowtable in software; it tracks connections whatever the rules are.

    Only the first packets of a flow meet the rules, so the matching position hardly matters for long flows.
    """

    tracks = True

    def __init__(self) -> None:
        super().__init__("linear")
        self.name = "flowtable"
        self._site: Site | None = None

    def text(self, rules: RuleSetup, site: Site | None) -> str:
        return ruleset(rules, self.layout) + table("lo" if site is None else devices(site))

    def apply(self, site: Site, rules: RuleSetup) -> None:
        super().apply(site, rules)
        self._site = site

    def counters(self) -> Mapping[str, int]:
        """``flowtable_slow``: packets that went through the rules instead of the flowtable."""
        if self._site is None:
            return super().counters()
        return {**super().counters(), SLOW: slow(tool.printed(self._site.netns, LISTING))}

    def facts(self) -> Mapping[str, object]:
        return {
            **super().facts(),
            "layout": "linear rules; flows that they accept bypass them from the second packet on (flowtable "
            "in software)",
        }


def devices(site: Site) -> str:
    """The device's ports, as nft lists them."""
    return f"{site.inward.name}, {site.outward.name}"


def table(ports: str) -> str:
    """The table with the flowtable of these ports."""
    return _TABLE.format(devices=ports)


def slow(listed: str) -> int:
    """The packets that the listed chain counted."""
    return sum(map(int, _PASSED.findall(listed)))
