"""The charts: rows with a label above each, so that they read on a phone, and curves over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from weirlab.calls.failover.switches.plan import KINDS
from weirlab.calls.failover.tables import SwitchEvidence
from weirlab.report import axes, palette
from weirlab.report.numbers import rounded
from weirlab.report.vega import alt

_INK: Final = palette.LIGHT["ink"]
_SOFT: Final = palette.LIGHT["soft"]
_MOST_POINTS: Final = 360
_KINDS: Final = [f"master {words}" for words in KINDS.values()]
_WAYS: Final = ["towards the outside", "towards the inside"]


def gap_rows(groups: Sequence[SwitchEvidence]) -> pl.DataFrame:
    """Per run the median call's gap, its longest one, and what the timers allow."""
    rows = []
    for group in groups:
        expected = group.expected_ns or (None, None)
        for run in sorted(group.runs, key=lambda run: run.repetition):
            dead = run.streams > 0 and run.dead >= run.streams
            rows.append(
                {
                    "row": group.name,
                    "what": f"master {KINDS[group.kind]}",
                    "run": run.repetition,
                    "gap_ms": rounded(run.gap_p50_ns / 1e6),
                    "longest_ms": rounded(run.gap_max_ns / 1e6),
                    "fate": "stream died" if dead else "call went on",
                    "timers_from_ms": None if expected[0] is None else rounded(expected[0] / 1e6),
                    "timers_to_ms": None if expected[1] is None else rounded(expected[1] / 1e6),
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def gaps(frame: pl.DataFrame) -> alt.LayerChart:
    """A row per group, a point per run: how long the median call heard nothing."""
    names = frame["row"].unique(maintain_order=True).to_list()
    domain = axes.log_domain(*axes.extent(frame, "gap_ms", "timers_from_ms", "timers_to_ms"))
    base = alt.Chart(axes.data(frame))
    x = alt.X("gap_ms:Q", title="Longest silence of the median call, ms", **axes.decades(domain))
    y = axes.rows(names)
    # A kind has its colour on every page, but is named only where it happened.
    happened = [kind for kind in _KINDS if kind in frame["what"].to_list()]
    kinds = alt.Legend(columns=axes.columns(happened), values=happened)
    points = base.mark_point(filled=True, size=70, opacity=0.85, yOffset=10).encode(
        x=x,
        y=y,
        color=axes.colour("what", _KINDS, palette.models(len(_KINDS)), legend=kinds),
        shape=axes.shape("fate", ["call went on", "stream died"], ["circle", "cross"]),
        tooltip=[
            alt.Tooltip("row:N", title="pair"),
            alt.Tooltip("run:Q", title="run"),
            alt.Tooltip("gap_ms:Q", title="median call, ms", format=",.4~g"),
            alt.Tooltip("longest_ms:Q", title="worst call, ms", format=",.4~g"),
            alt.Tooltip("fate:N", title="streams"),
        ],
    )
    timers = (
        base.transform_filter("isValid(datum.timers_to_ms)")
        .mark_bar(height=12, fill=_SOFT, fillOpacity=0.12, stroke=_SOFT, strokeWidth=1, yOffset=10, clip=True)
        .encode(x=alt.X("timers_from_ms:Q"), x2="timers_to_ms:Q", y=y)
    )
    return alt.LayerChart(
        layer=[timers, points, axes.row_names(base, y)], **axes.framed(axes.ROW * len(names))
    )


def mos_rows(groups: Sequence[SwitchEvidence]) -> pl.DataFrame:
    """Per group the median call's MOS before, in the affected seconds, and after."""
    rows = []
    for group in groups:
        for when, name in (
            ("before", "mos_before"),
            ("the affected seconds", "mos_affected"),
            ("after", "mos_after"),
        ):
            found = group.found.spread[name]
            rows.append(
                {
                    "row": group.name,
                    "when": when,
                    "mos": rounded(found.median),
                    "low": rounded(found.low),
                    "high": rounded(found.high),
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def mos(frame: pl.DataFrame) -> alt.LayerChart:
    """A row per group: MOS before, in the affected seconds, and after."""
    names = frame["row"].unique(maintain_order=True).to_list()
    base = alt.Chart(axes.data(frame))
    x = alt.X(
        "mos:Q",
        title="MOS of the median call",
        scale=axes.linear((1.0, 4.6)),
        axis=alt.Axis(values=[1, 2, 3, 3.6, 4, 4.5]),
    )
    y = axes.rows(names)
    whens = ["before", "the affected seconds", "after"]
    marks = (
        base.transform_filter("isValid(datum.mos)")
        .mark_point(filled=True, size=80, yOffset=10)
        .encode(
            x=x,
            y=y,
            color=axes.colour("when", whens, palette.models(3)),
            shape=axes.shape("when", whens, ["diamond", "circle", "square"]),
            tooltip=[
                alt.Tooltip("row:N", title="pair"),
                alt.Tooltip("when:N", title="when"),
                alt.Tooltip("mos:Q", title="MOS", format=".2f"),
                alt.Tooltip("low:Q", title="lowest run", format=".2f"),
                alt.Tooltip("high:Q", title="highest run", format=".2f"),
            ],
        )
    )
    limit = axes.limit("x", "mos", 3.6)
    return alt.LayerChart(layer=[limit, marks, axes.row_names(base, y)], **axes.framed(axes.ROW * len(names)))


def arrival_rows(group: SwitchEvidence, series: pl.DataFrame) -> pl.DataFrame:
    """Packets that arrived per ms around the event in the group's typical run, per direction."""
    run = group.typical
    mine = series.filter(pl.col("trial_id") == run.trial_id).sort("back", "start_ns")
    starts = mine["start_ns"].unique().sort()
    bin_ns = float(starts[1] - starts[0])
    silence_ns = run.resumed_ns if np.isfinite(run.resumed_ns) else run.gap_p50_ns
    shown = max(3.0 * silence_ns, 40 * bin_ns)
    low, high = -0.35 * shown, shown
    # Bins that hold a whole number of the table's, so that a chart has no more points than it can show.
    joined = max(int(np.ceil((high - low) / bin_ns / _MOST_POINTS)), 1)
    width = joined * bin_ns
    return (
        mine.filter((pl.col("start_ns") >= low) & (pl.col("start_ns") <= high))
        .with_columns(bin=((pl.col("start_ns") / width).floor() * width))
        .group_by("back", "bin")
        .agg(pl.col("sent", "received", "lost").sum(), bins=pl.len())
        # A bin at an edge that is cut off would look like a fall.
        .filter(pl.col("bins") == joined)
        .sort("back", "bin")
        .select(
            way=pl.when("back").then(pl.lit(_WAYS[1])).otherwise(pl.lit(_WAYS[0])),
            time_ms=pl.col("bin") / 1e6,
            arrived=(pl.col("received") / (width / 1e6)).round_sig_figs(4),
            sent=(pl.col("sent") / (width / 1e6)).round_sig_figs(4),
        )
    )


def arrivals(frame: pl.DataFrame, expected_ns: tuple[float, float] | None, top: float) -> alt.LayerChart:
    """Arrivals per ms over the time from the event; shaded, when the timers let the other take over."""
    base = alt.Chart(axes.data(frame))
    domain = axes.extent(frame, "time_ms")
    ways = [way for way in _WAYS if way in set(frame["way"].to_list())]
    x = alt.X("time_ms:Q", title="Time from the event, ms", **axes.numbers(domain, 6))
    y = alt.Y("arrived:Q", title="Packets that arrived, per ms", **axes.numbers((0.0, top), 4))
    lines = base.mark_line(interpolate="step-after", strokeWidth=1.4).encode(
        x=x,
        y=y,
        **axes.lines("way", ways, palette.models(len(ways))),
        order="time_ms:Q",
        tooltip=[
            alt.Tooltip("time_ms:Q", title="ms from the event", format=",.4~g"),
            alt.Tooltip("way:N", title="direction"),
            alt.Tooltip("arrived:Q", title="arrived per ms"),
            alt.Tooltip("sent:Q", title="sent per ms"),
        ],
    )
    event = (
        alt.Chart(alt.InlineData(values=[{"time_ms": 0}]))
        .mark_rule(color=_INK, strokeWidth=1.2, strokeDash=[4, 3])
        .encode(x=alt.X("time_ms:Q"))
    )
    layers = [lines, event]
    if expected_ns is not None:
        ends = [{"from": expected_ns[0] / 1e6, "to": min(expected_ns[1] / 1e6, domain[1])}]
        if ends[0]["from"] < domain[1]:
            layers.insert(
                0,
                alt.Chart(alt.InlineData(values=ends))
                .mark_rect(fill=_SOFT, fillOpacity=0.12, stroke=_SOFT, strokeWidth=1, clip=True)
                .encode(x=alt.X("from:Q"), x2="to:Q"),
            )
    return alt.LayerChart(layer=layers, **axes.framed(230))


def call_rows(groups: Sequence[SwitchEvidence], calls: pl.DataFrame) -> pl.DataFrame:
    """Share of the streams whose longest silence exceeds each length, in each group's typical run."""
    frames = []
    for group in groups:
        mine = calls.filter((pl.col("trial_id") == group.typical.trial_id) & pl.col("gap_ns").is_not_null())
        gap = np.sort(mine["gap_ns"].to_numpy())
        if not len(gap):
            continue
        places = np.unique(np.round(np.linspace(0, len(gap) - 1, min(len(gap), 80))).astype(np.int64))
        frames.append(
            pl.DataFrame(
                {
                    "row": group.name,
                    "gap_ms": [rounded(float(gap[i]) / 1e6) for i in places],
                    "longer_percent": [rounded(100.0 * (1.0 - i / len(gap))) for i in places],
                }
            )
        )
    return pl.concat(frames) if frames else pl.DataFrame()


def over_calls(frame: pl.DataFrame) -> alt.Chart:
    """Share of the streams (linear) over the longest silence (log); a line per group."""
    names = frame["row"].unique(maintain_order=True).to_list()
    domain = axes.log_domain(*axes.extent(frame, "gap_ms"))
    legend = alt.Legend(columns=1, symbolType="stroke", symbolSize=300)
    chart: alt.Chart = (
        alt.Chart(axes.data(frame), **axes.framed(300))
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=alt.X("gap_ms:Q", title="Longest silence of a stream, ms", **axes.decades(domain)),
            y=alt.Y(
                "longer_percent:Q",
                title="Streams with a silence at least this long, %",
                **axes.numbers((0.0, 100.0), 5),
            ),
            **axes.lines("row", names, palette.ramp(len(names)), legend),
            order="gap_ms:Q",
            tooltip=[
                alt.Tooltip("row:N", title="pair"),
                alt.Tooltip("gap_ms:Q", title="silence, ms", format=",.4~g"),
                alt.Tooltip("longer_percent:Q", title="streams, %", format=",.3~g"),
            ],
        )
    )
    return chart
