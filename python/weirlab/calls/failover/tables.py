"""The switches of a run in groups, and as tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import polars as pl

from weirlab.base.tables import Table
from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.compare import SwitchGroup, compare
from weirlab.calls.failover.switches.load import CommonLoad
from weirlab.calls.failover.switches.plan import KINDS, named_event
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.measure.spread import Spread
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent, significant


@dataclass(frozen=True)
class SwitchRun:
    """All switches of a run.

    Parameters
    ----------
    manifest:
        The run's, as a mapping.
    rows:
        Every attempt.
    calls, series:
        Its tables ``switch_calls`` and ``switch_series``.
    load:
        What the pairs carry.
    """

    manifest: Mapping[str, Any]
    rows: Sequence[SwitchRow]
    calls: pl.DataFrame
    series: pl.DataFrame
    load: CommonLoad | None = None

    @property
    def valid(self) -> list[SwitchRow]:
        """The attempts that count."""
        return [row for row in self.rows if row.valid]

    @cached_property
    def compared(self) -> tuple[SwitchGroup, ...]:
        """What each kind of event does to each pair."""
        return compare(self.rows)


@dataclass(frozen=True)
class SwitchEvidence:
    """One pair and kind of event with its valid runs."""

    found: SwitchGroup
    runs: Sequence[SwitchRow]

    @property
    def pair(self) -> str:
        return self.found.pair

    @property
    def kind(self) -> str:
        return self.found.kind

    @property
    def key(self) -> str:
        """For file names and IDs."""
        words = "".join(c if c.isalnum() else " " for c in f"{self.pair} {self.kind}").lower().split()
        return "-".join(words)

    @property
    def name(self) -> str:
        """``keepalived 0.1 s, master dies``."""
        return named_event(self.pair, self.kind)

    def median(self, name: str) -> float:
        """Median of a column over the runs; NaN where it was never measured."""
        return self.found.spread[name].median

    @property
    def dead(self) -> bool:
        """Did every stream die (median run)?"""
        streams = self.median("streams")
        return streams > 0 and self.median("dead") >= streams

    @property
    def expected_ns(self) -> tuple[float, float] | None:
        """When the protocol's timers let the other firewall take over; None where they promise nothing."""
        earliest, latest = self.found.expected_s
        return (earliest * NS_PER_S, latest * NS_PER_S) if latest > 0 else None

    @property
    def gap_text(self) -> str:
        """The median call's gap, or that it never ended."""
        return "no end" if self.dead else duration(self.median("gap_p50_ns"))

    @property
    def typical(self) -> SwitchRow:
        """The run whose median gap is in the middle."""
        ordered = sorted(self.runs, key=lambda row: (row.gap_p50_ns, row.index))
        return ordered[(len(ordered) - 1) // 2]


def groups(campaign: SwitchRun) -> list[SwitchEvidence]:
    """Every group with a valid run, pairs as they were planned, soft before hard before return."""
    planned = sorted(campaign.rows, key=lambda row: row.index)
    pairs, kinds = list(dict.fromkeys(row.pair for row in planned)), list(KINDS)
    measured = [row for row in campaign.valid if math.isfinite(row.gap_p50_ns)]
    found = [
        SwitchEvidence(each, [row for row in measured if (row.pair, row.kind) == (each.pair, each.kind)])
        for each in campaign.compared
    ]
    shown = [group for group in found if group.runs]
    return sorted(shown, key=lambda group: (pairs.index(group.pair), kinds.index(group.kind)))


def median(values: Sequence[float]) -> float:
    """NaN where nothing was measured."""
    return Spread.of(values).median


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
