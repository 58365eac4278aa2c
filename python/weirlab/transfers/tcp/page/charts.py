"""The charts: one bar of causes, and lines on the axis of time that all of them share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from weirlab.report import axes, palette
from weirlab.report.numbers import rounded
from weirlab.report.vega import alt

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.transfers.tcp.page.lines import Axis

_BAR: Final = 26
_NAMED: Final = 0.1
"""Least share of a part of the bar that has room for its percentage."""
_HEIGHT: Final = 210
_EXTENT: Final = 40
_HEADROOM: Final = 1.06
SCALED: Final = "~s"
_ZERO: Final = "datum.value ? format(datum.value, '{}') : '0'"
"""Labels of an axis: zero has no prefix."""
_WIDTHS: Final = (5.0, 3.0, 1.6, 1.0)
"""Of lines in their order: equal ones remain visible below each other."""
PLAIN: Final = ",.4~g"
"""Numbers that are not in thousands or thousandths of their unit."""
_LINES: Final = [palette.LIGHT[name] for name in ("model-a", "model-b", "model-c", "cpu-steal")]


def cause_rows(found: Mapping[str, Diagnosis]) -> pl.DataFrame:
    """A row per cause of each diagnosis; ``found`` is by the name of the row in the chart."""
    rows = []
    for name, diagnosis in found.items():
        begun = 0.0
        for finding in diagnosis.findings:
            rows.append(
                {
                    "row": name,
                    "cause": finding.cause.held,
                    "who": finding.cause.who,
                    "share": rounded(finding.share),
                    "from": rounded(begun),
                    "to": rounded(begun + finding.share),
                    "seconds": rounded(finding.seconds),
                    "confidence": finding.confidence,
                    "label": f"{finding.share * 100:.0f} %" if finding.share >= _NAMED else "",
                }
            )
            begun += finding.share
    return pl.DataFrame(rows, infer_schema_length=None)


def causes(frame: pl.DataFrame) -> alt.LayerChart:
    """A bar per row: where the time went."""
    rows = frame["row"].unique(maintain_order=True).to_list()
    names = _by_share(frame)
    base = alt.Chart(axes.data(frame))
    x = alt.X(
        "from:Q",
        title="Share of the time",
        scale=axes.linear((0.0, 1.0)),
        axis=alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1.0]),
    )
    y = axes.rows(rows)
    colour = axes.colour("cause", names, _colours(frame, names), legend=alt.Legend(columns=1, labelLimit=340))
    offset = 10 if len(rows) > 1 else 0
    bars = base.mark_bar(height=_BAR, yOffset=offset, stroke=palette.LIGHT["paper"], strokeWidth=1).encode(
        x=x,
        x2="to:Q",
        y=y,
        color=colour,
        tooltip=[
            alt.Tooltip("cause:N", title="while"),
            alt.Tooltip("share:Q", title="share of the time", format=".1%"),
            alt.Tooltip("seconds:Q", title="time, s", format=",.3~g"),
            alt.Tooltip("who:N", title="held up by"),
            alt.Tooltip("confidence:N", title="confidence"),
        ],
    )
    labels = (
        base.transform_calculate(middle="(datum.from + datum.to) / 2")
        .mark_text(
            fontSize=12,
            fontWeight=600,
            font=palette.FONT,
            color=palette.LIGHT["paper"],
            yOffset=offset,
            baseline="middle",
        )
        .encode(x=alt.X("middle:Q", scale=axes.linear((0.0, 1.0))), y=y, text="label:N")
    )
    layers = [bars, labels] if len(rows) == 1 else [bars, labels, axes.row_names(base, y)]
    return alt.LayerChart(layer=layers, **axes.framed(axes.ROW * len(rows) if len(rows) > 1 else _BAR + 8))


def _by_share(frame: pl.DataFrame) -> list[str]:
    shared = frame.group_by("cause", maintain_order=True).agg(pl.col("share").sum())
    return [str(name) for name in shared.sort("share", descending=True, maintain_order=True)["cause"]]


def _colours(frame: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Along the ramp; what is not known is grey."""
    unknown = set(frame.filter(pl.col("who") == "unknown")["cause"])
    known = [name for name in names if name not in unknown]
    ramp = dict(zip(known, palette.ramp(len(known)), strict=True))
    return [ramp.get(name, palette.LIGHT["soft"]) for name in names]


def over_time(
    frame: pl.DataFrame, axis: Axis, title: str, unit: str, *, labels: str = SCALED
) -> alt.LayerChart:
    """A line per series; ``unit`` is for tooltips, ``labels`` is the number format."""
    names = frame["series"].unique(maintain_order=True).to_list()
    base = alt.Chart(axes.data(_short(frame)))
    lines = base.mark_line(interpolate="step").encode(
        **_encoded(frame, axis, title, labels), **_series(names), tooltip=_tooltip(unit, labels)
    )
    return alt.LayerChart(layer=[lines], **axes.framed(_HEIGHT))


def events(frame: pl.DataFrame, axis: Axis, title: str, unit: str) -> alt.LayerChart:
    """A point per piece of time in which something happened."""
    names = frame["series"].unique(maintain_order=True).to_list()
    base = alt.Chart(axes.data(_short(frame)))
    points = base.mark_point(filled=True, size=34, opacity=0.8).encode(
        **_encoded(frame, axis, title, SCALED),
        color=axes.colour("series", names, _LINES[: len(names)]),
        shape=axes.shape("series", names),
        tooltip=_tooltip(unit, SCALED),
    )
    return alt.LayerChart(layer=[points], **axes.framed(_HEIGHT - 60))


def _encoded(frame: pl.DataFrame, axis: Axis, title: str, labels: str) -> dict[str, alt.X | alt.Y]:
    most = float(frame["value"].max() or 0.0) or 1.0  # type: ignore[arg-type]
    return {
        "x": alt.X(
            "at_s:Q",
            title="Time since the start, s",
            scale=axes.linear((0.0, axis.seconds)),
            axis=alt.Axis(format=PLAIN, tickCount=8),
        ),
        "y": alt.Y(
            "value:Q",
            title=title,
            scale=axes.linear((0.0, most * _HEADROOM)),
            # As wide as on every other chart of this axis.
            axis=alt.Axis(labelExpr=_ZERO.format(labels), tickCount=5, minExtent=_EXTENT, maxExtent=_EXTENT),
        ),
    }


def _series(names: Sequence[str]) -> dict[str, Any]:
    legend = axes.line_legend(columns=1)
    found = axes.lines("series", names, _LINES[: len(names)], legend)
    if len(names) > 1:
        found["strokeWidth"] = alt.StrokeWidth(
            "series:N",
            sort=list(names),
            title=None,
            scale=alt.Scale(domain=list(names), range=_WIDTHS[-len(names) :]),
            legend=legend,
        )
    return found


def _tooltip(unit: str, labels: str) -> list[alt.Tooltip]:
    return [
        alt.Tooltip("series:N", title="what"),
        alt.Tooltip("at_s:Q", title="time, s", format=",.4~g"),
        alt.Tooltip("value:Q", title=unit, format=",.3~s" if labels == SCALED else PLAIN),
    ]


def _short(frame: pl.DataFrame) -> pl.DataFrame:
    """Rounded to the digits that are drawn: a page holds thousands of these numbers."""
    return frame.with_columns(pl.col("at_s").round(5), pl.col("value").round_sig_figs(4))
