"""Delay around load steps: what trials recorded and what models say, as table, chart and sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.devices.profile.page.source import TRIAL
from weirlab.model.transient.compare import DelayBins, StepError, binned_along, step_errors
from weirlab.model.transient.course import Trajectory, trajectory
from weirlab.model.transient.phases import phases_of
from weirlab.report import axes, palette
from weirlab.report.numbers import duration, percent, rounded
from weirlab.report.vega import alt
from weirlab.store.rows import rate_text
from weirlab.store.steps import StepSeries
from weirlab.traffic.sizes import describe

_BEFORE: Final = 0.25
"""Share of the chart before the step."""
_SETTLINGS: Final = 6.0
"""How many times the time to settle a chart shows, ..."""
_LEAST_BINS: Final = 24
"""... at least this many bins."""
_INK: Final = palette.LIGHT["ink"]
_SCHEMA: Final = {
    "source": pl.String,
    "time_ms": pl.Float64,
    "mean_us": pl.Float64,
    "loss_percent": pl.Float64,
}


@dataclass(frozen=True)
class StepView:
    """One step of one trial with everything to draw it. ``frame`` has the columns of ``_SCHEMA``."""

    what: str
    at_s: float
    frame: pl.DataFrame
    errors: Mapping[str, StepError]

    @property
    def title(self) -> str:
        """How long it takes to settle, and what the models make of it."""
        first = next(iter(self.errors.values()))
        settle = first.settle_ns
        lead = (
            f"After the step the delay settles within {duration(settle)}"
            if np.isfinite(settle)
            else "After the step the delay does not settle"
        )
        said = [
            f"{name} is off by {percent(error.unsettled_mape)} until then"
            for name, error in self.errors.items()
        ]
        return f"{lead}; {', '.join(said)}."


def views(series: StepSeries, models: Mapping[str, Any]) -> list[StepView]:
    """One view per step of ``series`` that some bins follow; none without models."""
    phases = phases_of(series.spec.traffic, series.spec.rules.mean_position)
    courses = {name: trajectory(model, phases) for name, model in models.items()}
    measured = DelayBins(series.delay_mean_ns, series.loss_ratio)
    by_step: dict[float, dict[str, StepError]] = {}
    for name, course in courses.items():
        predicted = binned_along(course, series.edges_ns)
        for error in step_errors(phases, series.start_ns, series.bin_ns, measured, predicted):
            by_step.setdefault(error.at_ns, {})[name] = error
    starts = [step.at_s * 1e9 for step in series.spec.traffic.steps]
    ends = [*starts[1:], series.spec.traffic.duration_s * 1e9]
    setup = f"{describe(series.spec.traffic.sizes)} B frames, position {series.spec.rules.mean_position:g}"
    found = []
    for at_ns, errors in by_step.items():
        i = int(np.argmin(np.abs(np.array(starts) - at_ns)))
        times = [t for e in errors.values() for t in (e.settle_ns, e.predicted_settle_ns) if np.isfinite(t)]
        width = max(_SETTLINGS * max(times, default=np.inf), _LEAST_BINS * series.bin_ns)
        end = min(at_ns + width, ends[i])
        begin = max(at_ns - _BEFORE * (end - at_ns), starts[i - 1] if i else 0.0)
        frame = _table(series, courses, at_ns, begin, end)
        found.append(StepView(f"{rate_text(series.spec.traffic)}; {setup}", at_ns / 1e9, frame, errors))
    return found


def chart(frame: pl.DataFrame) -> alt.LayerChart:
    """Mean delay over the time from the step: a point per bin, a line per model.

    The axis of the delay is logarithmic where it spans much.
    """
    names = [s for s in frame["source"].unique(maintain_order=True).to_list() if s != TRIAL]
    x = alt.X("time_ms:Q", title="Time from the step, ms", **axes.numbers(axes.extent(frame, "time_ms"), 8))
    y = alt.Y("mean_us:Q", title="Mean delay, µs", **axes.from_zero(*axes.extent(frame, "mean_us")))
    base = alt.Chart(axes.data(frame))
    points = (
        base.transform_filter(f"datum.source === '{TRIAL}'")
        .mark_point(filled=True, size=30, opacity=0.85, color=_INK)
        .encode(
            x=x,
            y=y,
            tooltip=[
                alt.Tooltip("time_ms:Q", title="ms from the step", format=",.4~g"),
                alt.Tooltip("mean_us:Q", title="mean, µs", format=",.4~g"),
                alt.Tooltip("loss_percent:Q", title="loss, %", format=",.3~g"),
            ],
        )
    )
    lines = base.transform_filter(f"datum.source !== '{TRIAL}'").mark_line(clip=True)
    order = alt.Order("time_ms:Q")
    drawn = lines.encode(x=x, y=y, **axes.model_lines(names), order=order)
    return alt.LayerChart(layer=[drawn, points], **axes.framed(300))


def _table(
    series: StepSeries, courses: Mapping[str, Trajectory], at_ns: float, begin_ns: float, end_ns: float
) -> pl.DataFrame:
    edges = series.edges_ns
    middle = 0.5 * (edges[:-1] + edges[1:])
    rows: list[dict[str, Any]] = [
        {
            "source": TRIAL,
            "time_ms": rounded((middle[i] - at_ns) / 1e6),
            "mean_us": rounded(series.delay_mean_ns[i] / 1e3),
            "loss_percent": rounded(series.loss_ratio[i] * 100),
        }
        for i in np.flatnonzero((middle >= begin_ns) & (middle <= end_ns))
    ]
    for name, course in courses.items():
        instants = course.instants_ns
        shown = np.unique(
            np.concatenate([instants[(instants >= begin_ns) & (instants <= end_ns)], [begin_ns, end_ns]])
        )
        # The jump itself and its neighbourhood, thinned to what a chart can show.
        keep = np.unique(np.round(np.linspace(0, len(shown) - 1, min(len(shown), 400))).astype(np.intp))
        found = course.at(shown[keep])
        rows += [
            {
                "source": name,
                "time_ms": (t - at_ns) / 1e6,
                "mean_us": rounded(mean / 1e3),
                "loss_percent": rounded(loss * 100),
            }
            for t, mean, loss in zip(found.at_ns, found.delay_mean_ns, found.loss_ratio, strict=True)
        ]
    return pl.DataFrame(rows, schema=_SCHEMA)
