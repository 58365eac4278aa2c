"""How right the predictions were: letter-value plots, tables and sentences on held-out trials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.model.score import REPEATABILITY, Deviations
from weirlab.report import axes, palette
from weirlab.report.letters import letter_values
from weirlab.report.numbers import percent, plural, rounded, words
from weirlab.report.vega import alt

PANELS: Final = {
    "Delay below the threshold": (
        "delay_mean_below",
        {
            "delay_mean_below": "Mean",
            "delay_p50_below": "Median",
            "delay_p90_below": "90th percentile",
            "delay_p99_below": "99th percentile",
            "delay_p999_below": "99.9th percentile",
        },
    ),
    "Threshold, delay near and beyond it, jitter": (
        "threshold",
        {
            "threshold": "Threshold",
            "delay_mean_near": "Mean delay near the threshold",
            "delay_p99_near": "99th percentile near the threshold",
            "delay_p50_overload": "Median delay in overload",
            "jitter": "Jitter, all loads",
        },
    ),
}
"""Per chart the quantity of its title, and all its quantities with their names."""

_OF: Final = {"delay_mean_below": "mean delay below the threshold", "threshold": "threshold"}


def takeaway(deviations: Sequence[Deviations], quantity: str) -> str:
    """How close half of the single trials are to each model, and to each other."""
    found = {d.model: d for d in deviations if d.quantity == quantity and not d.extrapolated}
    if not found:
        first = next(d for d in deviations if not d.extrapolated)
        return f"Errors on {plural(len(first.measured), 'single trial')}."
    typical = {model: percent(float(np.median(np.abs(d.relative))), 2) for model, d in found.items()}
    off = words([f"{size} ({model})" for model, size in typical.items() if model != REPEATABILITY])
    itself = typical.get(REPEATABILITY)
    others = f"; trials of one setting are within {itself} of each other" if itself else ""
    return f"Half of the predictions of the {_OF[quantity]} are within {off} of single trials{others}."


def coverage(deviations: Sequence[Deviations]) -> str:
    """How many of the trials the 90 % intervals held; empty without intervals."""
    parts = []
    for model in dict.fromkeys(d.model for d in deviations):
        own = [d for d in deviations if d.model == model and 90 in d.bands and not d.extrapolated]
        own = [d for d in own if d.quantity in ("delay_mean_all", "threshold", "loss", "jitter")]
        held = [(d.bands[90].low <= d.measured) & (d.measured <= d.bands[90].high) for d in own]
        if held:
            parts.append(f"{percent(float(np.concatenate(held).mean()))} ({model})")
    if not parts:
        return ""
    return (
        "The 90 % intervals held "
        f"{words(parts)} of the thresholds, mean delays, jitters and losses of single trials."
    )


SCHEMA: Final = {
    "quantity": pl.String,
    "source": pl.String,
    "mark": pl.String,
    "share_percent": pl.Float64,
    "low_percent": pl.Float64,
    "high_percent": pl.Float64,
    "trials": pl.Int64,
}
"""``mark`` is ``box``, ``median`` or ``trial`` (one beyond the last box, ``low`` = ``high``)."""


def table(deviations: Sequence[Deviations], names: dict[str, str]) -> pl.DataFrame:
    """Letter values of the relative errors in percent of the quantities in ``names``, in that order."""
    rows: list[dict[str, Any]] = []
    for key, name in names.items():
        for found in (d for d in deviations if d.quantity == key and not d.extrapolated):
            of = letter_values(100 * found.relative)
            common = {"quantity": name, "source": found.model, "trials": len(found.measured)}
            rows += [
                common | {"mark": "box", "share_percent": rounded(100 * share)} | _ends(low, high)
                for share, low, high in of.boxes
            ]
            rows.append(common | {"mark": "median", "share_percent": None} | _ends(of.median, of.median))
            rows += [
                common | {"mark": "trial", "share_percent": None} | _ends(error, error)
                for error in of.outside
            ]
    return pl.DataFrame(rows, schema=SCHEMA)


def _ends(low: float, high: float) -> dict[str, float | None]:
    return {"low_percent": rounded(low), "high_percent": rounded(high)}


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


def letter_value_plot(frame: pl.DataFrame, observed: str) -> alt.LayerChart:
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
