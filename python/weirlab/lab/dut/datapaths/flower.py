"""Filters of tc's classifier flower in front of a router."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from weirlab.lab.base import Driver, Site
from weirlab.lab.dut import tool
from weirlab.lab.dut.datapaths.stateless import check_stateless
from weirlab.lab.dut.rules import FAMILIES, AddressMatch, Family, chain
from weirlab.records import RuleSetup

COMMAND: Final = ("tc", "-batch", "-")
MOST_RULES: Final = 60_000
"""Each filter has a preference of its own, of 16 bits."""
_PROTOCOLS: Final[Mapping[Family, str]] = {4: "ip", 6: "ipv6"}
_SENT: Final = re.compile(r"gact action (pass|drop)\b.*?Sent \d+ bytes (\d+) pkt", re.DOTALL)


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
        check_stateless(rules, self.name, MOST_RULES)
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
