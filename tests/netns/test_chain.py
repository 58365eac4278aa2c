"""Devices in a row, with real packets."""

from __future__ import annotations

from typing import Any

import pytest

from weirlab.lab.dut import make
from weirlab.lab.netns import NetnsLab
from weirlab.records import RuleSetup
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic

from .conftest import STRANGER, PlainTraffic

pytestmark = pytest.mark.netns


def opened(name: str) -> NetnsLab:
    driver = make(name)
    if missing := driver.check():
        pytest.skip("; ".join(missing))
    return NetnsLab(driver)


@pytest.mark.parametrize(
    "name",
    [
        "nftables + wireguard-go + link:delay=5ms",
        "nat-static + bridge + nat",
        "nat + forward + esp",
        "esp + openvswitch + strongswan-libipsec",
    ],
)
def test_packets_pass_every_device_of_a_chain_and_are_counted_between_them(name: str, made: Any) -> None:
    with opened(name) as lab:
        traffic = PlainTraffic(lab)
        for rules in (RuleSetup(), RuleSetup(7)):
            lab.set_rules(rules)
            assert traffic.arrives()
        assert lab.backend
        before = lab.counters()
        result = lab.run(Traffic(Rate(1000), Constant(128), Flows(count=5), warmup_s=0.0, duration_s=1.0))
        lab.settle()
        after = lab.counters()
        assert result.received > 50
        for counter in ("hop1_out_tx_packets", "hop2_in_rx_packets", "hop2_out_tx_packets"):
            assert result.received <= after[counter] - before[counter] <= result.sent + 40
        assert [str(lab.facts[f"dut_hop{n}"]).split(":")[0] for n in (1, 2, 3)] == [
            one.split(":")[0] for one in name.split(" + ")
        ]
    assert made.left() == []


def test_delays_of_links_add_up() -> None:
    with opened("link:delay=10ms + link:delay=20ms") as lab:
        result = lab.run(
            Traffic(Rate(500), Constant(128), Flows(count=5, ip=6), warmup_s=0.0, duration_s=1.0)
        )
        assert result.received > 0
        assert result.delay_min_ns >= 30_000_000


def test_rules_are_in_one_device_of_a_chain() -> None:
    with opened("forward + nftables") as lab:
        traffic = PlainTraffic(lab)
        lab.set_rules(RuleSetup(3))
        assert traffic.arrives()
        assert traffic.is_dropped(STRANGER, ("hop2_in_rx_packets",))
        assert lab.facts["dut_rules_hop"] == 2
        lab.set_rules(RuleSetup())
        assert "198.18" not in traffic.rules()["nft --stateless list ruleset"]
