"""What each trial leaves in the tables ``capacity``, ``inside`` and ``gaps``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from weirlab.calls.capacity.trials.boxes import Count
from weirlab.calls.capacity.trials.columns import (
    CallGapRow,
    CallQuality,
    CapacityRow,
    DisturbanceCounts,
    InsideRow,
    Phase,
)
from weirlab.lab.host import STATES
from weirlab.lab.inside.view import InsideView, Sample, between, cpu_share
from weirlab.quality import bins
from weirlab.quality.distribution import DISSATISFIED
from weirlab.records import F64, CallTable, TrialRecord
from weirlab.store import Run

CAPACITY: Final = "capacity"
INSIDE: Final = "inside"
GAPS: Final = "gaps"
"""Names of the tables in a run."""

SHARES: Final = tuple(state for state in STATES if state not in ("nice", "iowait"))
"""States of the device's CPU that are told apart; the others belong to ``idle``, see ``lab.inside.view``."""


def kept(run: Run) -> list[CapacityRow]:
    """The rows of the table ``capacity`` of ``run``; none where it has no such table yet."""
    return run.rows(CapacityRow, CAPACITY)


def heard(table: CallTable, good_mos: float) -> CallQuality:
    """What ``table`` says about its calls together."""
    mos = call_mos(table)
    back = table.back
    p1, p5, p50 = _quantiles(mos, (0.01, 0.05, 0.5))
    return CallQuality(
        mos_min=float(mos.min()) if len(mos) else math.nan,
        mos_p1=p1,
        mos_p5=p5,
        mos_p50=p50,
        good_share=float(np.mean(mos >= good_mos)) if len(mos) else math.nan,
        poor_share=float(np.mean(mos < DISSATISFIED)) if len(mos) else math.nan,
        loss_forward=_loss(table, ~back),
        loss_back=_loss(table, back),
        delay_p99_ns=_known(np.nanmax, table.delay_p99_ns),
        jitter_ns=_known(np.nanmean, table.jitter_ns),
        longest_gap_ns=_known(np.nanmax, table.longest_gap_ns),
    )


def call_mos(table: CallTable) -> F64:
    """MOS of each call, the worse of its directions; those that were not measured are left out."""
    known = ~np.isnan(table.mos)
    calls, place = np.unique(table.call[known], return_inverse=True)
    worst = np.full(len(calls), np.inf)
    np.minimum.at(worst, place, table.mos[known])
    return worst


def capacity_row(
    record: TrialRecord,
    what: CallQuality | None,
    boxes: Count | None,
    inside: InsideView | None,
    host: DisturbanceCounts | None = None,
    *,
    phase: Phase,
    run: int | None,
) -> CapacityRow:
    """The row of the table ``capacity`` for ``record``."""
    result, calls = record.result, record.spec.traffic.calls
    assert calls is not None
    seconds = record.host.cpu_s.get("dut", {})
    return CapacityRow(
        trial_id=record.trial_id,
        index=record.index,
        attempt=record.attempt,
        valid=record.valid,
        phase=phase,
        position=record.spec.rules.position,
        calls=calls.count,
        run=run,
        offered_pps=record.offered_pps,
        achieved_pps=result.achieved_pps,
        forwarded_pps=result.forwarding_pps,
        sent=result.sent,
        lost=max(result.lost, 0),
        loss_ratio=max(result.loss_ratio, 0.0),
        delay_mean_ns=result.delay_mean_ns,
        **({} if what is None else vars(what)),
        **_counted(boxes),
        **_by_state("host", seconds),
        **({} if host is None else vars(host)),
        **_seen(inside),
    )


def inside_rows(record: TrialRecord, inside: InsideView | None, into: str, out_of: str) -> list[InsideRow]:
    """One row of the table ``inside`` per sample taken in the recorded time of ``record``.

    Shares and counts are those since the sample before; the first has none.
    """
    if inside is None:
        return []
    start_ns = record.result.record_start_ns
    rows: list[InsideRow] = []
    before: Sample | None = None
    for sample in inside.samples:
        counted = {into, out_of} <= sample.counters.keys()
        rows.append(
            InsideRow(
                trial_id=record.trial_id,
                due_s=(sample.due_ns - start_ns) / 1e9,
                late_s=(sample.taken_ns - sample.due_ns) / 1e9,
                connections=sample.connections,
                **({} if before is None else _by_state("cpu", cpu_share(before, sample))),
                **(between(before, sample, into, out_of) if before is not None and counted else {}),
            )
        )
        before = sample
    return rows


def gap_rows(record: TrialRecord) -> list[CallGapRow]:
    """The rows of the table ``gaps`` for ``record``; none without its packets."""
    log = record.result.packets
    if log is None:
        return []
    back = log.call_flows.back[log.flow]
    return [
        CallGapRow(
            trial_id=record.trial_id,
            direction=direction,
            place=place,
            lower_ns=lower_ns,
            upper_ns=upper_ns,
            count=count,
        )
        for direction, chosen in (("forward", ~back), ("back", back))
        for place, times_ns in (("sender", log.sent_ns), ("receiver", log.arrival_ns))
        for lower_ns, upper_ns, count in bins.counted(np.diff(np.sort(times_ns[chosen])))
    ]


def _counted(boxes: Count | None) -> dict[str, Any]:
    if boxes is None:
        return {}
    return {
        "entered": boxes.entered,
        "left": boxes.left,
        "entered_difference": boxes.entered_difference,
        "left_difference": boxes.left_difference,
        "counters_agree": boxes.agree,
    }


def _seen(inside: InsideView | None) -> dict[str, Any]:
    if inside is None:
        return {}
    return {
        **_by_state("cpu", inside.cpu_share),
        "covered_s": inside.covered_s,
        "samples_due": inside.due,
        "samples_taken": inside.taken,
        "sample_late_mean_s": inside.late_mean_s,
        "sample_late_max_s": inside.late_max_s,
        "connections_max": inside.connections_max,
    }


def _by_state(prefix: str, spent: Mapping[str, float]) -> dict[str, Any]:
    return {f"{prefix}_{state}": spent.get(state, math.nan) for state in SHARES}


def _loss(table: CallTable, rows: Any) -> float:
    sent = int(table.sent[rows].sum())
    return int(table.lost[rows].sum()) / sent if sent else math.nan


def _quantiles(values: F64, shares: tuple[float, ...]) -> tuple[float, ...]:
    """Lower quantiles: that share of the calls is at most so good."""
    if not len(values):
        return tuple(math.nan for _ in shares)
    return tuple(float(q) for q in np.quantile(values, shares, method="inverted_cdf"))


def _known(summary: Any, values: F64) -> float:
    return float(summary(values)) if np.isfinite(values).any() else math.nan
