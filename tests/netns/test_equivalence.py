"""Orders of rules that packets prove or disprove, in the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from weirlab.base.files import HOST_FILES
from weirlab.lab.dut.rulesets.source import RulesetSource
from weirlab.lab.equivalence.proof import EquivalenceProof, prove, proven_advice
from weirlab.rules import advise
from weirlab.rules.advice import ChainAdvice

pytestmark = pytest.mark.netns

COUNTER = "counter packets 10 bytes 840"
MANY = "counter packets 900000 bytes 75600000"


def forward(*lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return (
        'table inet f {\n  ct helper sip { type "sip" protocol udp; l3proto ip; }\n'
        "  counter voip { packets 10 bytes 840; }\n  chain rewrite { ip daddr set 10.0.0.7; }\n"
        f"  chain forward {{\n    type filter hook forward priority filter; policy drop;\n{body}\n  }}\n}}\n"
    )


def saved(*lines: str) -> str:
    return "\n".join(
        ["*filter", ":FORWARD DROP [9:9]", *(f"-A FORWARD {line}" for line in lines), "COMMIT", ""]
    )


def source(text: str, folder: Path) -> RulesetSource:
    path = folder / "my.rules"
    path.write_text(text)
    return RulesetSource(path, HOST_FILES)


def exchanged(text: str, folder: Path, order: Sequence[int] = (1, 0)) -> EquivalenceProof:
    """What packets show if the rules of the first chain for forwarded packets are put into ``order``."""
    rules = source(text, folder)
    path = rules.path_of_packets(elements=False)
    (ruleset,) = (each for each in path if each.hook == "forward")
    chain = ChainAdvice(ruleset, ruleset.entry, ruleset.entry, tuple(order), ())
    return prove(rules, replace(advise(path), chains=(chain,)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("fib saddr . iif oif missing {} drop", 'iifname "eth0" oifname "eth1" udp dport 5060 {} accept'),
        ('iifname . oifname {{ "eth0" . "eth2" }} {} drop', 'iifname "eth0" udp dport 5060 {} accept'),
        ("ct original ip daddr 203.0.113.1 {} drop", "ip daddr 10.0.0.5 {} accept"),
        ("ct direction reply {} drop", "udp dport 53 {} accept"),
        ("ip6 nexthdr 0 {} drop", "udp dport 53 {} accept"),
        ("udp dport 5060 meta mark set 1 {} accept", "ip saddr 10.0.0.0/8 {} accept"),
        ("udp dport 5060 ct mark set 1 {} accept", "ip saddr 10.0.0.0/8 {} accept"),
        ('udp dport 5060 log prefix "sip " {} accept', "ip saddr 10.0.0.0/8 {} accept"),
        ("udp dport 5060 ip dscp set ef {} accept", "ip saddr 10.0.0.0/8 {} accept"),
        ('udp dport 5060 ct helper set "sip" {} accept', "ip saddr 10.0.0.0/8 {} accept"),
        ('udp dport 5060 counter name "voip" accept', "ip saddr 10.0.0.0/8 {} accept"),
        ("udp dport 5060 {} jump rewrite", "ip daddr 10.0.0.7 {} accept"),
        ("ct state invalid {} drop", "tcp dport 80 {} accept"),
        ("ct state related {} drop", "tcp dport 80 {} accept"),
        ("ct state untracked {} drop", "icmp type echo-request {} accept"),
        ("ip dscp ef {} drop", "udp dport 53 {} accept"),
        ("meta length > 500 {} drop", "udp dport 53 {} accept"),
        ("ip ttl < 5 {} drop", "udp dport 53 {} accept"),
        ("meta mark & 6 == 2 {} drop", "udp dport 53 {} accept"),
        ("tcp flags syn {} drop", "tcp dport 80 {} accept"),
        ("ip saddr 10.0.0.0/24 {} drop", "ip saddr 10.0.0.0/25 {} accept"),
        ("tcp dport 80 {} reject", "tcp dport 80 {} reject with tcp reset"),
    ],
)
def test_an_exchange_that_changes_what_happens_to_a_packet_is_disproved(
    first: str, second: str, tmp_path: Path
) -> None:
    proof = exchanged(forward(first.format(COUNTER), second.format(MANY)), tmp_path)
    assert "a test packet was treated differently" in proof.failure


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("-m conntrack --ctorigdst 203.0.113.1 -j DROP", "-d 10.0.0.5/32 -j ACCEPT"),
        ("-p udp -m udp --dport 53 -j MARK --set-xmark 0x1/0xffffffff", "-s 10.0.0.0/8 -j ACCEPT"),
        ("-m mark --mark 0x5 -j DROP", "-p udp -m udp --dport 53 -j ACCEPT"),
        ("-m conntrack --ctstate INVALID -j DROP", "-p tcp -j ACCEPT"),
        ("-m ttl --ttl-lt 5 -j DROP", "-p udp -j ACCEPT"),
        ("-s 10.0.0.0/24 -j DROP", "-s 10.0.0.0/25 -j ACCEPT"),
        ("-s 2001:db8::/32 -j DROP", "-s 2001:db8::/33 -j ACCEPT"),
        ("-p ipv6-icmp -m icmp6 --icmpv6-type 128 -j DROP", "-i eth+ -j ACCEPT"),
        ('-j LOG --log-prefix "x "', "-p tcp -j ACCEPT"),
    ],
)
def test_an_exchange_of_saved_rules_that_changes_something_is_disproved(
    first: str, second: str, tmp_path: Path
) -> None:
    assert "a test packet was treated differently" in exchanged(saved(first, second), tmp_path).failure


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        ((f"tcp dport 80 {COUNTER} drop", f"udp dport 53 {MANY} accept"), (1, 0)),
        ((f"tcp dport 80 {COUNTER} accept", f"ip saddr 10.0.0.0/8 {MANY} accept"), (1, 0)),
        ((f"udp dport 5 {COUNTER} meta mark set 1 accept", f"udp dport 6-9 {MANY} accept"), (1, 0)),
        ((f"ct state new {COUNTER} drop", f"ct state established,related {MANY} accept"), (1, 0)),
    ],
)
def test_an_exchange_that_changes_nothing_is_proven_by_packets_that_meet_both(
    lines: Sequence[str], order: Sequence[int], tmp_path: Path
) -> None:
    proof = exchanged(forward(*lines), tmp_path, order)
    assert proof.failure == ""
    assert {number for *_, number in proof.rules_met} == {1, 2}
    assert proof.packets >= 8


def test_a_misread_rule_is_contradicted_by_the_kernel(tmp_path: Path) -> None:
    rules = source(forward(f"tcp dport 80 {COUNTER} drop", f"udp dport 53 {MANY} accept"), tmp_path)
    (ruleset,) = rules.path_of_packets(elements=False)
    first, second = ruleset.forward.rules
    wrong = replace(ruleset.forward, rules=(replace(first, match=second.match), second))
    misread = replace(ruleset, chains={**ruleset.chains, "forward": wrong})
    chain = ChainAdvice(misread, "forward", "forward", (1, 0), ())
    proof = prove(rules, replace(advise([ruleset]), chains=(chain,)))
    assert "the kernel contradicts what was read: forward rule 1" in proof.failure


def test_a_rule_that_no_packet_meets_stays(tmp_path: Path) -> None:
    lines = (f"tcp dport 80 {COUNTER} accept", f"udp dport 53 meta skuid 77 {MANY} accept")
    advice, proof = proven_advice(source(forward(*lines), tmp_path), "my.rules")
    assert (advice.moves, proof.failure) == ([], "")
    assert advice.kept[0].text == "forward rule 2: no test packet met it"


def test_the_orders_of_both_ip_versions_in_one_file_are_proven(tmp_path: Path) -> None:
    text = (
        "*filter\n:FORWARD DROP [1:1]\n[1:1] -A FORWARD -p tcp -j ACCEPT\n"
        "[9000:9] -A FORWARD -s {}/32 -p udp -j ACCEPT\nCOMMIT\n"
    )
    rules = source(text.format("10.0.0.1") + text.replace("/32", "/128").format("2001:db8::1"), tmp_path)
    advice, proof = proven_advice(rules, "my.rules")
    assert [chain.name for chain in advice.chains] == ["FORWARD (IPv4)", "FORWARD (IPv6)"]
    assert proof.failure == ""
    assert {families for families, *_ in proof.rules_met} == {(4,), (6,)}
    again = source(rules.reordered(advice.chains)[1], tmp_path).path_of_packets(elements=False)
    assert [ruleset.forward.rules[0].packets for ruleset in again] == [9000, 9000]


@pytest.mark.parametrize("nameless", ["udp dport 7 accept", 'iifname "lan" jump { udp dport 7 accept; }'])
def test_rules_for_nft_are_written_in_the_new_order(nameless: str, tmp_path: Path) -> None:
    lines = (
        nameless,
        f"tcp dport 80 {COUNTER} accept # web",
        f'udp dport {{ 53, 123 }} {MANY} accept comment "busy; # 1" # names',
        f"udp dport 9 {COUNTER} drop",
    )
    rules = source(forward(*lines), tmp_path)
    advice, proof = proven_advice(rules, "my.rules")
    assert proof.failure == ""
    written = rules.reordered(advice.chains)[1]
    (again,) = source(written, tmp_path).path_of_packets(elements=False)
    assert [line[0].packets for line in again.forward.lines] == [None, 900000, 10, 10]
    assert again.forward.rules[1].comment == "busy; # 1"
    # Comments move with their rules, unless nft had to name a chain and lists the rules without comments.
    assert ('accept comment "busy; # 1" # names\n' in written) == ("jump" not in nameless)


def test_what_cannot_be_loaded_is_not_proven_and_says_why(tmp_path: Path) -> None:
    lines = (
        "[1:1] -A FORWARD -p tcp -j ACCEPT",
        "[900:9] -A FORWARD -m set --match-set nosuch src -j ACCEPT",
    )
    text = "\n".join(
        ["*filter", ":FORWARD DROP [0:0]", lines[0], "[800:1] -A FORWARD -p udp -j DROP", lines[1]]
    )
    advice, proof = proven_advice(source(text + "\nCOMMIT\n", tmp_path), "my.rules")
    assert advice.moves
    assert "nosuch" in proof.failure


def test_four_hundred_rules_are_proven_within_the_time(tmp_path: Path) -> None:
    lines = [
        f"[{i * 37 % 1000}:9] -A FORWARD -s 10.{i % 7}.{i % 250}.0/24 -p {'tcp' if i % 2 else 'udp'} "
        f"--dport {i + 1} -j {'DROP' if i % 5 else 'ACCEPT'}"
        for i in range(400)
    ]
    text = "\n".join(["*filter", ":FORWARD DROP [0:0]", *lines, "COMMIT", ""])
    advice, proof = proven_advice(source(text, tmp_path), "my.rules")
    assert proof.failure == ""
    assert len(proof.rules_met) == 400
    assert advice.after.mean_position < advice.before.mean_position


def test_what_rules_count_that_depend_on_chance_may_differ(tmp_path: Path) -> None:
    chance = "numgen random mod 2 0 counter packets 0 bytes 0 counter name voip ip version 5 drop"
    text = forward(f"udp dport 53 {COUNTER} accept", f"udp dport 54 {MANY} accept", chance)
    proof = exchanged(text, tmp_path, (1, 0, 2))
    assert (proof.failure, proof.undetermined) == ("", 0)
    assert proof.packets > 5


def test_a_verdict_that_chance_brings_earlier_is_counted_by_another_rule(tmp_path: Path) -> None:
    rules = forward(
        f"numgen random mod 2 0 {COUNTER} reject",
        f"udp sport 53 {COUNTER} reject",
        f"udp dport 53 {COUNTER} reject",
        f"{COUNTER} reject",
    )
    assert exchanged(rules, tmp_path, (0, 2, 1, 3)).failure == ""


def test_what_chance_does_to_packets_unseen_cannot_be_compared(tmp_path: Path) -> None:
    chance = "numgen random mod 2 0 notrack tcp dport 80 accept"
    text = forward(chance, f"ct state established {COUNTER} accept", f"ct state invalid {MANY} drop", "drop")
    proof = exchanged(text, tmp_path, (0, 2, 1, 3))
    assert "depends on chance, and no trace shows it" in proof.failure


@pytest.mark.parametrize("jump", ["jump shut", 'oifname vmap { "eth1" : jump shut }', "oifname vmap @ways"])
def test_what_rejections_count_in_a_chain_that_forwarded_packets_enter_too_may_differ(
    tmp_path: Path, jump: str
) -> None:
    # Each rejection leaves by the route of the probe, at most one a second to some places.
    text = (
        'table inet f {\n  map ways { type ifname : verdict; elements = { "eth1" : jump shut } }\n'
        f'  chain shut {{ oifname "eth1" {COUNTER} drop; }}\n'
        f"  chain out {{\n    type filter hook output priority filter; policy accept;\n    {jump}\n  }}\n"
        "  chain forward {\n    type filter hook forward priority filter; policy drop;\n"
        f"    tcp dport 80 {COUNTER} reject\n    udp dport 53 {MANY} accept\n"
        f"    udp dport 99 {COUNTER} reject\n    {COUNTER} jump shut\n  }}\n}}\n"
    )
    rules = source(text, tmp_path)
    for _ in range(3):
        advice, proof = proven_advice(rules, str(tmp_path))
        assert (bool(advice.chains), proof.failure) == (True, "")
