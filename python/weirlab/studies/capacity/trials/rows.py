"""What each trial leaves in the tables ``capacity`` and ``inside``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl
from polars.datatypes import DataType, DataTypeClass

from weirlab.lab.host import STATES
from weirlab.lab.inside.view import InsideView, Sample, between, cpu_share
from weirlab.quality.distribution import DISSATISFIED
from weirlab.records import F64, CallTable, TrialRecord
from weirlab.store.frames import schema_of
from weirlab.studies.capacity.trials.boxes import Count
from weirlab.studies.capacity.trials.columns import CapacityRow, InsideRow
from weirlab.studies.capacity.trials.losses import Disturbed

CAPACITY: Final = "capacity"
INSIDE: Final = "inside"
"""Names of the tables in a run."""

SHARES: Final = tuple(state for state in STATES if state not in ("nice", "iowait"))
"""States of the device's CPU that are told apart; the others belong to ``idle``, see ``lab.inside.view``."""

Columns = Mapping[str, DataType | DataTypeClass]
Phase = Literal["sweep", "search"]
Row = dict[str, Any]


@dataclass(frozen=True)
class CallQuality:
    """What callers heard in one trial; a call is as good as the worse of its two directions."""

    mos_min: float
    mos_p1: float
    mos_p5: float
    mos_p50: float
    good_share: float
    """Share of the calls with at least the MOS asked for."""
    poor_share: float
    """Share of the calls below MOS 3.6, where many users are dissatisfied (ITU-T G.109)."""
    loss_forward: float
    loss_back: float
    delay_p99_ns: float
    """Of the worst call."""
    jitter_ns: float
    """Mean over the calls."""
    longest_gap_ns: float


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
    host: Disturbed | None = None,
    *,
    phase: Phase,
    run: int | None,
) -> Row:
    """One row of the table ``capacity``; null stands for what was not measured."""
    result, calls = record.result, record.spec.traffic.calls
    assert calls is not None
    seconds = record.host.cpu_s.get("dut", {})
    return {
        "trial_id": record.trial_id,
        "index": record.index,
        "attempt": record.attempt,
        "valid": record.valid,
        "phase": phase,
        "position": record.spec.rules.position,
        "calls": calls.count,
        "run": run,
        "offered_pps": record.offered_pps,
        "achieved_pps": result.achieved_pps,
        "forwarded_pps": result.forwarding_pps,
        "sent": result.sent,
        "lost": max(result.lost, 0),
        "loss_ratio": max(result.loss_ratio, 0.0),
        "delay_mean_ns": result.delay_mean_ns,
        **(dict.fromkeys(CallQuality.__dataclass_fields__) if what is None else asdict(what)),
        "entered": None if boxes is None else boxes.entered,
        "left": None if boxes is None else boxes.left,
        "entered_difference": None if boxes is None else boxes.entered_difference,
        "left_difference": None if boxes is None else boxes.left_difference,
        "counters_agree": None if boxes is None else boxes.agree,
        **{f"host_{state}": seconds.get(state) for state in SHARES},
        **(dict.fromkeys(Disturbed.__dataclass_fields__) if host is None else asdict(host)),
        **_seen(inside),
    }


def inside_rows(record: TrialRecord, inside: InsideView | None, into: str, out_of: str) -> list[Row]:
    """One row of the table ``inside`` per sample taken in the recorded time of ``record``.

    Shares and counts are those since the sample before; the first has none.
    """
    if inside is None:
        return []
    start_ns = record.result.record_start_ns
    rows: list[Row] = []
    before: Sample | None = None
    for sample in inside.samples:
        counted: Row = {"entered": None, "forwarded": None, "blocked": None}
        if before is not None and {into, out_of} <= sample.counters.keys():
            counted |= between(before, sample, into, out_of)
        shares = cpu_share(before, sample) if before is not None else {}
        rows.append(
            {
                "trial_id": record.trial_id,
                "due_s": (sample.due_ns - start_ns) / 1e9,
                "late_s": (sample.taken_ns - sample.due_ns) / 1e9,
                **{f"cpu_{state}": shares.get(state) for state in SHARES},
                "connections": sample.connections,
                **counted,
            }
        )
        before = sample
    return rows


CAPACITY_COLUMNS: Final = schema_of(CapacityRow)
INSIDE_COLUMNS: Final = schema_of(InsideRow)


def frame(rows: Sequence[Row], columns: Columns) -> pl.DataFrame:
    """``rows`` as a table with these columns, all of them and no others."""
    return pl.DataFrame(rows, schema=columns, orient="row")


def _seen(inside: InsideView | None) -> Row:
    if inside is None:
        return dict.fromkeys(
            name for name in CAPACITY_COLUMNS if name.startswith(("cpu_", "samples_", "sample_"))
        ) | {"covered_s": None, "connections_max": None}
    return {
        **{f"cpu_{state}": inside.cpu_share.get(state) for state in SHARES},
        "covered_s": inside.covered_s,
        "samples_due": inside.due,
        "samples_taken": inside.taken,
        "sample_late_mean_s": inside.late_mean_s,
        "sample_late_max_s": inside.late_max_s,
        "connections_max": inside.connections_max,
    }


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
