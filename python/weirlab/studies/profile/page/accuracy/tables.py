"""The models' errors in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from weirlab.model import ErrorRow
from weirlab.report.numbers import NOTHING, count, duration, rate, significant
from weirlab.report.tables import Table
from weirlab.studies.profile.page.accuracy.words import NAMES

_COLUMNS: Final = (
    "Quantity", "Model", "n", "Mean abs. error", "Mean error", "95 % CI", "Std. dev.", "Largest",
)  # fmt: skip
_KINDS: Final = (
    ("trial", False, "Errors on single held-out trials"),
    ("setting", False, "Errors on the medians of the repetitions"),
    ("trial", True, "Outside the profiled range: errors on single trials"),
)


def errors(rows: Iterable[ErrorRow]) -> list[Table]:
    """One table for single trials, one for medians, one for what the models had to extrapolate to."""
    known = list(rows)
    tables = []
    for per, extrapolated, caption in _KINDS:
        chosen = [row for row in known if (row.per, row.extrapolated) == (per, extrapolated)]
        if chosen:
            tables.append(_table(chosen, caption))
    return tables


def alarms(rows: Iterable[ErrorRow]) -> str:
    """A sentence on loss that was predicted where none was measured; empty without held-out trials."""
    told = [
        f"{row.model} {row.false_alarms:,} of {row.n:,}"
        for row in rows
        if row.false_alarms is not None and (row.per, row.extrapolated) == ("trial", False)
        and not row.of_measurement
    ]  # fmt: skip
    return f"Trials without loss for which loss was predicted: {', '.join(told)}." if told else ""


def _table(rows: list[ErrorRow], caption: str) -> Table:
    covered = any(row.coverage_percent for row in rows)
    columns = (*_COLUMNS, "In 50/90/99 %") if covered else _COLUMNS
    lines = tuple((*_line(row), *((_coverage(row),) if covered else ())) for row in rows)
    return Table(caption, columns, lines, frozenset(range(2, len(columns))))


def _line(row: ErrorRow) -> tuple[str, ...]:
    found, unit = (row.relative, "%") if row.relative else (row.absolute, row.unit)
    own = f" ({_error(row.absolute.mean, row.unit)})" if row.relative else ""
    interval = NOTHING
    if math.isfinite(found.mean_low):
        interval = f"{_error(found.mean_low, '')} to {_error(found.mean_high, unit)}"
    # The median of the others is off to both sides alike: a mean says nothing about repeatability.
    mean = (NOTHING, NOTHING) if row.of_measurement else (_error(found.mean, unit) + own, interval)
    return (
        NAMES.get(row.quantity, row.quantity),
        row.model,
        count(row.n),
        _error(found.mean_absolute, unit, signed=False),
        *mean,
        _error(found.std, unit, signed=False),
        _error(found.max, unit),
    )


def _coverage(row: ErrorRow) -> str:
    return "/".join(f"{share:.0f}" for share in row.coverage_percent.values()) or NOTHING


def _error(value: float, unit: str, *, signed: bool = True) -> str:
    if not math.isfinite(value):
        return NOTHING
    sign = ("+" if value > 0 else "−" if value < 0 else "") if signed else ""
    shown = {"ns": duration, "pps": rate}.get(unit)
    return sign + (shown(abs(value), 2) if shown else f"{significant(abs(value), 2)} {unit}".strip())
