"""Which rules packets are compared with most, and what a set or another place would save."""

from __future__ import annotations

from dataclasses import replace

import pytest

from weirlab.rules import advise, iptables_path
from weirlab.rules.chains import Ruleset
from weirlab.rules.costs import KnownAdvice, RuleCost, costs, known_first, sets
from weirlab.rules.walking import spans


def saved(*rules: tuple[int, str], policy: int = 0) -> Ruleset:
    lines = [f"[{packets}:0] -A FORWARD {text}" for packets, text in rules]
    text = "\n".join(["*filter", f":FORWARD ACCEPT [{policy}:0]", *lines, "COMMIT", ""])
    (ruleset,) = [each for each in iptables_path(text) if each.hook == "forward" and 4 in each.families]
    return ruleset


def test_a_rule_costs_what_comes_to_it() -> None:
    rules = saved((10, "-s 10.0.0.1/32 -j DROP"), (60, "-p tcp -j ACCEPT"), (30, "-p udp -j ACCEPT"))
    assert costs(rules) == [
        RuleCost("FORWARD", 2, "-p tcp -j ACCEPT", 0.9, 0.6),
        RuleCost("FORWARD", 3, "-p udp -j ACCEPT", pytest.approx(0.3), 0.3),
        RuleCost("FORWARD", 1, "-s 10.0.0.1/32 -j DROP", 1.0, 0.1),
    ]


def test_a_rule_saves_what_the_best_place_with_the_same_meaning_brings() -> None:
    rules = saved(
        (0, "-p tcp -m tcp --dport 22 -j DROP"),
        (10, "-p udp -m udp --dport 53 -j ACCEPT"),
        (70, "-p tcp -j ACCEPT"),
        (20, "-p udp -j ACCEPT"),
    )
    advice = advise([rules])
    by_place = {cost.place: (cost.share, cost.saved) for cost in advice.costs}
    # TCP may pass the rule for port 53, but not the DROP; the DROP may go behind that rule only.
    assert by_place == {
        1: (0.0, pytest.approx(0.1)),
        2: (pytest.approx(0.1), pytest.approx(0.7)),
        3: (pytest.approx(0.7), pytest.approx(0.6)),
        4: (pytest.approx(0.2), 0.0),
    }
    assert {cost.saved for cost in advice.without_order().costs} == {None}


def test_rules_of_both_ip_versions_are_counted_among_all_forwarded_packets() -> None:
    four = saved((5, "-p udp -j ACCEPT"), (60, "-p tcp -j ACCEPT"))
    six = replace(saved((35, "-p tcp -j ACCEPT")), families=(6,))
    found = advise([four, six]).costs
    assert [(cost.chain, cost.place) for cost in found] == [
        ("FORWARD (IPv4)", 2),
        ("FORWARD (IPv6)", 1),
        ("FORWARD (IPv4)", 1),
    ]
    assert [cost.share for cost in found] == pytest.approx([0.6, 0.35, 0.05])
    assert [cost.comparisons for cost in found] == pytest.approx([0.6, 0.35, 0.65])
    assert found[0].saved == pytest.approx(0.55)


def test_sets_and_established_of_both_ip_versions_save_for_all_forwarded_packets() -> None:
    drops = [(1, f"-p udp -m udp --dport {port} -j DROP") for port in (53, 123, 161)]
    known = (47, "-m conntrack --ctstate ESTABLISHED -j ACCEPT")
    alone = saved(*drops, known)
    advice = advise([alone, replace(saved((50, "-p tcp -j ACCEPT")), families=(6,))])
    for (both,), (one,) in ((advice.sets, sets(alone)), (advice.known_first, known_first(alone))):
        assert (both.chain, both.saved) == ("FORWARD (IPv4)", pytest.approx(one.saved / 2))


def test_a_rule_that_keeps_its_place_saves_nothing_and_one_without_a_counter_matches_an_unknown_share() -> (
    None
):
    text = (
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p tcp -j ACCEPT\n"
        "[9:1] -A FORWARD -p udp -m limit --limit 1/sec -j ACCEPT\n"
        "[1:1] -A FORWARD -p icmp -j ACCEPT\nCOMMIT\n"
    )
    found = {cost.place: (cost.share, cost.saved) for cost in advise(iptables_path(text)).costs}
    assert found == {1: (None, None), 2: (pytest.approx(0.9), None), 3: (pytest.approx(0.1), 0.0)}


def test_rules_are_named_as_ranges_and_only_some() -> None:
    many = [("FORWARD", number) for number in range(1, 301)]
    assert spans(many) == "FORWARD 1-300"
    assert spans([*many, ("FORWARD", 302), ("web", 4)]) == "FORWARD 1-300, 302 and web 4"
    assert spans([("FORWARD", 2 * number) for number in range(1, 301)]) == "FORWARD 2, 4, 6 and 297 more"


def test_rules_that_differ_in_one_address_are_one_set_of_networks() -> None:
    drops = [(0, f"-s 10.0.0.{host}/32 -p tcp -m tcp --dport 22 -j DROP") for host in range(8)]
    (advice,) = sets(saved((50, "-p udp -j ACCEPT"), *drops, (50, "-p tcp -j ACCEPT")))
    assert (advice.first, advice.last, advice.values) == (2, 9, ("10.0.0.0/29",))
    assert advice.saved == pytest.approx(7 * 0.5)
    assert advice.text == "-m set --match-set SET src -p tcp -m tcp --dport 22 -j DROP"
    assert advice.set_type == "hash:net"


def test_ports_are_listed_as_they_are() -> None:
    (advice,) = sets(saved(*[(1, f"-p udp -m udp --dport {port} -j DROP") for port in (53, 123, 161)]))
    assert advice.values == ("53", "123", "161")
    assert advice.text == "-p udp -m udp -m set --match-set SET dst -j DROP"
    assert advice.set_type.startswith("bitmap:port")


def test_a_set_has_the_type_and_the_ranges_of_ipset() -> None:
    (ranges,) = sets(saved(*[(1, f"-p tcp -m tcp --sport {low}:{low + 5} -j DROP") for low in (20, 30, 40)]))
    assert ranges.values == ("20-25", "30-35", "40-45")
    assert ranges.text == "-p tcp -m tcp -m set --match-set SET src -j DROP"
    assert replace(ranges, values=("2001:db8::/64",)).set_type == "hash:net family inet6"


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
    saved_, last = pytest.approx((2 * 90 - 10) / 100), pytest.approx((90 - 5) / 100)
    assert known_first(rules) == [KnownAdvice("FORWARD", 3, 0.9, saved_, (1,), last)]


def test_the_last_rule_in_the_way_of_established_has_what_it_costs() -> None:
    """Reported: of 83 rules, only the first was named; the last one cost 26 comparisons."""
    idle = [(0, f"-s 10.0.1.{host}/32 -p tcp -m tcp --dport 80 -j ACCEPT") for host in range(5)]
    (advice,) = known_first(
        saved(
            (1, "-s 10.0.0.1/32 -j DROP"),
            (1, "-p icmp -m limit --limit 1/sec -j ACCEPT"),
            *idle,
            (8, "-s 10.0.0.2/32 -j DROP"),
            *idle,
            (90, "-m conntrack --ctstate ESTABLISHED -j ACCEPT"),
        )
    )
    assert (advice.place, advice.blocked_by) == (14, (1, 2, 8))
    assert advice.last_saves == pytest.approx((6 * 90 - 8) / 100)


def test_established_that_comes_first_needs_no_advice() -> None:
    established = (90, "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    assert known_first(saved(established, (10, "-p tcp -j ACCEPT"))) == []
