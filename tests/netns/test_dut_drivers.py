"""The contract that every driver of a device under test keeps, tried with real packets."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.lab import dut
from weirlab.lab.base import DutDriver
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup

from .conftest import PlainTraffic

pytestmark = pytest.mark.netns

EXAMPLE = "nftables-chains"
"""The driver that docs/add-a-device.md shows, which is in a package of its own."""
GENERATING = [
    "iptables", "iptables-legacy", "iptables-nft", "nftables", "nftables-set", "nftables-vmap", EXAMPLE,
]  # fmt: skip
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


def driver_called(name: str, folder: Path) -> DutDriver:
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
        yield Shared(lab, traffic, traffic.rules())


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
    return [
        RuleSetup(0),
        RuleSetup(1),
        RuleSetup(7),
        RuleSetup(7, stateful=True),
        RuleSetup(0, stateful=True),
    ]


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


@for_drivers(*GENERATING)
def test_only_test_traffic_passes_where_there_are_rules(lab: NetnsLab, traffic: PlainTraffic) -> None:
    for rules in (RuleSetup(1), RuleSetup(7), RuleSetup(7, stateful=True)):
        lab.set_rules(rules)
        assert traffic.is_dropped(source="192.0.2.1"), rules


@for_drivers(*ALL)
def test_setting_the_same_rules_again_changes_nothing(lab: NetnsLab, traffic: PlainTraffic) -> None:
    rules = positions(lab.dut)[-1]
    lab.set_rules(rules)
    once = traffic.rules()
    lab.set_rules(rules)
    assert traffic.rules() == once
    # The lab need not have asked its driver again; the driver itself keeps the same promise.
    lab._driver.apply(lab.site, rules)
    assert traffic.rules() == once


@for_drivers(*GENERATING)
def test_new_rules_replace_the_old_ones_wholly(lab: NetnsLab, traffic: PlainTraffic, shared: Shared) -> None:
    lab.set_rules(RuleSetup(40, stateful=True))
    assert traffic.rules() != shared.untouched
    lab.set_rules(RuleSetup())
    assert traffic.rules() == shared.untouched


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
    dump = traffic.rules()["nft list ruleset"]
    assert dump.count("/28") == 24
    assert dump.count("198.18.0.0/16") == 1


@pytest.mark.parametrize("name", ["forward", *GENERATING])
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
        assert "v" in str(facts["dut_tool"])


@for_drivers(*GENERATING)
def test_impossible_position_is_refused_and_the_rules_stay(lab: NetnsLab, traffic: PlainTraffic) -> None:
    lab.set_rules(RuleSetup(3))
    before = traffic.rules()
    with pytest.raises(InputError, match="matching position -1"):
        lab.set_rules(RuleSetup(-1))
    assert traffic.rules() == before


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
