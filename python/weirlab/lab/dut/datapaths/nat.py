"""Address translation behind the rules of nftables: one address for many, or one for each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal

from weirlab.lab.base import Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.nftables import Nftables, ruleset
from weirlab.records import RuleSetup

Translation = Literal["masquerade", "static"]

_LISTINGS: Final = tuple(("nft", "list", "chain", ip, "weir_nat", "leaving") for ip in ("ip", "ip6"))
_COUNTED: Final = re.compile(r"counter packets (\d+)")

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
_NAMES: Final[Mapping[Translation, str]] = {"masquerade": "nat", "static": "nat-static"}
_LAYOUTS: Final[Mapping[Translation, str]] = {
    "masquerade": "all senders get the address of the outer port (masquerade)",
    "static": "each sender has an outer address of its own, which anybody may send to (1:1)",
}
_NETWORKS: Final = (("ip", "198.18.0.0/16", "10.200.0.0/16"), ("ip6", "2001:2:0:1::/64", "fd00:200:0:1::/64"))
"""The senders' networks of both IP versions, and the outer addresses of ``nat-static``."""
OUTSIDE: Final = tuple(outside for _, _, outside in _NETWORKS)


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
        self.name = _NAMES[translation]
        self._site: Site | None = None

    def text(self, rules: RuleSetup, site: Site | None) -> str:
        outward = "lo" if site is None else site.outward.name
        tables = (
            _TEXTS[self.translation].format(ip=ip, outward=outward, inside=inside, outside=outside)
            for ip, inside, outside in _NETWORKS
        )
        return ruleset(rules, self.layout) + "".join(tables)

    def apply(self, site: Site, rules: RuleSetup) -> None:
        super().apply(site, rules)
        self._site = site

    def counters(self) -> Mapping[str, int]:
        """``nat_connections``: connections that were translated."""
        if self._site is None:
            return super().counters()
        translated = tool.counted(self._site.netns, _LISTINGS, _COUNTED)
        return {**super().counters(), "nat_connections": translated}

    def facts(self) -> Mapping[str, object]:
        return {**super().facts(), "layout": f"linear rules; {_LAYOUTS[self.translation]}"}
