"""Shared parts of the charts: domains, log axes, legends of rule counts and models, and the frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, Literal, TypeAlias

import polars as pl

from weirlab.report import palette
from weirlab.report.vega import alt

Chart: TypeAlias = "alt.Chart | alt.LayerChart"
Domain = tuple[float, float]

QUANTITIES: Final = {"p50": "Median", "p99": "99th percentile", "mean": "Mean"}

QUANTITY: Final = "quantity"
"""Name of the parameter that the page's switch sets; one of ``QUANTITIES``."""

_PHONE: Final = 285
"""Width in pixels of a chart's plot area on a phone."""

_NARROW: Final = 5.0
"""Ratio of the highest to the lowest value up to which an axis from 0 shows both."""


def data(frame: pl.DataFrame) -> alt.InlineData:
    """``frame`` inside the chart's definition."""
    return _rows()(values=frame.to_dicts())


@cache
def _rows() -> type[alt.InlineData]:
    """The class of inline data, defined here because it needs Altair, which may be missing."""

    class Rows(alt.InlineData):
        """Rows from Polars: valid and never changed, so that all layers can share them.

        Altair would otherwise check each value for every chart, and copy the rows for every layer.
        """

        _class_is_valid_at_instantiation = False

        def __deepcopy__(self, memo: object) -> Rows:
            return self

    return Rows


def extent(frame: pl.DataFrame, *columns: str) -> Domain:
    """The least and the greatest number in ``columns``, without nulls; 0 and 1 if there are none."""
    known = [value for name in columns for value in frame[name].drop_nulls().to_list()]
    return (float(min(known)), float(max(known))) if known else (0.0, 1.0)


def framed(height: int) -> dict[str, Any]:
    """Properties of every chart: as wide as its container, with a plot area of ``height`` pixels."""
    fit = alt.AutoSizeParams(type="fit-x", contains="padding")
    return {"width": "container", "height": height, "autosize": fit}


ROW: Final = 58
"""Height in pixels of a row with its name above the marks."""


def rows(names: Sequence[str]) -> alt.Y:
    """A band per name of the field ``row``; :func:`row_names` writes the names, marks go 10 pixels below."""
    return alt.Y("row:N", title=None, sort=list(names), axis=None, scale=alt.Scale(type="band", padding=0))


def row_names(base: alt.Chart, y: alt.Y) -> alt.Chart:
    """Each row's name above its marks, because a phone has no room next to them."""
    names: alt.Chart = (
        base.transform_aggregate(n="count()", groupby=["row"])
        .mark_text(
            align="left",
            baseline="middle",
            dy=-14,
            fontSize=12,
            color=palette.LIGHT["ink"],
            font=palette.FONT,
            limit=alt.ExprRef("width"),
        )
        .encode(x=alt.value(0), y=y, text="row:N")
    )
    return names


def quantity() -> alt.Parameter:
    """The parameter that chooses between median, 99th percentile and mean."""
    return alt.param(name=QUANTITY, value=next(iter(QUANTITIES)))


def log_domain(low: float, high: float) -> Domain:
    """A little more than ``low`` to ``high``, for a log axis."""
    return low / 1.35, high * 1.35


def linear(domain: Domain, *, nice: bool = False) -> alt.Scale:
    return alt.Scale(domain=list(domain), nice=nice)


def log(domain: Domain, *, clamp: bool = False) -> alt.Scale:
    return alt.Scale(type="log", domain=list(domain), nice=False, clamp=clamp)


def log_axis(domain: Domain, *, grid: bool = True) -> alt.Axis:
    """An axis with ticks at 1, 2, 5, 10, ...: closer on a short axis, only at powers of ten on a long one."""
    low, high = (math.log10(end) for end in domain)
    steps: tuple[float, ...] = (1, 2, 5) if high - low < 2.6 else (1, 3) if high - low < 3.6 else (1,)
    if high - low < 0.7:
        steps = (1, 1.2, 1.5, 2, 3, 4, 5, 6, 8)
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    # A tick count in addition to values would thin them out.
    shown = [tick for tick in ticks if domain[0] * 0.999 <= tick <= domain[1] * 1.001]
    return alt.Axis(format=",~g", values=shown, grid=grid, labelOverlap=False)


def number_axis(ticks: int, *, grid: bool | None = None) -> alt.Axis:
    """An axis of plain numbers with thousands separators."""
    axis = alt.Axis(format=",~f", tickCount=ticks)
    return axis if grid is None else alt.Axis(format=",~f", tickCount=ticks, grid=grid)


def numbers(domain: Domain, ticks: int) -> dict[str, Any]:
    """Scale and axis of plain numbers over ``domain``, for a channel."""
    return {"scale": linear(domain), "axis": number_axis(ticks)}


def decades(domain: Domain, *, grid: bool = True) -> dict[str, Any]:
    """A logarithmic scale and its axis over ``domain``, for a channel."""
    return {"scale": log(domain), "axis": log_axis(domain, grid=grid)}


def from_zero(low: float, high: float) -> dict[str, Any]:
    """Scale and axis from 0 on where that shows both ``low`` and ``high``, else logarithmic ones."""
    if high < _NARROW * low:
        return numbers((0.0, 1.15 * high), 5)
    return decades(log_domain(low, high))


def limit(channel: Literal["x", "y"], field: str, at: float, scale: alt.Scale | None = None) -> alt.Chart:
    """A dashed line at a value of ``field``, beneath the marks."""
    along = alt.X if channel == "x" else alt.Y
    place = along(f"{field}:Q") if scale is None else along(f"{field}:Q", scale=scale)
    line = alt.Chart(alt.InlineData(values=[{field: at}]))
    drawn: alt.Chart = line.mark_rule(strokeDash=[4, 3], color=palette.LIGHT["soft"]).encode(
        **{channel: place}
    )
    return drawn


def colour(
    field: str,
    names: Sequence[str],
    colours: Sequence[str],
    title: str | None = None,
    legend: alt.Legend | None = None,
) -> alt.Color:
    """A colour for each of ``names``, the values of ``field``, in this order."""
    return alt.Color(f"{field}:N", **_of_names(names, colours, title, legend))


def shape(
    field: str,
    names: Sequence[str],
    shapes: Sequence[str] | None = None,
    title: str | None = None,
    legend: alt.Legend | None = None,
) -> alt.Shape:
    """A shape of points for each of ``names``: colour is never the only difference."""
    return alt.Shape(f"{field}:N", **_of_names(names, shapes or palette.shapes(len(names)), title, legend))


def dash(
    field: str,
    names: Sequence[str],
    title: str | None = None,
    legend: alt.Legend | None = None,
    dashes: Sequence[Sequence[float]] | None = None,
) -> alt.StrokeDash:
    """A dash of lines for each of ``names``: colour is never the only difference."""
    return alt.StrokeDash(
        f"{field}:N", **_of_names(names, dashes or palette.dashes(len(names)), title, legend)
    )


def lines(
    field: str, names: Sequence[str], colours: Sequence[str], legend: alt.Legend | None = None
) -> dict[str, Any]:
    """Colour and dash of a line for each of ``names``, the values of ``field``."""
    return {
        "color": colour(field, names, colours, legend=legend),
        "strokeDash": dash(field, names, legend=legend),
    }


def _of_names(
    names: Sequence[str], marks: Sequence[Any], title: str | None, legend: alt.Legend | None
) -> dict[str, Any]:
    scale = alt.Scale(domain=list(names), range=list(marks))
    named = {"title": title, "sort": list(names), "scale": scale}
    return named if legend is None else {**named, "legend": legend}


def line_legend(names: Sequence[str] = (), **other: Any) -> alt.Legend:
    """A legend that shows lines; with ``names``, as many in a row as a phone has room for."""
    if names:
        other["columns"] = columns(names)
    return alt.Legend(symbolType="stroke", symbolSize=300, symbolStrokeWidth=1.8, **other)


def setup_colour(setups: Sequence[str], title: str) -> alt.Color:
    """A colour per rule count, in order."""
    legend = alt.Legend(symbolOpacity=1, columns=columns(setups))
    return colour("setup", setups, palette.ramp(len(setups)), title, legend)


def setup_shape(setups: Sequence[str], title: str) -> alt.Shape:
    """A point shape per rule count."""
    return shape("setup", setups, title=title)


def model_lines(names: Sequence[str]) -> dict[str, Any]:
    """Colour and dash of a line per model; the field is ``source``."""
    legend = line_legend(labelExpr="datum.label + ' model'")
    return lines("source", names, palette.models(len(names)), legend)


def columns(labels: Sequence[str]) -> int:
    """Legend columns that fit a phone's width."""
    widths = [32 + 7 * len(label) for label in labels]
    return len(labels) if sum(widths) <= _PHONE else max(1, _PHONE // max(widths))
