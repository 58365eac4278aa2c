"""Records as rows: the columns of a run's tables.

One attempt is one row of ``trials``; its histogram, time series, flows and calls are rows of
more tables, joined by ``trial_id``. While a run is being written each attempt is
one Parquet file (a *part*) of one row that carries the other tables as lists: it is
there in full or not at all.

Counts are signed, so that differences of columns cannot wrap around. Where nothing was
measured (no delay because nothing arrived, no thermometer) a value is null, never NaN.
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

from weirlab.records import EngineResult, TrialRecord
from weirlab.store.codec import spec_to_json
from weirlab.traffic.load import describe_rate
from weirlab.traffic.places import describe_places
from weirlab.traffic.sizes import describe, mean_bytes
from weirlab.traffic.spec import Traffic

Columns = Mapping[str, DataType | DataTypeClass]

CPU_ROLES: Final = ("sender", "dut")
CPU_STATES: Final = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait", "idle_poll")
"""``idle_poll`` is a part of ``idle``: time in which Weir itself kept the CPU awake."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

_INT, _FLOAT, _TEXT = pl.Int64(), pl.Float64(), pl.String()
_INT_MAX: Final = np.iinfo(np.int64).max

TRIALS: Final[Columns] = {
    "trial_id": _TEXT,
    "run_id": _TEXT,
    "index": _INT,
    "attempt": _INT,
    "role": _TEXT,
    "label": _TEXT,
    "started_at": _TEXT,
    "lab": _TEXT,
    "dut": _TEXT,
    "backend": _TEXT,
    "xdp_mode": _TEXT,
    "position": _INT,
    "mean_position": _FLOAT,
    "places": _TEXT,
    "stateful": pl.Boolean(),
    "cross_traffic": pl.Boolean(),
    "rate_text": _TEXT,
    "sizes_text": _TEXT,
    "frame_bytes": _FLOAT,
    "flows": _INT,
    "warmup_s": _FLOAT,
    "record_s": _FLOAT,
    "offered_pps": _FLOAT,
    "achieved_pps": _FLOAT,
    "forwarding_pps": _FLOAT,
    "sent": _INT,
    "received": _INT,
    "lost": _INT,
    "loss_ratio": _FLOAT,
    "duplicated": _INT,
    "reordered": _INT,
    "stray": _INT,
    "receiver_dropped": _INT,
    "sent_warmup": _INT,
    "delay_min_ns": _FLOAT,
    "delay_mean_ns": _FLOAT,
    "delay_max_ns": _FLOAT,
    **{f"delay_{name}_ns": _FLOAT for name in QUANTILES},
    "jitter_ns": _FLOAT,
    "longest_gap_ns": _FLOAT,
    "record_start_ns": _INT,
    "record_end_ns": _INT,
    "first_departure_ns": _INT,
    "last_departure_ns": _INT,
    "first_arrival_ns": _INT,
    "last_arrival_ns": _INT,
    "late_mean_ns": _FLOAT,
    "late_max_ns": _INT,
    "slipped_ns": _INT,
    "wall_s": _FLOAT,
    **{f"{role}_{state}_s": _FLOAT for role in CPU_ROLES for state in CPU_STATES},
    "frequency_mhz": _FLOAT,
    "temperature_c": _FLOAT,
    "memory_used_bytes": _INT,
    "softnet_dropped": _INT,
    "softnet_squeezed": _INT,
    "dut_wait_s": _FLOAT,
    "handover_ns": _FLOAT,
    "handover_change": _FLOAT,
    "management_s": _FLOAT,
    "left_out_s": _FLOAT,
    "left_out": _TEXT,
    "disturbed_sent": _INT,
    "disturbed_received": _INT,
    "disturbed_delay_mean_ns": _FLOAT,
    "disturbed_delay_p99_ns": _FLOAT,
    "dut_counters": _TEXT,
    "spec": _TEXT,
    "invalid": _TEXT,
    "valid": pl.Boolean(),
}
"""One row per attempt. ``offered_pps`` is infinite for "as fast as possible"; ``invalid`` joins
the reasons with "; " and is empty for a valid attempt; ``dut_counters`` and ``spec`` are JSON.
``left_out`` is JSON, a list of ``[begin_ns, end_ns, why]`` from the start of recording: what the
host disturbed and what therefore counts in ``series`` and ``flows`` only. The columns ``disturbed_...``
are the result with it, null where nothing was left out.
``places`` is empty where all test traffic matches at ``position``; else that is the last place."""

ADDED: Final[Mapping[str, pl.Expr]] = {
    "mean_position": pl.col("position").cast(_FLOAT),
    "places": pl.lit(""),
    "cross_traffic": pl.lit(False),
    "left_out_s": pl.lit(0.0),
    "left_out": pl.lit("[]"),
}
"""What columns that earlier versions did not write would have been."""

DETAILS: Final[Mapping[str, Columns]] = {
    "histograms": {"lower_ns": _INT, "upper_ns": _INT, "count": _INT},
    "series": {
        "start_ns": _INT,
        "sent": _INT,
        "received": _INT,
        "delay_mean_ns": _FLOAT,
        "delay_max_ns": _FLOAT,
    },
    "flows": {
        "flow": _INT,
        "sent": _INT,
        "received": _INT,
        "lost": _INT,
        "duplicated": _INT,
        "reordered": _INT,
        "delay_min_ns": _FLOAT,
        "delay_mean_ns": _FLOAT,
        "delay_max_ns": _FLOAT,
        "jitter_ns": _FLOAT,
        "longest_gap_ns": _FLOAT,
    },
    "calls": {
        "call": _INT,
        "back": pl.Boolean(),
        "call_class": _INT,
        "sent": _INT,
        "received": _INT,
        "lost": _INT,
        "duplicated": _INT,
        "reordered": _INT,
        "loss_runs": _INT,
        "longest_run": _INT,
        "burst_ratio": _FLOAT,
        "delay_min_ns": _FLOAT,
        "delay_mean_ns": _FLOAT,
        "delay_p50_ns": _FLOAT,
        "delay_p95_ns": _FLOAT,
        "delay_p99_ns": _FLOAT,
        "delay_max_ns": _FLOAT,
        "jitter_ns": _FLOAT,
        "jitter_max_ns": _FLOAT,
        "longest_gap_ns": _FLOAT,
        "late_fixed": _INT,
        "playout_fixed_ns": _FLOAT,
        "mos_fixed": _FLOAT,
        "late_adaptive": _INT,
        "playout_adaptive_ns": _FLOAT,
        "mos_adaptive": _FLOAT,
        "r_factor": _FLOAT,
        "mos": _FLOAT,
    },
}
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
