"""The contract that every driver of a device under test keeps, tried with real packets."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.lab import dut
from weirlab.lab.base import Driver
from weirlab.lab.dut import tool
from weirlab.lab.dut.datapaths.bridges import SWITCH, OpenVswitch
from weirlab.lab.dut.datapaths.ingress import TcFlower, XdpFilter
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

from .conftest import STRANGER, PlainTraffic

pytestmark = pytest.mark.netns

EXAMPLE = "nftables-chains"
"""The driver that docs/add-a-device.md shows, which is in a package of its own."""
FILTERS = [
    "iptables", "iptables-legacy", "iptables-nft", "nftables", "nftables-set", "nftables-vmap", EXAMPLE,
]  # fmt: skip
TRACKING = ["flowtable", "nat", "nat-static"]
"""They track connections whatever their rules are."""
STATELESS = ["bridge", "bridge-ebtables", "openvswitch", "tc-flower", "xdp-filter"]
GENERATING = [*FILTERS, *TRACKING, *STATELESS]
ACCEPTING = [name for name in GENERATING if name != "xdp-filter"]
"""Where there are rules, they drop what no rule accepts."""
ON_THE_PATH = {
    "flowtable": (0.0, 0.2, ("flowtable_slow",)),
    "nat": (0.0, 1.0, ("nat_connections",)),
    "nat-static": (0.0, 1.0, ("nat_connections",)),
    "bridge": (1.0, 1.0, ("bridge_filtered",)),
    "bridge-ebtables": (1.0, 1.0, ("bridge_filtered",)),
    "openvswitch": (1.0, 1.0, ("switch_known", "switch_compared")),
    "tc-flower": (1.0, 1.0, ("flower_accepted",)),
    "xdp-filter": (1.0, 1.0, ("xdp_passed",)),
}
"""How often these counters move for each packet, at least and at most."""
NOISE = 40
"""Packets of the kernel's own, such as those of multicast listener discovery."""
ARRIVALS = {
    "bridge": ("in_rx_packets",),
    "bridge-ebtables": ("in_rx_packets",),
    "tc-flower": ("in_rx_packets",),
    "openvswitch": ("switch_known", "switch_compared"),
}
"""Counters of arrived packets whose fate is settled; those of IP, where the kernel routes."""
FROM_FILE = ["ruleset/iptables-save", "ruleset/nft"]
PACKAGE = Path(__file__).parents[1] / "unit" / "lab" / "weir_chains" / "__init__.py"
ALL = ["forward", *GENERATING, *FROM_FILE]

FILES = {
    "iptables-save": """\
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -s 10.0.0.0/8 -j DROP
-A FORWARD -i in0 -s 198.18.0.0/16 -j ACCEPT
COMMIT
""",
    "nft": """\
#!/usr/sbin/nft -f
table inet filter {
  chain forward {
    type filter hook forward priority filter; policy drop;
    ip saddr 10.0.0.0/8 drop
    iifname "in0" accept
  }
}
""",
}


def driver_called(name: str, folder: Path) -> Driver:
    if name == EXAMPLE:
        return runpy.run_path(str(PACKAGE))["Chains"]()  # type: ignore[no-any-return]
    kind, _, form = name.partition("/")
    if not form:
        return dut.make(kind)
    path = folder / "rules"
    path.write_text(FILES[form])
    return dut.make(kind, path, HOST_FILES)


@dataclass(frozen=True)
class Shared:
    """A lab for several tests, and its rules before anybody set any."""

    lab: NetnsLab
    traffic: PlainTraffic
    untouched: dict[str, str]


@contextmanager
def built(name: str, folder: Path) -> Iterator[NetnsLab]:
    driver = driver_called(name, folder)
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    with NetnsLab(driver) as lab:
        yield lab


@pytest.fixture(scope="module")
def shared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with built(request.param, tmp_path_factory.mktemp("lab")) as lab:
        traffic = PlainTraffic(lab)
        yield Shared(lab, traffic, listed(lab, traffic))


@pytest.fixture
def lab(shared: Shared) -> NetnsLab:
    """The lab of a driver, without the rules of the test before."""
    if shared.lab.dut != "forward":
        shared.lab.set_rules(RuleSetup())
    return shared.lab


@pytest.fixture
def traffic(shared: Shared, lab: NetnsLab) -> PlainTraffic:
    """Plain sockets at both ends of ``lab``."""
    return shared.traffic


def positions(driver: str) -> list[RuleSetup]:
    if driver == "forward":
        return [RuleSetup()]
    if driver in STATELESS:
        return [RuleSetup(0), RuleSetup(1), RuleSetup(7), RuleSetup(2, both_ways=True)]
    return [
        RuleSetup(0),
        RuleSetup(1),
        RuleSetup(7),
        RuleSetup(7, stateful=True),
        RuleSetup(0, stateful=True),
    ]


def listed(lab: NetnsLab, traffic: PlainTraffic) -> dict[str, str]:
    """What all tools say of the device's rules, without counters."""
    driver, said = lab._driver, traffic.rules()
    if isinstance(driver, OpenVswitch):
        command = ["env", "OVS_RUNDIR=/run", "ovs-ofctl", "--no-stats", "dump-flows", SWITCH]
        return {**said, "flows": "\n".join(driver._run(command))}
    if isinstance(driver, XdpFilter):
        # Its map is a hash table: no order.
        script = "xdp-filter status | awk '/  src  /{print $1}' | sort"
        return {**said, "list": "\n".join(driver._running().run(["sh", "-c", script])[1])}
    if isinstance(driver, TcFlower):
        name = lab.site.inward.name
        return {
            **said,
            "filters": tool.printed(lab.site.netns, ["tc", "filter", "show", "dev", name, "ingress"]),
        }
    return said


def for_drivers(*names: str) -> Any:
    return pytest.mark.parametrize("shared", names, indirect=True, ids=lambda name: name)


@for_drivers(*ALL)
def test_test_traffic_passes_under_every_setup(lab: NetnsLab, traffic: PlainTraffic) -> None:
    for rules in positions(lab.dut):
        lab.set_rules(rules)
        assert traffic.arrives(ip=4, l4="udp"), rules
        if lab.dut != "ruleset":
            assert traffic.arrives(ip=4, l4="tcp"), rules
            assert traffic.arrives(ip=6, l4="udp"), rules
            assert traffic.arrives(ip=6, l4="tcp"), rules


@for_drivers(*ACCEPTING)
def test_only_test_traffic_passes_where_there_are_rules(lab: NetnsLab, traffic: PlainTraffic) -> None:
    for rules in positions(lab.dut):
        if rules.position:
            lab.set_rules(rules)
            assert traffic.is_dropped(STRANGER, ARRIVALS.get(lab.dut, ("ip_received",))), rules


@for_drivers(*ALL)
def test_setting_the_same_rules_again_changes_nothing(lab: NetnsLab, traffic: PlainTraffic) -> None:
    rules = positions(lab.dut)[-1]
    lab.set_rules(rules)
    once = listed(lab, traffic)
    lab.set_rules(rules)
    assert listed(lab, traffic) == once
    # The lab need not have asked its driver again; the driver itself keeps the same promise.
    lab._driver.apply(lab.site, rules)
    assert listed(lab, traffic) == once


@for_drivers(*GENERATING)
def test_new_rules_replace_the_old_ones_wholly(lab: NetnsLab, traffic: PlainTraffic, shared: Shared) -> None:
    lab.set_rules(RuleSetup(40, stateful=lab.dut not in STATELESS))
    assert listed(lab, traffic) != shared.untouched
    lab.set_rules(RuleSetup())
    assert listed(lab, traffic) == shared.untouched


@for_drivers("iptables-legacy", "iptables-nft", "nftables")
def test_accepting_rule_stands_at_the_matching_position(lab: NetnsLab, traffic: PlainTraffic) -> None:
    lab.set_rules(RuleSetup(25))
    dump = "\n".join(traffic.rules().values())
    ipv4 = [line for line in dump.splitlines() if "10.0." in line or "198.18.0.0/16" in line]
    assert len(ipv4) == 25
    assert "198.18.0.0/16" in ipv4[-1]
    assert "accept" in ipv4[-1].lower()


@for_drivers("nftables-set", "nftables-vmap")
def test_position_is_the_number_of_elements(lab: NetnsLab, traffic: PlainTraffic) -> None:
    lab.set_rules(RuleSetup(25))
    dump = traffic.rules()["nft --stateless list ruleset"]
    assert dump.count("/28") == 24
    assert dump.count("198.18.0.0/16") == 1


@pytest.mark.parametrize("name", ["forward", *FILTERS])
def test_connections_are_tracked_only_when_asked_for(name: str, tmp_path: Path) -> None:
    # In a lab of its own: what was tracked stays in the table for a while.
    with built(name, tmp_path) as lab:
        traffic = PlainTraffic(lab)
        assert traffic.arrives()
        assert traffic.tracked_connections() == 0
        if lab.dut == "forward":
            return
        lab.set_rules(RuleSetup(3, stateful=True))
        assert traffic.arrives()
        assert traffic.tracked_connections() > 0


@for_drivers(*ALL)
def test_driver_says_what_it_is_made_of(lab: NetnsLab) -> None:
    facts = lab.facts
    assert facts["dut_layout"]
    if lab.dut != "forward":
        assert re.search(r"\d\.\d", str(facts["dut_tool"]))


@for_drivers(*GENERATING)
def test_impossible_position_is_refused_and_the_rules_stay(lab: NetnsLab, traffic: PlainTraffic) -> None:
    lab.set_rules(RuleSetup(3))
    before = listed(lab, traffic)
    with pytest.raises(InputError, match="matching position -1"):
        lab.set_rules(RuleSetup(-1))
    assert listed(lab, traffic) == before


@for_drivers(*STATELESS)
def test_what_tracks_no_connections_refuses_to_be_stateful(lab: NetnsLab, traffic: PlainTraffic) -> None:
    lab.set_rules(RuleSetup(3))
    before = listed(lab, traffic)
    for rules in (RuleSetup(3, stateful=True), RuleSetup(3, answered=True)):
        with pytest.raises(InputError, match="tracks no connections"):
            lab._driver.apply(lab.site, rules)
    assert listed(lab, traffic) == before


@for_drivers(*ON_THE_PATH)
def test_its_own_counters_show_that_packets_pass_it(lab: NetnsLab) -> None:
    # Finding out how packets are sent warms the lab up.
    assert lab.backend
    lab.set_rules(RuleSetup(3))
    before = lab.counters()
    result = lab.run(Traffic(Rate(1000), Constant(128), Flows(count=5), warmup_s=0.0, duration_s=1.0))
    after = lab.counters()
    least, most, names = ON_THE_PATH[lab.dut]
    counted = sum(after[name] - before[name] for name in names)
    assert result.received > 50
    assert least * result.received <= counted <= most * (result.sent + NOISE)


@for_drivers("xdp-filter")
def test_listed_senders_are_dropped_by_xdp(lab: NetnsLab, traffic: PlainTraffic) -> None:
    lab.set_rules(RuleSetup(2))
    before = lab.counters()["xdp_dropped"]
    traffic.add_sender("10.0.0.1")
    assert traffic.is_dropped("10.0.0.1", ("in_rx_packets",))
    assert lab.counters()["xdp_dropped"] - before >= 20
    # Nothing but the list drops.
    lab.set_rules(RuleSetup(1))
    assert not traffic.is_dropped("10.0.0.1", ("xdp_passed",))


def test_senders_behind_nat_have_the_address_of_the_outer_port(tmp_path: Path) -> None:
    for name, network in (("nat", "198.19.0.1/32"), ("nat-static", "10.200.0.0/16")):
        with built(name, tmp_path) as lab:
            source = PlainTraffic(lab).source_on_arrival()
            assert ip_address(source) in ip_network(network)


@for_drivers("forward")
def test_plain_forwarding_has_no_rules_to_set(lab: NetnsLab) -> None:
    for rules in (RuleSetup(1), RuleSetup(0, stateful=True)):
        with pytest.raises(InputError, match="has no rules"):
            lab.set_rules(rules)


@for_drivers(*FROM_FILE)
def test_a_file_decides_alone_whatever_the_position(lab: NetnsLab, traffic: PlainTraffic) -> None:
    before = traffic.rules()
    lab.set_rules(RuleSetup(400, stateful=True))
    assert traffic.rules() == before
    assert "ignored" in str(lab.facts["dut_layout"])


def test_iptables_means_legacy_where_that_works() -> None:
    if dut.make("iptables-legacy").check():
        pytest.skip("iptables-legacy does not work here")
    assert dut.make("iptables").name == "iptables-legacy"
