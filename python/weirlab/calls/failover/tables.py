"""Switches as tables: what a kind of event does to a pair, and every attempt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from weirlab.base.tables import Table
from weirlab.calls.failover.switches.compare import SwitchGroup
from weirlab.calls.failover.switches.pair import named_event
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.measure.spread import Spread
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent, significant

Shown = Callable[[float], str]

_WHERE: Final = "Pair and event"


def compared(groups: Sequence[SwitchGroup]) -> list[Table]:
    """A row per pair and event: how long nothing arrived, what was lost, what callers heard."""
    named = [(named_event(one.pair, one.kind), one) for one in groups if one.runs]
    return [_outages(named), _losses(named), _heard(named)] if named else []


Named = Sequence[tuple[str, SwitchGroup]]


def _outages(named: Named) -> Table:
    columns = (
        _WHERE, "Runs", "No packet for", "Back after", "Timers", "Gap of a call", "Longest gap", "Forward",
        "Back", "Event took",
    )  # fmt: skip
    rows = [
        (
            name,
            count(one.runs),
            _span(one.spread["outage_ns"], duration),
            # Where nothing was lost, nothing had to come back.
            NOTHING if one.lossless else duration(one.spread["resumed_ns"].median),
            f"{one.expected_s[0]:.3g} to {one.expected_s[1]:.3g} s" if one.expected_s[1] else "none",
            duration(one.spread["gap_p50_ns"].median),
            duration(one.spread["gap_max_ns"].high),
            *(duration(one.spread[f"outage_{way}_ns"].median) for way in ("forward", "back")),
            duration(one.spread["cut_off_ns" if one.expected_s[1] else "event_took_ns"].median),
        )
        for name, one in named
    ]
    caption = "Time without packets: medians over the runs, in brackets the lowest and highest"
    return Table(caption, columns, rows, spare=("Event took", "Back", "Forward", "Runs", "Longest gap"))


def _losses(named: Named) -> Table:
    columns = (
        _WHERE, "Lost", "Lost / rate", "Reordered", "Duplicated", "Streams alive", "States kept", "Invalid",
    )  # fmt: skip
    rows = [
        (
            name,
            _span(one.spread["lost"], count),
            _ms(one.spread["glitch_ms"].median),
            *(count(one.spread[what].median) for what in ("reordered", "duplicated")),
            f"{_span(one.spread['alive'], count)} of {count(one.spread['streams'].median)}",
            NOTHING if one.sharing == "unknown" else count(one.spread["states_surviving"].median),
            count(one.invalid),
        )
        for name, one in named
    ]
    spare = ("Invalid", "States kept", "Duplicated", "Reordered")
    return Table("Packets, streams and states", columns, rows, spare=spare)


def _heard(named: Named) -> Table:
    columns = (
        _WHERE, "MOS before", "MOS affected", "Worst MOS", "3.6 or better", "MOS after", "Jitter before",
        "Jitter during", "Jitter after",
    )  # fmt: skip
    rows = [
        (
            name,
            *(
                decimals(one.spread[what].median)
                for what in ("mos_before", "mos_affected", "mos_affected_min")
            ),
            percent(one.spread["mos_affected_good"].median),
            decimals(one.spread["mos_after"].median),
            *(duration(one.spread[f"jitter_{part}_ns"].median) for part in ("before", "during", "after")),
        )
        for name, one in named
    ]
    spare = ("Jitter after", "Jitter before", "MOS after", "3.6 or better")
    return Table("What callers heard: medians over calls and runs", columns, rows, spare=spare)


def attempts(rows: Sequence[SwitchRow]) -> Table:
    """A row per attempt, invalid ones with their reasons."""
    cells = [
        (
            row.pair,
            row.kind,
            str(row.repetition),
            duration(row.gap_p50_ns),
            duration(row.gap_max_ns),
            duration(row.resumed_ns) if row.lost else NOTHING,
            count(row.lost),
            _ms(row.glitch_ms),
            f"{row.alive:,} of {row.streams:,}",
            duration(row.event_took_ns),
            decimals(row.mos_affected),
            "yes" if row.valid else f"no: {row.invalid}",
        )
        for row in rows
    ]
    columns = (
        "Pair", "Event", "Run", "Gap of the median call", "Of the worst call", "Back after", "Lost",
        "Lost / rate", "Streams alive", "The event itself took", "MOS affected", "Valid",
    )  # fmt: skip
    return Table("Every attempt", columns, cells, details=True)


def _span(found: Spread, shown: Shown) -> str:
    """Median, and the extremes if they differ."""
    if not math.isfinite(found.median):
        return NOTHING
    middle, low, high = shown(found.median), shown(found.low), shown(found.high)
    return middle if low == high else f"{middle} ({low} to {high})"


def _ms(value: float) -> str:
    return f"{significant(value)} ms" if math.isfinite(value) else NOTHING
