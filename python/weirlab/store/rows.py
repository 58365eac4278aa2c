"""Records as rows: the values of the columns that ``columns`` lists.

One attempt is one row of ``trials``; its histogram, time series, flows and calls are rows of
more tables, joined by ``trial_id``. While a run is being written, each attempt is one Parquet
file (a *part*) with one row, which holds the other tables as lists, so that an attempt is
written in full or not at all. A study's own tables for the attempt are in the same part.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.datatypes import DataType, DataTypeClass

from weirlab.records import ESTABLISHED, TrialRecord
from weirlab.store.codec import spec_to_json
from weirlab.store.columns import CallRow, FlowRow, HistogramRow, SeriesRow, TrialRow
from weirlab.store.frames import BOOL, FLOAT, TEXT, schema_of
from weirlab.store.parquet import Allowance
from weirlab.traffic.load import describe_rate
from weirlab.traffic.places import describe_places
from weirlab.traffic.sizes import describe, mean_bytes
from weirlab.traffic.spec import Traffic

Columns = Mapping[str, DataType | DataTypeClass]

CPU_ROLES: Final = ("sender", "dut")
CPU_STATES: Final = ("user", "nice", "system", "irq", "softirq", "steal", "idle", "iowait", "idle_poll")
"""``idle_poll`` is part of ``idle``: time in which Weir itself kept the CPU awake."""

QUANTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999}

_INT_MAX: Final = np.iinfo(np.int64).max


def rate_text(traffic: Traffic) -> str:
    """The offered load as text, steps included: ``100kpps, 200kpps from 1 s, position 9 from 2 s``."""
    steps = []
    for step in traffic.steps:
        what = [] if step.rate is None else [describe_rate(step.rate)]
        what += [] if step.position is None else [f"position {step.position}"]
        steps.append(f"{' at '.join(what)} from {step.at_s:g} s")
    return ", ".join([describe_rate(traffic.rate), *steps])


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _delay(record: TrialRecord, value: float) -> float | None:
    """None if nothing was received: the engine's value means nothing then."""
    return _number(value) if record.result.received else None


def _quantile(q: float) -> Callable[[TrialRecord], float | None]:
    return lambda r: _delay(r, r.result.histogram.quantile_ns(q))


def _cpu_s(role: str, state: str) -> Callable[[TrialRecord], float | None]:
    return lambda r: r.host.cpu_s.get(role, {}).get(state)


_VALUES: Final[dict[str, Callable[[TrialRecord], Any]]] = {
    "trial_id": lambda r: r.trial_id,
    "run_id": lambda r: r.run_id,
    "index": lambda r: r.index,
    "attempt": lambda r: r.attempt,
    "role": lambda r: r.role,
    "label": lambda r: r.spec.label,
    "started_at": lambda r: r.started_at,
    "lab": lambda r: r.lab,
    "dut": lambda r: r.dut,
    "backend": lambda r: r.result.backend,
    "xdp_mode": lambda r: r.result.xdp_mode,
    "position": lambda r: r.spec.rules.position,
    "mean_position": lambda r: r.spec.mean_position,
    "places": lambda r: describe_places(r.spec.rules.places),
    "stateful": lambda r: r.spec.rules.stateful,
    "cross_traffic": lambda r: r.spec.cross_traffic,
    "rate_text": lambda r: rate_text(r.spec.traffic),
    "sizes_text": lambda r: describe(r.spec.traffic.sizes),
    "frame_bytes": lambda r: mean_bytes(r.spec.traffic.sizes),
    "flows": lambda r: r.spec.traffic.flows.count,
    "warmup_s": lambda r: r.spec.traffic.warmup_s,
    "record_s": lambda r: r.result.record_s,
    "offered_pps": lambda r: r.offered_pps,
    "achieved_pps": lambda r: r.result.achieved_pps,
    "forwarding_pps": lambda r: r.result.forwarding_pps,
    "sent": lambda r: r.result.sent,
    "received": lambda r: r.result.received,
    "lost": lambda r: r.result.lost,
    "loss_ratio": lambda r: _number(r.result.loss_ratio),
    "duplicated": lambda r: r.result.duplicated,
    "reordered": lambda r: r.result.reordered,
    "stray": lambda r: r.result.stray,
    "receiver_dropped": lambda r: r.result.receiver_dropped,
    "sent_warmup": lambda r: r.result.sent_warmup,
    "delay_min_ns": lambda r: _delay(r, r.result.delay_min_ns),
    "delay_mean_ns": lambda r: _delay(r, r.result.delay_mean_ns),
    "delay_sd_ns": lambda r: _delay(r, r.result.histogram.deviation_ns),
    "delay_max_ns": lambda r: _delay(r, r.result.delay_max_ns),
    **{f"delay_{name}_ns": _quantile(q) for name, q in QUANTILES.items()},
    "jitter_ns": lambda r: _delay(r, r.result.jitter_ns),
    "longest_gap_ns": lambda r: _delay(r, r.result.longest_gap_ns),
    "record_start_ns": lambda r: r.result.record_start_ns,
    "record_end_ns": lambda r: r.result.record_end_ns,
    "first_departure_ns": lambda r: r.result.first_departure_ns,
    "last_departure_ns": lambda r: r.result.last_departure_ns,
    "first_arrival_ns": lambda r: r.result.first_arrival_ns,
    "last_arrival_ns": lambda r: r.result.last_arrival_ns,
    "late_mean_ns": lambda r: _number(r.result.late_mean_ns),
    "late_max_ns": lambda r: r.result.late_max_ns,
    "slipped_ns": lambda r: r.result.slipped_ns,
    "wall_s": lambda r: r.host.wall_s,
    **{f"{role}_{state}_s": _cpu_s(role, state) for role in CPU_ROLES for state in CPU_STATES},
    "frequency_mhz": lambda r: r.host.frequency_mhz,
    "temperature_c": lambda r: r.host.temperature_c,
    "memory_used_bytes": lambda r: r.host.memory_used_bytes,
    "softnet_dropped": lambda r: r.host.softnet_dropped,
    "softnet_squeezed": lambda r: r.host.softnet_squeezed,
    "dut_wait_s": lambda r: r.host.dut_wait_s,
    "handover_ns": lambda r: r.host.handover_ns,
    "handover_change": lambda r: r.host.handover_change,
    "management_s": lambda r: r.host.management_s,
    "rules_expected": lambda r: r.rules_met and r.rules_met.expected,
    "rules_met": lambda r: r.rules_met and r.rules_met.met,
    "rules_matched": lambda r: r.rules_met and r.rules_met.matched_ratio,
    "dropped_pps": lambda r: r.dropped_pps,
    "rules_counted_in": lambda r: r.rules_met.counted_in if r.rules_met else "",
    "new_share": lambda r: r.spec.traffic.flows.new_share if r.spec.traffic.flows.answered else None,
    "answers_sent": lambda r: r.result.answers and r.result.answers.sent,
    "answers_received": lambda r: r.result.answers and r.result.answers.received,
    "answers_delay_mean_ns": lambda r: r.result.answers and _number(r.result.answers.delay_mean_ns),
    "answers_delay_p99_ns": lambda r: r.result.answers and r.result.answers.delay_p99_ns,
    "open_flows": lambda r: r.result.answers and r.result.answers.open_flows,
    "established_sent": lambda r: r.result.answers and r.result.answers.established_sent,
    "established_packets": lambda r: r.dut_counters.get(ESTABLISHED),
    "left_out_s": lambda r: r.result.left_out_s,
    "left_out": lambda r: json.dumps([[span.begin_ns, span.end_ns, span.why] for span in r.result.left_out]),
    "disturbed_sent": lambda r: r.disturbed and r.disturbed.sent,
    "disturbed_received": lambda r: r.disturbed and r.disturbed.received,
    "disturbed_delay_mean_ns": lambda r: r.disturbed and _number(r.disturbed.delay_mean_ns),
    "disturbed_delay_p99_ns": lambda r: r.disturbed and _number(r.disturbed.delay_p99_ns),
    "dut_counters": lambda r: json.dumps(r.dut_counters),
    "spec": lambda r: json.dumps(spec_to_json(r.spec)),
    "invalid": lambda r: "; ".join(r.invalid),
    "valid": lambda r: r.valid,
}
"""The value of each column of ``trials`` for a record; :class:`TrialRow` describes the columns."""

TRIALS: Final[Columns] = schema_of(TrialRow)
"""One row per attempt."""

ADDED: Final[Mapping[str, pl.Expr]] = {
    "mean_position": pl.col("position").cast(FLOAT),
    "places": pl.lit(""),
    "cross_traffic": pl.lit(False),
    "rules_counted_in": pl.lit(""),
    "left_out_s": pl.lit(0.0),
    "left_out": pl.lit("[]"),
}
"""Values of the columns that earlier versions did not write."""

ROWS: Final = {"histograms": HistogramRow, "series": SeriesRow, "flows": FlowRow, "calls": CallRow}
"""Row types of the tables that refer to the trials."""

DETAILS: Final[Mapping[str, Columns]] = {name: schema_of(row) for name, row in ROWS.items()}
"""Columns of the other tables besides ``trial_id``; ``series`` counts time from the start of recording."""

OWN_NAMES: Final = "own.names"
_OWN_ROWS: Final = "own.rows"
OWN: Final = (OWN_NAMES, _OWN_ROWS)
"""Columns of a part with the names of the study's own tables, and with their rows as Parquet."""

TABLES: Final = ("trials", *DETAILS)


def table_schema(table: str) -> Columns:
    """Columns of ``table`` in order, ``trial_id`` first."""
    return TRIALS if table == "trials" else {"trial_id": TEXT, **DETAILS[table]}


def part_schema() -> Columns:
    """Columns of a part: those of ``trials``, the other tables as lists, and the study's own as Parquet."""
    lists = {
        f"{table}.{name}": pl.List(kind)
        for table, columns in DETAILS.items()
        for name, kind in columns.items()
    }
    return {**TRIALS, **lists, OWN_NAMES: pl.List(TEXT), _OWN_ROWS: pl.List(pl.Binary())}


def part_columns(table: str) -> tuple[str, ...]:
    """Columns of a part that have the rows of ``table``."""
    return (
        tuple(TRIALS) if table == "trials" else ("trial_id", *(f"{table}.{name}" for name in DETAILS[table]))
    )


def table_of_parts(parts: pl.LazyFrame, table: str) -> pl.LazyFrame:
    """The rows of ``table`` in ``parts``."""
    if table == "trials":
        return completed(parts.select(*TRIALS))
    names = list(DETAILS[table])
    # Versions of Polars differ in how explode treats an empty list, so filter them out.
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
    if taken := record.tables.keys() & set(TABLES):
        raise ValueError(f"not names for a study's own tables: {sorted(taken)}")
    # Naming the types, which are already right, would more than double the time. Absent columns are empty.
    lists = [
        pl.Series(f"{table}.{name}", [_column(array, DETAILS[table][name])])
        for table, arrays in _details(record).items()
        for name, array in arrays.items()
        if len(array)
    ]
    own = [
        pl.Series(OWN_NAMES, [list(record.tables)], dtype=pl.List(TEXT)),
        pl.Series(_OWN_ROWS, [[_parquet(own) for own in record.tables.values()]], dtype=pl.List(pl.Binary())),
    ]
    row = pl.DataFrame([trial_row(record)], schema=TRIALS, orient="row")
    return _parquet(row.hstack([*lists, *own]))


def own_tables(parts: pl.DataFrame | None, path: Path, allowance: Allowance) -> dict[str, list[pl.DataFrame]]:
    """The rows of the study's own tables in ``parts``, by table, one frame for each part.

    ``path`` is where the parts are, for messages.
    """
    found: dict[str, list[pl.DataFrame]] = {}
    for names, rows in () if parts is None else parts.select(OWN).iter_rows():
        # Parts written by earlier versions have none.
        for name, content in zip(names or (), rows or (), strict=True):
            allowance.admit(path, content)
            buffer = io.BytesIO(content)
            found.setdefault(name, []).append(pl.read_parquet(buffer))
    return found


def _parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    # Parts are read whole: nobody looks at statistics, a third of the bytes of a part.
    frame.write_parquet(buffer, compression="zstd", statistics=False)
    return buffer.getvalue()


def trial_row(record: TrialRecord) -> dict[str, Any]:
    return {name: _VALUES[name](record) for name in TRIALS}


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
    if kind == BOOL:
        return pl.Series(array.astype(np.bool_))
    if kind == FLOAT:
        return pl.Series(array.astype(np.float64), nan_to_null=True)
    # The histogram's last bucket may end at the largest unsigned number.
    return pl.Series(np.minimum(array, _INT_MAX).astype(np.int64))
