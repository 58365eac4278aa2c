"""Tables of what was found, and of the trials in short."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl

from weirlab.base.tables import Table
from weirlab.calls.capacity.page.source import CapacityEvidence, CapacityVerdict, verdicts
from weirlab.calls.capacity.wording import off
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent, rate, rules


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
