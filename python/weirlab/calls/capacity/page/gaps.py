"""The times between packets, at the sender and behind the device: histograms at a few numbers of calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from weirlab.calls.capacity.page.source import CapacityEvidence
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import duration, plural, rules
from weirlab.report.vega import alt

_PLACES: Final = ("sender", "receiver")
_RAREST: Final = 0.1
"""Percent that a bin has to hold for the axis to reach it."""
_GAP: Final = "Time since the packet before, µs"
_LEAST_NS: Final = 50.0
"""The first bin begins at 0, which a logarithmic axis does not have: it is drawn as if it began here."""


def figures(findings: CapacityEvidence) -> Iterator[Figure]:
    """A chart for the fewest calls and one for the most of which nothing was lost, per direction."""
    if not findings.gaps.height:
        return
    for position in findings.positions:
        trials = findings.valid.filter(pl.col("position") == position)
        intact = trials.filter(pl.col("lost") == 0)
        for calls in _ends((intact if intact.height else trials)["calls"].to_list()):
            of_calls = trials.filter(pl.col("calls") == calls)
            rows = findings.gaps.filter(pl.col("trial_id").is_in(of_calls["trial_id"].implode()))
            for direction in rows["direction"].unique().sort().to_list():
                own = rows.filter(pl.col("direction") == direction)
                yield _figure(own, position, calls, direction, of_calls)


def _ends(calls: Sequence[int]) -> list[int]:
    return sorted({min(calls), max(calls)}) if calls else []


def shares(rows: pl.DataFrame) -> pl.DataFrame:
    """Percent of the gaps in each bin, with its middle in µs, by place."""
    return (
        rows.group_by("place", "lower_ns", "upper_ns")
        .agg(pl.col("count").cast(pl.Float64).sum())
        .with_columns(
            percent=(100 * pl.col("count") / pl.col("count").sum().over("place")).round_sig_figs(4),
            gap_us=(
                (pl.col("lower_ns").clip(_LEAST_NS / 2) * pl.col("upper_ns")).sqrt() / 1e3
            ).round_sig_figs(4),
        )
        .sort("place", "lower_ns", descending=[True, False])
        .select("place", "gap_us", "percent", "lower_ns", "upper_ns", "count")
    )


def quantile_ns(found: pl.DataFrame, place: str, share: float) -> float:
    """The middle of the bin up to which ``share`` of the gaps are, ns; NaN without any."""
    own = found.filter(pl.col("place") == place).sort("lower_ns")
    reached = own.filter(pl.col("count").cum_sum() >= share * pl.col("count").sum())
    return 1e3 * float(reached["gap_us"][0]) if reached.height else float("nan")


def _figure(rows: pl.DataFrame, position: int, calls: int, direction: str, trials: pl.DataFrame) -> Figure:
    found = shares(rows)
    middle = {place: duration(quantile_ns(found, place, 0.5)) for place in _PLACES}
    return Figure(
        f"capacity-gaps-{position}-{calls}-{direction}",
        "gaps",
        f"{plural(calls, 'call')}, {rules(position)}, {direction}",
        f"Half of the packets depart within {middle['sender']} of the one before, and arrive within "
        f"{middle['receiver']}.",
        f"Time between packets of all calls together, in {plural(trials.height, 'trial')}; lost packets are "
        f"left out. Rare gaps, below {_RAREST:g} %, may be beyond the axis.",
        "Histogram of the times between packets, at the sender and at the receiver.",
        chart(found),
        found,
    )


def chart(found: pl.DataFrame) -> alt.Chart:
    """Percent of the gaps over their length, a stepped line for each place."""
    domain = axes.log_domain(*axes.extent(found.filter(pl.col("percent") >= _RAREST), "gap_us"))
    drawn: alt.Chart = (
        alt.Chart(axes.data(found))
        .mark_line(interpolate="step", strokeWidth=1.8, clip=True)
        .encode(
            x=alt.X("gap_us:Q", title="Time since the packet before, µs", **axes.decades(domain)),
            y=alt.Y("percent:Q", title="Gaps, %", scale=alt.Scale(zero=True), axis=axes.number_axis(5)),
            **axes.lines("place", _PLACES, palette.models(2)),
            tooltip=[
                alt.Tooltip("place:N", title="at the"),
                alt.Tooltip("gap_us:Q", title="gap, µs", format=",.4~g"),
                alt.Tooltip("percent:Q", title="%", format=",.3~g"),
            ],
        )
        .properties(**axes.framed(240))
    )
    return drawn
