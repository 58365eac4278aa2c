"""Shared parts of the charts: domains, log axes, legends of rule counts and models, and the frame."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeAlias

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
    """An axis with ticks at 1, 2, 5, 10, ...; only at powers of ten if the axis spans many decades."""
    low, high = (math.log10(end) for end in domain)
    steps = (1, 2, 5) if high - low < 2.6 else (1, 3) if high - low < 3.6 else (1,)
    decades = range(math.floor(low), math.ceil(high) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    # A tick count in addition to values would thin them out.
    shown = [tick for tick in ticks if domain[0] * 0.999 <= tick <= domain[1] * 1.001]
    return alt.Axis(format=",~g", values=shown, grid=grid, labelOverlap=False)


def number_axis(ticks: int, *, grid: bool | None = None) -> alt.Axis:
    """An axis of plain numbers with thousands separators."""
    axis = alt.Axis(format=",~f", tickCount=ticks)
    return axis if grid is None else alt.Axis(format=",~f", tickCount=ticks, grid=grid)


def setup_colour(setups: Sequence[str], title: str) -> alt.Color:
    """A colour per rule count, in order."""
    scale = alt.Scale(domain=list(setups), range=palette.ramp(len(setups)))
    legend = alt.Legend(symbolOpacity=1, columns=columns(setups))
    return alt.Color("setup:N", sort=list(setups), title=title, scale=scale, legend=legend)


def setup_shape(setups: Sequence[str], title: str) -> alt.Shape:
    """A point shape per rule count: colour is never the only difference."""
    scale = alt.Scale(domain=list(setups), range=palette.shapes(len(setups)))
    return alt.Shape("setup:N", sort=list(setups), title=title, scale=scale)


def model_colour(names: Sequence[str]) -> alt.Color:
    """A colour per model; the field is ``source``."""
    scale = alt.Scale(domain=list(names), range=palette.models(len(names)))
    return alt.Color("source:N", title=None, sort=list(names), scale=scale, legend=_model_lines())


def model_dash(names: Sequence[str]) -> alt.StrokeDash:
    """A dash per model; the field is ``source``."""
    scale = alt.Scale(domain=list(names), range=palette.dashes(len(names)))
    return alt.StrokeDash("source:N", title=None, sort=list(names), scale=scale, legend=_model_lines())


def _model_lines() -> alt.Legend:
    label = "datum.label + ' model'"
    return alt.Legend(symbolType="stroke", symbolSize=300, symbolStrokeWidth=1.8, labelExpr=label)


def columns(labels: Sequence[str]) -> int:
    """Legend columns that fit a phone's width."""
    widths = [32 + 7 * len(label) for label in labels]
    return len(labels) if sum(widths) <= _PHONE else max(1, _PHONE // max(widths))
