"""Rules for nft are read as nft understands them, and nothing that is not understood is passed over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from weirlab.base.errors import InputError
from weirlab.rules import Advice, advise, nftables_path, walk
from weirlab.rules.matching import ALL_STATES, disjoint
from weirlab.rules.nft.written import interfaces

if TYPE_CHECKING:
    from tests.unit.rules.conftest import NftPath

LISTED = """\
table ip nat {
    chain forward {
        type nat hook postrouting priority srcnat; policy accept;
        counter packets 3 bytes 1 accept
    }
}
table inet filter {
    set servers {
        type ipv4_addr
        flags interval
        elements = { 10.0.0.1,
                 10.0.0.2 }
    }

    chain forward {
        type filter hook forward priority filter; policy drop;
        ip saddr 10.0.0.0/8 tcp dport { 22, 2200-2300 } counter packets 3 bytes 180 accept
        ip saddr @servers udp dport 53 counter packets 10 bytes 1 drop comment "dns"
        ct state established,related counter packets 9000 bytes 1 accept
        tcp dport 443 counter packets 50 bytes 1 jump web
        counter packets 5 bytes 10
    }

    chain web {
        ip6 saddr 2001:db8::/32 counter packets 0 bytes 0 reject with tcp reset
        counter packets 49 bytes 1 accept
    }
}
"""


def forward(*lines: str, before: str = "", after: str = "", policy: str = "drop") -> str:
    """A table with one chain for forwarded packets; other objects ``before`` and ``after`` it."""
    body = "\n".join(f"    {line}" for line in lines)
    return (
        f"table inet f {{\n{before}\n  chain forward {{\n"
        f"    type filter hook forward priority filter; policy {policy};\n{body}\n  }}\n{after}\n}}\n"
    )


def advice(nft: NftPath, *lines: str, **around: str) -> Advice:
    return advise(nft(forward(*lines, **around), elements=False))


def test_rules_of_the_forward_hook_are_read_with_counters_and_verdicts(nft: NftPath) -> None:
    (rules,) = nft(LISTED, elements=False)
    assert rules.entry == "forward"
    ssh, dns, established, jump, counted = rules.forward.rules
    assert ssh.match.protocol == ((6, 6),)
    assert ssh.match.destination_port == ((22, 22), (2200, 2300))
    assert (dns.verdict, dns.packets, dns.comment, dns.conditions) == ("drop", 10, "dns", "ip saddr")
    assert established.match.states == {"ESTABLISHED", "RELATED"}
    assert (jump.jump, jump.verdict) == ("web", None)
    assert (counted.verdict, counted.packets) == (None, 5)
    assert [rule.verdict for rule in rules.chains["web"].rules] == ["reject with tcp reset", "accept"]
    assert not any(rule.unclear for chain in rules.chains.values() for rule in chain.rules)


def test_packets_that_no_rule_stops_are_not_counted_by_nft_which_is_noted(nft: NftPath) -> None:
    found = walk(nft(LISTED)[0])
    # A rule that jumps has counted 5 that came back.
    assert found.packets == 3 + 10 + 9000 + 49 + 5
    assert "packets that pass all rules of forward are not counted" in found.notes[0]
    assert "except 5 that a rule counted before" in found.notes[0]


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ("tcp dport 22", "udp dport 22", True),
        ("tcp dport != 22", "tcp dport 22", True),
        ("tcp dport > 1024", "tcp dport 1024", True),
        ("tcp dport >= 1024", "tcp dport 1024", False),
        ("th dport 53", "tcp dport 54", True),
        ("th dport 53", "icmp type echo-request", False),
        ("ip saddr 10.0.0.0/8", "ip6 saddr 2001:db8::/32", True),
        ("ip saddr 10.0.0.0/8", "meta nfproto ipv6", True),
        ("ip saddr != 10.0.0.0/8", "ip saddr { 10.1.0.0/16, 10.2.0.1-10.2.0.9 }", True),
        ("ip saddr @known", "ip saddr @others", False),
        ("ip saddr & 255.0.255.0 == 10.0.1.0", "ip saddr 11.0.0.0/8", False),
        ('iifname "eth*"', 'iifname "wlan0"', True),
        ('iifname { "eth0", "eth1" }', 'iifname "wlan0"', True),
        ('iifname { "eth0", "wl*" }', 'iifname "wlan0"', False),
        ('iifname != { "eth0", "wl*" }', 'iifname { "wlan0", "eth0" }', True),
        ('iifname != { "eth0", "wl*" }', 'iifname { "wlan0", "eth1" }', False),
        ('iifname . oifname { "a" . "b", "c" . "d" }', 'iifname "a" oifname "b"', False),
        ('iifname . oifname { "a" . "b", "c" . "d" }', 'iifname "a" oifname "d"', True),
        ("ip saddr . tcp dport { 10.0.0.1 . 80 }", "ip saddr 10.0.0.1 tcp dport 81", True),
        ("ct state new", "ct state { established, related }", True),
        ("ct state != new", "ct state new", True),
        ("ct state new,established", "ct state & (new | established) == 0", True),
        ("ct state ! invalid", "ct state invalid", True),
        ("meta l4proto tcp", "meta l4proto icmp", True),
        ("ip protocol tcp", "udp dport 5", True),
        ("tcp flags & (fin | syn) == syn", "tcp dport 3", False),
        ("tcp flags & (fin | syn) == syn", "tcp flags & (fin | syn) == fin", True),
        ("tcp flags syn", "tcp flags ! syn", True),
        ("icmp type echo-request", "icmp type { echo-reply, 13-14 }", True),
        ("icmp type echo-request", "icmpv6 type echo-request", True),
        # These neither are the packet's own address and protocol nor interfaces.
        ("fib saddr . iif oif missing", 'iifname "eth0"', False),
        ("ct original ip daddr 203.0.113.1", "ip daddr 10.0.0.5", False),
        ("ip6 nexthdr 0", "udp dport 53", False),
        ("ipsec in ip saddr 10.0.0.1", "ip saddr 10.0.0.2", False),
        ("meta mark 1", "meta mark 2", False),
    ],
)
def test_rules_are_disjoint_only_where_that_is_proved(a: str, b: str, apart: bool, nft: NftPath) -> None:
    sets = "  set known { type ipv4_addr; }\n  set others { type ipv4_addr; }"
    lines = (f"{a} counter packets 1 bytes 1 drop", f"{b} counter packets 2 bytes 1 accept")
    first, second = nft(forward(*lines, before=sets), elements=False)[0].forward.lines
    assert {rule.unclear for rule in (*first, *second)} == {""}
    assert all(disjoint(one.match, other.match) for one in first for other in second) is apart


@pytest.mark.parametrize(
    "first",
    [
        "fib saddr . iif oif missing counter packets 10 bytes 840 drop",
        'iifname . oifname { "eth0" . "eth2" } counter packets 10 bytes 840 drop',
        "ct original ip daddr 203.0.113.1 counter packets 10 bytes 840 drop",
        "ct reply ip saddr 10.0.0.9 counter packets 10 bytes 840 drop",
        "ipsec in reqid 1 counter packets 10 bytes 840 drop",
        "ip6 nexthdr 0 counter packets 10 bytes 840 drop",
        "exthdr hbh exists counter packets 10 bytes 840 drop",
        "udp dport 5060 meta mark set 1 counter packets 10 bytes 840 accept",
        "udp dport 5060 ct mark set 1 counter packets 10 bytes 840 accept",
        "ip dscp set ef counter packets 10 bytes 840 accept",
        "tcp flags syn tcp option maxseg size set 1300 counter packets 10 bytes 840 accept",
        "udp dport 5060 log prefix \"sip \" counter packets 10 bytes 840 accept",
        "udp dport 5060 counter name \"voip\" accept",
        "udp dport 5060 meta nftrace set 1 counter packets 10 bytes 840 accept",
        "udp dport 5060 ct helper set \"sip\" counter packets 10 bytes 840 accept",
        "udp dport 5060 notrack counter packets 10 bytes 840 accept",
        "udp dport 5060 quota over 1 mbytes counter packets 10 bytes 840 drop",
        "udp dport 5060 limit rate 5/second counter packets 10 bytes 840 accept",
        "udp dport 5060 ct count over 5 counter packets 10 bytes 840 drop",
        "udp dport 5060 ip daddr set 10.0.0.7 counter packets 10 bytes 840 accept",
        "udp dport 5060 numgen inc mod 2 0 counter packets 10 bytes 840 accept",
        "udp dport 5060 add @seen { ip saddr } counter packets 10 bytes 840 accept",
        "ip saddr @counted counter packets 10 bytes 840 accept",
        "counter packets 910000 bytes 840 udp dport 5060 accept",
        "udp dport 5060 counter packets 10 bytes 840 jump marks",
        "udp dport 5060 counter packets 10 bytes 840 goto marks",
        "udp dport 5060 counter packets 10 bytes 840 return",
        "udp dport 5060 counter packets 10 bytes 840 reject",
        "ct state established,related accept",
    ],
)  # fmt: skip
def test_nothing_moves_past_a_rule_that_does_more_than_to_accept(first: str, nft: NftPath) -> None:
    objects = (
        '  counter voip { packets 10 bytes 840; }\n  ct helper sip { type "sip" protocol udp; l3proto ip; }\n'
        "  set seen { type ipv4_addr; flags dynamic; }\n"
        "  set counted { type ipv4_addr; counter; elements = { 10.0.0.1 } }\n"
        "  chain marks {\n    meta mark set 5\n  }"
    )
    second = 'meta iifname "eth0" counter packets 900000 bytes 75600000 accept'
    assert advice(nft, first, second, before=objects).moves == []


def test_an_effect_moves_only_past_packets_that_it_does_not_meet(nft: NftPath) -> None:
    mark = "udp dport 5060 meta mark set 1 counter packets 10 bytes 840 accept"
    found = advice(nft, mark, "tcp dport 80 counter packets 900 bytes 1 drop")
    assert [move.place for move in found.moves] == [2]


@pytest.mark.parametrize("inside", ["ip daddr set 10.0.0.9", "notrack", "tcp dport 1 goto deeper"])
def test_nothing_moves_past_a_jump_to_a_chain_that_rewrites(inside: str, nft: NftPath) -> None:
    chains = f"  chain deeper {{\n    ip saddr set 1.1.1.1\n  }}\n  chain rewrite {{\n    {inside}\n  }}"
    jump = "udp dport 5060 counter packets 10 bytes 840 jump rewrite"
    found = advice(nft, jump, "tcp dport 80 counter packets 900 bytes 1 drop", before=chains)
    assert found.moves == []
    assert "chain rewrite may change what other rules compare" in found.kept[0].text


def test_what_nft_does_not_describe_in_json_keeps_its_place() -> None:
    expressions = [
        '{"xt": {"type": "match", "name": "owner"}}',
        '"jump { drop }"',
        '{"warp": 9}',
        '{"match": {}}',
    ]
    for expression in expressions:
        text = (
            '{"nftables": [{"table": {"family": "ip", "name": "f"}}, {"chain": {"family": "ip", '
            '"table": "f", "name": "c", "type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}}, '
            f'{{"rule": {{"family": "ip", "table": "f", "chain": "c", "expr": [{expression}, '
            '{"counter": {"packets": 1, "bytes": 1}}, {"drop": null}]}}, '
            '{"rule": {"family": "ip", "table": "f", "chain": "c", "expr": '
            '[{"counter": {"packets": 900, "bytes": 1}}, {"drop": null}]}}]}'
        )
        found = advise(nftables_path(text))
        assert found.moves == []
        assert "is not understood" in found.kept[0].text


def test_a_rule_without_counter_is_unknown_and_stays(nft: NftPath) -> None:
    lines = (
        "ct state established,related accept",
        "ct state invalid drop",
        "tcp dport 80 counter packets 10 bytes 840 accept",
        "tcp dport 443 counter packets 900 bytes 840 accept",
    )
    found = advice(nft, *lines)
    assert found.before.uncounted == (("forward", 1), ("forward", 2))
    assert [(move.place, move.new_place) for move in found.moves] == [(4, 3)]


def test_a_named_counter_is_read_from_its_object_if_one_rule_uses_it(nft: NftPath) -> None:
    voip = "  counter voip {\n    packets 5000000 bytes 1\n  }"
    lines = ("udp dport 5060 counter name voip accept", "tcp dport 80 counter packets 900 bytes 1 accept")
    found = advice(nft, *lines, before=voip)
    assert found.before.packets == 5_000_900
    assert found.before.mean_position == pytest.approx(1.0, abs=0.001)
    shared = advice(nft, *lines, "udp dport 5061 counter name voip accept", before=voip)
    assert shared.before.uncounted == (("forward", 1), ("forward", 3))


def test_the_counter_behind_a_verdict_map_says_nothing_about_its_verdicts(nft: NftPath) -> None:
    lines = (
        "ct state vmap { established : accept, invalid : drop } counter packets 0 bytes 0",
        "tcp dport 80 counter packets 10 bytes 1 accept",
        "tcp dport 443 counter packets 900 bytes 1 accept",
    )
    found = advice(nft, *lines)
    assert found.before.uncounted == (("forward", 1),)
    assert [(move.place, move.new_place) for move in found.moves] == [(3, 2)]


def test_packets_of_a_chain_whose_jump_does_not_count_are_those_that_it_stops(nft: NftPath) -> None:
    rules = "tcp dport 80 counter packets 70 bytes 1 accept\n    counter packets 30 bytes 1 drop"
    chain = f"  chain web {{\n    {rules}\n  }}"
    found = walk(nft(forward("meta l4proto tcp jump web", before=chain))[0])
    # 100 packets meet the jump and rule 1, 30 of them rule 2.
    assert (found.packets, found.comparisons) == (100, 230)


def test_the_elements_of_sets_are_used_to_aim_and_never_to_reorder(nft: NftPath) -> None:
    sets = (
        "  set known { type ipv4_addr; flags interval; elements = { 10.0.0.1, 10.1.0.0/16 } }\n"
        "  set seen { type ipv4_addr; flags dynamic; elements = { 10.0.0.9 } }\n"
        "  map ports { type inet_service : verdict; elements = { 80 : accept, 81 : drop } }\n"
        "  map changing { type inet_service : verdict; flags timeout; }"
    )
    lines = (
        "ip saddr @known accept",
        "ip saddr @seen accept",
        "tcp dport vmap @ports",
        "tcp dport vmap @changing",
    )
    text = forward(*lines, "add @seen { ip saddr }", before=sets)
    known, seen, ports, changing, _ = nft(text)[0].forward.lines
    assert known[0].match.source == ((0x0A000001, 0x0A000001), (0x0A010000, 0x0A01FFFF))
    assert seen[0].conditions == "ip saddr"
    assert [(rule.match.destination_port, rule.verdict) for rule in ports] == [
        (((80, 80),), "accept"),
        (((81, 81),), "drop"),
    ]
    assert changing[0].unclear == "the elements of @changing may change"
    assert nft(text, elements=False)[0].forward.lines[0][0].conditions == "ip saddr"


def test_a_chain_without_a_name_is_read_and_called_by_the_place_of_its_rule(nft: NftPath) -> None:
    lines = (
        "udp dport 7 accept",
        'iifname "lan" jump { udp dport 53 accept; tcp dport 80 drop; }',
        "udp dport 123 accept",
    )
    (rules,) = nft(forward(*lines, after="  chain output { type filter hook output priority filter; }"))
    assert [rule.jump for rule in rules.forward.rules] == [None, "forward.2", None]
    inner = rules.chains["forward.2"].rules
    assert [rule.verdict for rule in inner] == ["accept", "drop"]
    assert "output" in rules.chains


@pytest.mark.parametrize(
    "objects",
    [
        '  ct helper sip { type "sip" protocol udp; l3proto ip; }',
        "  ct timeout t { protocol tcp; l3proto ip; policy = { established: 100 }; }",
        "  ct expectation e { protocol udp; dport 9876; timeout 2m; size 12; l3proto ip; }",
        '  set s { type ipv4_addr; elements = { 10.0.0.1 comment "a, b : c } d" } }',
        '  comment "a table } with { braces"',
        "  chain out { type filter hook output priority mangle - 5; }",
    ],
)
def test_other_objects_of_a_table_do_not_end_it(objects: str, nft: NftPath) -> None:
    (rules,) = nft(forward("udp dport 53 accept", before=objects))
    assert [rule.verdict for rule in rules.forward.rules] == ["accept"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is not the output of nft -j list ruleset"),
        ("[]", "is not the output of nft -j list ruleset"),
        (
            '{"nftables": [{"table": {"family": "ip", "name": "t"}}]}',
            "these rules have no chain for forwarded packets",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        advise(nftables_path(text))


def test_rules_that_have_counted_nothing_are_refused(nft: NftPath) -> None:
    with pytest.raises(
        InputError, match=r"no packet was counted in chain forward of table inet f.*; .*'counter' in"
    ):
        advice(nft, "udp dport 53 accept")


def test_a_rule_that_drops_what_it_cannot_count_does_so_before_it_compares_more(nft: NftPath) -> None:
    (rules,) = nft(forward("ct count over 2 ct state invalid drop", "ct state invalid ct count over 2 drop"))
    assert [rule.match.states for rule in rules.forward.rules] == [ALL_STATES, {"INVALID"}]


def test_what_nft_leaves_out_of_its_listing_is_a_condition_all_the_same(nft: NftPath) -> None:
    (rules,) = nft(
        forward("th dport 53 ct l3proto ipv4 ip daddr 10.0.0.1 counter drop", "ip daddr 10.0.0.1 drop")
    )
    compared, plain = rules.forward.rules
    assert (compared.conditions, plain.conditions) == ("ct l3proto", "")


def test_a_rule_that_compares_the_version_behind_its_counter_counts_both_versions(nft: NftPath) -> None:
    (rules,) = nft(
        forward(
            "counter packets 5 bytes 9 ip6 hoplimit set 33 reject with icmpv6 no-route",
            "counter packets 5 bytes 9 reject with icmpv6 no-route",
            "ip saddr 10.1.0.0/16 counter packets 9 bytes 9 drop",
        )
    )
    behind, before, four = rules.forward.rules
    assert not disjoint(behind.match, four.match)
    assert disjoint(before.match, four.match)


def test_interfaces_are_those_of_defines_in_sets_and_in_other_defines() -> None:
    text = """\
define WAN = eth2
define LAN = { eth0, "eth1.5" }
define ALL = { $LAN, $WAN }
table ip nat {
    chain postrouting {
        type nat hook postrouting priority 0;
        oif {$WAN} masquerade
        iif $ALL oif "ppp0" accept
    }
}
"""
    assert sorted(interfaces(text)) == ["eth0", "eth1.5", "eth2", "ppp0"]
    assert interfaces("define A = { $A, $A }\niif $A accept") == []


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        ("meta mark set ip saddr map { 10.0.0.0/8 : 1 }", "what it writes"),
        ("meta mark set ct mark", "what it writes"),
        ("meta mark set 5", ""),
        ("meta mark set meta mark or 0x10", ""),
        ('counter name ip saddr map { 10.0.0.1 : "a" }', "counters of a map"),
    ],
)
def test_a_rule_ends_where_a_packet_lacks_what_it_writes_or_counts(
    statement: str, condition: str, nft: NftPath
) -> None:
    chain = f"chain c {{\ntype filter hook forward priority 0;\n{statement} accept\n}}"
    text = f"table ip f {{\ncounter a {{ }}\n{chain}\n}}\n"
    assert nft(text)[0].forward.rules[0].conditions == condition
