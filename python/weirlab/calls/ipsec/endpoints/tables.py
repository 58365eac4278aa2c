"""Attempts as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from weirlab.base.quantities import NOTHING, count, duration, percent
from weirlab.base.tables import Table
from weirlab.calls.ipsec.endpoints.findings import EndpointFindings, EndpointGroup
from weirlab.calls.ipsec.endpoints.plan import HOG, SHORT, SOCKETS
from weirlab.calls.ipsec.endpoints.rows import EndpointAttemptRow, EndpointLimitRow

_PUBLISHED: Final = "published"
_COLUMNS: Final = (
    "Calls", "Endpoints", "Beside", "Mean jitter", "Max jitter", "Max delta", "Median delay", "Max delay",
    "Late p99", "Max late", "Lost", "CPU/packet",
)  # fmt: skip
_SPARE: Final = ("Late p99", "Max late", "Median delay", "CPU/packet", "Max delay", "Lost")


def of(found: EndpointFindings) -> list[Table]:
    """For a terminal: the comparison, the most calls, then every attempt."""
    made = [compared(found)] if found.groups else []
    if found.limits:
        made.append(limits(found.limits))
    return [*made, attempts(found.attempts)] if found.attempts else made


def compared(found: EndpointFindings) -> Table:
    """A row per number of calls, kind of endpoints, and what is beside them; below what was published."""
    most = max(group.attempts for group in found.groups)
    how = f": medians of {most} attempts, in brackets the least and the greatest" if most > 1 else ""
    rows = [_row(group) for group in found.groups]
    return Table(f"Endpoints compared{how}", _COLUMNS, [*rows, *_published(found)], _SPARE)


def _row(each: EndpointGroup) -> tuple[str, ...]:
    def shown(name: str) -> str:
        spread = each.spread[name]
        return spread.text(duration) if spread.known else NOTHING

    return (
        count(each.calls),
        SHORT[each.arm],
        each.beside,
        *map(shown, ("jitter_mean_ns", "jitter_max_ns", "delta_max_ns", "delay_p50_ns", "delay_max_ns")),
        *map(shown, ("late_p99_ns", "late_max_ns")),
        percent(each.lost_ratio),
        shown("cpu_ns"),
    )


def _published(found: EndpointFindings) -> list[tuple[str, ...]]:
    def ms(value: float | None) -> str:
        return NOTHING if value is None else duration(value * 1e6)

    return [
        (
            "1",
            each.what,
            _PUBLISHED,
            ms(each.jitter_mean_ms),
            ms(each.jitter_max_ms),
            ms(each.delta_max_ms),
            *[NOTHING] * (len(_COLUMNS) - 6),
        )
        for each in found.publication
    ]


def limits(rows: Sequence[EndpointLimitRow]) -> Table:
    """A row per search."""
    cells = [
        (
            SHORT[row.arm],
            row.beside,
            f"{'at least ' if row.at_least else ''}{count(row.carried)}",
            count(row.too_many),
        )
        for row in rows
    ]
    return Table("Most calls", ("Endpoints", "Beside", "Carried", "Too many"), cells)


def work(found: EndpointFindings) -> Table:
    """What packets cost, and who had the CPUs."""

    def spread(each: EndpointGroup, name: str, show: Callable[[float], str]) -> str:
        return each.spread[name].text(show) if each.spread[name].known else NOTHING

    cells = [
        (
            count(group.calls),
            SHORT[group.arm],
            group.beside,
            spread(group, "cpu_ns", duration),
            spread(group, "work_ns", duration) if group.arm != SOCKETS or group.beside != HOG else NOTHING,
            spread(group, "cpu_share", percent),
            spread(group, "hog_share", percent),
            spread(group, "steal_ratio", percent),
        )
        for group in found.groups
    ]
    columns = ("Calls", "Endpoints", "Beside", "CPU/packet", "Work/packet", "CPU", "Hog", "Stolen")
    return Table("Where CPU time went", columns, cells, spare=("Stolen", "Hog"), details=True)


def attempts(rows: Sequence[EndpointAttemptRow]) -> Table:
    """Every attempt, those that do not count with the reason."""
    cells = [
        (
            row.purpose,
            count(row.calls),
            SHORT[row.arm],
            row.beside,
            str(row.repetition),
            duration(row.jitter_mean_ns),
            duration(row.jitter_max_ns),
            duration(row.delay_max_ns),
            duration(row.late_max_ns),
            f"{count(row.lost + row.unsent)} of {count(row.packets)}",
            count(row.bad),
            percent(row.steal_ratio),
            "yes" if row.valid else f"no: {row.invalid}",
        )
        for row in rows
    ]
    columns = (
        "Purpose", "Calls", "Endpoints", "Beside", "Repetition", "Mean jitter", "Max jitter", "Max delay",
        "Max late", "Lost", "Bad", "Stolen", "Counts",
    )  # fmt: skip
    return Table("Every attempt", columns, cells, details=True)
