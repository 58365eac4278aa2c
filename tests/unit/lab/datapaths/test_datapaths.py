"""The rules of devices on other paths than that of a packet filter, as text."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.lab import dut
from weirlab.lab.dut import nftables
from weirlab.lab.dut.datapaths import ingress
from weirlab.lab.dut.datapaths.bridges import ebtables_ruleset, openflow, ruleset
from weirlab.lab.dut.datapaths.ingress import listed
from weirlab.lab.dut.nftables import Nat
from weirlab.records import RuleSetup
from weirlab.testing.bed import SITE


def test_a_bridge_has_a_chain_of_rules_for_each_ip_version() -> None:
    assert ruleset(RuleSetup(2)).splitlines() == [
        "table bridge weir {",
        "  chain four {",
        "    ip saddr 10.0.0.0/28 ip daddr 172.16.0.0 tcp dport 22 accept",
        "    ip saddr 198.18.0.0/16 ip daddr 198.19.0.0/16 accept",
        "  }",
        "  chain six {",
        "    ip6 saddr fd00:0:0::/64 ip6 daddr 2001:db8:0:0::1 tcp dport 22 accept",
        "    ip6 saddr 2001:2:0:1::/64 ip6 daddr 2001:2:0:2::/64 accept",
        "  }",
        "  chain forward {",
        "    type filter hook forward priority filter; policy drop;",
        "    counter ether type vmap { ip : jump four, ip6 : jump six }",
        "  }",
        "}",
    ]


def test_ebtables_gets_the_same_rules() -> None:
    lines = ebtables_ruleset(RuleSetup(2)).splitlines()
    assert lines[2] == ":FORWARD DROP"
    assert lines[6:10] == [
        "-A FORWARD -p IPv4 -j four",
        "-A FORWARD -p IPv6 -j six",
        "-A four -p IPv4 --ip-src 10.0.0.0/28 --ip-dst 172.16.0.0 --ip-proto tcp --ip-dport 22 -j ACCEPT",
        "-A four -p IPv4 --ip-src 198.18.0.0/16 --ip-dst 198.19.0.0/16 -j ACCEPT",
    ]


def test_without_rules_everything_passes_a_bridge() -> None:
    assert "policy accept" in ruleset(RuleSetup())
    assert ":FORWARD ACCEPT" in ebtables_ruleset(RuleSetup())


def test_rules_of_open_vswitch_are_ordered_by_priority() -> None:
    lines = openflow(RuleSetup(3)).splitlines()
    ipv4 = [line for line in lines if "in_port=1" in line and "ipv6" not in line]
    assert [line.split(",")[0] for line in ipv4] == ["priority=3", "priority=2", "priority=1"]
    assert ipv4[0] == (
        "priority=3,in_port=1,tcp,nw_src=10.0.0.0/28,nw_dst=172.16.0.0,tp_dst=22 actions=output:2"
    )
    assert ipv4[2] == "priority=1,in_port=1,ip,nw_src=198.18.0.0/16,nw_dst=198.19.0.0/16 actions=output:2"
    assert openflow(RuleSetup()) == "in_port=1 actions=output:2\nin_port=2 actions=output:1\n"


def test_each_filter_of_flower_has_a_preference_and_the_last_one_drops() -> None:
    lines = ingress.filters(RuleSetup(2), ["in0"]).splitlines()
    begin = "filter add dev in0 ingress chain 4 protocol ip"
    assert lines[3:6] == [
        f"{begin} pref 1 flower ip_proto tcp src_ip 10.0.0.0/28 dst_ip 172.16.0.0 dst_port 22 action pass",
        f"{begin} pref 2 flower src_ip 198.18.0.0/16 dst_ip 198.19.0.0/16 action pass",
        f"{begin} pref 3 flower action drop",
    ]
    assert ingress.filters(RuleSetup(), ["in0"]).count("filter add") == 0


def test_counters_of_flower_tell_accepted_from_dropped() -> None:
    shown = """\
filter protocol ip pref 1 flower chain 0 handle 0x1
  not_in_hw
\taction order 1: gact action goto chain 4
\t random type none pass val 0
\tAction statistics:
\tSent 300 bytes 3 pkt (dropped 0, overlimits 0 requeues 0)
filter protocol ip pref 2 flower chain 4 handle 0x1
\taction order 1: gact action pass
\tAction statistics:
\tSent 200 bytes 2 pkt (dropped 0, overlimits 0 requeues 0)
filter protocol ip pref 3 flower chain 4 handle 0x1
\taction order 1: gact action drop
\tAction statistics:
\tSent 100 bytes 1 pkt (dropped 1, overlimits 0 requeues 0)
"""
    assert ingress.counted(shown) == {"flower_accepted": 2, "flower_dropped": 1}


def test_the_flowtable_comes_after_the_rules_and_has_both_ports() -> None:
    driver = nftables.Flowtable()
    text = driver.text(RuleSetup(3), SITE)
    assert "devices = { in0, out0 }" in text
    assert text.index("198.18.0.0/16") < text.index("flow add @fast")
    assert "devices = { lo }" in driver.text(RuleSetup(3), None)


def test_packets_that_met_the_rules_are_read_from_the_chain() -> None:
    assert (
        nftables.slow_packets(
            "\t\tcounter packets 17 bytes 2244\n\t\tmeta l4proto { 6, 17 } flow add @fast\n"
        )
        == 17
    )


def test_nat_translates_when_packets_leave_and_1_to_1_also_when_they_come() -> None:
    assert 'oifname "out0" counter masquerade' in Nat("masquerade").text(RuleSetup(), SITE)
    static = Nat("static").text(RuleSetup(), SITE)
    assert "snat ip prefix to ip saddr map { 198.18.0.0/16 : 10.200.0.0/16 }" in static
    assert "dnat ip6 prefix to ip6 daddr map { fd00:200:0:1::/64 : 2001:2:0:1::/64 }" in static


def test_xdp_filter_lists_one_host_of_each_network_before_the_position() -> None:
    assert [*listed(RuleSetup(3))] == ["10.0.0.1", "10.0.0.17", "fd00::1", "fd00:0:1::1"]
    assert [*listed(RuleSetup(1))] == [*listed(RuleSetup())] == []


@pytest.mark.parametrize(
    ("name", "rules", "reason"),
    [
        ("bridge", RuleSetup(stateful=True), "tracks no connections"),
        ("bridge-ebtables", RuleSetup(2, answered=True), "tracks no connections"),
        ("openvswitch", RuleSetup(60_001), "takes 60,000 rules at most"),
        ("tc-flower", RuleSetup(60_001), "takes 60,000 rules at most"),
        ("xdp-filter", RuleSetup(2001), "takes 2,000 rules at most"),
        ("xdp-filter", RuleSetup(5, places=((2, 0.5), (5, 0.5))), "does not walk its rules one by one"),
        ("xdp-filter", RuleSetup(5, networks=("198.18.0.0/15",)), "accepts no networks"),
        ("nat", RuleSetup(-1), "matching position -1"),
    ],
)
def test_rules_that_a_device_cannot_have_are_refused(name: str, rules: RuleSetup, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        dut.make(name).apply(SITE, rules)
