"""The letter-value plot."""

from __future__ import annotations

import math
from typing import Final

import polars as pl

from weirlab.model.score import REPEATABILITY
from weirlab.report import axes, palette
from weirlab.report.vega import alt

_ROW_PX: Final = 26
_BETWEEN: Final = 0.9
"""Room between two quantities, in rows."""
_THICK: Final = 0.84
"""Of the innermost box, in rows."""
_LINEAR_PERCENT: Final = 2.0
"""Up to this the axis is linear, beyond it logarithmic."""
_MOST_PERCENT: Final = 1000.0
_TICKS: Final = (0, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
_SIGNED: Final = "datum.value === 0 ? '0' : format(datum.value, '+,d')"


def letter_values(frame: pl.DataFrame, observed: str) -> alt.LayerChart:
    """Boxes per quantity and source over the relative error, from ``letter_values.table``."""
    sources = frame["source"].unique(maintain_order=True).to_list()
    models = [name for name in sources if name != REPEATABILITY]
    order = [*models, *(name for name in sources if name == REPEATABILITY)]
    colours = [*palette.models(len(models)), palette.LIGHT["soft"]][: len(order)]
    placed, labels, rows = _placed(frame, order)
    base = alt.Chart(axes.data(placed))
    domain = _domain(frame)
    x = alt.X(
        "low_percent:Q",
        title=f"Predicted minus {observed}, % of {observed}",
        scale=alt.Scale(type="symlog", constant=_LINEAR_PERCENT, domain=list(domain), nice=False, clamp=True),
        axis=alt.Axis(values=_ticks(domain), labelExpr=_SIGNED, grid=True, domain=False),
    )
    y_scale = alt.Scale(domain=[rows, 0], nice=False)
    others = f"'{REPEATABILITY}: other trials of the setting'"
    told = f"datum.label === '{REPEATABILITY}' ? {others} : datum.label + ' model'"
    legend = alt.Legend(symbolType="square", symbolStrokeWidth=0, labelExpr=told, symbolOpacity=1, columns=1)
    scheme = alt.Scale(domain=order, range=colours)
    colour = axes.colour("source", order, colours, legend=legend)
    boxes = (
        base.transform_filter("datum.mark === 'box'")
        .mark_rect(strokeWidth=0.8)
        .encode(
            x=x,
            x2="high_percent:Q",
            y=alt.Y("top:Q", scale=y_scale, axis=None),
            y2="bottom:Q",
            color=colour,
            # The outer boxes are pale: their edges are not.
            stroke=alt.Stroke("source:N", title=None, sort=order, scale=scheme, legend=legend),
            fillOpacity=alt.FillOpacity(
                "strength:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None
            ),
            tooltip=[
                alt.Tooltip("quantity:N"),
                alt.Tooltip("source:N"),
                alt.Tooltip("share_percent:Q", title="share of the trials, %", format=".3~g"),
                alt.Tooltip("low_percent:Q", title="from, %", format="+.3~g"),
                alt.Tooltip("high_percent:Q", title="to, %", format="+.3~g"),
                alt.Tooltip("trials:Q"),
            ],
        )
    )
    medians = (
        base.transform_filter("datum.mark === 'median'")
        .mark_rule(color=palette.LIGHT["paper"], strokeWidth=2)
        .encode(x=x, y=alt.Y("top:Q", scale=y_scale, axis=None), y2="bottom:Q")
    )
    outside = (
        base.transform_filter("datum.mark === 'trial'")
        .mark_point(filled=True, size=9, opacity=0.9)
        .encode(
            x=x,
            y=alt.Y("middle:Q", scale=y_scale, axis=None),
            color=colour,
            tooltip=[
                alt.Tooltip("quantity:N"),
                alt.Tooltip("source:N"),
                alt.Tooltip("low_percent:Q", title="error, %", format="+.3~g"),
            ],
        )
    )
    zero = (
        alt.Chart(alt.InlineData(values=[{"low_percent": 0}]))
        .mark_rule(color=palette.LIGHT["ink"], strokeWidth=1)
        .encode(x=x)
    )
    # Above its boxes a quantity's name takes no width from the data, which matters on a phone.
    names = (
        alt.Chart(axes.data(labels))
        .mark_text(align="left", baseline="bottom", color=palette.LIGHT["ink"], fontSize=12, dy=-2)
        .encode(x=alt.value(0), y=alt.Y("top:Q", scale=y_scale, axis=None), text="quantity:N")
    )
    height = round(_ROW_PX * rows)
    return alt.LayerChart(layer=[zero, boxes, medians, outside, names], **axes.framed(height))


def _placed(frame: pl.DataFrame, order: list[str]) -> tuple[pl.DataFrame, pl.DataFrame, float]:
    """Marks with ``top``, ``bottom``, ``middle`` (rows from above) and ``strength``; names; rows in all."""
    place: dict[tuple[str, str], float] = {}
    names, at = [], 0.0
    for quantity in frame["quantity"].unique(maintain_order=True).to_list():
        at += _BETWEEN
        names.append({"quantity": quantity, "top": at})
        for source in order:
            place[quantity, source] = at + 0.5
            at += 1.0
    rows = []
    for row in frame.iter_rows(named=True):
        middle = place[row["quantity"], row["source"]]
        # The half is thickest and strongest; every further letter halves what is left outside.
        letter = -math.log2(1 - row["share_percent"] / 100) if row["mark"] == "box" else 1.0
        thick = _THICK * 0.72 ** (letter - 1)
        rows.append(
            row
            | {"top": middle - thick / 2, "bottom": middle + thick / 2, "middle": middle}
            | {"strength": 0.9 * 0.62 ** (letter - 1)}
        )
    return pl.DataFrame(rows, infer_schema_length=None), pl.DataFrame(names), at + 0.3


def _domain(frame: pl.DataFrame) -> tuple[float, float]:
    """Both ends of the errors with a little room, zero included; wild ones sit at the edge."""
    low, high = frame["low_percent"].to_numpy().min(), frame["high_percent"].to_numpy().max()
    return max(min(float(low) * 1.15, -1.0), -100.0), min(max(float(high) * 1.15, 1.0), _MOST_PERCENT)


def _ticks(domain: tuple[float, float]) -> list[float]:
    both = sorted({sign * tick for tick in _TICKS for sign in (-1.0, 1.0)})
    return [tick for tick in both if domain[0] <= tick <= domain[1]]
