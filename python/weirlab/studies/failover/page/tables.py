"""The page's tables: pairs compared, and every attempt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from weirlab.report.numbers import NOTHING, count, duration, percent, significant
from weirlab.report.tables import Table
from weirlab.studies.failover.page.source import Campaign, Group

Shown = Callable[[float], str]


def compared(found: Sequence[Group]) -> Table:
    """A row per pair and event: medians and extremes over the runs."""
    rows = []
    for group in found:
        expected = group.expected_ns
        rows.append(
            (
                group.name,
                count(group.runs.height),
                _span(group, "gap_p50_ns", duration),
                # Where nothing was lost, nothing had to come back.
                NOTHING if group.numbers.get("lossless") else _span(group, "resumed_ns", duration),
                "none" if expected is None else f"{duration(expected[0])} to {duration(expected[1])}",
                _span(group, "lost", count),
                _span(group, "glitch_ms", lambda value: f"{significant(value)} ms"),
                _span(group, "reordered", count),
                _span(group, "duplicated", count),
                " / ".join(
                    duration(group.median(f"jitter_{when}_ns")) for when in ("before", "during", "after")
                ),
                percent(group.numbers["survivors"])
                if group.numbers.get("survivors") is not None
                else NOTHING,
                f"{_mos(group.median('mos_before'))} / {_mos(group.median('mos_affected'))}",
            )
        )
    return Table(
        "Medians over the runs, in brackets the lowest and highest",
        (
            "Pair and event",
            "Runs",
            "Gap of a call",
            "Back after",
            "Timers",
            "Lost",
            "Lost / rate",
            "Reordered",
            "Duplicated",
            "Jitter before / during / after",
            "Streams alive",
            "MOS before / affected",
        ),
        tuple(rows),
        frozenset(range(1, 12)),
    )


def switches(campaign: Campaign) -> Table:
    """A row per attempt, invalid ones with their reasons."""
    rows = [
        (
            str(row["pair"]),
            str(row["kind"]),
            str(row["repetition"]),
            _known(row["gap_p50_ns"], duration),
            _known(row["gap_max_ns"], duration),
            _known(row["resumed_ns"] if row["lost"] else None, duration),
            count(row["lost"]),
            _known(row["glitch_ms"], lambda value: f"{significant(value)} ms"),
            f"{row['alive']:,} of {row['streams']:,}",
            _known(row["event_took_ns"], duration),
            _known(row["mos_affected"], _mos),
            "yes" if row["valid"] else f"no: {row['invalid']}",
        )
        for row in campaign.switches.sort("index", "attempt").iter_rows(named=True)
    ]
    return Table(
        "Every attempt",
        (
            "Pair",
            "Event",
            "Run",
            "Gap of the median call",
            "Of the worst call",
            "Back after",
            "Lost",
            "Lost / rate",
            "Streams alive",
            "The event itself took",
            "MOS affected",
            "Valid",
        ),
        tuple(rows),
        frozenset(range(2, 11)),
    )


def _span(group: Group, name: str, shown: Shown) -> str:
    middle, low, high = group.spread(name)
    if not math.isfinite(middle):
        return NOTHING
    return shown(middle) if low == high else f"{shown(middle)} ({shown(low)} to {shown(high)})"


def _known(value: float | None, shown: Shown) -> str:
    return NOTHING if value is None or not math.isfinite(value) else shown(value)


def _mos(value: float) -> str:
    return f"{value:.2f}" if math.isfinite(value) else NOTHING
