"""What the page is made from: the switches of a run, in groups, and what their packets show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import polars as pl

from weirlab.base.units import NS_PER_S
from weirlab.calls.failover.switches.compare import SwitchGroup, compare
from weirlab.calls.failover.switches.load import CommonLoad
from weirlab.calls.failover.switches.pair import KINDS, named_event
from weirlab.calls.failover.switches.rows import SwitchRow
from weirlab.measure.spread import Spread
from weirlab.report.numbers import duration


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
