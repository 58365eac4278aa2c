"""Attempts as tables: a row per method and case, per path, per attempt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from weirlab.quantities import NOTHING, bit_rate, count, duration, percent, significant
from weirlab.studies.parallel.findings import Group, ParallelFindings, Spread
from weirlab.studies.parallel.plan import named
from weirlab.studies.parallel.rows import AttemptRow, PathRow
from weirlab.tables import Table
from weirlab.trace.quantities import size

_SPARE: Final = (
    "Attempts", "Longest stall", "Retransmitted", "CPU s/GB", "Jain", "Back after", "Reorder memory",
)  # fmt: skip


def told(found: ParallelFindings) -> list[Table]:
    """For a terminal: a table per case, then every attempt."""
    made = [compared(case, groups) for case in found.cases if (groups := found.of(case))]
    return [*made, attempts(found.rows)] if found.rows else made


def compared(case: str, groups: Sequence[Group]) -> Table:
    """The methods of a case; what none of them has is left out."""
    columns: list[tuple[str, Callable[[Group], str]]] = [
        ("Method", lambda each: each.name),
        ("Goodput", lambda each: _spread(each.goodput, bit_rate)),
        ("Of the sum", lambda each: _spread(each.share, percent)),
        ("Reorder memory", lambda each: _spread(each.spread["reorder_peak_bytes"], size)),
        ("Retransmitted", lambda each: _spread(each.spread["retransmissions"], count)),
        ("CPU s/GB", lambda each: _spread(each.spread["cpu_s_per_gb"], significant)),
        ("Longest stall", lambda each: _spread(each.spread["stall_s"], _seconds)),
        ("Path dead", lambda each: _spread(each.spread["outage_bps"], bit_rate)),
        ("Back after", lambda each: _spread(each.spread["back_s"], _seconds)),
        ("Competitor", lambda each: _spread(each.spread["competitor_bps"], bit_rate)),
        ("Jain", lambda each: _spread(each.spread["jain"], lambda value: significant(value, 2))),
        ("Attempts", lambda each: count(each.attempts)),
    ]
    cells = [[shown(each) for _, shown in columns] for each in groups]
    kept = [n for n in range(len(columns)) if n < 2 or any(row[n] != NOTHING for row in cells)]
    names = [columns[n][0] for n in kept]
    spare = [name for name in _SPARE if name in names]
    return Table(
        f"{case}: medians, in brackets the least and the greatest",
        names,
        [[row[n] for n in kept] for row in cells],
        range(1, len(names)),
        spare,
    )


def attempts(rows: Sequence[AttemptRow]) -> Table:
    """Every attempt, those that do not count with the reason."""
    cells = [
        (
            row.case,
            named(row.method, row.path),
            str(row.repetition),
            bit_rate(row.goodput_bps),
            NOTHING if row.reorder_peak_bytes is None else size(row.reorder_peak_bytes),
            NOTHING if row.retransmissions is None else count(row.retransmissions),
            duration(row.late_p99_ns),
            _seconds(row.waited_s),
            "yes" if row.valid else f"no: {row.invalid}",
        )
        for row in rows
    ]
    columns = (
        "Case", "Method", "Repetition", "Goodput", "Reorder memory", "Retransmitted", "Paths late p99",
        "Waited for a CPU", "Counts",
    )  # fmt: skip
    spare = ("Waited for a CPU", "Reorder memory", "Retransmitted", "Paths late p99")
    return Table("Every attempt", columns, cells, range(2, 8), spare, details=True)


def paths(rows: Sequence[tuple[AttemptRow, PathRow]]) -> Table:
    """What each attempt that counts had of each path."""
    cells = [
        (
            attempt.case,
            named(attempt.method, attempt.path),
            str(attempt.repetition),
            str(path.path),
            bit_rate(path.rate_bps),
            duration(path.rtt_ms * 1e6),
            bit_rate(path.throughput_bps),
            NOTHING if path.retransmissions is None else count(path.retransmissions),
            count(path.dropped),
            count(path.lost),
        )
        for attempt, path in rows
    ]
    columns = (
        "Case", "Method", "Repetition", "Path", "Rate set", "Round trip set", "Carried", "Retransmitted",
        "Queue full", "Lost on the way",
    )  # fmt: skip
    return Table("Every path of every attempt", columns, cells, range(2, 10), details=True)


def _seconds(value: float) -> str:
    return duration(value * 1e9)


def _spread(found: Spread, shown: Callable[[float], str]) -> str:
    return NOTHING if math.isnan(found.median) else found.text(shown)
