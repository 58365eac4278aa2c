"""Delay over the frame size, and over load and frame size together, at the lowest position."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from weirlab.devices.profile.page import curves
from weirlab.devices.profile.page.source import ProfileEvidence
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import duration, significant
from weirlab.report.vega import alt

SECTION: Final = "sizes"
_FEWEST: Final = 3
"""Frame sizes that make a course."""
_STEP: Final = 10
"""Loads are told apart by this share of the threshold, in %."""
_STRENGTH: Final = (0.05, 0.5)
"""Opacity of the field with the least delay, and of that with the most."""
_MOST: Final = 100
"""Beyond, all loads are overload alike."""


def figures(evidence: ProfileEvidence) -> Iterator[Figure]:
    """A line for each load over the frame size, and a field for each load and size; or nothing."""
    frame = table(evidence.profile)
    if frame["frame_bytes"].n_unique() < _FEWEST:
        return
    least_us, most_us = axes.extent(frame, "delay_us")
    setup = str(evidence.profile.sort("position", "stateful")["words"][0])
    yield Figure(
        "delay-over-size",
        SECTION,
        "lines",
        _takeaway(frame),
        f"Medians of the trials with {setup}; loads are shares of each size's own threshold.",
        "Mean delay over the frame size, a line for each load.",
        _lines(frame),
        frame,
    )
    yield Figure(
        "delay-over-load-and-size",
        SECTION,
        "surface",
        f"Mean delays with {setup} are from {duration(least_us * 1e3)} to {duration(most_us * 1e3)}.",
        "Mean delay in µs at each load and frame size; empty fields were not measured.",
        "A field for each load and frame size, with the mean delay as number and shade.",
        _surface(frame),
        frame,
    )


def table(trials: pl.DataFrame) -> pl.DataFrame:
    """Median delay in µs at the lowest position, by frame size and share of the size's threshold."""
    schema = {"panel": pl.String, "frame_bytes": pl.Float64, "load_percent": pl.Int64, "delay_us": pl.Float64}
    limits = curves.thresholds(trials)
    if not limits.height:
        return pl.DataFrame(schema=schema)
    first = trials.sort("position", "stateful")["setup"][0]
    share = 100 * pl.col("achieved_pps") / (1e3 * pl.col("threshold_kpps"))
    return (
        trials.filter(pl.col("setup") == first)
        .join(limits.filter(pl.col("setup") == first).select("panel", "threshold_kpps"), on="panel")
        .with_columns(share=share)
        .with_columns(
            load_percent=pl.when(pl.col("share") < _STEP / 2)
            .then(pl.col("share").round())
            .otherwise((pl.col("share") / _STEP).round() * _STEP)
            .cast(pl.Int64)
        )
        .filter((pl.col("load_percent") <= _MOST) & ~pl.col("overload"))
        .group_by("panel", "frame_bytes", "load_percent")
        .agg(delay_us=(pl.col("delay_mean_ns").median() / 1e3).round_sig_figs(4))
        .drop_nulls()
        .with_columns(pl.col("frame_bytes").round(1))
        .sort("frame_bytes", "load_percent")
        .select(*schema)
    )


def _takeaway(frame: pl.DataFrame) -> str:
    shared = frame.group_by("load_percent").agg(
        sizes=pl.len(),
        ratio=pl.col("delay_us").sort_by("frame_bytes").last()
        / pl.col("delay_us").sort_by("frame_bytes").first(),
    )
    [load, _, ratio] = shared.sort("sizes", "load_percent", descending=True).row(0)
    return (
        f"At {load} % of the threshold, the longest frames take {significant(ratio, 2)} times as long as the "
        "shortest."
    )


def _lines(frame: pl.DataFrame) -> alt.Chart:
    rows = frame.with_columns(setup=pl.format("{} %", "load_percent"))
    names = rows.sort("load_percent")["setup"].unique(maintain_order=True).to_list()
    title = "Load, % of the threshold"
    drawn: alt.Chart = (
        alt.Chart(axes.data(rows.select("frame_bytes", "delay_us", "setup")))
        .mark_line(point=True)
        .encode(
            x=alt.X("frame_bytes:Q", title="Frame size, bytes", axis=axes.number_axis(6)),
            y=alt.Y(
                "delay_us:Q", title="Mean delay, µs", scale=alt.Scale(zero=True), axis=axes.number_axis(5)
            ),
            color=axes.setup_colour(names, title),
            shape=axes.setup_shape(names, title),
            tooltip=[
                alt.Tooltip("setup:N", title="load"),
                alt.Tooltip("frame_bytes:Q", title="bytes", format=",.4~g"),
                alt.Tooltip("delay_us:Q", title="µs", format=",.4~g"),
            ],
        )
        .properties(**axes.framed(260))
    )
    return drawn


def _surface(frame: pl.DataFrame) -> alt.LayerChart:
    texts = [significant(value, 2) for value in frame["delay_us"]]
    rows = frame.with_columns(
        size=pl.format("{} B", pl.col("frame_bytes").round().cast(pl.Int64)),
        load=pl.format("{} %", "load_percent"),
        text=pl.Series(texts, dtype=pl.String),
    )
    loads = rows.sort("load_percent")["load"].unique(maintain_order=True).to_list()
    sizes = rows.sort("frame_bytes", descending=True)["size"].unique(maintain_order=True).to_list()
    base = alt.Chart(axes.data(rows)).encode(
        x=alt.X("load:N", title="Load, % of the threshold", sort=loads, axis=alt.Axis(labelAngle=0)),
        y=alt.Y("size:N", title="Frame size", sort=sizes),
    )
    strength = alt.Scale(type="log", domain=list(axes.extent(rows, "delay_us")), range=list(_STRENGTH))
    colour = palette.LIGHT["model-a"]
    fields = base.mark_rect(fill=colour, stroke=colour, strokeWidth=0.8).encode(
        fillOpacity=alt.FillOpacity("delay_us:Q", scale=strength, legend=None),
        tooltip=[
            alt.Tooltip("panel:N", title="frames"),
            alt.Tooltip("load:N", title="load"),
            alt.Tooltip("delay_us:Q", title="µs", format=",.4~g"),
        ],
    )
    numbers = base.mark_text(fontSize=12, color=palette.LIGHT["ink"]).encode(text="text:N")
    return alt.LayerChart(layer=[fields, numbers], **axes.framed(44 * len(sizes)))
