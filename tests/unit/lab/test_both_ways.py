"""Rules for traffic that comes from both sides."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.dut import iptables, nftables, rules
from weirlab.lab.dut.rules import Forward
from weirlab.lab.netns import connections
from weirlab.records import RuleSetup
from weirlab.testing.bed import SITE
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import Direction, parse_calls

BOTH = RuleSetup(3, both_ways=True)


@pytest.mark.parametrize("family", rules.FAMILIES)
def test_the_rule_matches_what_either_side_sends(family: rules.Family) -> None:
    one_way = rules.test_traffic(family)
    either = rules.accepted(family, BOTH)
    for end in (one_way.source, one_way.destination):
        assert ipaddress.ip_network(end).subnet_of(ipaddress.ip_network(either.source))  # type: ignore[arg-type]
        assert ipaddress.ip_network(end).subnet_of(ipaddress.ip_network(either.destination))  # type: ignore[arg-type]


@pytest.mark.parametrize("family", rules.FAMILIES)
def test_it_stands_at_the_same_place_and_the_others_are_the_same(family: rules.Family) -> None:
    one_way, either = list(rules.chain(family, RuleSetup(3))), list(rules.chain(family, BOTH))
    assert one_way[:-1] == either[:-1]
    assert either[-1] == rules.accepted(family, BOTH)


def test_iptables_asks_for_source_and_destination() -> None:
    assert "-A FORWARD -s 198.18.0.0/15 -d 198.18.0.0/15 -j ACCEPT\nCOMMIT\n" in iptables.ruleset(4, BOTH)
    assert "-A FORWARD -s 2001:2::/48 -d 2001:2::/48 -j ACCEPT\nCOMMIT\n" in iptables.ruleset(6, BOTH)


def test_every_layout_of_nftables_has_it() -> None:
    assert "ip saddr 198.18.0.0/15 ip daddr 198.18.0.0/15 accept" in nftables.ruleset(BOTH, "linear")
    assert "elements = { 10.0.0.0/28, 10.0.0.16/28, 198.18.0.0/15 }" in nftables.ruleset(BOTH, "set")
    assert "2001:2::/48 : accept" in nftables.ruleset(BOTH, "vmap")


def test_several_positions_for_traffic_of_both_sides_are_refused() -> None:
    with pytest.raises(InputError, match="both sides cannot match at several positions"):
        RuleSetup(99, places=((50, 0.5), (99, 0.5)), both_ways=True)


def test_plain_forwarding_does_not_mind_the_direction() -> None:
    Forward().apply(SITE, RuleSetup(both_ways=True))
    with pytest.raises(InputError, match="has no rules"):
        Forward().apply(SITE, BOTH)


@pytest.mark.parametrize("directions", ["forward", "back", "both"])
def test_what_both_sides_of_a_call_send_is_one_connection(directions: Direction) -> None:
    calls = replace(parse_calls(10), directions=directions)
    # Speech and RTCP of ten calls between the same two hosts, and SIP of all of them.
    assert connections(traffic_of(calls, 0.1)) == 21
