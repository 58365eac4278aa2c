"""Rules that accept test traffic at several positions: what the drivers write, what the simulation does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weirlab.base.errors import InputError
from weirlab.lab.dut import iptables, nftables
from weirlab.lab.dut import rules as rulesets
from weirlab.lab.dut.nftables import Nftables
from weirlab.lab.dut.rules import FAMILIES, Family, Forward, chain
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.records import EngineResult, RuleSetup
from weirlab.testing.bed import SITE
from weirlab.traffic.places import network
from weirlab.traffic.spec import Flows, LoadStep, Rate, Traffic

MIXED = RuleSetup.mixed(((1, 0.5), (4, 0.5)))
EXACT = SimDevice(
    service_fixed_ns=1000.0, service_per_rule_ns=10.0, service_per_byte_ns=0.0, base_delay_ns=0.0,
    noise="none",
)  # fmt: skip


@given(
    st.lists(st.integers(1, 200), min_size=2, max_size=16, unique=True).map(sorted), st.sampled_from(FAMILIES)
)
def test_each_place_has_its_accepting_rule_and_the_rest_are_fillers(
    positions: list[int], family: Family
) -> None:
    rules = RuleSetup.mixed(tuple((n, 1 / len(positions)) for n in positions))
    matches = list(chain(family, rules))
    assert len(matches) == positions[-1]
    accepting = [
        n for n, match in enumerate(matches, 1) if match.source == rulesets.test_traffic(family).source
    ]
    assert accepting == positions
    assert [matches[n - 1].destination for n in accepting] == [
        network(family, place) for place in range(len(positions))
    ]
    assert len(set(matches)) == len(matches)


def test_one_place_is_the_ruleset_that_it_always_was() -> None:
    assert list(chain(4, RuleSetup.mixed(((3, 1.0),)))) == list(chain(4, RuleSetup(3)))
    assert list(chain(4, RuleSetup())) == []


def test_an_accepting_rule_asks_for_as_much_as_the_single_one() -> None:
    lines = [line for line in iptables.ruleset(4, MIXED).splitlines() if line.startswith("-A")]
    single = [line for line in iptables.ruleset(4, RuleSetup(4)).splitlines() if line.startswith("-A")]
    assert lines[0] == "-A FORWARD -s 198.18.0.0/16 -d 198.19.0.0/20 -j ACCEPT"
    assert lines[3] == "-A FORWARD -s 198.18.0.0/16 -d 198.19.16.0/20 -j ACCEPT"
    assert [len(line.split()) for line in (lines[0], lines[3])] == [len(single[3].split())] * 2
    assert lines[1:3] == single[:2], "the same fillers"


def test_nftables_says_the_same() -> None:
    accepting = [line.strip() for line in nftables.ruleset(MIXED, "linear").splitlines() if "198.18" in line]
    assert accepting == [
        "ip saddr 198.18.0.0/16 ip daddr 198.19.0.0/20 accept",
        "ip saddr 198.18.0.0/16 ip daddr 198.19.16.0/20 accept",
    ]


@pytest.mark.parametrize("layout", ["set", "vmap"])
def test_devices_that_do_not_walk_their_rules_refuse_several_places(layout: str) -> None:
    driver = Nftables(layout)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="does not walk its rules"):
        driver.apply(SITE, MIXED)
    with pytest.raises(InputError, match="no rules"):
        Forward().apply(SITE, MIXED)


def test_a_setup_whose_position_is_not_its_last_place_is_refused() -> None:
    with pytest.raises(InputError, match=r"RuleSetup\.mixed"):
        RuleSetup(3, places=((1, 0.5), (4, 0.5)))


def test_a_setup_knows_its_mean_position_and_where_it_accepts() -> None:
    assert (MIXED.mean_position, MIXED.accepting) == (2.5, (1, 4))
    assert (RuleSetup(7).mean_position, RuleSetup(7).accepting) == (7, (7,))
    assert RuleSetup().accepting == ()


# From here on: the simulated lab.


def send(rules: RuleSetup, rate_pps: float, **traffic: Any) -> EngineResult:
    with SimLab(EXACT) as lab:
        lab.set_rules(rules)
        return lab.run(Traffic(Rate(rate_pps), warmup_s=0.02, duration_s=0.1, **traffic))


def test_the_simulated_device_serves_every_flow_at_its_own_position() -> None:
    result = send(RuleSetup.mixed(((100, 0.25), (300, 0.75))), 1000.0, flows=Flows(4))
    sent = result.flows.sent
    delays = result.flows.delay_mean_ns
    np.testing.assert_allclose(sent / sent.sum(), [0.125, 0.125, 0.375, 0.375], atol=0.05)
    np.testing.assert_allclose(delays, [2000, 2000, 4000, 4000])


def test_in_overload_mixed_positions_forward_what_their_mean_does() -> None:
    device = SimDevice(service_per_byte_ns=0.0, noise="gamma", noise_cv=0.3)
    rates = []
    for rules in (RuleSetup.mixed(((1, 0.5), (99, 0.5))), RuleSetup(50)):
        with SimLab(device) as lab:
            lab.set_rules(rules)
            rates.append(lab.run(Traffic(Rate(2e6), warmup_s=0.02, duration_s=0.1)).forwarding_pps)
    assert rates[0] == pytest.approx(rates[1], rel=0.005)


def test_a_position_step_shows_in_the_time_series() -> None:
    steps = (LoadStep(0.05, None, 300),)
    result = send(RuleSetup.mixed(((100, 1.0), (300, 0.0))), 20_000.0, steps=steps)
    delay = result.series.delay_mean_ns
    assert len(delay) == 100
    np.testing.assert_allclose(delay[:50], 2000)
    np.testing.assert_allclose(delay[50:], 4000)


def test_state_costs_what_the_simulated_device_says() -> None:
    with SimLab(SimDevice(**{**vars(EXACT), "stateful_ns": 500.0})) as lab:
        traffic = Traffic(Rate(1000.0), warmup_s=0.0, duration_s=0.1)
        lab.set_rules(RuleSetup(10, stateful=True))
        assert lab.run(traffic).delay_mean_ns == pytest.approx(1600)
        lab.set_rules(RuleSetup(10))
        assert lab.run(traffic).delay_mean_ns == pytest.approx(1100)


def test_cross_traffic_holds_packets_up_until_it_ends() -> None:
    device = SimDevice(**{**vars(EXACT), "cross_traffic_ns": 1e6, "cross_traffic_every_ns": 1e7})
    traffic = Traffic(Rate(1e5), warmup_s=0.0, duration_s=0.2)
    with SimLab(device) as lab:
        calm = lab.run(traffic)
        lab.set_cross_traffic(True)
        disturbed = lab.run(traffic)
        lab.set_cross_traffic(False)
        after = lab.run(traffic)
    assert calm.delay_max_ns == after.delay_max_ns == 1000
    assert disturbed.delay_max_ns == pytest.approx(1e6, rel=0.02)


def test_cross_traffic_without_a_pause_is_refused() -> None:
    with pytest.raises(InputError, match="cross_traffic_every_ns"):
        SimDevice(cross_traffic_ns=2e8)
