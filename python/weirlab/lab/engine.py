"""Translates the Rust engine's results into records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weirlab.records import (
    F64,
    U64,
    AnswerResult,
    BinDetails,
    EngineResult,
    FlowTable,
    Histogram,
    PacketLog,
    SchedulerCounters,
    Series,
)
from weirlab.traffic.plan import NEXT_FLOW, DeparturePlan


def to_result(raw: Mapping[str, Any], plan: DeparturePlan) -> EngineResult:
    """Translate the result of ``weirlab._engine`` for ``plan``; trial totals are sums over the flows."""
    flows, received = raw["flows"], raw["flows"]["received"]
    n = int(received.sum())
    delay_sum = float(flows["delay_sum_ns"].sum())
    ipdv_count = int(flows["ipdv_count"].sum())
    arrived = received > 0
    nan = float("nan")
    delay_min_ns = float(flows["delay_min_ns"][arrived].min()) if n else nan
    delay_max_ns = float(flows["delay_max_ns"].max()) if n else nan
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
        moved=raw["moved"],
        arrived=raw["arrived"],
        receiver_dropped=raw["receiver_dropped"],
        delay_min_ns=delay_min_ns,
        delay_mean_ns=delay_sum / n if n else nan,
        delay_max_ns=delay_max_ns,
        jitter_ns=float(flows["ipdv_sum_ns"].sum()) / ipdv_count if ipdv_count else nan,
        longest_gap_ns=float(raw["longest_gap_ns"]) if n > 1 else nan,
        first_arrival_ns=raw["first_arrival_ns"],
        last_arrival_ns=raw["last_arrival_ns"],
        histogram=Histogram(**raw["histogram"]).within(delay_min_ns, delay_max_ns),
        series=_series(raw["series"], plan.bin_ns),
        flows=_flows(flows),
        packets=_packets(raw, plan),
        windows=_windows(raw),
        answers=_answers(raw, plan),
    )


def _answers(raw: Mapping[str, Any], plan: DeparturePlan) -> AnswerResult | None:
    if plan.answers is None or (found := raw["answers"]) is None:
        return None
    nan, n = float("nan"), found["received"]
    delay_min_ns, delay_max_ns = (float(found[f"delay_{end}_ns"]) if n else nan for end in ("min", "max"))
    return AnswerResult(
        sent=found["sent"],
        received=n,
        delay_min_ns=delay_min_ns,
        delay_mean_ns=found["delay_sum_ns"] / n if n else nan,
        delay_max_ns=delay_max_ns,
        histogram=Histogram(**found["histogram"]).within(delay_min_ns, delay_max_ns),
        open_flows=found["open_flows"],
        known_flows=int((plan.flow == NEXT_FLOW).any())
        * (len(plan.flows) - (plan.answers.new_flows is not None)),
        established_sent=raw["sent"] + raw["sent_warmup"] - found["openings"] + found["sent_all"],
    )


def _packets(raw: Mapping[str, Any], plan: DeparturePlan) -> PacketLog | None:
    if plan.media is None:
        return None
    return PacketLog(**raw["packets"], first_seq=raw["flows"]["first_seq"], call_flows=plan.media.flows)


def _windows(raw: Mapping[str, Any]) -> BinDetails | None:
    if (found := raw["windows"]) is None:
        return None
    series, looks = raw["series"], found["looks"]
    of_bins = (
        "delay_sum_ns", "delay_min_ns", "ipdv_sum_ns", "ipdv_count", "late_max_ns", "glances", "others",
    )  # fmt: skip
    return BinDetails(
        **{name: series[name] for name in of_bins},
        **{name: found[name] for name in ("lower_ns", "upper_ns", "count", "end")},
        looks=SchedulerCounters(**looks) if len(looks["at_ns"]) else None,
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
