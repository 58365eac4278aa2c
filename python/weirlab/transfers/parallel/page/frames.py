"""What charts draw, as frames."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import polars as pl

from weirlab.base.quantities import percent
from weirlab.measure.spread import Spread
from weirlab.report.numbers import rounded
from weirlab.trace.quantities import size
from weirlab.transfers.parallel.findings import MethodGroup, ParallelFindings
from weirlab.transfers.parallel.plan import INDEPENDENT, named
from weirlab.transfers.parallel.rows import APPLICATION, COMPETITOR, PATH, ParallelAttemptRow

_MBIT: Final = 1e6
_KB: Final = 1e3
_BARS: Final = {
    "row": pl.String, "method": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "reach": pl.Float64, "sum": pl.Float64, "label": pl.String, "attempts": pl.Int64,
}  # fmt: skip
_LINES: Final = {"series": pl.String, "at_s": pl.Float64, "value": pl.Float64}


def goodput(groups: Sequence[MethodGroup]) -> pl.DataFrame:
    """A bar per case and method in Mbit/s; the line is what independent streams have together."""
    sums = {group.case: group.goodput.median for group in groups if group.method == INDEPENDENT}
    rows = []
    for group in groups:
        share = f" {percent(group.share.median)}" if group.share.known and group.method != INDEPENDENT else ""
        total = sums.get(group.case, math.nan)
        rows.append(_bar(group, group.goodput, _MBIT, f"{_short(group)}{share}", total))
    return pl.DataFrame(rows, schema=_BARS)


def _short(group: MethodGroup) -> str:
    """There is little room behind a bar on a phone."""
    return group.name.removeprefix("single ").removesuffix(" streams")


def memory(groups: Sequence[MethodGroup]) -> pl.DataFrame:
    """A bar per case and session in kB."""
    rows = []
    for group in groups:
        found = group.spread["reorder_peak_bytes"]
        if found.known:
            label = f"{group.name} {size(found.high)}"
            rows.append(_bar(group, found, _KB, label, math.nan))
    return pl.DataFrame(rows, schema=_BARS)


def _bar(group: MethodGroup, found: Spread, unit: float, label: str, total: float) -> dict[str, object]:
    reach = max(value for value in (found.high, total, 0.0) if not math.isnan(value))
    return {
        "row": group.case,
        "method": group.name,
        "value": rounded(found.median / unit),
        "low": rounded(found.low / unit),
        "high": rounded(found.high / unit),
        "reach": rounded(reach / unit),
        "sum": rounded(total / unit),
        "label": label,
        "attempts": group.attempts,
    }


def typical(found: ParallelFindings, case: str, method: str) -> ParallelAttemptRow | None:
    """The valid attempt whose goodput is the middle one, over all paths."""
    valid = [row for row in found.rows if row.valid and (row.case, row.method, row.path) == (case, method, 0)]
    ranked = sorted(valid, key=lambda row: row.goodput_bps)
    return ranked[(len(ranked) - 1) // 2] if ranked else None


def applications(series: pl.DataFrame, attempts: Sequence[ParallelAttemptRow]) -> pl.DataFrame:
    """What the application read over time, a line per attempt, in Mbit/s."""
    parts = [_line(series, attempt.trial_id, APPLICATION, 0, named(attempt.method)) for attempt in attempts]
    return pl.concat(parts) if parts else pl.DataFrame(schema=_LINES)


def by_path(series: pl.DataFrame, attempt: ParallelAttemptRow) -> pl.DataFrame:
    """What arrived over each path, and what competitors read, in Mbit/s."""
    mine = series.filter(pl.col("trial_id") == attempt.trial_id)
    parts = []
    for what, said in ((PATH, "path"), (COMPETITOR, "competitor")):
        numbers = mine.filter(pl.col("what") == what)["number"].unique().sort().to_list()
        for number in numbers:
            name = said if what == COMPETITOR and len(numbers) == 1 else f"{said} {number}"
            parts.append(_line(series, attempt.trial_id, what, number, name))
    return pl.concat(parts) if parts else pl.DataFrame(schema=_LINES)


def competitors(series: pl.DataFrame, attempts: Sequence[ParallelAttemptRow]) -> pl.DataFrame:
    """What all competitors read together next to each attempt, a line per attempt, in Mbit/s."""
    parts = [
        series.filter((pl.col("trial_id") == attempt.trial_id) & (pl.col("what") == COMPETITOR))
        .group_by("start_s")
        .agg(pl.col("throughput_bps").sum())
        .sort("start_s")
        .select(series=pl.lit(named(attempt.method)), at_s="start_s", value=pl.col("throughput_bps") / _MBIT)
        for attempt in attempts
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=_LINES)


def _line(series: pl.DataFrame, trial_id: str, what: str, number: int, name: str) -> pl.DataFrame:
    return (
        series.filter(
            (pl.col("trial_id") == trial_id) & (pl.col("what") == what) & (pl.col("number") == number)
        )
        .sort("start_s")
        .select(series=pl.lit(name), at_s="start_s", value=pl.col("throughput_bps") / _MBIT)
    )
