"""Handmade results, specifications, records and scenarios that are consistent in themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal

import numpy as np

from weirlab.base.units import NS_PER_S
from weirlab.records import (
    F64,
    U64,
    Backend,
    CallTable,
    EngineResult,
    FlowTable,
    Histogram,
    HostSample,
    RuleSetup,
    Series,
    TrialRecord,
    TrialSpec,
)
from weirlab.traffic.sizes import Constant, SizeMix
from weirlab.traffic.spec import Flows, Rate, Traffic

BIN_NS = 10_000_000
RECORD_START_NS = 1_000_000_000
SHORT = Constant(64)

# Shares of the packets and their delay relative to the mean: a short tail whose mean is exactly 1.
_SHAPE = ((0.5, 0.9), (0.4, 1.0), (0.08, 1.25), (0.015, 1.8), (0.005, 4.6))


def make_result(
    rate_pps: float = 1000.0,
    *,
    duration_s: float = 1.0,
    warmup_s: float = 0.0,
    loss_ratio: float = 0.0,
    delay_mean_ns: float = 20_000.0,
    flows: int = 1,
    slipped_ns: int = 0,
    backend: Backend = "sim",
) -> EngineResult:
    """A result at ``rate_pps`` for ``duration_s``, with loss and delay even over bins and flows."""
    sent = round(rate_pps * duration_s)
    received = sent - round(sent * loss_ratio)
    bins = max(1, math.ceil(duration_s * NS_PER_S / BIN_NS))
    end_ns = RECORD_START_NS + round(duration_s * NS_PER_S)
    nan = float("nan")
    delay = delay_mean_ns if received else nan
    count = _split_by_share(received)
    means = np.array([delay_mean_ns * factor for _, factor in _SHAPE])
    filled = count > 0
    per_flow_sent, per_flow_received = _split(sent, flows), _split(received, flows)
    seen = per_flow_received > 0
    return EngineResult(
        backend=backend,
        xdp_mode="native" if backend == "xdp" else "",
        record_start_ns=RECORD_START_NS,
        record_end_ns=end_ns,
        sent=sent,
        sent_warmup=round(rate_pps * warmup_s),
        first_departure_ns=RECORD_START_NS,
        last_departure_ns=end_ns - 1,
        late_mean_ns=0.0,
        late_max_ns=0,
        slipped_ns=slipped_ns,
        received=received,
        lost=sent - received,
        duplicated=0,
        reordered=0,
        stray=0,
        arrived=received + round(rate_pps * warmup_s),
        delay_min_ns=delay * _SHAPE[0][1],
        delay_mean_ns=delay,
        delay_max_ns=delay * _SHAPE[-1][1],
        jitter_ns=delay * 0.1,
        longest_gap_ns=NS_PER_S * duration_s / received if received else nan,
        last_arrival_ns=end_ns + round(delay_mean_ns) if received else 0,
        first_arrival_ns=RECORD_START_NS + round(delay_mean_ns) if received else 0,
        histogram=Histogram(
            lower_ns=np.floor(means[filled] * 0.996).astype(np.uint64),
            upper_ns=np.ceil(means[filled] * 1.004).astype(np.uint64),
            count=count[filled],
        ),
        series=Series(
            bin_ns=BIN_NS,
            sent=_split(sent, bins),
            received=_split(received, bins),
            delay_mean_ns=np.full(bins, delay),
            delay_max_ns=np.full(bins, delay * 1.8),
        ),
        flows=FlowTable(
            sent=per_flow_sent,
            received=per_flow_received,
            lost=per_flow_sent - per_flow_received,
            duplicated=np.zeros(flows, np.uint64),
            reordered=np.zeros(flows, np.uint64),
            delay_min_ns=np.where(seen, delay * _SHAPE[0][1], nan),
            delay_mean_ns=np.where(seen, delay, nan),
            delay_max_ns=np.where(seen, delay * _SHAPE[-1][1], nan),
            jitter_ns=np.where(seen, delay * 0.1, nan),
            longest_gap_ns=np.where(seen, NS_PER_S / max(rate_pps / flows, 1e-9), nan),
        ),
    )


def make_spec(
    rate_pps: float = 1000.0,
    *,
    sizes: SizeMix = SHORT,
    position: int = 0,
    stateful: bool = False,
    duration_s: float = 1.0,
    warmup_s: float = 0.0,
    flows: int = 1,
    label: str = "",
) -> TrialSpec:
    """A trial with constant gaps; ``rate_pps`` may be infinite for as fast as possible."""
    rate = Rate(0.0, "max") if math.isinf(rate_pps) else Rate(rate_pps)
    traffic = Traffic(rate, sizes, Flows(flows), warmup_s=warmup_s, duration_s=duration_s)
    return TrialSpec(traffic, RuleSetup(position, stateful), label)


def make_record(
    result: EngineResult | None = None,
    spec: TrialSpec | None = None,
    *,
    run_id: str = "20261121-072500-profile-3fa2",
    index: int = 0,
    attempt: int = 1,
    role: Literal["profile", "verify", "single", "calibrate", "calls"] = "profile",
    invalid: tuple[str, ...] = (),
    dut: str = "fake",
    host: HostSample | None = None,
    dut_counters: Mapping[str, int] | None = None,
) -> TrialRecord:
    """A record of ``spec`` (default: :func:`make_spec`) with ``result`` (default: one that matches)."""
    spec = spec or make_spec()
    traffic = spec.traffic
    offered = math.inf if traffic.rate.unit == "max" else traffic.rate.value
    if result is None:
        result = make_result(
            offered, duration_s=traffic.duration_s, warmup_s=traffic.warmup_s, flows=traffic.flows.count
        )
    busy = {"user": 0.0, "nice": 0.0, "system": 0.1, "irq": 0.0, "softirq": 0.3, "steal": 0.0, "idle": 0.6}
    return TrialRecord(
        trial_id=f"{run_id}-{index:04d}-{attempt}",
        run_id=run_id,
        index=index,
        attempt=attempt,
        started_at="2026-11-21T07:25:00.000+00:00",
        spec=spec,
        lab="sim",
        dut=dut,
        offered_pps=offered,
        result=result,
        host=host
        or HostSample(wall_s=traffic.warmup_s + traffic.duration_s, cpu_s={"sender": busy, "dut": busy}),
        dut_counters=dict(dut_counters or {}),
        invalid=invalid,
        role=role,
    )


def make_call_table(calls: int = 3, *, mos: float = 4.3, lost: int = 0, both: bool = True) -> CallTable:
    """Calls that all sound the same: 100 packets sent per direction, ``lost`` of them lost in one run."""
    back = np.tile([False, True], calls) if both else np.zeros(calls, np.bool_)
    n = len(back)
    some = np.full(n, float(lost > 0))

    def whole(value: int) -> U64:
        return np.full(n, value, np.uint64)

    def real(value: float) -> F64:
        return np.full(n, value, np.float64)

    return CallTable(
        call=np.repeat(np.arange(calls, dtype=np.uint64), 2 if both else 1),
        back=back,
        call_class=np.zeros(n, np.int64),
        sent=whole(100),
        received=whole(100 - lost),
        lost=whole(lost),
        duplicated=whole(0),
        reordered=whole(0),
        loss_runs=some.astype(np.uint64),
        longest_run=whole(lost),
        burst_ratio=np.where(some > 0, lost * (1 - lost / 100), np.nan),
        delay_min_ns=real(10_000),
        delay_mean_ns=real(20_000),
        delay_p50_ns=real(19_000),
        delay_p95_ns=real(30_000),
        delay_p99_ns=real(40_000),
        delay_max_ns=real(50_000),
        jitter_ns=real(1_000),
        jitter_max_ns=real(3_000),
        longest_gap_ns=real(20e6 * (lost + 1)),
        late_fixed=whole(0),
        playout_fixed_ns=real(80e6),
        mos_fixed=real(mos - 0.1),
        late_adaptive=whole(0),
        playout_adaptive_ns=real(25e6),
        mos_adaptive=real(mos),
        r_factor=real(90.0),
        mos=real(mos),
    )


def _split(total: int, n: int) -> U64:
    """``total`` split into ``n`` integers that are as equal as possible."""
    edges = np.arange(n + 1, dtype=np.int64) * total // n
    return np.diff(edges).astype(np.uint64)


def _split_by_share(total: int) -> U64:
    edges = np.rint(np.cumsum([0.0, *(share for share, _ in _SHAPE)]) * total)
    parts: U64 = np.diff(edges).astype(np.uint64)
    return parts


SMALL_PROFILE: Final = """\
name: A small profile
lab: {kind: sim}
dut: {name: iptables}
profile:
  positions: [0, 100]
  sizes: [64]
  load_shares: [0.1, 0.4, 0.6, 0.9, 1.2, 1.5]
  repetitions: 1
  trial_s: 0.05
  warmup_s: 0.01
report: null
"""
"""A profile that is simulated in a second."""
