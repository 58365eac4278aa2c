"""What a run about capacity shows: its evidence, verdicts, and tables of both."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from weirlab.base.tables import Table
from weirlab.calls.capacity.findings import CapacityConclusions, off
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent, rate, rules


@dataclass(frozen=True)
class CapacityEvidence:
    """A run about capacity.

    Parameters
    ----------
    manifest:
        The run's, as a mapping.
    trials, inside:
        Its tables ``capacity`` and ``inside``; the latter is empty where the device was not looked into.
    found:
        What it keeps under ``capacity``.
    gaps:
        Its table ``gaps``; empty in runs of earlier versions.
    """

    manifest: Mapping[str, Any]
    trials: pl.DataFrame
    inside: pl.DataFrame
    found: CapacityConclusions
    gaps: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def valid(self) -> pl.DataFrame:
        """The trials that count, with the rules in words; in order of rules and calls."""
        rows = self.trials.filter("valid").sort("position", "calls", "index")
        names = {position: rules(position) for position in rows["position"].unique().to_list()}
        return rows.with_columns(setup=pl.col("position").replace_strict(names, return_dtype=pl.String))

    @property
    def positions(self) -> list[int]:
        """Matching positions with a valid trial, ascending."""
        return [int(p) for p in self.trials.filter("valid")["position"].unique().sort().to_list()]

    @property
    def simulated(self) -> bool:
        """Was the device a model in software?"""
        return (self.manifest.get("facts") or {}).get("lab") == "sim"


@dataclass(frozen=True)
class CapacityVerdict:
    """Most calls at one position by one goal: measured, and predicted."""

    position: int
    goal: str
    mos: float | None
    calls: int | None
    """Measured by the search, or (without loss) by the sweep; None where even the fewest were too many."""
    too_many: int | None
    at_least: bool
    pps: float | None
    by: str
    """``search`` or ``sweep``."""
    predicted: int | None = None
    problem: str = ""
    between: tuple[int, int] | None = None
    """The interval of ``predicted`` that 90 % of measurements fall into; None where it is not known."""

    @property
    def name(self) -> str:
        """``400 rules, without loss``."""
        return f"{rules(self.position)}, {self.goal}"

    @property
    def off(self) -> float:
        """Predicted over measured, less 1; NaN where they cannot be compared."""
        if self.predicted is None or not self.calls or self.at_least:
            return math.nan
        return self.predicted / self.calls - 1


def verdicts(findings: CapacityEvidence) -> list[CapacityVerdict]:
    """One per position and goal, as far as they were measured."""
    return list(_verdicts(findings.found))


def _verdicts(found: CapacityConclusions) -> Iterator[CapacityVerdict]:
    predicted = {(one.position, one.goal.name): one.calls for one in found.predicted}
    between = {
        (one.position, one.goal.name): (one.least_calls, one.most_calls)
        for one in found.predicted
        if one.least_calls is not None and one.most_calls is not None
    }
    searched = set()
    for one in found.search:
        searched.add((one.position, one.goal.mos))
        yield CapacityVerdict(
            position=one.position,
            goal=one.goal.name,
            mos=one.goal.mos,
            calls=one.calls,
            too_many=one.too_many,
            at_least=one.at_least,
            pps=one.pps,
            by="search",
            predicted=predicted.get((one.position, one.goal.name)),
            problem=one.problem,
            between=between.get((one.position, one.goal.name)),
        )
    for swept in found.sweep:
        if (swept.position, None) in searched:
            continue
        goals = [name for position, name in predicted if position == swept.position and "loss" in name]
        name = goals[0] if goals else "without loss"
        yield CapacityVerdict(
            position=swept.position,
            goal=name,
            mos=None,
            calls=swept.carried,
            too_many=swept.dropped,
            at_least=swept.dropped is None,
            pps=swept.carried_pps,
            by="sweep",
            predicted=predicted.get((swept.position, name)),
            between=between.get((swept.position, name)),
        )


def of(findings: CapacityEvidence) -> list[Table]:
    """All of them; the trials are details."""
    most = verdicts(findings)
    return [*([found(most)] if most else ()), *losses(findings), *trials(findings)]


def found(most: Sequence[CapacityVerdict]) -> Table:
    """A row per number of rules and goal."""
    return Table(
        "Most calls, measured and predicted",
        ("Rules and goal", "Most calls", "Too many", "Packets/s", "By", "Predicted", "Off by"),
        tuple(
            (
                one.name,
                NOTHING if one.calls is None else f"{'at least ' if one.at_least else ''}{count(one.calls)}",
                count(one.too_many),
                rate(one.pps),
                one.by,
                _predicted(one),
                off(one.off),
            )
            for one in most
        ),
        spare=("By", "Packets/s"),
    )


def trials(findings: CapacityEvidence) -> Iterator[Table]:
    """A row per number of rules and calls: medians over the trials; none without trials."""
    rows = findings.valid
    if not rows.height:
        return
    grouped = (
        rows.group_by("position", "setup", "calls")
        .agg(
            pl.len().alias("n"),
            pl.col("offered_pps", "loss_ratio", "mos_min", "mos_p1", "mos_p50", "good_share").median(),
            pl.col("delay_p99_ns", "samples_taken", "samples_due", "cpu_idle").median(),
        )
        .sort("position", "calls")
    )
    yield Table(
        "Medians over the trials with the same number of calls",
        (
            "Rules", "Calls", "Trials", "Packets/s", "Lost", "Worst MOS", "MOS of 99 %", "Median MOS",
            "Good calls", "p99 delay, worst call", "CPU idle", "Samples taken",
        ),
        tuple(
            (
                str(row["setup"]),
                count(row["calls"]),
                count(row["n"]),
                rate(row["offered_pps"]),
                "0" if row["loss_ratio"] == 0 else percent(row["loss_ratio"]),
                decimals(row["mos_min"]),
                decimals(row["mos_p1"]),
                decimals(row["mos_p50"]),
                percent(row["good_share"]),
                duration(row["delay_p99_ns"]),
                percent(row["cpu_idle"]),
                NOTHING
                if row["samples_due"] is None
                else f"{row['samples_taken']:.0f} of {row['samples_due']:.0f}",
            )
            for row in grouped.iter_rows(named=True)
        ),
        spare=("Samples taken", "CPU idle", "Median MOS", "Worst MOS", "Trials", "Packets/s"),
        details=True,
    )  # fmt: skip


def losses(findings: CapacityEvidence) -> Iterator[Table]:
    """A row per number of rules and calls with loss, divided by what the host did; none without loss."""
    rows = [one for one in findings.found.losses if one.lost]
    if not rows:
        return
    yield Table(
        "Lost packets, by what the host did when they were sent",
        (
            "Rules",
            "Calls",
            "Trials",
            "Sent",
            "Lost",
            "Lost while the host disturbed",
            "Share",
            "Lost at other times",
        ),
        tuple(
            (
                rules(one.position),
                count(one.calls),
                count(one.trials),
                count(one.sent),
                count(one.lost),
                count(one.disturbed_lost),
                percent(one.disturbed_share),
                percent(one.rest_ratio),
            )
            for one in rows
        ),
        spare=("Trials", "Lost while the host disturbed"),
    )


def _predicted(one: CapacityVerdict) -> str:
    if one.predicted is None:
        return NOTHING
    if one.between is None:
        return count(one.predicted)
    least, most = one.between
    return f"{count(one.predicted)} ({count(least)} to {count(most)})"
