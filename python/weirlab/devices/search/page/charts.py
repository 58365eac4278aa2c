"""The charts: loads that were tried until the bounds met, and RFC 2544 over frame size and load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import polars as pl

from weirlab.measure.search.throughput import Point
from weirlab.report import axes, palette
from weirlab.report.numbers import percent, rounded
from weirlab.report.vega import alt

NO_LOSS: Final = "nothing lost"
MORE: Final = "more lost"
SPOILED: Final = "spoiled by the host"
CARRIED: Final = "carried so far"
TOO_MUCH: Final = "too much so far"
_BOUNDS: Final = [CARRIED, TOO_MUCH]
_NEAR: Final = 0.5
"""In percent: nearer to the result the axis of loads is linear, beyond it is logarithmic."""
_TICKS: Final = (-100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 300)


def outcomes(point: Point) -> list[str]:
    """What a trial can show, in order: one for each loss that a goal lets pass."""
    passed = sorted({found.goal.loss_ratio for found in point.found} - {0.0})
    return [NO_LOSS, *(f"at most {percent(ratio)} lost" for ratio in passed), MORE, SPOILED]


def course(point: Point, trials: pl.DataFrame) -> pl.DataFrame:
    """The search trial by trial: load, outcome, and the bounds of the first goal that follow so far.

    A load is carried so far if no more of its valid trials were bad than the goal lets pass, and too much
    otherwise; the bounds are the highest load carried below the lowest that is too much. ``load_percent`` is
    the load relative to the result.
    """
    found = point.found[0]
    goal = found.goal
    passed = sorted({each.goal.loss_ratio for each in point.found} | {0.0})
    names = outcomes(point)
    reference = found.lower_pps or found.upper_pps or point.max_load_pps
    tried: dict[float, list[bool]] = {}
    rows: list[dict[str, Any]] = []
    for number, trial in enumerate(trials.iter_rows(named=True), 1):
        load, loss = float(trial["offered_pps"]), trial["loss_ratio"]
        if trial["valid"]:
            tried.setdefault(load, []).append(loss > goal.loss_ratio)
            outcome = next((names[i] for i, ratio in enumerate(passed) if loss <= ratio), MORE)
        else:
            outcome = SPOILED
        bad = {each: sum(marks) / len(marks) > goal.exceed_ratio for each, marks in tried.items()}
        upper = min((each for each, is_bad in bad.items() if is_bad), default=None)
        lower = max(
            (e for e, is_bad in bad.items() if not is_bad and (upper is None or e < upper)), default=None
        )
        rows.append(
            {
                "trial": number,
                "load_pps": round(load),
                "load_percent": _beside(load, reference),
                "outcome": outcome,
                "loss_percent": None if loss is None else rounded(100 * loss),
                CARRIED: _beside(lower, reference),
                TOO_MUCH: _beside(upper, reference),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


def _beside(load: float | None, reference: float) -> float | None:
    return None if load is None else rounded(100 * (load / reference - 1), 5)


def search(frame: pl.DataFrame, names: Sequence[str]) -> alt.LayerChart:
    """Offered load over the trials, relative to the result, with both bounds as they close in."""
    low, high = axes.extent(frame, "load_percent")
    shown = [tick for tick in _TICKS if low <= tick <= high]
    x = alt.X("trial:Q", title="Trial", **axes.numbers((0.0, float(frame.height) + 1), 8))
    scale = alt.Scale(
        type="symlog", constant=_NEAR, domain=[min(low * 1.1, -_NEAR), max(high * 1.1, _NEAR)], nice=False
    )
    title = "Offered load relative to the result, %"
    y = alt.Y(
        "load_percent:Q",
        title=title,
        scale=scale,
        axis=alt.Axis(
            values=shown, format="+,~f", labelExpr="datum.value == 0 ? '0' : datum.label", labelOverlap=False
        ),
    )
    known = [name for name in names if name in set(frame["outcome"].to_list())]
    colours = [palette.LIGHT["cpu-user"], *palette.ramp(len(names))[1:-2], palette.LIGHT["cpu-irq"]]
    colour_of = dict(zip(names, [*colours, palette.LIGHT["soft"]], strict=True))
    shape_of = dict(zip(names, [*palette.shapes(len(names) - 1), "cross"], strict=True))
    legend = alt.Legend(columns=2)
    points = (
        alt.Chart(axes.data(frame.select("trial", "load_pps", "load_percent", "outcome", "loss_percent")))
        .mark_point(filled=True, size=46, opacity=0.9, clip=True)
        .encode(
            x=x,
            y=y,
            color=axes.colour("outcome", known, [colour_of[name] for name in known], legend=legend),
            shape=axes.shape("outcome", known, [shape_of[name] for name in known], legend=legend),
            tooltip=[
                alt.Tooltip("trial:Q", title="trial"),
                alt.Tooltip("load_pps:Q", title="offered, pps", format=","),
                alt.Tooltip("loss_percent:Q", title="lost, %", format=",.3~g"),
                alt.Tooltip("outcome:N", title="outcome"),
            ],
        )
    )
    bounds = (
        frame.select("trial", *_BOUNDS)
        .unpivot(index="trial", variable_name="bound", value_name="at")
        .drop_nulls()
    )
    shown_as = alt.Legend(columns=2, symbolType="stroke", symbolSize=300)
    lines = (
        alt.Chart(axes.data(bounds))
        .mark_line(interpolate="step-after", strokeWidth=1.6, clip=True)
        .encode(
            x=x,
            y=alt.Y("at:Q", title=title, scale=scale),
            strokeDash=axes.dash("bound", _BOUNDS, legend=shown_as, dashes=[[1, 0], [5, 3]]),
            color=alt.value(palette.LIGHT["ink"]),
        )
    )
    return alt.LayerChart(layer=[lines, points], **axes.framed(300))


def over_sizes(
    rows: Sequence[Mapping[str, Any]], title: str, *, spread: bool = False, log: bool = False
) -> alt.LayerChart:
    """A quantity over frame size, a line per rule count; rows have ``setup``, ``frame_bytes`` and ``value``,
    and ``low`` and ``high`` where ``spread`` is to be shown."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    setups = list(dict.fromkeys(frame["setup"].to_list()))
    largest = float(max(frame["frame_bytes"].to_list()))
    low, high = axes.extent(frame, *(["low", "high"] if spread else []), "value")
    values = axes.numbers((0.0, 1.08 * high), 5)
    if log:
        values = axes.decades(axes.log_domain(max(low, high / 1e6, 1e-9), high))
    base = alt.Chart(axes.data(frame))
    x = alt.X("frame_bytes:Q", title="Frame size, bytes", **axes.numbers((0.0, 1.05 * largest), 6))
    y = alt.Y("value:Q", title=title, **values)
    colour = axes.setup_colour(setups, "Rules")
    layers: list[alt.Chart] = [base.mark_line(strokeWidth=1.4).encode(x=x, y=y, color=colour)]
    if spread:
        layers.append(
            base.mark_rule(strokeWidth=1.2).encode(
                x=x, y=alt.Y("low:Q", title=title, **values), y2="high:Q", color=colour
            )
        )
    layers.append(
        base.mark_point(filled=True, size=56).encode(
            x=x,
            y=y,
            color=colour,
            shape=axes.setup_shape(setups, "Rules"),
            tooltip=[
                alt.Tooltip("setup:N", title="rules"),
                alt.Tooltip("frame_bytes:Q", title="frame, B", format=","),
                alt.Tooltip("value:Q", title=title, format=",.4~g"),
            ],
        )
    )
    return alt.LayerChart(layer=layers, **axes.framed(280))


def loss(rows: Sequence[Mapping[str, Any]]) -> alt.LayerChart:
    """Frame loss over the load, both in percent, a line per setting (``setup``): section 26.3."""
    frame = pl.DataFrame(list(rows), infer_schema_length=None)
    setups = list(dict.fromkeys(frame["setup"].to_list()))
    base = alt.Chart(axes.data(frame))
    x = alt.X("load_percent:Q", title="Load, % of the maximum", **axes.numbers((0.0, 104.0), 6))
    top = max(axes.extent(frame, "loss_percent")[1] * 1.08, 1.0)
    y = alt.Y("loss_percent:Q", title="Frames lost, %", **axes.numbers((0.0, top), 5))
    colour = axes.setup_colour(setups, "Frames")
    lines = base.mark_line(strokeWidth=1.4).encode(x=x, y=y, color=colour)
    points = base.mark_point(filled=True, size=46).encode(
        x=x,
        y=y,
        color=colour,
        shape=axes.setup_shape(setups, "Frames"),
        tooltip=[
            alt.Tooltip("setup:N", title="frames"),
            alt.Tooltip("load_percent:Q", title="load, %", format=",.4~g"),
            alt.Tooltip("offered_pps:Q", title="offered, pps", format=","),
            alt.Tooltip("loss_percent:Q", title="lost, %", format=",.4~g"),
        ],
    )
    return alt.LayerChart(layer=[lines, points], **axes.framed(280))
