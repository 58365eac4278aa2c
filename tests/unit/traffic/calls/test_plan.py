from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weirlab.base.errors import InputError
from weirlab.traffic.calls.schedule import schedule, traffic_of
from weirlab.traffic.calls.spec import parse_calls
from weirlab.traffic.plan import CALLS_BIN_NS
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import LoadStep


def test_a_plan_departs_when_the_schedule_says() -> None:
    calls = replace(parse_calls(70, "g711/rtp:70,gsm:40ms/iax2:30"), spurts=True)
    plan, found = compile_plan(traffic_of(calls, 2.0, 0.5)), schedule(calls, 2.0, 0.5)
    due = np.concatenate([[0], np.cumsum(plan.gap_ns.astype(np.int64))])
    assert (due[:-1] == found.due_ns).all()
    # The last gap reaches the end: nothing is sent twice.
    assert due[-1] == 2_500_000_000
    assert plan.phases == [(2_500_000_000, 0, len(found))]
    assert not plan.gap_frac.any()
    assert (plan.flow == found.flow).all()
    assert (plan.frame_bytes == found.frame_bytes).all()
    assert plan.nominal_pps == found.recorded / 2.0
    assert (plan.warmup_ns, plan.duration_ns, plan.bin_ns) == (500_000_000, 2_000_000_000, CALLS_BIN_NS)
    assert (plan.l4, plan.ip, plan.paced) == ("udp", 4, True)


def test_what_packets_carry_comes_with_the_plan() -> None:
    calls = parse_calls(10)
    plan, found = compile_plan(traffic_of(calls, 0.5)), schedule(calls, 0.5, 0.5)
    assert plan.media is not None
    for name in ("kind", "stamp", "marker", "payload", "header", "header_bytes"):
        assert (getattr(plan.media, name) == getattr(found.media, name)).all()
    assert (plan.media.flows.call == found.media.flows.call).all()
    assert len(plan.media.flows.back) == len(plan.flows)


def test_columns_have_the_types_that_the_engine_takes() -> None:
    plan = compile_plan(traffic_of(parse_calls(10, "g711:60,g711/iax2:40"), 0.5))
    assert plan.media is not None
    types = {
        name: str(getattr(plan, name).dtype) for name in ("gap_ns", "gap_frac", "frame_bytes", "flow")
    } | {
        name: str(getattr(plan.media, name).dtype)
        for name in ("kind", "stamp", "marker", "payload", "header", "header_bytes", "payload_bytes")
    }
    assert types == {
        "gap_ns": "uint32", "gap_frac": "uint16", "frame_bytes": "uint16", "flow": "uint32", "kind": "uint8",
        "stamp": "uint32", "marker": "bool", "payload": "uint32", "header": "uint8", "header_bytes": "uint8",
        "payload_bytes": "uint8",
    }  # fmt: skip
    assert plan.media.payload_start.dtype == np.uint32
    flows = plan.media.flows
    found = [str(column.dtype) for column in (flows.back, flows.call, flows.calls_carried, flows.packet_ns)]
    assert found == ["bool", "uint32", "uint32", "int64"]


def test_two_packets_at_one_instant_are_sent_one_after_the_other() -> None:
    calls = replace(parse_calls(3000), phases="random", rtcp=False, signalling=False)
    plan = compile_plan(traffic_of(calls, 0.2, 0.0))
    assert plan.gap_ns.min() == 0
    assert len(plan.flow) == 3000 * 2 * 10


def test_steps_and_places_do_not_go_with_calls() -> None:
    traffic = traffic_of(parse_calls(10), 1.0)
    with pytest.raises(InputError, match="load steps with calls"):
        compile_plan(replace(traffic, steps=(LoadStep(0.5, position=3),)))
    with pytest.raises(InputError, match="several positions"):
        compile_plan(traffic, ((10, 0.5), (20, 0.5)))
    assert len(compile_plan(traffic, ((10, 1.0),)).flow) == len(compile_plan(traffic).flow)


def test_silence_longer_than_the_engine_waits_is_refused() -> None:
    calls = replace(parse_calls(1), arrivals="poisson", holding_s=5.0, seed=4)
    with pytest.raises(InputError, match=r"nobody speaks for .* up to 4.29 s"):
        compile_plan(replace(traffic_of(parse_calls(10), 200.0, 0.0), calls=calls))
