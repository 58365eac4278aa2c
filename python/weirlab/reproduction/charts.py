"""Charts of reproductions: courses, published and measured here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.vega import alt

_HEIGHT: Final = 220
Points = Sequence[tuple[float, float]]


@dataclass(frozen=True)
class CourseText:
    """The words of a chart of courses."""

    key: str
    section: str
    """Key of the experiment."""
    panel: str
    title: str
    """What it shows, a sentence."""
    x: str
    y: str
    caption: str = ""


def courses(text: CourseText, series: Mapping[str, Points]) -> Sequence[Figure]:
    """A line for each series with points; nothing if there are none."""
    rows = [
        {"series": name, "x": rounded(x), "y": rounded(y)}
        for name, points in series.items()
        for x, y in sorted(points)
    ]
    if not rows:
        return ()
    data = pl.DataFrame(rows, schema={"series": pl.String, "x": pl.Float64, "y": pl.Float64})
    names = data["series"].unique(maintain_order=True).to_list()
    legend = alt.Legend(columns=axes.columns(names))
    colour, dash = palette.ramp(len(names)), palette.dashes(len(names))
    chart: alt.Chart = (
        alt.Chart(axes.data(data))
        .mark_line(strokeWidth=1.6, point=True)
        .encode(
            x=alt.X("x:Q", title=text.x, axis=axes.number_axis(6)),
            y=alt.Y("y:Q", title=text.y, axis=alt.Axis(format=",.6~g", tickCount=6)),
            color=alt.Color(
                "series:N", title=None, sort=names, legend=legend, scale=alt.Scale(domain=names, range=colour)
            ),
            strokeDash=alt.StrokeDash(
                "series:N", title=None, sort=names, legend=legend, scale=alt.Scale(domain=names, range=dash)
            ),
            tooltip=[
                alt.Tooltip("series:N", title="series"),
                alt.Tooltip("x:Q", title=text.x, format=",.4~g"),
                alt.Tooltip("y:Q", title=text.y, format=",.4~g"),
            ],
        )
        .properties(**axes.framed(_HEIGHT))
    )
    described = f"{text.y} over {text.x}, a line for each of: {', '.join(names)}."
    return (Figure(text.key, text.section, text.panel, text.title, text.caption, described, chart, data),)
