"""Charts of reproductions: courses, published and measured here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np
import polars as pl

from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.letters import boxes, letter_values
from weirlab.report.numbers import rounded
from weirlab.report.rows import RowMark, RowText, intervals
from weirlab.report.vega import alt

_HEIGHT: Final = 220
_MOST_POINTS: Final = 60
"""Of a line, up to which each is drawn as a point, too."""
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
    log: bool = False
    """The vertical axis is logarithmic."""


def courses(text: CourseText, series: Mapping[str, Points]) -> Sequence[Figure]:
    """A line for each series with points; nothing if there are none."""
    rows = [
        {"series": name, "x": rounded(x), "y": rounded(y)}
        for name, points in series.items()
        for x, y in sorted(points)
        if math.isfinite(y) and (y > 0 or not text.log)
    ]
    if not rows:
        return ()
    data = pl.DataFrame(rows, schema={"series": pl.String, "x": pl.Float64, "y": pl.Float64})
    names = data["series"].unique(maintain_order=True).to_list()
    legend = alt.Legend(columns=axes.columns(names))
    colour, dash = palette.ramp(len(names)), palette.dashes(len(names))
    domain = axes.log_domain(*axes.extent(data, "y"))
    y = (
        alt.Y("y:Q", title=text.y, scale=axes.log(domain), axis=axes.log_axis(domain))
        if text.log
        else alt.Y("y:Q", title=text.y, axis=alt.Axis(format=",.6~g", tickCount=6))
    )
    chart: alt.Chart = (
        alt.Chart(axes.data(data))
        .mark_line(strokeWidth=1.6, point=max(map(len, series.values())) <= _MOST_POINTS)
        .encode(
            x=alt.X("x:Q", title=text.x, axis=axes.number_axis(6)),
            y=y,
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


LETTERS: Final = "A row for each setting; the thickest box holds half of its trials, the tick is the median."


def of_trials(text: RowText, trials: Mapping[str, Sequence[float]]) -> Sequence[Figure]:
    """Letter values of what was measured in each trial, a row for each setting; nothing without any."""
    known = {name: np.array([one for one in values if math.isfinite(one)]) for name, values in trials.items()}
    return boxes(text, {name: letter_values(values) for name, values in known.items() if values.size})


def beside_published(
    text: RowText, here: Mapping[str, Sequence[float]], published: Mapping[str, float], *, log: bool = False
) -> Sequence[Figure]:
    """A row for each setting here, its line over all measurements, and one for each published value."""
    marks = []
    for name, values in here.items():
        known = [one for one in values if math.isfinite(one) and (one > 0 or not log)]
        if known:
            marks.append(RowMark(f"here: {name}", median(known), min(known), max(known)))
    if not marks:
        return ()
    marks += [RowMark(f"published: {name}", value, value, value) for name, value in published.items()]
    return intervals(text, marks, log=log)
