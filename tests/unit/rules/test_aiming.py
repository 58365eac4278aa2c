"""Test traffic for the user's own rules, told from the rules alone."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.dut.aiming import RuleTraffic, candidates
from weirlab.rules import Ruleset, as_written, iptables_path
from weirlab.rules.nft.written import written_places
from weirlab.traffic.calls.spec import parse_calls
from weirlab.traffic.flows import table
from weirlab.traffic.spec import Flows

if TYPE_CHECKING:
    from tests.unit.rules.conftest import NftPath

USUAL = Flows()

OFFICE = """\
*raw
:PREROUTING ACCEPT [0:0]
[0:0] -A PREROUTING -s 10.9.0.0/16 -j DROP
COMMIT
*filter
:FORWARD DROP [50:3000]
:web - [0:0]
[9000:1] -A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
[5:1] -A FORWARD -m conntrack --ctstate INVALID -j DROP
[0:0] -A FORWARD -p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN -m conntrack --ctstate NEW -j DROP
[300:1] -A FORWARD -i eth1 -o eth0 -p udp -m udp --dport 443 -m comment --comment "quic out" -j ACCEPT
[500:1] -A FORWARD -i eth0 -o eth1 -d 10.1.2.0/24 -p udp -j web
[900:1] -A FORWARD -s 10.0.0.0/8 -p udp -m udp --dport 53 -j ACCEPT
[1:1] -A FORWARD -d 10.1.2.7/32 -p tcp -m tcp --dport 22 -j ACCEPT
[0:0] -A FORWARD -p esp -j ACCEPT
[200:1] -A FORWARD -s 10.9.8.0/24 -d 10.1.2.0/24 -j ACCEPT
[3:1] -A web -m limit --limit 5/min -j LOG --log-prefix "web "
[400:1] -A web -p udp -m multiport --dports 8080,8443 -m conntrack --ctstate NEW -j ACCEPT
[0:0] -A web -d 10.1.2.99/32 -m set --match-set blocked src -j DROP
[9:1] -A web -j RETURN
COMMIT
"""

BRANCH = """\
table inet filter { # handle 1
	set blocked { # handle 3
		type ipv4_addr
		flags interval
		elements = { 192.168.10.0-192.168.10.127, 203.0.113.0/24 }
	}

	chain forward { # handle 2
		type filter hook forward priority filter; policy drop;
		ct state vmap { invalid : drop, established : accept, related : accept } # handle 6
		ip saddr @blocked drop # handle 7
		iifname "lan*" oifname "wan" ip saddr 192.168.10.0/24 udp dport { 443, 500-600 } accept # handle 9
		iifname "lan*" oifname "wan" jump more # handle 11
	}

	chain more { # handle 4
		ip6 saddr fd00:10::/64 tcp dport 22 accept # handle 12
		tcp dport vmap { 80 : accept, 81 : drop } # handle 13
	}
}
table ip late { # handle 2
	chain forward { # handle 1
		type filter hook forward priority filter + 10; policy accept;
		udp dport 443 drop # handle 2
	}
}
"""


def office(match: str | None, flows: Flows = USUAL) -> RuleTraffic:
    return next(candidates(iptables_path(OFFICE), "office.save", match, flows))


@pytest.fixture
def branch(nft: NftPath) -> Callable[[str | None], RuleTraffic]:
    path = as_written(nft(BRANCH), written_places(BRANCH))
    return lambda match: next(candidates(path, "branch.nft", match, USUAL))


def test_the_accepting_rule_that_counted_most_packets_is_met_and_the_one_passed_over_is_named() -> None:
    found = office(None)
    assert found.rule == "FORWARD rule 6"
    assert found.endpoints is not None
    assert found.endpoints.destination_port == (53, 53)
    assert ipaddress.ip_address(found.endpoints.source[0]) in ipaddress.ip_network("10.0.0.0/8")
    assert (
        "FORWARD rule 1, which counted most packets, matches packets in the state ESTABLISHED"
        in found.sentence
    )


@pytest.mark.parametrize("name", ["web:2", "web rule 2", "8080,8443", "line 18"])
def test_a_rule_is_named_by_place_words_or_line(name: str) -> None:
    found = office(name)
    assert found.rule == "web rule 2"
    assert (found.inward, found.outward) == ("eth0", "eth1")
    assert found.endpoints is not None
    assert found.endpoints.destination_port == (8080, 8080)
    assert found.endpoints.destination[0] == "10.1.2.1"


@pytest.mark.parametrize(("name", "rule"), [("handle 9", 3), ("500-600", 3), ("forward:3", 3), ("more 2", 2)])
def test_a_rule_of_nft_is_named_by_handle_comment_or_chain(
    name: str, rule: int, branch: Callable[[str | None], RuleTraffic]
) -> None:
    assert f"rule {rule} of table inet filter" in branch(name).rule


def test_a_comment_counts_before_words_of_other_rules() -> None:
    assert office("quic out").rule == "FORWARD rule 4"


def test_what_earlier_rules_and_other_base_chains_drop_is_left_out(
    branch: Callable[[str | None], RuleTraffic],
) -> None:
    """Half of the sources are blocked, and the second table drops one of the two ports."""
    found = branch("handle 9")
    assert found.endpoints is not None
    assert found.endpoints.source == ("192.168.10.129", "192.168.10.254")
    assert found.endpoints.destination_port == (500, 600)
    assert (found.inward, found.outward) == ("lan0", "wan")


def test_protocol_and_ip_version_follow_the_rule_where_it_takes_no_other(
    branch: Callable[[str | None], RuleTraffic],
) -> None:
    found = branch("more 1")
    assert (found.l4, found.ip) == ("tcp", 6)
    assert (branch("more 2").l4, branch("more 2").ip) == ("tcp", 4)
    assert branch(None).l4 == "udp"


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("1", r"FORWARD rule 1 \(-m conntrack .*\) matches packets in the state ESTABLISHED or RELATED"),
        ("2", r"FORWARD rule 2 .* matches packets in the state INVALID"),
        ("5", r"FORWARD rule 5 .* decides nothing: it jumps to web"),
        ("7", r"FORWARD rule 7 .* is not reached by .*: an earlier rule decides, FORWARD rule 3"),
        ("8", r"FORWARD rule 8 .* matches another protocol; test traffic is UDP or TCP"),
        ("9", r"FORWARD rule 9 .* is not reached by .*: .* decides, PREROUTING rule 1 of table raw"),
        ("10.1.2", r"means several rules: FORWARD rule 5 \(.*\); FORWARD rule 7 .* and 1 more"),
        ("77", r"no rule for forwarded packets is called '77'; give its place"),
    ],
)
def test_a_rule_that_no_test_traffic_meets_is_refused_with_the_reason(name: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        office(name)


@pytest.mark.parametrize("name", ["1", "RELATED,ESTABLISHED"])
def test_answered_traffic_meets_the_rule_for_known_connections_with_flows_that_another_rule_lets_in(
    name: str,
) -> None:
    found = office(name, Flows(answered=True))
    assert (found.rule, found.answered, found.expected) == ("FORWARD rule 1", True, None)
    assert found.endpoints is not None
    assert found.endpoints.destination_port == (53, 53)


def test_a_rule_for_known_connections_that_stands_last_is_met_if_the_others_match_new_ones() -> None:
    text = (
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p udp -m udp --dport 53{new} -j ACCEPT\n"
        "-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\nCOMMIT\n"
    )
    with pytest.raises(InputError, match="--answered makes such packets"):
        next(candidates(iptables_path(text.format(new="")), "my.rules", "2", Flows()))
    with pytest.raises(InputError, match=r"FORWARD rule 1; .*let that one match state NEW"):
        next(candidates(iptables_path(text.format(new="")), "my.rules", "2", Flows(answered=True)))
    advised = iptables_path(text.format(new=" -m conntrack --ctstate NEW"))
    assert next(candidates(advised, "my.rules", "2", Flows(answered=True))).rule == "FORWARD rule 2"


SITE = """\
*filter
:FORWARD DROP [0:0]
[1:1] -A FORWARD{site} -p tcp -m tcp --dport 22 -j ACCEPT
[7:1] -A FORWARD{site} -d 10.1.0.0/16 {other} -m conntrack --ctstate NEW -j ACCEPT
[9:1] -A FORWARD{back} -m conntrack --ctstate RELATED,ESTABLISHED -m comment --comment known -j ACCEPT
COMMIT
"""


def test_connections_for_a_rule_for_known_ones_are_opened_by_any_rule_that_accepts_them() -> None:
    path = iptables_path(SITE.format(site="", back="", other="-p udp -m udp --dport 5060"))
    found = next(candidates(path, "my.rules", "known", Flows(answered=True)))
    assert (found.rule, found.l4) == ("FORWARD rule 3", "udp")
    assert found.endpoints is not None
    assert found.endpoints.destination_port == (5060, 5060)


@pytest.mark.parametrize(
    ("site", "back", "other", "obstacle"),
    [
        ("", "", "-p icmp", r"an earlier rule decides, FORWARD rule 1; that takes packets of known"),
        (" -i lan", " -i wan", "-p udp", r"no rule accepts the packet that opens one; .* policy of FORWARD"),
    ],
)
def test_what_keeps_traffic_from_a_rule_for_known_connections_is_named(
    site: str, back: str, other: str, obstacle: str
) -> None:
    path = iptables_path(SITE.format(site=site, back=back, other=other))
    with pytest.raises(InputError, match=obstacle):
        next(candidates(path, "my.rules", "known", Flows(answered=True)))


def test_first_packets_of_answered_traffic_meet_a_rule_for_new_connections_that_is_named() -> None:
    found = office("web:2", Flows(answered=True))
    assert (found.rule, found.answered) == ("web rule 2", True)


def test_a_ruleset_that_accepts_no_test_traffic_is_refused_with_the_reason_of_each_rule() -> None:
    text = (
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m state --state ESTABLISHED -j ACCEPT\n"
        "-A FORWARD -i lo -j ACCEPT\nCOMMIT\n"
    )
    with pytest.raises(
        InputError, match=r"no rule accepts test traffic: FORWARD rule 1 .*; FORWARD rule 2 .*"
    ) as no:
        next(candidates(iptables_path(text), "my.rules", None, Flows()))
    assert "it ends at the policy of FORWARD" in str(no.value)


def test_a_rule_that_may_or_may_not_match_is_told() -> None:
    text = (
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m string --string x --algo bm -j DROP\n"
        "-A FORWARD -p udp -j ACCEPT\nCOMMIT\n"
    )
    found = next(candidates(iptables_path(text), "my.rules", None, Flows()))
    assert found.rule == "FORWARD rule 2"
    assert "whether it also matches FORWARD rule 1 is not known" in found.doubt


def test_flows_keep_to_the_rule_and_are_all_different(branch: Callable[[str | None], RuleTraffic]) -> None:
    endpoints = branch("handle 9").endpoints
    assert endpoints is not None
    for order in ("advance", "random"):
        found = table(Flows(count=1000, order=order), endpoints=endpoints)
        sources = {bytes(row[:4]) for row in found.src_ip}
        assert all(b"\xc0\xa8\x0a\x81" <= source <= b"\xc0\xa8\x0a\xfe" for source in sources)
        assert set(found.dst_port.tolist()) <= set(range(500, 601))
        keys = zip(
            map(bytes, found.src_ip), map(bytes, found.dst_ip), found.src_port, found.dst_port, strict=True
        )
        assert len(set(keys)) == 1000


def test_a_large_ruleset_is_walked_in_no_time() -> None:
    lines = [f"-A FORWARD -s 10.{i >> 8}.{i & 255}.0/24 -p udp --dport {1 + i} -j DROP" for i in range(3000)]
    text = "*filter\n:FORWARD DROP [0:0]\n" + "\n".join(
        [*lines, "-A FORWARD -s 10.0.0.0/8 -j ACCEPT", "COMMIT", ""]
    )
    found = next(candidates(iptables_path(text), "large.save", None, Flows()))
    assert found.rule == "FORWARD rule 3001"


def walked(path: list[Ruleset]) -> list[str]:
    return [ruleset.table for ruleset in path]


def test_every_base_chain_that_a_forwarded_packet_meets_is_walked_in_order(nft: NftPath) -> None:
    assert walked(iptables_path(OFFICE)) == ["raw", "filter"]
    assert walked(nft(BRANCH)) == ["inet filter", "ip late"]


def rules(*lines: str, policy: str = "DROP") -> list[Ruleset]:
    """A path of one chain FORWARD in the format of iptables-save."""
    return iptables_path("\n".join(["*filter", f":FORWARD {policy} [0:0]", *lines, "COMMIT", ""]))


def forward(*lines: str, table: str = "inet filter", policy: str = "drop") -> str:
    """A table of one chain for forwarded packets in the syntax of nft."""
    base = f"type filter hook forward priority filter; policy {policy};"
    return "\n".join([f"table {table} {{", "chain forward {", base, *lines, "}", "}", ""])


def target(path: list[Ruleset], match: str | None = None, flows: Flows = USUAL) -> RuleTraffic:
    return next(candidates(path, "my.rules", match, flows))


@pytest.mark.parametrize("zones", [5, 60])
def test_a_rule_behind_the_last_of_many_interfaces_is_reached(zones: int) -> None:
    calls = [f"-A FORWARD -i vlan{i} -j z{i}" for i in range(zones)]
    rule = f'-A z{zones - 1} -p udp -m udp --dport 5 -m comment --comment "last" -j ACCEPT'
    text = "\n".join(["*filter", ":FORWARD DROP [0:0]", *(f":z{i} - [0:0]" for i in range(zones))])
    found = target(iptables_path("\n".join([text, *calls, rule, "COMMIT", ""])), "last")
    assert (found.inward, found.rule) == (f"vlan{zones - 1}", f"z{zones - 1} rule 1")
    # Every call before, its own, and the rule.
    assert found.compared == zones + 1


def test_a_rule_for_all_other_interfaces_is_reached_by_one_that_no_rule_names(nft: NftPath) -> None:
    path = nft(forward('iifname { "lan", "in*" } drop', 'oifname != "wan" drop', "udp dport 53 accept"))
    found = target(path, "3")
    assert found.inward not in ("lan", "in0")
    assert found.outward == "wan"


@pytest.mark.parametrize(
    ("line", "inward", "outward"),
    [
        ('iifname { "lan", "wlan" } oifname "wan" accept', ("lan", "wlan"), ("wan",)),
        ('iifname { "br-*", "tun1" } accept', ("br-0", "tun1"), ("out0",)),
        ('oifname vmap { "dmz" : drop, "wan" : accept }', ("in0",), ("wan",)),
    ],
)
def test_the_interfaces_are_among_those_that_a_rule_lists(
    line: str, inward: tuple[str, ...], outward: tuple[str, ...], nft: NftPath
) -> None:
    found = target(nft(forward(line)))
    assert found.inward in inward
    assert found.outward in outward


def test_a_rule_that_certainly_matches_comes_before_one_that_may_not(nft: NftPath) -> None:
    found = target(nft(forward("ct status dnat accept", 'iifname "lan" oifname "wan" accept')))
    assert found.rule == "forward rule 2 of table inet filter"
    assert "not certain" not in found.doubt


def test_without_a_certain_rule_the_doubt_is_reported(nft: NftPath) -> None:
    found = target(nft(forward("ct status dnat accept")))
    assert found.rule == "forward rule 1 of table inet filter"
    assert "whether it does is not certain" in found.doubt


def test_a_busier_rule_that_is_uncertain_is_passed_over_with_the_reason() -> None:
    found = target(
        rules(
            "[900:1] -A FORWARD -m string --string x --algo bm -j ACCEPT",
            "[5:1] -A FORWARD -p udp -j ACCEPT",
        )
    )
    assert found.rule == "FORWARD rule 2"
    assert "FORWARD rule 1, which counted most packets, may or may not match" in found.sentence


def test_the_protocol_is_that_of_the_busiest_rule() -> None:
    found = target(
        rules(
            "[5:1] -A FORWARD -p udp -m udp --dport 53 -j ACCEPT",
            "[900:1] -A FORWARD -p tcp -m tcp --dport 443 -j ACCEPT",
        )
    )
    assert (found.rule, found.l4) == ("FORWARD rule 2", "tcp")
    assert "the rule that counted most packets" in found.sentence


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["-A FORWARD -s 198.18.0.0/15 -j ACCEPT"], "this one accepts the usual test traffic"),
        (["-A FORWARD -s 10.0.0.0/8 -j ACCEPT"], "this is the first that test traffic reaches"),
    ],
)
def test_without_counters_the_reason_for_the_rule_is_given(lines: list[str], why: str) -> None:
    assert f"no rule that accepts has counted packets; {why}" in target(rules(*lines)).sentence


def test_rules_of_the_other_ip_version_are_not_walked(nft: NftPath) -> None:
    dual = [*nft(forward("udp dport 53 accept", table="ip filter")), *nft(forward(table="ip6 filter"))]
    assert (target(dual).rule, target(dual).ip) == ("forward rule 1 of table ip filter", 4)
    with pytest.raises(InputError, match="ends at the policy of forward of table ip6 filter"):
        target(nft(forward(table="ip6 filter")))


@pytest.mark.parametrize(("table", "ip", "other"), [("ip f", 4, 6), ("ip6 f", 6, 4)])
def test_the_ip_version_follows_the_rules(
    table: str, ip: Literal[4, 6], other: Literal[4, 6], nft: NftPath
) -> None:
    found = target(nft(forward("udp dport 7 accept", table=table)), flows=Flows(ip=other))
    assert found.ip == ip
    assert f"IPv{ip}, since no rule is for IPv{other}" in found.sentence
    calls = parse_calls("10", "g711", "rtp", other)
    with pytest.raises(InputError, match=f"the rules are for IPv{ip}, the calls IPv{other}: give --ip {ip}"):
        next(candidates(nft(forward("accept", table=table)), "my.rules", None, USUAL, calls))


def test_packets_that_are_not_tracked_match_no_rule_for_new_connections() -> None:
    raw = "*raw\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p udp --dport 53 -j CT --notrack\nCOMMIT\n"
    forward = (
        "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p udp --dport 53 -m conntrack --ctstate NEW -j ACCEPT\n"
        "-A FORWARD -m conntrack --ctstate UNTRACKED -j ACCEPT\nCOMMIT\n"
    )
    path = iptables_path(raw + forward)
    assert target(path, "2").endpoints is not None
    with pytest.raises(InputError, match=r"FORWARD rule 1 .* is not reached"):
        target(path, "1")
