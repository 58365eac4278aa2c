"""The Rust engine: memory that it has used before, and what it answers, as records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from weirlab.interrupts import interruptible
from weirlab.records import (
    F64,
    SLOWEST_UNPACED_PPS,
    U64,
    EngineResult,
    FlowTable,
    Histogram,
    Looks,
    PacketLog,
    Series,
    Windows,
)
from weirlab.traffic.plan import Plan
from weirlab.traffic.schedule import compile_plan
from weirlab.traffic.spec import Rate, Traffic

if TYPE_CHECKING:
    from weirlab._engine import Engine

_WARM_UP_S: Final = 0.15
_WARM_UP_PARTS: Final = 3
"""So many in a row must be fast: free memory that is warm may precede memory that is not."""
_WARM_UP_ROUNDS: Final = 33


@interruptible
def warm_up(engine: Engine, source_mac: bytes, destination_mac: bytes) -> None:
    """Send until frames lie in memory that was used before.

    On a virtual machine the host may back memory only when it is touched, and take it back
    when it is free for a while: at some 5 µs a page the first hundreds of thousands of
    frames leave thirty times more slowly.
    """
    is_xdp = engine.backend == "xdp"
    length_s = _WARM_UP_S if is_xdp else _WARM_UP_S / _WARM_UP_PARTS
    plan = compile_plan(Traffic(Rate(0.0, "max"), warmup_s=0.0, duration_s=length_s))
    for _ in range(_WARM_UP_ROUNDS):
        sent = engine.run(plan, source_mac, destination_mac)["series"]["sent"]
        slowest = min(part.sum() for part in np.array_split(sent, _WARM_UP_PARTS))
        if not is_xdp or slowest >= SLOWEST_UNPACED_PPS * length_s / _WARM_UP_PARTS:
            return


def to_result(raw: Mapping[str, Any], plan: Plan) -> EngineResult:
    """Translate what ``weirlab._engine`` answered to ``plan``; trial totals are sums over the flows."""
    flows, received = raw["flows"], raw["flows"]["received"]
    n = int(received.sum())
    delay_sum = float(flows["delay_sum_ns"].sum())
    ipdv_count = int(flows["ipdv_count"].sum())
    arrived = received > 0
    nan = float("nan")
    return EngineResult(
        backend=raw["backend"],
        xdp_mode=raw["xdp_mode"],
        record_start_ns=raw["record_start_ns"],
        record_end_ns=raw["record_end_ns"],
        sent=raw["sent"],
        sent_warmup=raw["sent_warmup"],
        first_departure_ns=raw["first_departure_ns"],
        last_departure_ns=raw["last_departure_ns"],
        late_mean_ns=raw["late_sum_ns"] / raw["sent"] if raw["sent"] else nan,
        late_max_ns=raw["late_max_ns"],
        slipped_ns=raw["slipped_ns"],
        received=n,
        lost=raw["sent"] - n,
        duplicated=int(flows["duplicated"].sum()),
        reordered=int(flows["reordered"].sum()),
        stray=raw["stray"],
        arrived=raw["arrived"],
        receiver_dropped=raw["receiver_dropped"],
        delay_min_ns=float(flows["delay_min_ns"][arrived].min()) if n else nan,
        delay_mean_ns=delay_sum / n if n else nan,
        delay_max_ns=float(flows["delay_max_ns"].max()) if n else nan,
        jitter_ns=float(flows["ipdv_sum_ns"].sum()) / ipdv_count if ipdv_count else nan,
        longest_gap_ns=float(raw["longest_gap_ns"]) if n > 1 else nan,
        first_arrival_ns=raw["first_arrival_ns"],
        last_arrival_ns=raw["last_arrival_ns"],
        histogram=Histogram(**raw["histogram"]),
        series=_series(raw["series"], plan.bin_ns),
        flows=_flows(flows),
        packets=_packets(raw, plan),
        windows=_windows(raw),
    )


def _packets(raw: Mapping[str, Any], plan: Plan) -> PacketLog | None:
    if plan.media is None:
        return None
    return PacketLog(**raw["packets"], first_seq=raw["flows"]["first_seq"], call_flows=plan.media.flows)


def _windows(raw: Mapping[str, Any]) -> Windows | None:
    if (found := raw["windows"]) is None:
        return None
    series, looks = raw["series"], found["looks"]
    of_bins = ("delay_sum_ns", "delay_min_ns", "ipdv_sum_ns", "ipdv_count", "late_max_ns")
    return Windows(
        **{name: series[name] for name in of_bins},
        **{name: found[name] for name in ("lower_ns", "upper_ns", "count", "end")},
        looks=Looks(**looks) if len(looks["at_ns"]) else None,
    )


def _series(raw: Mapping[str, U64], bin_ns: int) -> Series:
    return Series(
        bin_ns=bin_ns,
        sent=raw["sent"],
        received=raw["received"],
        delay_mean_ns=_ratio(raw["delay_sum_ns"], raw["received"]),
        delay_max_ns=_where(raw["received"] > 0, raw["delay_max_ns"]),
    )


def _flows(raw: Mapping[str, Any]) -> FlowTable:
    arrived, pairs = raw["received"] > 0, raw["ipdv_count"] > 0
    return FlowTable(
        sent=raw["sent"],
        received=raw["received"],
        lost=raw["sent"] - raw["received"],
        duplicated=raw["duplicated"],
        reordered=raw["reordered"],
        delay_min_ns=_where(arrived, raw["delay_min_ns"]),
        delay_mean_ns=_ratio(raw["delay_sum_ns"], raw["received"]),
        delay_max_ns=_where(arrived, raw["delay_max_ns"]),
        jitter_ns=_where(pairs, raw["jitter_ns"]),
        longest_gap_ns=_where(pairs, raw["longest_gap_ns"]),
    )


def _where(known: np.ndarray[Any, np.dtype[np.bool_]], values: U64 | F64) -> F64:
    return np.where(known, values.astype(np.float64), np.nan)


def _ratio(total: U64, count: U64) -> F64:
    ratio = np.full(len(count), np.nan)
    np.divide(total.astype(np.float64), count, out=ratio, where=count > 0)
    return ratio
