"""The packet filter of nftables: linear rules, one rule with a set, or one with a verdict map."""

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


class Nftables(Driver):
    """One base chain per IP version, loaded in one transaction.

    With ``set`` and ``vmap``, the matching position is the number of elements, including the test traffic's.
    """

    def __init__(self, layout: Layout = "linear") -> None:
        self.layout: Layout = layout
        self.name = _LAYOUTS[layout][0]
        self._netns: str | None = None
        """The device's namespace, while it has a rule for known connections."""

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
        self._netns = site.netns if rules.answered else None

    def counters(self) -> Mapping[str, int]:
        if self._netns is None:
            return {}
        commands = [["nft", "list", "chain", word, "weir", "forward"] for word in _FAMILY_WORDS.values()]
        return {ESTABLISHED: tool.counted(self._netns, commands, _ACCEPTED)}

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
