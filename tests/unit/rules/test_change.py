"""What a change of rules does to the number of rules that packets meet."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.rules import Ruleset, RulesetChange, iptables_path, nftables_path, ruleset_change

if TYPE_CHECKING:
    from tests.unit.rules.conftest import NftPath

DUMP = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD {policy}\n{chains}{rules}\nCOMMIT\n"


def path(rules: Sequence[str], policy: str = "DROP [0:0]", chains: Sequence[str] = ()) -> list[Ruleset]:
    shown = "".join(f":{name} - [0:0]\n" for name in chains)
    return iptables_path(DUMP.format(policy=policy, chains=shown, rules="\n".join(rules)))


def accept(port: int, packets: int | None = None, chain: str = "FORWARD") -> str:
    counter = "" if packets is None else f"[{packets}:1] "
    return f"{counter}-A {chain} -p tcp -m tcp --dport {port} -j ACCEPT"


def means(change: RulesetChange) -> tuple[float, float]:
    return change.before.mean_position, change.after.mean_position


BEFORE = [accept(80, 30), accept(443, 60), accept(22, 10)]


@pytest.mark.parametrize("counter", [0, None])
def test_rules_on_top_cost_every_packet_one_comparison_each(counter: int | None) -> None:
    new = [accept(port, counter) for port in range(1000, 1300)]
    change = ruleset_change(path(BEFORE), path([*new, *BEFORE]))
    assert means(change) == pytest.approx((1.8, 301.8))
    assert (change.added, change.removed, change.reordered) == (300, 0, False)
    assert change.least_position == pytest.approx(301.8)
    assert change.unstopping == tuple(("FORWARD", number) for number in range(1, 301))
    assert change.own is None


def test_rules_whose_packets_nothing_counts_are_told_apart() -> None:
    jump, inner = "-A FORWARD -i eth0 -j web", accept(25, chain="web")
    after = [jump, inner, accept(1000), "-A FORWARD -p tcp -j LOG", accept(21), *BEFORE]
    change = ruleset_change(path([accept(21), *BEFORE]), path(after, chains=["web"]))
    assert change.new_jumps == (("FORWARD", 1),)
    assert change.unstopping == (("FORWARD", 2), ("web", 1))
    assert change.uncounted == (("FORWARD", 4),)
    assert ruleset_change(path(BEFORE), path([accept(25), accept(80)], "DROP")).unstopping == (
        ("FORWARD", 1),
    )


def test_the_same_rules_are_no_change_whatever_they_counted() -> None:
    change = ruleset_change(path(BEFORE), path([accept(80, 1), accept(443, 1), accept(22, 99)]))
    assert change.same_rules
    assert change.growth_ratio == 0


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("-p tcp -j ACCEPT", "-p tcp -m comment --comment web -j ACCEPT", True),
        ('-m comment --comment "a b" -j DROP', '-m comment --comment "-j ACCEPT" -j DROP', True),
        (
            "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT",
            "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
            True,
        ),
        (
            "-p tcp -m multiport ! --dports 80,443,22 -j ACCEPT",
            "-p tcp -m multiport ! --dports 22,80,443 -j ACCEPT",
            True,
        ),
        (
            "-p tcp -m tcp --tcp-flags SYN,RST SYN -j DROP",
            "-p tcp -m tcp --tcp-flags RST,SYN SYN -j DROP",
            True,
        ),
        (
            "-p tcp -m tcp --tcp-flags SYN,RST SYN -j DROP",
            "-p tcp -m tcp --tcp-flags SYN,RST RST -j DROP",
            False,
        ),
        (
            "-m state --state NEW,ESTABLISHED -j ACCEPT",
            "-m conntrack --ctstate ESTABLISHED,NEW -j ACCEPT",
            True,
        ),
        ("-m state --state NEW -j LOG", "-m conntrack --ctstate NEW -j LOG", True),
        ("-m state --state NEW -j ACCEPT", "-m conntrack ! --ctstate NEW -j ACCEPT", False),
        ("-p tcp --dport 22 --syn -j DROP", "-p 6 -m tcp --syn --dport 22 -j DROP", True),
        ("-m dscp --dscp 0x2e -j DROP", "-m dscp --dscp 0x2f -j DROP", False),
        ("-p tcp -m ecn --ecn-tcp-cwr -j DROP", "-p tcp -m ecn ! --ecn-tcp-cwr -j DROP", False),
        ("-m limit --limit 5/sec -j ACCEPT", "-m limit --limit 6/sec -j ACCEPT", False),
        ('-j LOG --log-prefix "--comment a"', '-j LOG --log-prefix "--comment b"', False),
        ("-m conntrack --ctstate RELATED -j ACCEPT", "-m conntrack --ctstate ESTABLISHED -j ACCEPT", False),
    ],
)
def test_rules_of_iptables_are_the_same_if_they_decide_alike(first: str, second: str, same: bool) -> None:
    old, new = ([f"[9:1] -A FORWARD {text}", *BEFORE] for text in (first, second))
    assert ruleset_change(path(old), path(new)).same_rules == same


NFT = (
    "table inet f {{\nchain forward {{\ntype filter hook forward priority filter; policy drop;\n"
    "{}\n{}\n}}\n}}\n"
)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('{} accept comment "known"', '{} accept comment "known flows"', True),
        (
            "tcp dport {{ 80, 443, 22 }} {} accept # handle 3",
            "tcp dport {{ 443, 22, 80 }} {} accept # handle 9",
            True,
        ),
        (
            "ip saddr . tcp dport {{ 10.0.0.1 . 80, 10.0.0.2 . 443 }} {} accept",
            "ip saddr . tcp dport {{ 10.0.0.2 . 443, 10.0.0.1 . 80 }} {} accept",
            True,
        ),
        (
            'ip saddr {{ 10.0.0.1, 10.0.0.2 comment "two" }} {} accept',
            'ip saddr {{ 10.0.0.1 comment "one", 10.0.0.2 }} {} accept',
            True,
        ),
        (
            "tcp flags & ecn == ecn {} accept",
            "tcp flags & (ecn) == ecn {} accept",
            True,
        ),
        ("meta l4proto tcp tcp flags & (ecn) != 0 {} accept", "tcp flags ecn {} accept", True),
        ("ip dscp ef {} accept", "ip dscp cs1 {} accept", False),
        ("ip ecn ce {} accept", "ip ecn ect0 {} accept", False),
        ('{} log prefix "comment a" accept', '{} log prefix "comment b" accept', False),
        ("tcp dport {{ 80, 443 }} {} accept", "tcp dport {{ 80, 442 }} {} accept", False),
    ],
)
def test_rules_of_nft_are_the_same_if_they_decide_alike(
    first: str, second: str, same: bool, nft: NftPath
) -> None:
    other, counter = "counter packets 3 bytes 1 drop", "counter packets 9 bytes 9"
    old, new = (nft(NFT.format(text.format(counter), other), elements=False) for text in (first, second))
    assert ruleset_change(old, new).same_rules == same


def test_rules_of_which_only_the_json_is_known_are_the_same_whatever_they_counted() -> None:
    def listing(packets: int) -> list[Ruleset]:
        of = {"family": "inet", "table": "f"}
        chain = {**of, "name": "forward", "type": "filter", "hook": "forward", "prio": 0, "policy": "drop"}
        rule = {
            **of,
            "chain": "forward",
            "expr": [{"counter": {"packets": packets, "bytes": 1}}, {"drop": None}],
        }
        return nftables_path(json.dumps({"nftables": [{"chain": chain}, {"rule": rule}]}))

    assert ruleset_change(listing(5), listing(6)).same_rules


def test_the_same_rules_need_no_counters() -> None:
    uncounted = [accept(port) for port in (80, 443, 22)]
    change = ruleset_change(path(uncounted), path(uncounted))
    assert change.same_rules
    assert change.growth_ratio == 0
    with pytest.raises(InputError, match="no packet was counted"):
        ruleset_change(path(uncounted), path([*uncounted, accept(25)]))
    with pytest.raises(InputError, match="no packet was counted"):
        ruleset_change(path(uncounted), path(uncounted, "ACCEPT [0:0]"))


def test_rules_without_counters_are_judged_by_those_from_before() -> None:
    new = [accept(port) for port in (443, 80, 22, 25)]
    change = ruleset_change(path(BEFORE), path(new, "DROP"))
    assert means(change) == pytest.approx((1.8, (60 + 2 * 30 + 3 * 10) / 100))
    assert (change.added, change.removed, change.reordered) == (1, 0, True)


def test_packets_of_a_rule_that_is_gone_are_compared_with_all_that_are_left() -> None:
    change = ruleset_change(path(BEFORE), path([accept(80), accept(22)]))
    assert means(change) == pytest.approx((1.8, (30 + 2 * 10 + 2 * 60) / 100))
    assert change.least_position == pytest.approx((30 + 2 * 10) / 100)
    assert change.removed == 1


def test_counters_of_the_new_rules_do_not_hide_that_packets_meet_more_rules() -> None:
    """Packets that only the new file counted are no part of the traffic from before."""
    new = [accept(port, 10_000) for port in range(1000, 1100)]
    change = ruleset_change(path(BEFORE), path([*new, *BEFORE]))
    assert means(change) == pytest.approx((1.8, 101.8))
    assert change.own is not None
    assert change.own.mean_position == pytest.approx(50.5, abs=0.1)


@given(counted=st.lists(st.integers(0, 10**9), min_size=6, max_size=6))
def test_what_the_file_after_counted_changes_nothing_for_the_packets_from_before(counted: list[int]) -> None:
    ports = (25, 80, 1000, 443, 22, 1001)
    counters = path([accept(port, count) for port, count in zip(ports, counted, strict=True)])
    bare = ruleset_change(path(BEFORE), path([accept(port) for port in ports]))
    assert means(ruleset_change(path(BEFORE), counters)) == means(bare)


def test_counters_of_before_go_with_their_chain() -> None:
    jump, inner = "-A FORWARD -i eth0 -j web", [accept(port, chain="web") for port in (80, 443)]
    old = [f"[90:1] {jump}", accept(80, 30, "web"), accept(443, 60, "web"), accept(22, 10)]
    change = ruleset_change(
        path(old, chains=["web"]), path([accept(25), jump, *inner, accept(22)], chains=["web"])
    )
    # 30 packets meet the jump and a rule, 60 the jump and two, 10 the jump and the rule after it.
    assert means(change) == pytest.approx((2.6, 3.6))


@pytest.mark.parametrize("word", ["-j", "-g"])
def test_a_new_jump_without_a_counter_is_taken_by_every_packet(word: str) -> None:
    inner = [accept(port, chain="web") for port in range(1000, 1050)]
    new = [f"-A FORWARD {word} web", *inner, *(accept(port) for port in (80, 443, 22))]
    assert means(ruleset_change(path(BEFORE), path(new, chains=["web"])))[1] == pytest.approx(1 + 50 + 1.8)
    counted = [f"-A FORWARD {word} web", *inner, *BEFORE]
    assert means(ruleset_change(path(BEFORE), path(counted, chains=["web"])))[1] >= 1 + 50 + 1.8 - 1e-9


def test_rules_moved_behind_a_new_jump_do_not_look_cheaper_than_they_are() -> None:
    old = [accept(port, 1) for port in range(1000, 1400)]
    new = ["-A FORWARD -j web", *(accept(port, chain="web") for port in range(1000, 1400))]
    change = ruleset_change(path(old), path(new, chains=["web"]))
    assert change.after.mean_position >= 200.5


def test_a_policy_is_a_rule() -> None:
    change = ruleset_change(path(BEFORE), path(BEFORE, "ACCEPT [0:0]"))
    assert (change.added, change.removed, change.growth_ratio) == (1, 1, 0)


def test_rules_before_the_change_need_counters() -> None:
    with pytest.raises(InputError, match=r"old\.rules: no packet was counted in chain FORWARD"):
        ruleset_change(path([accept(80)], "DROP"), path(BEFORE), ("old.rules", "new.rules"))


def both(first: Sequence[str], second: Sequence[str]) -> list[Ruleset]:
    dumps = [DUMP.format(policy="DROP [0:0]", chains="", rules="\n".join(each)) for each in (first, second)]
    return iptables_path(
        f"# Generated by iptables-save v1.8.9\n{dumps[0]}# Generated by ip6tables-save v1.8.9\n{dumps[1]}"
    )


def test_each_ip_version_has_its_own_rules() -> None:
    bare = [accept(port) for port in (80, 443, 22)]
    change = ruleset_change(both(BEFORE, BEFORE), both(bare, [accept(25), *bare]))
    assert means(change) == pytest.approx((1.8, 2.3))


def test_packets_whose_rule_is_gone_stay_in_the_chain_of_their_ip_version() -> None:
    """Reported: they were counted as compared with all rules of the first chain."""
    many = [accept(port) for port in (80, 443, 22, *range(1000, 1500))]
    old = [accept(80, 30), accept(443, 60), accept(22, 10)]
    change = ruleset_change(both(old, [accept(25, 100)]), both(many, [accept(26)]))
    # 100 packets of IPv6 are compared with the one rule that is left.
    assert means(change) == pytest.approx((1.4, 1.4))


def test_packets_of_an_ip_version_without_rules_are_left_out() -> None:
    header = "# Generated by iptables-save v1.8.9\n"
    dump = header + DUMP.format(policy="DROP [0:0]", chains="", rules="\n".join(BEFORE))
    change = ruleset_change(both(BEFORE, [accept(25, 100)]), iptables_path(dump))
    assert (means(change), change.absent) == (pytest.approx((1.8, 1.8)), (6,))
    with pytest.raises(InputError, match="compare files of the same IP version"):
        ruleset_change(both([], [accept(25, 100)]), iptables_path(dump))


@given(
    packets=st.lists(st.integers(0, 1000), min_size=1, max_size=8),
    gone=st.sets(st.integers(0, 7)),
    new=st.lists(st.integers(0, 8), max_size=5),
)
def test_the_bound_is_never_below_what_the_same_traffic_meets(
    packets: list[int], gone: set[int], new: list[int]
) -> None:
    """Packets of a rule that is gone may match any later one; new rules match none of them."""
    if not sum(packets):
        return
    old = [accept(1000 + i, count) for i, count in enumerate(packets)]
    kept = [accept(1000 + i) for i in range(len(packets)) if i not in gone]
    places = sorted(min(at, len(kept)) for at in new)
    for shift, at in enumerate(places):
        kept.insert(at + shift, accept(2000 + shift))
    change = ruleset_change(path(old), path(kept, "DROP"))
    least = sum(
        count * (kept.index(accept(1000 + i)) + 1) for i, count in enumerate(packets) if i not in gone
    )
    assert change.after.comparisons >= least
    assert change.after.packets == sum(packets)


def test_the_counter_of_a_policy_alone_does_not_count_for_the_rules() -> None:
    bare = [accept(port) for port in (25, 80, 443, 22)]
    change = ruleset_change(path(BEFORE), path(bare, "DROP [12:1]"))
    assert change.own is None
    assert means(change) == pytest.approx((1.8, 2.8))
