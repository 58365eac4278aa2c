"""Calls through the simulated device: every arrival is told, whichever way it went."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.lab.sim import SimDevice, SimLab
from weirlab.records import EngineResult, PacketLog
from weirlab.traffic.calls.codecs import parse_codec
from weirlab.traffic.calls.schedule import traffic_of
from weirlab.traffic.calls.spec import CallClass, Calls
from weirlab.traffic.plan import DeparturePlan, Media
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Rate, Traffic

engine = pytest.importorskip("weirlab._engine", reason="the engine is not built")

CALLS = Calls((CallClass(parse_codec("g711")),), count=10, rtcp=False)
TRAFFIC = traffic_of(CALLS, duration_s=0.2, warmup_s=0.1)
QUICK = SimDevice(service_fixed_ns=1000, service_per_byte_ns=0, base_delay_ns=5000, noise="none")
SLOW = replace(QUICK, service_fixed_ns=2_000_000, queue_packets=4)


def heard(device: SimDevice) -> tuple[EngineResult, PacketLog]:
    with SimLab(device) as lab:
        result = lab.run(TRAFFIC)
    assert result.packets is not None
    return result, result.packets


def test_without_loss_the_log_has_every_recorded_packet_once() -> None:
    result, log = heard(QUICK)
    assert log.missed == result.lost == 0
    assert log.call_flows.back.any()
    for flow, sent in enumerate(result.flows.sent):
        numbers = log.first_seq[flow] + np.arange(sent)
        assert (np.sort(log.seq[log.flow == flow]) == numbers).all()
    assert ((log.sent_ns >= result.record_start_ns) & (log.sent_ns < result.record_end_ns)).all()


def test_both_directions_wait_for_the_same_server() -> None:
    result, log = heard(SLOW)
    # A packet every 1 ms in either direction together, and 2 ms to serve one: half of them are lost.
    assert result.lost == pytest.approx(result.sent / 2, abs=4)
    assert len(log.flow) == result.received
    back = log.call_flows.back[log.flow]
    for way in (back, ~back):
        gaps = np.diff(log.arrival_ns[way])
        assert (gaps >= 2_000_000).all()


def test_delays_in_the_log_are_those_of_the_result() -> None:
    result, log = heard(SLOW)
    delay = log.arrival_ns - log.sent_ns
    assert (delay.min(), delay.max()) == (result.delay_min_ns, result.delay_max_ns)
    assert float(delay.mean()) == pytest.approx(result.delay_mean_ns)


def test_ordinary_traffic_is_not_logged() -> None:
    with SimLab(QUICK) as lab:
        assert lab.run(Traffic(Rate(1000), warmup_s=0.0, duration_s=0.1)).packets is None


def test_a_packet_that_cannot_be_sent_is_named() -> None:
    plan = compile_plan(TRAFFIC)
    frame_bytes = plan.frame_bytes.copy()
    frame_bytes[3] = 75
    settings = {
        "positions": [0.0] * len(plan.flows),
        "unpaced_gap_ns": 200,
        "interrupt_every_ns": 0.0,
        "servers": [0] * len(plan.flows),
    }
    device = {**vars(QUICK), **settings, "interrupt_ns": 0.0, "seed": 1}
    with pytest.raises(InputError, match=r"packet 3 \(flow \d+\): a frame of 71 bytes .* cannot hold 72"):
        engine.simulate(replace(plan, frame_bytes=frame_bytes), device)


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    plan = compile_plan(TRAFFIC)
    media = media_of(plan)
    macs = (bytes(6), bytes(6))
    with pytest.raises(ValueError, match="differ in length"):
        engine.frames(replace(plan, media=replace(media, stamp=media.stamp[1:])), macs, macs)
    with pytest.raises(ValueError, match="way back"):
        engine.frames(plan, macs)


def media_of(plan: DeparturePlan) -> Media:
    assert plan.media is not None
    return plan.media
