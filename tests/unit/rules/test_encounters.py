"""Which rules packets met, from counters."""

from __future__ import annotations

import json

import pytest

from weirlab.rules import iptables_path
from weirlab.rules.encounters import from_arrivals, from_matches
from weirlab.rules.naming import find
from weirlab.rules.nft.listing import arrivals, nftables_path, rule_counters
from weirlab.rules.nft.written import counting

SAVED = """\
*raw
:PREROUTING ACCEPT [100:1]
[0:0] -A PREROUTING -s 10.9.0.0/16 -j DROP
COMMIT
*filter
:FORWARD DROP [10:1]
:web - [0:0]
[0:0] -A FORWARD -p tcp -j DROP
[60:1] -A FORWARD -d 10.1.0.0/16 -j web
[30:1] -A FORWARD -p udp -j ACCEPT
[0:0] -A web -p udp --dport 1 -j ACCEPT
[60:1] -A web -p udp --dport 2 -j ACCEPT
COMMIT
"""


def test_matches_and_policies_give_comparisons_in_all_chains_and_where_packets_ended() -> None:
    path = iptables_path(SAVED)
    found = from_matches(path)
    assert found.packets == 100
    # One rule in raw; then 60 packets meet two rules in FORWARD and two in web, 40 meet three in FORWARD.
    assert found.comparisons == 100 + 60 * 4 + 40 * 3
    assert [(str(place), packets) for place, packets in found.ends] == [
        ("policy of PREROUTING of table raw", 100),
        ("web rule 2", 60),
        ("FORWARD rule 3", 30),
        ("policy of FORWARD", 10),
    ]
    assert found.at(find(path, "web:2")) == 60


def test_without_packets_nothing_was_met() -> None:
    found = from_matches(iptables_path("*filter\n:FORWARD DROP [0:0]\n-A FORWARD -j ACCEPT\nCOMMIT\n"))
    assert (found.packets, found.comparisons, found.ends) == (0, 0, ())


def rule(chain: str, handle: int, *statements: object) -> dict[str, object]:
    described = {"family": "inet", "table": "f", "chain": chain, "handle": handle, "expr": list(statements)}
    return {"rule": described}


def counter(packets: int) -> dict[str, object]:
    return {"counter": {"packets": packets, "bytes": 0}}


def chain(name: str, **base: object) -> dict[str, object]:
    return {"chain": {"family": "inet", "table": "f", "name": name, "handle": 1, **base}}


BASE = {"type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}
UDP = {"match": {"op": "==", "left": {"payload": {"protocol": "udp", "field": "dport"}}, "right": 53}}


def listing(*objects: object) -> str:
    return json.dumps({"nftables": [{"table": {"family": "inet", "name": "f", "handle": 1}}, *objects]})


def test_arrivals_at_rules_give_the_same() -> None:
    rules = (
        chain("forward", **BASE),
        chain("web"),
        rule("forward", 2, UDP, {"jump": {"target": "web"}}),
        rule("forward", 3, UDP, {"accept": None}),
        rule("web", 4, UDP, {"drop": None}),
    )
    path = nftables_path(listing(*rules))
    counted = listing(
        *rules[:2],
        rule("forward", 6, counter(100)),
        rule("forward", 2, UDP, {"jump": {"target": "web"}}),
        rule("forward", 7, counter(60)),
        rule("forward", 3, UDP, {"accept": None}),
        rule("forward", 8, counter(10)),
        rule("web", 9, counter(70)),
        rule("web", 4, UDP, {"drop": None}),
        rule("web", 10, counter(30)),
    )
    found = from_arrivals(path, arrivals(counted))
    assert (found.packets, found.comparisons) == (100, 100 + 60 + 70)
    assert [(str(place), packets) for place, packets in found.ends] == [
        ("forward rule 2 of table inet f", 50),
        ("web rule 1 of table inet f", 40),
        ("policy of forward of table inet f", 10),
    ]


def test_the_policy_decides_behind_chains_that_packets_do_not_return_from() -> None:
    chains = (chain("forward", **BASE), chain("map"), chain("both"))
    rules = (
        rule("forward", 2, UDP, {"goto": {"target": "map"}}),
        rule("map", 3, UDP, {"accept": None}),
        rule("forward", 4, UDP, {"jump": {"target": "both"}}),
        rule("forward", 5, UDP, {"goto": {"target": "both"}}),
    )
    path = nftables_path(listing(*chains, *rules))
    counts = {("inet f", "forward"): [9, 5, 2, 1], ("inet f", "map"): [4, 3], ("inet f", "both"): [3]}
    found = from_arrivals(path, counts)
    assert [(str(place), packets) for place, packets in found.ends] == [
        ("policy of forward of table inet f", 4),
        ("map rule 1 of table inet f", 1),
    ]


def test_counters_of_the_rules_themselves_are_no_arrivals() -> None:
    own = rule("c", 3, counter(7))
    assert arrivals(listing(chain("c", **BASE), rule("c", 2, counter(3)), own, rule("c", 4, counter(2)))) == {
        ("inet f", "c"): [3, 2]
    }


def test_the_counter_of_each_rule_is_read_wherever_it_stands() -> None:
    text = listing(
        rule("c", 2, UDP, counter(3), {"accept": None}),
        rule("c", 3, {"counter": "named"}, {"accept": None}),
        rule("c", 4, UDP, {"accept": None}),
    )
    assert rule_counters(text) == [3, None, None]


LISTED = """\
table inet f {
	set s {
		type ipv4_addr
		elements = { 10.0.0.1, 10.0.0.2 }
	}

	chain c { # handle 1
		type filter hook forward priority filter; policy drop;
		comment "udp; accept"
		ip saddr @s drop # handle 2
		udp dport { 53, 80 } counter packets 1 bytes 2 accept comment "a { b" # handle 3
	}

	chain empty {
	}
}
"""


def test_rules_are_counted_before_they_match_and_at_the_end_of_chains() -> None:
    counted = counting(LISTED)
    assert "\t\tcounter\n\t\tip saddr @s drop # handle 2\n" in counted
    assert "\t\tcounter\n\t\tudp dport { 53, 80 } counter packets 1 bytes 2 accept comment" in counted
    assert counted.count("\t\tcounter\n\t}") == 2
    assert counted.count("counter") == LISTED.count("counter") + 4


@pytest.mark.parametrize("text", ["", "table ip empty {\n}\n"])
def test_rules_without_chains_have_nothing_to_count(text: str) -> None:
    assert counting(text) == text
