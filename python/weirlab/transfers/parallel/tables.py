"""Attempts as tables: a row per method and case, per path, per attempt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from weirlab.base.quantities import NOTHING, bit_rate, count, duration, percent, significant
from weirlab.base.tables import Table
from weirlab.measure.spread import Spread
from weirlab.trace.quantities import size
from weirlab.transfers.parallel.findings import MethodGroup, ParallelAttemptRow, ParallelFindings, PathRow
from weirlab.transfers.parallel.plan import named


def of(found: ParallelFindings) -> list[Table]:
    """For a terminal: a table per case, then every attempt."""
    made = [compared(case, groups) for case in found.cases if (groups := found.of(case))]
    return [*made, attempts(found.rows)] if found.rows else made


def compared(case: str, groups: Sequence[MethodGroup]) -> Table:
    """The methods of a case, with what matters in it; JSON and the run have everything."""
    columns = [*_ALWAYS, *next((more for name, more in _WITH if _known(groups, name)), _ELSE)]
    names = [name for name, _ in columns]
    most = max(group.attempts for group in groups)
    how = f": medians of {most} attempts, in brackets the least and the greatest" if most > 1 else ""
    return Table(
        f"{case}{how}",
        names,
        [[shown(group) for _, shown in columns] for group in groups],
        [name for name in _SPARE if name in names],
    )


def _known(groups: Sequence[MethodGroup], name: str) -> bool:
    return any(group.spread[name].known for group in groups)


def attempts(rows: Sequence[ParallelAttemptRow]) -> Table:
    """Every attempt; those that do not count have the reason."""
    cells = [
        (
            row.case,
            named(row.method, row.path),
            str(row.repetition),
            bit_rate(row.goodput_bps),
            size(row.reorder_peak_bytes),
            count(row.retransmissions),
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
    return Table("Every attempt", columns, cells, spare, details=True)


def paths(rows: Sequence[tuple[ParallelAttemptRow, PathRow]]) -> Table:
    """What each path carried in each attempt that counts."""
    cells = [
        (
            attempt.case,
            named(attempt.method, attempt.path),
            str(attempt.repetition),
            str(path.path),
            bit_rate(path.rate_bps),
            duration(path.rtt_ms * 1e6),
            bit_rate(path.throughput_bps),
            count(path.retransmissions),
            count(path.dropped),
            count(path.lost),
        )
        for attempt, path in rows
    ]
    columns = (
        "Case", "Method", "Repetition", "Path", "Rate set", "Round trip set", "Carried", "Retransmitted",
        "Queue full", "Lost on the way",
    )  # fmt: skip
    return Table("Every path of every attempt", columns, cells, details=True)


def _seconds(value: float) -> str:
    return duration(value * 1e9)


def _spread(found: Spread, shown: Callable[[float], str]) -> str:
    return NOTHING if math.isnan(found.median) else found.text(shown)


def _column(name: str, shown: Callable[[float], str]) -> Callable[[MethodGroup], str]:
    return lambda each: _spread(each.spread[name], shown)


Column = tuple[str, Callable[[MethodGroup], str]]

_ALWAYS: Final[Sequence[Column]] = (
    ("Method", lambda each: each.name),
    ("Goodput", _column("goodput_bps", bit_rate)),
    ("Of the sum", lambda each: _spread(each.share, percent)),
    ("Reorder memory", _column("reorder_peak_bytes", size)),
    ("Retransmitted", _column("retransmissions", count)),
)
_WITH: Final[Sequence[tuple[str, Sequence[Column]]]] = (
    (
        "outage_bps",
        (("Path dead", _column("outage_bps", bit_rate)), ("Back after", _column("back_s", _seconds))),
    ),
    (
        "competitor_bps",
        (
            ("Competitor", _column("competitor_bps", bit_rate)),
            ("Share of the path", _column("path_share", percent)),
            ("Jain", _column("jain", lambda value: significant(value, 2))),
        ),
    ),
)
_ELSE: Final[Sequence[Column]] = (
    ("CPU s/GB", _column("cpu_s_per_gb", significant)),
    ("Longest stall", _column("stall_s", _seconds)),
)
_SPARE: Final = (
    "Longest stall", "Retransmitted", "CPU s/GB", "Reorder memory", "Back after", "Jain", "Competitor",
    "Share of the path", "Path dead",
)  # fmt: skip
