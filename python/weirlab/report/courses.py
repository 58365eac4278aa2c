"""Trials whose load or matching position changes: what was sent and forwarded, and the delay, over time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from weirlab.base.quantities import plural
from weirlab.report import axes, palette
from weirlab.report.axes import Domain
from weirlab.report.figure import Figure
from weirlab.report.numbers import duration, percent, rounded
from weirlab.report.vega import alt
from weirlab.store.rows import rate_text
from weirlab.store.steps import StepSeries
from weirlab.traffic.load import describe_rate
from weirlab.traffic.sizes import describe
from weirlab.traffic.spec import LoadStep

SECTION: Final = "course"
MOST: Final = 4
"""Most trials that are drawn."""

_MOST_POINTS: Final = 500
"""More than a screen can show; further bins are put together."""
_SENT: Final = "sent"
_RECEIVED: Final = "forwarded"
_HEIGHT: Final = 200

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TrialCourse:
    """A trial over time, in bins that a screen can show. Shapes (bins + 1,) and (bins,); NaN: no packet."""

    edges_s: F64
    sent_pps: F64
    received_pps: F64
    delay_ns: F64


def course(series: StepSeries) -> TrialCourse:
    """``series`` with as many of its bins put together as needed; rates are those of one trial."""
    edges = series.edges_ns
    starts = np.arange(0, len(series.sent), -(-len(series.sent) // _MOST_POINTS))
    sent, received, total = (
        np.add.reduceat(each, starts)
        for each in (series.sent, series.received, np.nan_to_num(series.delay_mean_ns) * series.received)
    )
    kept = np.append(edges[starts], edges[-1])
    per_s = 1e9 / (np.diff(kept) * len(series.trial_ids))
    delay = np.full(len(sent), np.nan)
    np.divide(total, received, out=delay, where=received > 0)
    return TrialCourse(kept / 1e9, sent * per_s, received * per_s, delay)


def figures(steps: Sequence[StepSeries]) -> tuple[Figure, ...]:
    """Two charts for each of the first of ``steps``, on one axis of time."""
    drawn = [_drawn(number, series) for number, series in enumerate(steps[:MOST])]
    return tuple(figure for pair in drawn for figure in pair)


def left_out(steps: Sequence[StepSeries]) -> str:
    """What is not drawn, in a sentence; empty for nothing."""
    more = len(steps) - MOST
    return f"{plural(more, 'further course')} not drawn: weir export has them." if more > 0 else ""


def _drawn(number: int, series: StepSeries) -> Iterator[Figure]:
    found, traffic = course(series), series.spec.traffic
    what = f"{rate_text(traffic)}; {describe(traffic.sizes)} B"
    panel = f"{series.spec.label}: {what}" if series.spec.label else what
    trials = plural(len(series.trial_ids), "trial")
    of = "mean of " if len(series.trial_ids) > 1 else ""
    caption = f"{of.capitalize()}{trials}, from the start of recording. Dashed: the steps."
    linked = f"{SECTION}-{number}"
    lost = 1.0 - float(series.received.sum() / series.sent.sum())
    load = _loads(found)
    yield Figure(
        f"{linked}-load",
        SECTION,
        panel,
        f"{percent(lost)} of the packets were lost.",
        caption,
        f"Packets per second sent and forwarded over time, in thousands; steps at {_places(traffic.steps)}.",
        _lines(load, found, traffic.steps),
        load,
        linked=linked,
    )
    known = np.isfinite(found.delay_ns)
    if not known.any():
        return
    low, high = float(found.delay_ns[known].min()), float(found.delay_ns[known].max())
    delay = _delays(found)
    yield Figure(
        f"{linked}-delay",
        SECTION,
        panel,
        f"The mean delay was {duration(low)} at its least and {duration(high)} at its most.",
        caption,
        f"Mean delay over time, in microseconds; steps at {_places(traffic.steps)}.",
        _points(delay, found, (low / 1e3, high / 1e3), traffic.steps),
        delay,
        linked=linked,
    )


def _places(steps: Iterable[LoadStep]) -> str:
    return ", ".join(f"{step.at_s:g} s" for step in steps)


def _loads(found: TrialCourse) -> pl.DataFrame:
    """A row for each bin, and one for the end of the last."""
    rows = []
    for name, rates in ((_SENT, found.sent_pps), (_RECEIVED, found.received_pps)):
        rows += [
            {"at_s": rounded(at_s), "series": name, "kpps": rounded(pps / 1e3)}
            for at_s, pps in zip(found.edges_s, [*rates, rates[-1]], strict=True)
        ]
    return pl.DataFrame(rows)


def _delays(found: TrialCourse) -> pl.DataFrame:
    middles = 0.5 * (found.edges_s[:-1] + found.edges_s[1:])
    return pl.DataFrame(
        [
            {"at_s": rounded(at_s), "mean_us": rounded(ns / 1e3)}
            for at_s, ns in zip(middles, found.delay_ns, strict=True)
            if np.isfinite(ns)
        ]
    )


def _lines(frame: pl.DataFrame, found: TrialCourse, steps: Sequence[LoadStep]) -> alt.LayerChart:
    names = [_SENT, _RECEIVED]
    colours = [palette.LIGHT["soft"], palette.LIGHT["model-a"]]
    legend = axes.line_legend()
    most = axes.extent(frame, "kpps")[1] or 1.0
    y = alt.Y("kpps:Q", title="Load, kpps", **axes.numbers((0.0, 1.15 * most), 5))
    lines = (
        alt.Chart(axes.data(frame))
        .mark_line(interpolate="step-after", clip=True, strokeWidth=1.8)
        .encode(
            x=_x(found),
            y=y,
            color=axes.colour("series", names, colours, legend=legend),
            strokeDash=axes.dash("series", names, legend=legend, dashes=palette.dashes(2)[::-1]),
            tooltip=[
                alt.Tooltip("at_s:Q", title="s", format=",.4~g"),
                alt.Tooltip("series:N", title="packets"),
                alt.Tooltip("kpps:Q", title="kpps", format=",.4~g"),
            ],
        )
    )
    return alt.LayerChart(layer=[*_marks(found, steps), lines], **axes.framed(_HEIGHT))


def _points(
    frame: pl.DataFrame, found: TrialCourse, delays: Domain, steps: Sequence[LoadStep]
) -> alt.LayerChart:
    points = (
        alt.Chart(axes.data(frame))
        .mark_point(filled=True, size=14, opacity=0.85, color=palette.LIGHT["model-a"])
        .encode(
            x=_x(found),
            y=alt.Y("mean_us:Q", title="Mean delay, µs", **axes.from_zero(*delays)),
            tooltip=[
                alt.Tooltip("at_s:Q", title="s", format=",.4~g"),
                alt.Tooltip("mean_us:Q", title="mean, µs", format=",.4~g"),
            ],
        )
    )
    return alt.LayerChart(layer=[*_marks(found, steps), points], **axes.framed(_HEIGHT))


def _x(found: TrialCourse) -> alt.X:
    scale = axes.linear((0.0, float(found.edges_s[-1])))
    return alt.X("at_s:Q", title="Time, s", scale=scale, axis=alt.Axis(format=",.4~g", tickCount=8))


def _marks(found: TrialCourse, steps: Sequence[LoadStep]) -> list[alt.Chart]:
    """A dashed line at each step, with what it changes."""
    frame = pl.DataFrame(
        [{"at_s": step.at_s, "step": _change(step)} for step in steps],
        schema={"at_s": pl.Float64, "step": pl.String},
    )
    base = alt.Chart(axes.data(frame)).encode(x=_x(found))
    rules = base.mark_rule(strokeDash=[4, 3], color=palette.LIGHT["soft"])
    texts = base.mark_text(
        align="left",
        baseline="top",
        dx=4,
        fontSize=11,
        font=palette.FONT,
        color=palette.LIGHT["soft"],
        clip=True,
    ).encode(text="step:N", y=alt.value(2))
    return [rules, texts]


def _change(step: LoadStep) -> str:
    parts = [] if step.rate is None else [describe_rate(step.rate)]
    parts += [] if step.position is None else [f"position {step.position}"]
    return ", ".join(parts)
