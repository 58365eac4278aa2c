"""What the page is made from: the tables that a run keeps of its switches, in groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from weirlab.report.numbers import duration
from weirlab.studies.failover.switches.compare import Group as Compared
from weirlab.studies.failover.switches.pair import KINDS, named_event


@dataclass(frozen=True)
class SwitchRun:
    """All switches of a run.

    Parameters
    ----------
    manifest:
        The run's, as a mapping.
    switches, calls, series:
        Its tables ``switches``, ``switch_calls`` and ``switch_series``.
    groups:
        One mapping per pair and kind of event, as ``measure.failover.Group.to_json`` gives it.
    said:
        What the groups show, a sentence each.
    load:
        What the pair was found to carry, as JSON; empty if it was not asked.
    """

    manifest: Mapping[str, Any]
    switches: pl.DataFrame
    calls: pl.DataFrame
    series: pl.DataFrame
    groups: Sequence[Mapping[str, Any]]
    said: Sequence[str]
    load: Mapping[str, Any]

    @property
    def valid(self) -> pl.DataFrame:
        """The attempts that count."""
        return self.switches.filter("valid")


@dataclass(frozen=True)
class Group:
    """One pair and kind of event with its valid runs."""

    pair: str
    kind: str
    runs: pl.DataFrame
    numbers: Mapping[str, Any]

    @property
    def found(self) -> Compared:
        """The numbers as they were computed."""
        return Compared.from_json(self.numbers)

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
        return self.spread(name)[0]

    def spread(self, name: str) -> tuple[float, float, float]:
        """Median, least and greatest of a column over the runs."""
        found = self.numbers["spread"][name]
        low, middle, high = (
            math.nan if found[which] is None else float(found[which]) for which in ("low", "median", "high")
        )
        return middle, low, high

    @property
    def dead(self) -> bool:
        """Did every stream die (median run)?"""
        streams = self.median("streams")
        return streams > 0 and self.median("dead") >= streams

    @property
    def expected_ns(self) -> tuple[float, float] | None:
        """When the protocol's timers let the other firewall take over; None where they promise nothing."""
        earliest, latest = self.numbers["expected_s"]
        return (earliest * 1e9, latest * 1e9) if latest and latest > 0 else None

    @property
    def gap_text(self) -> str:
        """The median call's gap, or that it never ended."""
        return "no end" if self.dead else duration(self.median("gap_p50_ns"))

    @property
    def typical(self) -> str:
        """ID of the trial whose median gap is in the middle."""
        ordered = self.runs.sort("gap_p50_ns", "index")
        return str(ordered["trial_id"][(ordered.height - 1) // 2])


def groups(campaign: SwitchRun) -> list[Group]:
    """Every group with a valid run, pairs together, soft before hard before return."""
    order = campaign.switches.sort("index")["pair"].unique(maintain_order=True).to_list()
    found = [
        Group(pair, kind, runs, numbers)
        for numbers in campaign.groups
        for pair, kind in [(str(numbers["pair"]), str(numbers["kind"]))]
        if (
            runs := campaign.valid.filter(
                (pl.col("pair") == pair) & (pl.col("kind") == kind) & pl.col("gap_p50_ns").is_not_null()
            )
        ).height
    ]
    return sorted(found, key=lambda group: (order.index(group.pair), list(KINDS).index(group.kind)))
