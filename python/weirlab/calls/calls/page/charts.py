"""The charts: shares of callers, and the trial over time."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from weirlab.report import axes, palette
from weirlab.report.axes import Domain
from weirlab.report.numbers import rounded
from weirlab.report.vega import alt

WAYS: Final = ["caller at the sender's side speaks", "caller at the receiver's side speaks"]
_POINTS: Final = 160


def shares(calls: pl.DataFrame, column: str, factor: float = 1.0) -> pl.DataFrame:
    """Per direction the share of callers for whom ``column`` (times ``factor``) is at most each value."""
    frames = []
    for back, way in enumerate(WAYS):
        values = calls.filter((pl.col("back") == bool(back)) & pl.col(column).is_not_null())[column]
        found = np.sort(values.to_numpy() * factor)
        if not len(found):
            continue
        places = np.unique(
            np.round(np.linspace(0, len(found) - 1, min(len(found), _POINTS))).astype(np.int64)
        )
        frames.append(
            pl.DataFrame(
                {
                    "way": way,
                    # From 0 % on, so that callers who are all alike, or one, show as a step.
                    "value": [rounded(float(found[i]), 5) for i in (0, *places)],
                    "percent": [0.0, *(rounded(100.0 * (i + 1) / len(found)) for i in places)],
                }
            )
        )
    return pl.concat(frames) if frames else pl.DataFrame(schema={"way": pl.String, "value": pl.Float64})


def distribution(
    frame: pl.DataFrame, title: str, domain: Domain, *, limit: float | None = None
) -> alt.LayerChart:
    """Share of callers over a quantity; a line per direction."""
    ways = [way for way in WAYS if way in set(frame["way"].to_list())]
    lines = (
        alt.Chart(axes.data(frame))
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=alt.X("value:Q", title=title, **axes.numbers(domain, 6)),
            y=alt.Y("percent:Q", title="Callers with at most so much, %", **axes.numbers((0.0, 100.0), 5)),
            **axes.lines("way", ways, palette.models(len(ways)), alt.Legend(columns=1)),
            order=alt.Order("percent:Q"),
            tooltip=[
                alt.Tooltip("way:N", title="direction"),
                alt.Tooltip("value:Q", title=title, format=",.4~g"),
                alt.Tooltip("percent:Q", title="callers, %", format=",.3~g"),
            ],
        )
    )
    dashed = [] if limit is None else [axes.limit("x", "value", limit, axes.linear(domain))]
    return alt.LayerChart(layer=[*dashed, lines], **axes.framed(280))


def over_time(frame: pl.DataFrame, top: float) -> alt.Chart:
    """Mean delay of the packets that departed in each bin, both directions together."""
    chart: alt.Chart = (
        alt.Chart(axes.data(frame), **axes.framed(240))
        .mark_line(strokeWidth=1.3, color=palette.models(1)[0], clip=True)
        .encode(
            x=alt.X(
                "time_s:Q",
                title="Time from the start of recording, s",
                **axes.numbers(axes.extent(frame, "time_s"), 6),
            ),
            y=alt.Y("mean_us:Q", title="Mean delay, µs", **axes.numbers((0.0, top), 4)),
            tooltip=[
                alt.Tooltip("time_s:Q", title="s", format=",.3~f"),
                alt.Tooltip("mean_us:Q", title="mean delay, µs", format=",.4~g"),
                alt.Tooltip("lost:Q", title="lost"),
            ],
        )
    )
    return chart
