"""Charts of the firewall's experiments: a quantity over another, a line and a point shape per series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from weirlab.report import axes
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
