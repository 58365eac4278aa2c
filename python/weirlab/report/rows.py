"""A chart of rows: in each a point, and a line over what it is uncertain by, or scatters over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import polars as pl

from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.vega import alt

_BELOW = 10
"""Pixels from the middle of a row to its marks: the name stands above."""


@dataclass(frozen=True)
class RowMark:
    """What a row shows, in the unit of the chart."""

    row: str
    """Its name."""
    value: float
    low: float
    """The lower end of the line."""
    high: float
    margin: float = 0.0
    """Half the width of a grey band around 0, within which a value counts as none."""


@dataclass(frozen=True)
class RowText:
    """The words of a chart of rows."""

    key: str
    section: str
    """Key of the chapter."""
    title: str
    """What it shows, a sentence."""
    x: str
    """What is shown, and its unit."""
    caption: str = ""


def intervals(text: RowText, marks: Sequence[RowMark], *, log: bool = False) -> tuple[Figure, ...]:
    """A row for each of ``marks``, whose numbers are finite, and above 0 if ``log``; nothing without any."""
    if not marks:
        return ()
    data = pl.DataFrame(
        [
            {name: each if isinstance(each, str) else rounded(each) for name, each in asdict(mark).items()}
            | {"from": rounded(-mark.margin)}
            for mark in marks
        ]
    )
    names = data["row"].to_list()
    ends = axes.extent(data, "value", "low", "high", "from", "margin") if any(data["margin"]) else None
    low, high = ends or axes.extent(data, "value", "low", "high")
    base, y = alt.Chart(axes.data(data)), axes.rows(names)
    room = 0.04 * (high - low) or 1.0
    along = axes.numbers((low - room if low < 0 else 0.0, high + room), 5)
    if log:
        along = axes.decades(axes.log_domain(low, high))
    x = alt.X("value:Q", title=text.x, **along)
    colour = palette.LIGHT["model-a"]
    tooltip = [
        alt.Tooltip("row:N", title="what"),
        *(alt.Tooltip(f"{name}:Q", title=name, format=",.4~g") for name in ("value", "low", "high")),
    ]
    band = base.mark_bar(height=18, yOffset=_BELOW, color=palette.LIGHT["grid"], opacity=1).encode(
        x=alt.X("from:Q", title=text.x, **along), x2="margin:Q", y=y
    )
    line = base.mark_rule(yOffset=_BELOW, strokeWidth=2, color=colour).encode(
        x=alt.X("low:Q", title=text.x, **along), x2="high:Q", y=y
    )
    points = base.mark_point(size=60, filled=True, yOffset=_BELOW, color=colour).encode(
        x=x, y=y, tooltip=tooltip
    )
    layers = [*([band] if ends else []), axes.row_names(base, y), line, points]
    chart = alt.LayerChart(layer=layers, **axes.framed(axes.ROW * len(names)))
    described = f"{text.x}: a point and a line for each of {', '.join(names)}."
    return (Figure(text.key, text.section, "", text.title, text.caption, described, chart, data),)
