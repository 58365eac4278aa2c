"""Records as rows: the columns of a run's tables.

One attempt is one row of ``trials``; its histogram, time series, flows and calls are rows of
more tables, joined by ``trial_id``. While a run is being written each attempt is
one Parquet file (a *part*) of one row that carries the other tables as lists: it is
there in full or not at all.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.datatypes import DataType, DataTypeClass

from weirlab.columns import schema
from weirlab.records import EngineResult, TrialRecord
from weirlab.store.codec import spec_to_json
from weirlab.store.columns import CallRow, FlowRow, HistogramRow, SeriesRow, TrialRow
from weirlab.traffic.load import describe_rate
from weirlab.traffic.places import describe_places
from weirlab.traffic.sizes import describe, mean_bytes
from weirlab.traffic.spec import Traffic

Columns = Mapping[str, DataType | DataTypeClass]

CPU_ROLES: Final = ("sender", "dut")
CPU_STATES: Final = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait", "idle_poll")
"""``idle_poll`` is a part of ``idle``: time in which Weir itself kept the CPU awake."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

_FLOAT, _TEXT = pl.Float64(), pl.String()
_INT_MAX: Final = np.iinfo(np.int64).max

TRIALS: Final[Columns] = schema(TrialRow)
"""One row per attempt."""

ADDED: Final[Mapping[str, pl.Expr]] = {
    "mean_position": pl.col("position").cast(_FLOAT),
    "places": pl.lit(""),
    "cross_traffic": pl.lit(False),
    "left_out_s": pl.lit(0.0),
    "left_out": pl.lit("[]"),
}
"""What columns that earlier versions did not write would have been."""

ROWS: Final = {"histograms": HistogramRow, "series": SeriesRow, "flows": FlowRow, "calls": CallRow}
"""Of the tables that refer to the trials."""

DETAILS: Final[Mapping[str, Columns]] = {name: schema(row) for name, row in ROWS.items()}
"""Columns beside ``trial_id`` of the other tables; in ``series`` time counts from the start of recording."""

TABLES: Final = ("trials", *DETAILS)


def table_schema(table: str) -> Columns:
    """Columns of ``table`` in order, ``trial_id`` first."""
    return TRIALS if table == "trials" else {"trial_id": _TEXT, **DETAILS[table]}


def part_schema() -> Columns:
    """Columns of a part: those of ``trials``, and the other tables as lists."""
    lists = {
        f"{table}.{name}": pl.List(kind)
        for table, columns in DETAILS.items()
        for name, kind in columns.items()
    }
    return {**TRIALS, **lists}


def table_of_parts(parts: pl.LazyFrame, table: str) -> pl.LazyFrame:
    """The rows of ``table`` that lie in ``parts``."""
    if table == "trials":
        return completed(parts.select(*TRIALS))
    names = list(DETAILS[table])
    # What explode does with an empty list differs between versions of Polars: leave none.
    return (
        parts.filter(pl.col(f"{table}.{names[0]}").list.len().fill_null(0) > 0)
        .select("trial_id", *(pl.col(f"{table}.{name}").alias(name) for name in names))
        .explode(names)
    )


def completed(trials: pl.LazyFrame) -> pl.LazyFrame:
    """``trials`` with :data:`ADDED` in place of the nulls in records of earlier versions."""
    return trials.with_columns(pl.col(name).fill_null(known) for name, known in ADDED.items())


def part_bytes(record: TrialRecord) -> bytes:
    """The Parquet file that holds ``record`` and nothing else."""
    columns = [pl.Series(name, [value], dtype=TRIALS[name]) for name, value in trial_row(record).items()]
    for table, arrays in _details(record).items():
        for name, array in arrays.items():
            columns.append(
                pl.Series(
                    f"{table}.{name}",
                    [_column(array, DETAILS[table][name])],
                    dtype=pl.List(DETAILS[table][name]),
                )
            )
    buffer = io.BytesIO()
    pl.DataFrame(columns).write_parquet(buffer, compression="zstd")
    return buffer.getvalue()


def trial_row(record: TrialRecord) -> dict[str, Any]:
    """The row of ``trials`` for ``record``."""
    spec, result, host, disturbed = record.spec, record.result, record.host, record.disturbed
    return {
        "trial_id": record.trial_id,
        "run_id": record.run_id,
        "index": record.index,
        "attempt": record.attempt,
        "role": record.role,
        "label": spec.label,
        "started_at": record.started_at,
        "lab": record.lab,
        "dut": record.dut,
        "backend": result.backend,
        "xdp_mode": result.xdp_mode,
        "position": spec.rules.position,
        "mean_position": spec.rules.mean_position,
        "places": describe_places(spec.rules.places),
        "stateful": spec.rules.stateful,
        "cross_traffic": spec.cross_traffic,
        "rate_text": rate_text(spec.traffic),
        "sizes_text": describe(spec.traffic.sizes),
        "frame_bytes": mean_bytes(spec.traffic.sizes),
        "flows": spec.traffic.flows.count,
        "warmup_s": spec.traffic.warmup_s,
        "record_s": result.record_s,
        "offered_pps": record.offered_pps,
        "achieved_pps": result.achieved_pps,
        "forwarding_pps": result.forwarding_pps,
        "sent": result.sent,
        "received": result.received,
        "lost": result.lost,
        "loss_ratio": _number(result.loss_ratio),
        "duplicated": result.duplicated,
        "reordered": result.reordered,
        "stray": result.stray,
        "receiver_dropped": result.receiver_dropped,
        "sent_warmup": result.sent_warmup,
        "delay_min_ns": _delay(result, result.delay_min_ns),
        "delay_mean_ns": _delay(result, result.delay_mean_ns),
        "delay_max_ns": _delay(result, result.delay_max_ns),
        **{
            f"delay_{name}_ns": _delay(result, result.histogram.quantile_ns(q))
            for name, q in QUANTILES.items()
        },
        "jitter_ns": _delay(result, result.jitter_ns),
        "longest_gap_ns": _delay(result, result.longest_gap_ns),
        "record_start_ns": result.record_start_ns,
        "record_end_ns": result.record_end_ns,
        "first_departure_ns": result.first_departure_ns,
        "last_departure_ns": result.last_departure_ns,
        "first_arrival_ns": result.first_arrival_ns,
        "last_arrival_ns": result.last_arrival_ns,
        "late_mean_ns": _number(result.late_mean_ns),
        "late_max_ns": result.late_max_ns,
        "slipped_ns": result.slipped_ns,
        "wall_s": host.wall_s,
        **{
            f"{role}_{state}_s": host.cpu_s.get(role, {}).get(state)
            for role in CPU_ROLES
            for state in CPU_STATES
        },
        "frequency_mhz": host.frequency_mhz,
        "temperature_c": host.temperature_c,
        "memory_used_bytes": host.memory_used_bytes,
        "softnet_dropped": host.softnet_dropped,
        "softnet_squeezed": host.softnet_squeezed,
        "dut_wait_s": host.dut_wait_s,
        "handover_ns": host.handover_ns,
        "handover_change": host.handover_change,
        "management_s": host.management_s,
        "left_out_s": result.left_out_s,
        "left_out": json.dumps([[span.begin_ns, span.end_ns, span.why] for span in result.left_out]),
        "disturbed_sent": disturbed and disturbed.sent,
        "disturbed_received": disturbed and disturbed.received,
        "disturbed_delay_mean_ns": disturbed and _number(disturbed.delay_mean_ns),
        "disturbed_delay_p99_ns": disturbed and _number(disturbed.delay_p99_ns),
        "dut_counters": json.dumps(record.dut_counters),
        "spec": json.dumps(spec_to_json(spec)),
        "invalid": "; ".join(record.invalid),
        "valid": record.valid,
    }


def rate_text(traffic: Traffic) -> str:
    """The offered load as text, steps included: ``100kpps, 200kpps from 1 s, position 9 from 2 s``."""
    steps = []
    for step in traffic.steps:
        what = [] if step.rate is None else [describe_rate(step.rate)]
        what += [] if step.position is None else [f"position {step.position}"]
        steps.append(f"{' at '.join(what)} from {step.at_s:g} s")
    return ", ".join([describe_rate(traffic.rate), *steps])


def _details(record: TrialRecord) -> dict[str, dict[str, npt.NDArray[Any]]]:
    result, calls = record.result, record.calls
    histogram, series, flows = result.histogram, result.series, result.flows
    return {
        "histograms": {
            "lower_ns": histogram.lower_ns,
            "upper_ns": histogram.upper_ns,
            "count": histogram.count,
        },
        "series": {
            "start_ns": np.arange(len(series.sent), dtype=np.int64) * series.bin_ns,
            **{name: getattr(series, name) for name in DETAILS["series"] if name != "start_ns"},
        },
        "flows": {
            "flow": np.arange(len(flows.sent), dtype=np.int64),
            **{name: getattr(flows, name) for name in DETAILS["flows"] if name != "flow"},
        },
        "calls": {name: np.empty(0) if calls is None else getattr(calls, name) for name in DETAILS["calls"]},
    }


def _column(array: npt.NDArray[Any], kind: DataType | DataTypeClass) -> pl.Series:
    if kind == pl.Boolean():
        return pl.Series(array.astype(np.bool_))
    if np.issubdtype(array.dtype, np.floating):
        return pl.Series(array.astype(np.float64), nan_to_null=True)
    # The histogram's last bucket may end at the largest unsigned number.
    return pl.Series(np.minimum(array, _INT_MAX).astype(np.int64))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _delay(result: EngineResult, value: float) -> float | None:
    """A delay of nothing is no delay, whatever the engine left in its place."""
    return _number(value) if result.received else None
