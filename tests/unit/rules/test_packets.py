"""The addresses of test traffic: ranges of hosts, as wide as the rule and the default ones allow."""

from __future__ import annotations

import pytest

from weirlab.base.errors import InputError
from weirlab.lab.dut.aiming import candidates
from weirlab.rules import iptables_path, matching
from weirlab.rules.packets import host_ranges
from weirlab.traffic.flows import table
from weirlab.traffic.spec import Flows


def test_sources_and_destinations_of_one_network_are_its_halves_without_its_ends() -> None:
    network = matching.networks(["10.0.0.0/29"])
    assert [[str(matching.address(end)) for end in half] for half in host_ranges(network, network, 9)] == [
        ["10.0.0.1", "10.0.0.3"],
        ["10.0.0.4", "10.0.0.6"],
    ]


def test_rules_that_accept_the_benchmarking_ranges_are_met_as_before() -> None:
    text = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -s 198.18.0.0/16 -d 198.19.0.0/16 -j ACCEPT\nCOMMIT\n"
    found = next(candidates(iptables_path(text), "my.rules", None, Flows()))
    assert found.endpoints is None
    assert (found.inward, found.outward) == ("in0", "out0")


def test_more_flows_than_a_rule_has_room_for_are_refused() -> None:
    text = (
        "*filter\n:FORWARD DROP [0:0]\n"
        "-A FORWARD -s 10.0.0.1/32 -d 10.0.0.2/32 -p udp --sport 7 --dport 53 -j ACCEPT\nCOMMIT\n"
    )
    endpoints = next(candidates(iptables_path(text), "my.rules", None, Flows())).endpoints
    with pytest.raises(InputError, match="room for only 1 different"):
        table(Flows(count=2), endpoints=endpoints)
