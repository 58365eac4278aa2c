"""Charts of the firewall's experiments: a quantity over another, a line and a point shape per series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl

from weirlab.devices.profile.page.accuracy.letter_values import letter_values
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.vega import alt

Points = Sequence[tuple[float, float]]


def courses(
    key: str, title: str, alternative: str, x: str, y: str, series: Mapping[str, Points], *, log: bool = False
) -> Figure:
    """A line with points for each series; ``log``: of the vertical axis."""
    rows = [
        {"setup": name, "x": rounded(a), "y": rounded(b)}
        for name, points in series.items()
        for a, b in sorted(points)
        if b > 0 or not log
    ]
    schema = {"setup": pl.String, "x": pl.Float64, "y": pl.Float64}
    data = pl.DataFrame(rows, schema=schema)
    names = [name for name, points in series.items() if points]
    domain = axes.extent(data, "y")
    vertical = (
        alt.Y(
            "y:Q",
            title=y,
            scale=axes.log(axes.log_domain(*domain)),
            axis=axes.log_axis(axes.log_domain(*domain)),
        )
        if log
        else alt.Y("y:Q", title=y, scale=alt.Scale(zero=True), axis=axes.number_axis(5))
    )
    chart = (
        alt.Chart(axes.data(data))
        .mark_line(point=True)
        .encode(
            alt.X("x:Q", title=x, axis=axes.number_axis(5)),
            vertical,
            axes.setup_colour(names, ""),
            axes.setup_shape(names, ""),
        )
        .properties(**axes.framed(260))
    )
    return Figure(key, "", "", title, "", alternative, chart, data)


def letters(key: str, title: str, alternative: str, x: str, series: Mapping[str, Sequence[float]]) -> Figure:
    """Letter-value boxes in a row for each series: the darkest holds half of the values."""
    rows: list[dict[str, object]] = []
    for name, values in series.items():
        found = letter_values(np.asarray(values, dtype=np.float64))
        spans = [(share, low, high) for share, low, high in found.boxes]
        spans += [(0.0, found.median, found.median), *((-1.0, value, value) for value in found.outside)]
        rows += [
            {"row": name, "share": rounded(100 * share), "low": rounded(low), "high": rounded(high)}
            for share, low, high in spans
        ]
    schema = {"row": pl.String, "share": pl.Float64, "low": pl.Float64, "high": pl.Float64}
    data = pl.DataFrame(rows, schema=schema)
    base = alt.Chart(axes.data(data))
    y = axes.rows(list(series))
    domain = axes.extent(data, "low", "high")
    widest = max(abs(end) for end in domain)
    scale = alt.Scale(type="symlog", constant=max(widest / 50, 1e-9), domain=list(domain), nice=True)
    low = alt.X("low:Q", title=x, scale=scale, axis=axes.number_axis(5))
    boxes = (
        base.transform_filter("datum.share > 0")
        .mark_bar(height=16, yOffset=10, color=palette.LIGHT["model-a"], opacity=0.3)
        .encode(x=low, x2="high:Q", y=y)
    )
    ticks = (
        base.transform_filter("datum.share === 0")
        .mark_tick(height=22, thickness=2, yOffset=10, color=palette.LIGHT["model-b"])
        .encode(x=low, y=y)
    )
    dots = (
        base.transform_filter("datum.share < 0")
        .mark_point(size=20, yOffset=10, color=palette.LIGHT["model-a"])
        .encode(x=low, y=y)
    )
    chart = alt.LayerChart(layer=[boxes, ticks, dots, axes.row_names(base, y)]).properties(
        **axes.framed(axes.ROW * len(series))
    )
    return Figure(key, "", "", title, "", alternative, chart, data)
