"""Schedules of flows that are answered: the opening, and packets of new flows among those of known ones."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.flows import NewFlows, new_flows
from weirlab.traffic.plan import NEXT_FLOW, Answering
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import FlowEndpoints, Flows, Rate, Traffic


def traffic(new_share: float, *, answered: bool = True, ip: Literal[4, 6] = 4) -> Traffic:
    return Traffic(
        Rate(1e5),
        Constant(96),
        flows=Flows(3, ip=ip, answered=answered, new_share=new_share),
        warmup_s=0.1,
        duration_s=0.2,
    )


def test_known_flows_are_opened_with_two_packets_each_before_the_warm_up() -> None:
    plan = compile_plan(traffic(0.0))
    assert plan.answers == Answering(None, 2)
    assert plan.phases == [(300_000, 1, 1), (300_300_000, 0, 1)]
    assert plan.warmup_ns == 100_300_000
    assert plan.gap_ns.tolist() == [10_000, 50_000]
    assert len(plan.flows) == 3


@pytest.mark.parametrize("share", [0.1, 0.37, 0.5, 0.999])
def test_new_flows_have_their_share_of_the_packets_evenly(share: float) -> None:
    plan = compile_plan(traffic(share))
    load = plan.flow[:-1]
    is_new = load == 3
    assert set(load[~is_new]) == {NEXT_FLOW}
    assert is_new.sum() == int(len(load) * share)
    assert np.ptp(np.diff(np.flatnonzero(is_new))) <= 1
    assert len(plan.flows) == 4


@pytest.mark.parametrize("ip", [4, 6])
def test_the_last_flow_stands_for_new_ones_without_the_end_of_its_address_and_without_a_port(
    ip: Literal[4, 6],
) -> None:
    flows = compile_plan(traffic(0.5, ip=ip)).flows
    changed = slice(0, 4) if ip == 4 else slice(12, 16)
    assert not flows.src_ip[-1, changed].any()
    assert flows.src_port[-1] == 0
    assert (flows.src_ip[-1, :12] == flows.src_ip[0, :12]).all() or ip == 4
    assert (flows.dst_ip[-1] == flows.dst_ip[0]).all()


def test_without_known_packets_nothing_is_opened() -> None:
    plan = compile_plan(traffic(1.0))
    assert plan.phases == [(300_000_000, 0, 1)]
    assert plan.flow.tolist() == [3]


def test_new_flows_come_from_the_other_end_of_the_addresses_that_a_rule_takes() -> None:
    endpoints = FlowEndpoints(("10.0.0.1", "10.0.0.20"), ("10.1.0.1", "10.1.0.1"), (2000, 2009), (53, 53))
    assert new_flows(Flows(), endpoints) == NewFlows(20, int(ipaddress.ip_address("10.0.0.20")), 10, 2009)
    usual = new_flows(Flows())
    assert (usual.hosts, usual.ports, usual.port) == (253 * 256 + 254, 64_512, 65_535)


def test_new_flows_need_answers() -> None:
    with pytest.raises(InputError, match="--new goes with --answered"):
        compile_plan(traffic(0.1, answered=False))


def test_flows_cannot_be_opened_as_fast_as_possible() -> None:
    with pytest.raises(InputError, match="--rate max would lose"):
        compile_plan(replace(traffic(0.1), rate=Rate(0.0, "max")))


def test_a_share_above_all_is_refused() -> None:
    with pytest.raises(InputError, match="up to 100%"):
        compile_plan(traffic(1.5))
