"""What the page is made from: the tables that a run keeps of its switches, in groups."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import polars as pl

from weirlab.report.numbers import duration
from weirlab.studies.failover.switches.compare import Group as Compared
from weirlab.studies.failover.tables import KINDS, named_event

STATES: Final = {"direct": "states synced", "cached": "states cached", "off": "no states"}
"""How connection states get to the other firewall, in few words, by the name in the tables."""


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
    label: str
    """Short, for axes; unique among the pairs of a run."""
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
        words = "".join(c if c.isalnum() else " " for c in f"{self.label} {self.kind}").lower().split()
        return "-".join(words)

    @property
    def name(self) -> str:
        """``keepalived 0.1 s, states synced: master dies``."""
        return named_event(self.label, self.kind)

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
    labels = dict(_labels(campaign.switches))
    order = list(labels)
    found = [
        Group(pair, labels[pair], kind, runs, numbers)
        for numbers in campaign.groups
        for pair, kind in [(str(numbers["pair"]), str(numbers["kind"]))]
        if (
            runs := campaign.valid.filter(
                (pl.col("pair") == pair) & (pl.col("kind") == kind) & pl.col("gap_p50_ns").is_not_null()
            )
        ).height
    ]
    return sorted(found, key=lambda group: (order.index(group.pair), list(KINDS).index(group.kind)))


def _labels(switches: pl.DataFrame) -> Iterator[tuple[str, str]]:
    """The pairs in order of appearance, each with a short name.

    The long one where short ones collide, and the user's own where there is one.
    """
    rows = switches.sort("index").unique("pair", keep="first", maintain_order=True)
    pairs = rows.select("pair", "protocol", "advert_s", "sharing", "nat").rows()
    short = [
        f"{protocol} {advert_s:g} s, {STATES.get(sharing, sharing)}{', NAT' if nat else ''}"
        for _, protocol, advert_s, sharing, nat in pairs
    ]
    for (pair, protocol, advert_s, *_), label in zip(pairs, short, strict=True):
        told_by_settings = pair.startswith(f"{protocol} {advert_s:g} s")
        yield pair, label if told_by_settings and short.count(label) == 1 else pair
