"""Answers that follow a translation of addresses and ports, and one packet of each flow."""

from __future__ import annotations

import numpy as np

from weirlab.lab.crossing import FourTuple, answers_follow, directions, ends_of
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import parse_calls
from weirlab.traffic.plan import DeparturePlan, single_packets
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Flows, Rate, Traffic


def calls(ip: int = 4) -> DeparturePlan:
    return compile_plan(traffic_of(parse_calls("3", "g711,g729/iax2", "rtp", 6 if ip == 6 else 4), 0.1, 0.1))


def translated(ends: FourTuple, port: int) -> FourTuple:
    """As a device shows the packet that hides all senders behind one address."""
    return ends._replace(src_ip=bytes(len(ends.src_ip) - 1) + b"\x09", src_port=port)


def test_answers_go_to_the_addresses_and_ports_from_which_packets_came() -> None:
    for ip in (4, 6):
        plan = calls(ip)
        forward, back = directions(plan)
        sent = dict(zip(forward.tolist(), ends_of(plan.flows, forward, ip), strict=True))
        # Speech and signalling of IAX2 have the same ports.
        ports = {ends: 40_000 + i for i, ends in enumerate(dict.fromkeys(sent.values()))}
        arrived = {flow: translated(ends, ports[ends]) for flow, ends in sent.items()}
        answers = ends_of(answers_follow(plan, arrived).flows, back, ip)
        expected = {(ends.dst_ip, ends.src_ip, ends.dst_port, ends.src_port) for ends in arrived.values()}
        assert set(answers) == expected
        # Both are the flows of the same call.
        for flow, answer in zip(back.tolist(), answers, strict=True):
            partners = [f for f, ends in arrived.items() if ends.src_port == answer.dst_port]
            assert plan.media is not None
            assert plan.media.flows.call[flow] in plan.media.flows.call[partners]


def test_answers_to_what_did_not_arrive_stay_as_they_are() -> None:
    plan = calls()
    assert (answers_follow(plan, {}).flows.dst_ip == plan.flows.dst_ip).all()


def test_each_flow_of_calls_has_its_first_packet() -> None:
    plan = calls()
    forward, _ = directions(plan)
    single = single_packets(plan, forward)
    assert single.media is not None
    assert plan.media is not None
    sending = [flow for flow in forward.tolist() if (plan.flow == flow).any()]
    assert single.flow.tolist() == sending
    for i, flow in enumerate(sending):
        first = int(np.flatnonzero(plan.flow == flow)[0])
        assert single.media.payload[i] == plan.media.payload[first]
        assert single.frame_bytes[i] == plan.frame_bytes[first]


def test_each_flow_of_a_load_has_a_packet_of_the_loads_size() -> None:
    plan = compile_plan(Traffic(Rate(1e5), flows=Flows(50), warmup_s=0.0, duration_s=0.1))
    single = single_packets(plan, np.arange(50))
    assert single.flow.tolist() == list(range(50))
    assert set(single.frame_bytes.tolist()) == {64}
