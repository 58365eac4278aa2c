"""The charts over the number of calls, measured and predicted, and of the times between packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import polars as pl

from weirlab.calls.capacity.tables import CapacityEvidence, CapacityVerdict
from weirlab.report import axes, palette
from weirlab.report.axes import Domain
from weirlab.report.figure import Figure
from weirlab.report.numbers import duration, plural, rules
from weirlab.report.vega import alt

_LEGEND: Final = "Rules (points: trials, line: median)"
_SOURCES: Final = ["measured", "predicted"]


def over_calls(
    frame: pl.DataFrame,
    column: str,
    title: str,
    domain: Domain,
    *,
    limit: float | None = None,
    log: bool = False,
) -> alt.LayerChart:
    """A quantity over the number of calls: points are trials, lines medians, a colour per rule count."""
    setups = frame.unique("setup", maintain_order=True).sort("position")["setup"].to_list()
    rows = frame.select("setup", "calls", column).drop_nulls()
    base = alt.Chart(axes.data(rows))
    fewest, most = axes.extent(rows, "calls")
    room = 0.02 * max(most - fewest, 1.0)
    along = axes.numbers((fewest - room, most + room), 6)
    if log:
        along = axes.decades(axes.log_domain(fewest, most))
    x = alt.X("calls:Q", title="Calls at once", **along)
    scale = axes.linear(domain)
    y = alt.Y(f"{column}:Q", title=title, scale=scale, axis=axes.number_axis(5))
    colour = axes.setup_colour(setups, _LEGEND)
    points = base.mark_point(filled=True, size=26, opacity=0.85, clip=True).encode(
        x=x,
        y=y,
        color=colour,
        shape=axes.setup_shape(setups, _LEGEND),
        tooltip=[
            alt.Tooltip("setup:N", title="rules"),
            alt.Tooltip("calls:Q", title="calls", format=","),
            alt.Tooltip(f"{column}:Q", title=title, format=",.4~g"),
        ],
    )
    middle = (
        base.transform_aggregate(middle=f"median({column})", groupby=["setup", "calls"])
        .mark_line(clip=True)
        .encode(x=x, y=alt.Y("middle:Q", title=title, scale=scale), color=colour, order="calls:Q")
    )
    dashed = [] if limit is None else [axes.limit("y", "limit", limit, scale)]
    return alt.LayerChart(layer=[*dashed, middle, points], **axes.framed(300))


def verdict_rows(found: Sequence[CapacityVerdict]) -> pl.DataFrame:
    """Measured and predicted calls per position and goal."""
    rows = []
    for one in found:
        if one.calls is not None:
            rows.append(
                {
                    "row": one.name,
                    "source": "measured",
                    "calls": one.calls,
                    "too_many": one.too_many,
                    "told": f"{'at least ' if one.at_least else ''}{one.calls:,}",
                }
            )
        if one.predicted is not None:
            rows.append(
                {
                    "row": one.name,
                    "source": "predicted",
                    "calls": one.predicted,
                    "too_many": None,
                    "told": f"{one.predicted:,}",
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def verdicts(frame: pl.DataFrame) -> alt.LayerChart:
    """A row per position and goal: the most calls that were measured, and those predicted."""
    names = frame["row"].unique(maintain_order=True).to_list()
    _, top = axes.extent(frame, "calls", "too_many")
    base = alt.Chart(axes.data(frame))
    x = alt.X("calls:Q", title="Most calls at once", **axes.numbers((0.0, 1.08 * top), 5))
    y = axes.rows(names)
    points = base.mark_point(filled=True, size=90, opacity=0.85, yOffset=10).encode(
        x=x,
        y=y,
        color=axes.colour("source", _SOURCES, palette.models(2)),
        shape=axes.shape("source", _SOURCES, ["circle", "diamond"]),
        tooltip=[
            alt.Tooltip("row:N", title="setting"),
            alt.Tooltip("source:N", title="source"),
            alt.Tooltip("told:N", title="calls"),
            alt.Tooltip("too_many:Q", title="too many", format=","),
        ],
    )
    span = (
        base.transform_filter("isValid(datum.too_many)")
        .mark_rule(strokeWidth=2, color=palette.models(2)[0], yOffset=10)
        .encode(x=alt.X("calls:Q"), x2="too_many:Q", y=y)
    )
    return alt.LayerChart(layer=[span, points, axes.row_names(base, y)], **axes.framed(axes.ROW * len(names)))


def cpu(frame: pl.DataFrame, states: Sequence[str]) -> alt.Chart:
    """Share of the device's CPU per state over the number of calls, stacked."""
    order = list(states)
    chart: alt.Chart = (
        alt.Chart(axes.data(frame), **axes.framed(260))
        .mark_area(line=False, interpolate="linear", stroke=palette.LIGHT["paper"], strokeWidth=0.8)
        .encode(
            x=alt.X("calls:Q", title="Calls at once", **axes.numbers(axes.extent(frame, "calls"), 5)),
            y=alt.Y(
                "percent:Q",
                title="Share of the device's CPU, %",
                stack="zero",
                **axes.numbers((0.0, 100.0), 5),
            ),
            color=axes.colour("state", order, palette.cpu(order), legend=alt.Legend(columns=4)),
            order=alt.Order("rank:Q"),
            tooltip=[
                alt.Tooltip("state:N"),
                alt.Tooltip("calls:Q", format=","),
                alt.Tooltip("percent:Q", title="%", format=".3~g"),
            ],
        )
    )
    return chart


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
