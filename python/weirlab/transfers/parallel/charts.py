"""The charts: a bar per method with its name behind it, so that it reads on a phone, and lines over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import polars as pl

from weirlab.base.quantities import percent
from weirlab.measure.spread import Spread
from weirlab.report import axes, palette
from weirlab.report.numbers import rounded
from weirlab.report.vega import alt
from weirlab.trace.quantities import size
from weirlab.transfers.parallel.findings import (
    APPLICATION,
    COMPETITOR,
    PATH,
    MethodGroup,
    ParallelAttemptRow,
    ParallelFindings,
)
from weirlab.transfers.parallel.plan import INDEPENDENT, named

_MBIT: Final = 1e6
_KB: Final = 1e3
_BARS: Final = {
    "row": pl.String, "method": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    "reach": pl.Float64, "sum": pl.Float64, "label": pl.String, "attempts": pl.Int64,
}  # fmt: skip
_LINES: Final = {"series": pl.String, "at_s": pl.Float64, "value": pl.Float64}


def goodput(groups: Sequence[MethodGroup]) -> pl.DataFrame:
    """A bar per case and method in Mbit/s; the line is what independent streams have together."""
    sums = {group.case: group.goodput.median for group in groups if group.method == INDEPENDENT}
    rows = []
    for group in groups:
        share = f" {percent(group.share.median)}" if group.share.known and group.method != INDEPENDENT else ""
        total = sums.get(group.case, math.nan)
        rows.append(_bar(group, group.goodput, _MBIT, f"{_short(group)}{share}", total))
    return pl.DataFrame(rows, schema=_BARS)


def _short(group: MethodGroup) -> str:
    """There is little room behind a bar on a phone."""
    return group.name.removeprefix("single ").removesuffix(" streams")


def memory(groups: Sequence[MethodGroup]) -> pl.DataFrame:
    """A bar per case and session in kB."""
    rows = []
    for group in groups:
        found = group.spread["reorder_peak_bytes"]
        if found.known:
            label = f"{group.name} {size(found.high)}"
            rows.append(_bar(group, found, _KB, label, math.nan))
    return pl.DataFrame(rows, schema=_BARS)


def _bar(group: MethodGroup, found: Spread, unit: float, label: str, total: float) -> dict[str, object]:
    reach = max(value for value in (found.high, total, 0.0) if not math.isnan(value))
    return {
        "row": group.case,
        "method": group.name,
        "value": rounded(found.median / unit),
        "low": rounded(found.low / unit),
        "high": rounded(found.high / unit),
        "reach": rounded(reach / unit),
        "sum": rounded(total / unit),
        "label": label,
        "attempts": group.attempts,
    }


def typical(found: ParallelFindings, case: str, method: str) -> ParallelAttemptRow | None:
    """The valid attempt whose goodput is the middle one, over all paths."""
    valid = [row for row in found.rows if row.valid and (row.case, row.method, row.path) == (case, method, 0)]
    ranked = sorted(valid, key=lambda row: row.goodput_bps)
    return ranked[(len(ranked) - 1) // 2] if ranked else None


def applications(series: pl.DataFrame, attempts: Sequence[ParallelAttemptRow]) -> pl.DataFrame:
    """What the application read over time, a line per attempt, in Mbit/s."""
    parts = [_line(series, attempt.trial_id, APPLICATION, 0, named(attempt.method)) for attempt in attempts]
    return pl.concat(parts) if parts else pl.DataFrame(schema=_LINES)


def by_path(series: pl.DataFrame, attempt: ParallelAttemptRow) -> pl.DataFrame:
    """What arrived over each path, and what competitors read, in Mbit/s."""
    mine = series.filter(pl.col("trial_id") == attempt.trial_id)
    parts = []
    for what, said in ((PATH, "path"), (COMPETITOR, "competitor")):
        numbers = mine.filter(pl.col("what") == what)["number"].unique().sort().to_list()
        for number in numbers:
            name = said if what == COMPETITOR and len(numbers) == 1 else f"{said} {number}"
            parts.append(_line(series, attempt.trial_id, what, number, name))
    return pl.concat(parts) if parts else pl.DataFrame(schema=_LINES)


def competitors(series: pl.DataFrame, attempts: Sequence[ParallelAttemptRow]) -> pl.DataFrame:
    """What all competitors read together next to each attempt, a line per attempt, in Mbit/s."""
    parts = [
        series.filter((pl.col("trial_id") == attempt.trial_id) & (pl.col("what") == COMPETITOR))
        .group_by("start_s")
        .agg(pl.col("throughput_bps").sum())
        .sort("start_s")
        .select(series=pl.lit(named(attempt.method)), at_s="start_s", value=pl.col("throughput_bps") / _MBIT)
        for attempt in attempts
    ]
    return pl.concat(parts) if parts else pl.DataFrame(schema=_LINES)


def _line(series: pl.DataFrame, trial_id: str, what: str, number: int, name: str) -> pl.DataFrame:
    return (
        series.filter(
            (pl.col("trial_id") == trial_id) & (pl.col("what") == what) & (pl.col("number") == number)
        )
        .sort("start_s")
        .select(series=pl.lit(name), at_s="start_s", value=pl.col("throughput_bps") / _MBIT)
    )


_INK: Final = palette.LIGHT["ink"]
_SOFT: Final = palette.LIGHT["soft"]
_BAR: Final = 20
"""Height in pixels of a bar and what is between two."""
_THICK: Final = 13
_HEADROOM: Final = 1.06
_LABELLED: Final = 2.1
"""Length of the axis over that of the longest bar: names behind it need room, also on a phone."""
_HEIGHT: Final = 220
_EXTENT: Final = 40


Meanwhile = tuple[float, float, str]
"""From when to when something was the case, in s, and what."""


def bars(frame: pl.DataFrame, title: str, *, colour: str = "model-a") -> alt.LayerChart:
    """A group of bars per ``row``, one per ``method``, each with a line from ``low`` to ``high``.

    Where ``sum`` is known, a line marks it in the whole group.
    """
    rows = frame["row"].unique(maintain_order=True).to_list()
    named = len(rows) > 1
    # The first place of a group is for its name.
    frame = frame.with_columns(place=pl.int_range(pl.len()).over("row") + named)
    places = list(range(int(frame["place"].max() or 0) + 1))  # type: ignore[arg-type]
    band = _BAR * len(places)
    most = max(float(frame["high"].max() or 0.0), float(frame["sum"].max() or 0.0)) or 1.0  # type: ignore[arg-type]
    base = alt.Chart(axes.data(frame))
    x = alt.X("value:Q", title=title, scale=axes.linear((0.0, most * _LABELLED)), axis=_ticks_up_to(most))
    y = axes.rows(rows)
    offset = alt.YOffset(
        "place:O", sort=places, scale=alt.Scale(domain=places, paddingInner=0, paddingOuter=0)
    )
    tips = [
        alt.Tooltip("row:N", title="case"),
        alt.Tooltip("method:N", title="method"),
        alt.Tooltip("value:Q", title="median", format=",.4~g"),
        alt.Tooltip("low:Q", title="least", format=",.4~g"),
        alt.Tooltip("high:Q", title="greatest", format=",.4~g"),
        alt.Tooltip("attempts:Q", title="attempts"),
    ]
    filled = base.mark_bar(height=_THICK, color=palette.LIGHT[colour], opacity=0.75).encode(
        x=x, y=y, yOffset=offset, tooltip=tips
    )
    spread = base.mark_rule(color=_INK, strokeWidth=2).encode(
        x=alt.X("low:Q"), x2="high:Q", y=y, yOffset=offset, tooltip=tips
    )
    labels = base.mark_text(
        align="left", baseline="middle", dx=6, fontSize=12, font=palette.FONT, color=_INK
    ).encode(x=alt.X("reach:Q"), y=y, yOffset=offset, text="label:N")
    layers: list[alt.Chart] = [filled, spread, labels]
    if frame["sum"].is_not_null().any():
        height = band - (_BAR if named else 0)
        layers.append(
            base.transform_filter("isValid(datum.sum)")
            .transform_aggregate(sum="max(sum)", groupby=["row"])
            .mark_tick(
                orient="vertical", thickness=1.5, color=_SOFT, size=height, yOffset=(band - height) / 2
            )
            .encode(x=alt.X("sum:Q"), y=y)
        )
    if named:
        layers.append(
            base.transform_aggregate(n="count()", groupby=["row"])
            .mark_text(
                align="left", baseline="middle", dy=_BAR / 2 + 1, fontSize=12, fontWeight=600,
                font=palette.FONT, color=_INK,
            )
            .encode(
                x=alt.value(0),
                y=alt.Y("row:N", sort=rows, axis=None, bandPosition=0),
                text="row:N",
            )
        )  # fmt: skip
    return alt.LayerChart(layer=layers, **axes.framed(band * len(rows)))


def _ticks_up_to(most: float) -> alt.Axis:
    """Behind the longest bar there are names, and no values."""
    step = 10.0 ** len(str(int(most / 4))) / 10 if most >= 4 else 1.0
    while most / step > 5:
        step *= 2 if str(step)[0] == "1" else 2.5
    values = [step * n for n in range(int(most / step) + 1)]
    return alt.Axis(format=",~f", values=values, grid=True, labelOverlap=False)


def over_time(
    frame: pl.DataFrame,
    extent: tuple[float, float],
    title: str,
    spans: Sequence[Meanwhile] = (),
    *,
    along: str = "Time, s",
    stepped: bool = True,
) -> alt.LayerChart:
    """A line per ``series`` over ``at_s``, whose axis is called ``along``; ``spans`` are shaded."""
    names = frame["series"].unique(maintain_order=True).to_list()
    most = float(frame["value"].max() or 0.0) or 1.0  # type: ignore[arg-type]
    short = frame.with_columns(pl.col("at_s").round(4), pl.col("value").round_sig_figs(4))
    base = alt.Chart(axes.data(short))
    legend = axes.line_legend(names)
    lines = base.mark_line(
        interpolate="step-after" if stepped else "linear", strokeWidth=1.6, clip=True
    ).encode(
        x=alt.X("at_s:Q", title=along, scale=axes.linear(extent), axis=alt.Axis(format=",.4~g", tickCount=8)),
        y=alt.Y(
            "value:Q",
            title=title,
            scale=axes.linear((0.0, most * _HEADROOM)),
            axis=alt.Axis(format=",~f", tickCount=5, minExtent=_EXTENT, maxExtent=_EXTENT),
        ),
        **axes.lines("series", names, palette.ramp(len(names)), legend),
        order="at_s:Q",
        tooltip=[
            alt.Tooltip("series:N", title="what"),
            alt.Tooltip("at_s:Q", title="from, s" if stepped else along.lower(), format=",.4~g"),
            alt.Tooltip("value:Q", title="Mbit/s", format=",.4~g"),
        ],
    )
    layers: list[alt.Chart] = [lines]
    if spans:
        values: list[dict[str, Any]] = [{"from": a, "to": b, "what": what} for a, b, what in spans]
        layers.insert(
            0,
            alt.Chart(alt.InlineData(values=values))
            .mark_rect(fill=_SOFT, fillOpacity=0.12, stroke=_SOFT, strokeWidth=1, clip=True)
            .encode(x=alt.X("from:Q"), x2="to:Q", tooltip=[alt.Tooltip("what:N", title="meanwhile")]),
        )
    return alt.LayerChart(layer=layers, **axes.framed(_HEIGHT))
