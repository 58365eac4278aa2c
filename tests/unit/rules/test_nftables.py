from __future__ import annotations

import pytest

from weirlab.errors import InputError
from weirlab.rules import advise, parse_nftables, walk
from weirlab.rules.matching import disjoint

LISTED = """\
table ip nat { # handle 1
    chain forward {
        type nat hook postrouting priority srcnat; policy accept;
        counter packets 3 bytes 1 accept
    }
}
table inet filter { # handle 2
    set servers {
        type ipv4_addr
        flags interval
        elements = { 10.0.0.1,
                 10.0.0.2 }
    }

    chain forward { # handle 1
        type filter hook forward priority filter; policy drop;
        ip saddr 10.0.0.0/8 tcp dport { 22, 2200-2300 } counter packets 3 bytes 180 accept # handle 4
        ip saddr @servers udp dport 53 counter packets 10 bytes 1 drop comment "dns" # handle 5
        ct state established,related counter packets 9000 bytes 1 accept # handle 7
        tcp dport 443 counter packets 50 bytes 1 jump web # handle 8
        counter packets 5 bytes 10 # handle 9
    }

    chain web { # handle 2
        ip6 saddr 2001:db8::/32 counter packets 0 bytes 0 reject with tcp reset
        counter packets 49 bytes 1 accept
    }
}
"""


def test_rules_of_the_forward_hook_are_read_with_counters_and_verdicts() -> None:
    rules = parse_nftables(LISTED)
    assert rules.entry == "forward"
    ssh, dns, established, jump, counted = rules.forward.rules
    assert ssh.match.protocol == ((6, 6),)
    assert ssh.match.destination_port == ((22, 22), (2200, 2300))
    assert (dns.verdict, dns.packets, dns.match.source) == ("drop", 10, None)
    assert established.match.states == {"ESTABLISHED", "RELATED"}
    assert (jump.jump, jump.verdict) == ("web", None)
    assert (counted.verdict, counted.packets) == (None, 5)
    assert [rule.verdict for rule in rules.chains["web"].rules] == ["reject with tcp reset", "accept"]
    assert not any(rule.unclear for chain in rules.chains.values() for rule in chain.rules)


def test_packets_that_no_rule_stops_are_not_counted_by_nft_which_is_noted() -> None:
    found = walk(parse_nftables(LISTED))
    assert found.packets == 3 + 10 + 9000 + 49
    assert "packets that pass all rules of forward are not counted" in found.notes[0]


@pytest.mark.parametrize(
    ("a", "b", "apart"),
    [
        ("tcp dport 22", "udp dport 22", True),
        ("tcp dport != 22", "tcp dport 22", True),
        ("ip saddr 10.0.0.0/8", "ip6 saddr 2001:db8::/32", True),
        ("ip saddr != 10.0.0.0/8", "ip saddr { 10.1.0.0/16, 10.2.0.1-10.2.0.9 }", True),
        ("ip saddr @a", "ip saddr @b", False),
        ('iifname "eth*"', 'iifname "wlan0"', True),
        ('iifname { "eth0", "eth1" }', 'iifname "wlan0"', True),
        ('iifname { "eth0", "wl*" }', 'iifname "wlan0"', False),
        ('iifname != { "eth0", "wl*" }', 'iifname { "wlan0", "eth0" }', True),
        ('iifname != { "eth0", "wl*" }', 'iifname { "wlan0", "eth1" }', False),
        ("ct state new", "ct state { established, related }", True),
        ("meta l4proto tcp", "meta l4proto icmp", True),
        ("tcp flags & (fin | syn) == syn", "tcp dport 3", False),
    ],
)
def test_rules_are_disjoint_only_where_that_is_proved(a: str, b: str, apart: bool) -> None:
    text = (
        "table inet f {\n chain c {\n  type filter hook forward priority 0; policy drop;\n"
        f"  {a} counter packets 1 bytes 1 drop\n  {b} counter packets 2 bytes 1 accept\n }}\n}}\n"
    )
    first, second = parse_nftables(text).forward.rules
    assert first.unclear == second.unclear == ""
    assert disjoint(first.match, second.match) is apart


@pytest.mark.parametrize(
    "rule",
    [
        "ct state vmap { established : accept, invalid : drop }",
        "limit rate 5/second counter packets 3 bytes 1 accept",
        "tcp dport nonsense counter packets 3 bytes 1 accept",
    ],
)
def test_what_is_not_understood_keeps_its_place_and_is_named(rule: str) -> None:
    text = (
        "table inet f {\n chain c {\n  type filter hook forward priority 0; policy drop;\n"
        f"  {rule}\n  udp dport 53 counter packets 900 bytes 1 accept\n }}\n}}\n"
    )
    advice = advise(parse_nftables(text))
    assert advice.moves == []
    assert advice.kept[0].text.startswith("c rule 1: ")


def test_rules_without_counter_are_named() -> None:
    text = (
        "table ip f {\n chain c {\n  type filter hook forward priority 0; policy drop;\n"
        "  tcp dport 1 accept\n  udp dport 53 counter packets 9 bytes 1 accept\n }\n}\n"
    )
    assert "rules without counter count as never matched: c rule 1" in walk(parse_nftables(text)).notes


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no chain of type filter at the hook forward"),
        ("table ip f {\n chain c {\n", "ends inside table f"),
        (
            "table ip f {\n chain c {\n type filter hook forward priority 0; policy drop;\n drop\n }\n}\n",
            "put 'counter' into the rules",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        parse_nftables(text)
