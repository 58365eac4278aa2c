"""The packet filter of iptables, with either back end (legacy: x_tables, nft: nf_tables)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.rules import FAMILIES, AddressMatch, Family, chain, check
from weirlab.records import ESTABLISHED, RuleSetup

Variant = Literal["legacy", "nft"]

_COMMANDS: Final[dict[Family, str]] = {4: "iptables", 6: "ip6tables"}
_WAIT_S: Final = 20
"""Time limit for the lock that all iptables commands of a machine share, across namespaces."""
_ACCEPTED: Final = re.compile(r"^\[(\d+):\d+\] -A FORWARD .*--ctstate RELATED,ESTABLISHED", re.M)


class Iptables(Driver):
    """A linear chain FORWARD in the table filter, loaded in one transaction per IP version."""

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.name = f"iptables-{variant}"
        self._netns: str | None = None
        """The device's namespace, while it has a rule for known connections."""

    def check(self) -> list[str]:
        return tool.probe("iptables", restore_command(4, self.variant), ruleset(4, RuleSetup(position=2)))

    def apply(self, site: Site, rules: RuleSetup) -> None:
        check(rules)
        for family in FAMILIES:
            command = restore_command(family, self.variant)
            tool.load(site.netns, command, ruleset(family, rules), source="generated rules")
        self._netns = site.netns if rules.answered else None

    def counters(self) -> Mapping[str, int]:
        if self._netns is None:
            return {}
        commands = [[f"{name}-{self.variant}-save", "-c", "-t", "filter"] for name in _COMMANDS.values()]
        return {ESTABLISHED: tool.counted(self._netns, commands, _ACCEPTED)}

    def listing(self) -> list[str]:
        return [f"{_COMMANDS[4]}-{self.variant}", "-L", "-v", "-n", "-x", "--wait", str(_WAIT_S)]

    def facts(self) -> Mapping[str, object]:
        return {
            "tool": tool.version(restore_command(4, self.variant)[0]),
            "layout": "linear rules in filter/FORWARD; position 0: chain without rules, policy ACCEPT; "
            "otherwise policy DROP and the accepting rule last, or one at each place",
        }


def usual() -> Iptables:
    """The legacy back end if it works, otherwise the nft one."""
    legacy, nft = Iptables("legacy"), Iptables("nft")
    return nft if legacy.check() and not nft.check() else legacy


def restore_command(family: Family, variant: Variant) -> list[str]:
    """The command that loads a ruleset in iptables-save format from its standard input."""
    return [f"{_COMMANDS[family]}-{variant}-restore", "--wait", str(_WAIT_S)]


def ruleset(family: Family, rules: RuleSetup) -> str:
    """The table filter in iptables-save format."""
    return "\n".join(_lines(family, rules)) + "\n"


def _lines(family: Family, rules: RuleSetup) -> Iterator[str]:
    yield "*filter"
    yield ":INPUT ACCEPT [0:0]"
    yield f":FORWARD {'DROP' if rules.position else 'ACCEPT'} [0:0]"
    yield ":OUTPUT ACCEPT [0:0]"
    if rules.stateful:
        # A match on the state is what makes the kernel track connections in this namespace.
        yield "-A FORWARD -m conntrack --ctstate INVALID -j DROP"
    if rules.answered:
        yield "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"
    for match in chain(family, rules):
        yield f"-A FORWARD {match_words(match)} -j ACCEPT"
    yield "COMMIT"


def match_words(match: AddressMatch) -> str:
    """A match in iptables' syntax."""
    words = f"-s {match.source} -d {match.destination}"
    if match.protocol is not None:
        words += f" -p {match.protocol} --dport {match.port}"
    return words
