"""The rules that devices elsewhere get. Those of nftables and iptables are loaded in tests/netns, too."""

from __future__ import annotations

import re

import pytest

from weirlab.base.errors import InputError, LabError
from weirlab.lab.remote.filters import FILTERS, described, make_filter, nft_ruleset, pf_ruleset
from weirlab.records import RuleSetup

from .targets import FREEBSD, OPENWRT, RecordedTarget


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("position", [1, 7])
def test_only_test_traffic_meets_weirs_rules_and_the_wanted_number_of_them(name: str, position: int) -> None:
    rules = RuleSetup(position)
    text = "\n".join(load.text for load in make_filter(name).loads(rules))
    for source, destination in (("198.18.0.0/16", "198.19.0.0/16"), ("2001:2:0:1::/64", "2001:2:0:2::/64")):
        # One leads test traffic in, the other accepts it.
        entering = [line for line in text.splitlines() if source in line and destination in line]
        assert len(entering) == 2
        accepting = [line for line in text.splitlines() if re.search(r"(?<!policy) accept|ACCEPT|pass", line)]
        of_version = [line for line in accepting if ("::" in line) == (":" in source)]
        assert len(of_version) == position
        assert source in of_version[-1]


@pytest.mark.parametrize("name", FILTERS)
def test_a_device_without_rules_lets_test_traffic_through(name: str) -> None:
    text = "\n".join(load.text for load in make_filter(name).loads(RuleSetup()))
    assert not re.search("drop|DROP|block", text)


def test_rules_of_nft_replace_the_own_table_in_one_transaction() -> None:
    lines = nft_ruleset(RuleSetup(1, stateful=True)).splitlines()
    assert lines[:3] == ["table inet weir", "delete table inet weir", "table inet weir {"]
    assert lines.count("    ct state invalid drop") == 2
    assert "flush ruleset" not in "\n".join(lines)


def test_rules_of_pf_keep_state_only_where_that_is_wanted() -> None:
    assert pf_ruleset(RuleSetup(2)).splitlines() == [
        'anchor "rules4" inet from 198.18.0.0/16 to 198.19.0.0/16 {',
        "  pass quick inet proto tcp from 10.0.0.0/28 to 172.16.0.0 port 22 no state label weir",
        "  pass quick inet from 198.18.0.0/16 to 198.19.0.0/16 no state label weir",
        "  block drop quick",
        "}",
        'anchor "rules6" inet6 from 2001:2:0:1::/64 to 2001:2:0:2::/64 {',
        "  pass quick inet6 proto tcp from fd00:0:0::/64 to 2001:db8:0:0::1 port 22 no state label weir",
        "  pass quick inet6 from 2001:2:0:1::/64 to 2001:2:0:2::/64 no state label weir",
        "  block drop quick",
        "}",
    ]
    assert "no state" not in pf_ruleset(RuleSetup(2, stateful=True))


def test_iptables_replaces_the_rule_that_leads_to_its_chain() -> None:
    iptables = make_filter("iptables")
    iptables.loads(RuleSetup(1))
    (first, _) = iptables.loads(RuleSetup(1, both_ways=True))
    assert first.text.splitlines()[2:4] == [
        "-D FORWARD -s 198.18.0.0/16 -d 198.19.0.0/16 -j WEIR",
        "-I FORWARD 1 -s 198.18.0.0/15 -d 198.18.0.0/15 -j WEIR",
    ]


@pytest.mark.parametrize(
    ("name", "printed", "packets"),
    [
        ("nftables", "counter packets 70 bytes 7 jump rules4\n counter packets 2 bytes 1 jump rules6", 72),
        ("iptables", "   12      744 WEIR       0    --  *      *       198.18.0.0/16   198.19.0.0/16", 12),
        ("pf", "weir 31 30 2040 30 2040 0 0 0\nother 5 5 5 5 5 5 0 0\n", 30),
        ("nftables", "Error: No such file or directory", None),
    ],
)  # fmt: skip
def test_packets_in_weirs_rules_are_read(name: str, printed: str, packets: int | None) -> None:
    assert make_filter(name).packets(printed) == packets


def test_pf_needs_the_anchor_in_the_rules_of_the_device() -> None:
    assert make_filter("pf").missing(RecordedTarget(FREEBSD)) == []
    without = {**FREEBSD, "pfctl -sr": "block drop all\n"}
    (missing,) = make_filter("pf").missing(RecordedTarget(without))
    assert 'put the line anchor "weir" first among the filter rules of /etc/pf.conf' in missing


def test_openwrt_that_offloads_flows_is_refused() -> None:
    fw4 = make_filter("fw4")
    assert fw4.missing(RecordedTarget(OPENWRT)) == []
    offloading = {**OPENWRT, "uci -q get firewall.@defaults[0].flow_offloading": "1\n"}
    (missing,) = fw4.missing(RecordedTarget(offloading))
    assert "fw1 offloads flows, which then pass no rule" in missing
    (missing,) = fw4.missing(RecordedTarget({"sh -c command -v nft": "/usr/sbin/nft"}))
    assert "has no fw4" in missing


def test_a_filter_that_weir_cannot_set_elsewhere_is_refused() -> None:
    with pytest.raises(
        InputError, match="fw4, iptables, iptables-legacy, iptables-nft, nftables, pf, not of 'esp'"
    ):
        make_filter("esp")


def test_the_user_sees_the_rules_and_the_number_of_the_others() -> None:
    text = described(make_filter("nftables").loads(RuleSetup(500)))
    assert "... and 998 rules that test traffic does not match" in text
    assert len(text.splitlines()) < 20


LISTINGS = {
    "nftables": {"nft list tables": "table inet fw4\n"},
    "iptables": {
        f"{tool} -w 20 -S": "-P FORWARD DROP\n-A FORWARD -j WEIRD\n" for tool in ("iptables", "ip6tables")
    },
}


@pytest.mark.parametrize("name", LISTINGS)
def test_only_a_listing_proves_that_nothing_of_weirs_is_there(name: str) -> None:
    assert not FILTERS[name]().existing(RecordedTarget(LISTINGS[name]))
    with pytest.raises(LabError, match="fw1 does not tell whether rules of an earlier test are there"):
        FILTERS[name]().existing(RecordedTarget({}))


def test_the_chain_of_an_earlier_test_is_found() -> None:
    earlier = "-P FORWARD DROP\n-N WEIR\n-A FORWARD -d 198.19.0.0/16 -j WEIR\n-A WEIR -j ACCEPT\n"
    device = RecordedTarget({**LISTINGS["iptables"], "iptables -w 20 -S": earlier})
    assert FILTERS["iptables"]().existing(device).count("WEIR") == 3
