"""nftables with a chain for each group of rules: a device in a package of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.rules import FAMILIES, Family, accepted, check, check_single, fillers
from weirlab.records import RuleSetup

COMMAND = ("nft", "-f", "-")
CHAIN_RULES = 16
"""Rules in a chain, at most."""

IP = {4: "ip", 6: "ip6"}


class Chains(Driver):
    """A verdict map of source networks sends each packet to a chain of at most 16 rules."""

    name = "nftables-chains"

    def check(self) -> list[str]:
        return tool.probe("nftables", COMMAND, ruleset(RuleSetup(position=2)))

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check(rules)
        check_single(rules, self.name)
        tool.load(site.netns, COMMAND, ruleset(rules), source="generated rules", prefix="flush ruleset; ")

    def listing(self) -> list[str]:
        return ["nft", "list", "ruleset"]

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version("nft"),
            "layout": f"a verdict map of source networks, then at most {CHAIN_RULES} rules",
        }


def ruleset(rules: RuleSetup) -> str:
    """The tables in the language of nft."""
    return "\n".join(line for family in FAMILIES for line in _table(family, rules)) + "\n"


def _table(family: Family, rules: RuleSetup) -> Iterator[str]:
    ip = IP[family]
    matches = [*fillers(family, rules.position - 1), accepted(family, rules)] if rules.position else []
    yield f"table {ip} weir {{"
    for begin in range(0, len(matches), CHAIN_RULES):
        yield f"  chain group{begin // CHAIN_RULES} {{"
        for match in matches[begin : begin + CHAIN_RULES]:
            port = f" {match.protocol} dport {match.port}" if match.protocol else ""
            yield f"    {ip} saddr {match.source} {ip} daddr {match.destination}{port} accept"
        yield "  }"
    yield "  chain forward {"
    yield f"    type filter hook forward priority filter; policy {'drop' if matches else 'accept'};"
    if rules.stateful:
        yield "    ct state invalid drop"
    if matches:
        groups = (f"{match.source} : jump group{n // CHAIN_RULES}" for n, match in enumerate(matches))
        yield f"    {ip} saddr vmap {{ {', '.join(groups)} }}"
    yield "  }"
    yield "}"
