"""Which rules packets are compared with most, and what a set or another place would save."""

from __future__ import annotations

import pytest

from weirlab.rules import iptables_path
from weirlab.rules.chains import Ruleset
from weirlab.rules.costs import KnownAdvice, RuleCost, costs, known_first, sets


def saved(*rules: tuple[int, str], policy: int = 0) -> Ruleset:
    lines = [f"[{packets}:0] -A FORWARD {text}" for packets, text in rules]
    text = "\n".join(["*filter", f":FORWARD ACCEPT [{policy}:0]", *lines, "COMMIT", ""])
    (ruleset,) = [each for each in iptables_path(text) if each.hook == "forward" and 4 in each.families]
    return ruleset


def test_a_rule_costs_what_comes_to_it() -> None:
    rules = saved((10, "-s 10.0.0.1/32 -j DROP"), (60, "-p tcp -j ACCEPT"), (30, "-p udp -j ACCEPT"))
    assert costs(rules) == [
        RuleCost("FORWARD", 1, "-s 10.0.0.1/32 -j DROP", 1.0),
        RuleCost("FORWARD", 2, "-p tcp -j ACCEPT", 0.9),
        RuleCost("FORWARD", 3, "-p udp -j ACCEPT", pytest.approx(0.3)),
    ]


def test_rules_that_differ_in_one_address_are_one_set_of_networks() -> None:
    drops = [(0, f"-s 10.0.0.{host}/32 -p tcp -m tcp --dport 22 -j DROP") for host in range(8)]
    (advice,) = sets(saved((50, "-p udp -j ACCEPT"), *drops, (50, "-p tcp -j ACCEPT")))
    assert (advice.first, advice.last, advice.values) == (2, 9, ("10.0.0.0/29",))
    assert advice.saved == pytest.approx(7 * 0.5)
    assert advice.text == "-s {...} -p tcp -m tcp --dport 22 -j DROP"


def test_ports_are_listed_as_they_are() -> None:
    (advice,) = sets(saved(*[(1, f"-p udp -m udp --dport {port} -j DROP") for port in (53, 123, 161)]))
    assert advice.values == ("53", "123", "161")


@pytest.mark.parametrize(
    "rules",
    [
        ["-s 10.0.0.1/32 -j DROP", "-s 10.0.0.2/32 -j ACCEPT", "-s 10.0.0.3/32 -j DROP"],
        ["! -s 10.0.0.1/32 -j DROP", "! -s 10.0.0.2/32 -j DROP", "! -s 10.0.0.3/32 -j DROP"],
        ["-s 10.0.0.1/32 -j LOG", "-s 10.0.0.2/32 -j LOG", "-s 10.0.0.3/32 -j LOG"],
        ["-s 10.0.0.1/32 -d 10.1.0.1/32 -j DROP", "-s 10.0.0.2/32 -d 10.1.0.2/32 -j DROP", "-j DROP"],
        ["-s 10.0.0.1/32 -m limit --limit 1/sec -j DROP"] * 3,
    ],
)
def test_where_a_set_would_mean_something_else_none_is_advised(rules: list[str]) -> None:
    assert sets(saved(*[(1, text) for text in rules], policy=9)) == []


def test_established_belongs_first_and_what_is_in_its_way_is_named() -> None:
    rules = saved(
        (5, "-s 10.0.0.1/32 -j DROP"),
        (5, "-p tcp -m tcp --dport 80 -j ACCEPT"),
        (90, "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT"),
    )
    assert known_first(rules) == [KnownAdvice("FORWARD", 3, 0.9, pytest.approx((2 * 90 - 10) / 100), (1,))]


def test_established_that_comes_first_needs_no_advice() -> None:
    established = (90, "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    assert known_first(saved(established, (10, "-p tcp -j ACCEPT"))) == []
