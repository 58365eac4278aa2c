"""The charts, drawn from the tables of ``curves``; no numbers are made up here.

Every chart takes the width of its container and carries its own data, so that the same
definition serves page, SVG and PNG. ``quantity`` (median, 99th percentile, mean) is a
parameter of the delay charts; the page offers a switch for it, a static export shows the
median.
"""

from __future__ import annotations

from typing import Any, Final

import polars as pl

from weirlab.devices.profile.page.curves import banded
from weirlab.devices.profile.page.source import TRIAL, VariedSetting
from weirlab.report import axes, palette
from weirlab.report.axes import QUANTITIES, QUANTITY, Domain
from weirlab.report.vega import alt

_OF_TRIALS: Final = f"datum.source === '{TRIAL}'"
_OF_MODELS: Final = f"datum.source !== '{TRIAL}'"
_LOAD: Final = "Offered load, kpps"
_DELAYS: Final = tuple(f"{key}_us" for key in QUANTITIES)
_INK: Final = palette.LIGHT["ink"]
_BAND_OPACITY: Final = 0.1
_POINT_OPACITY: Final = 0.85


def over_load(
    frame: pl.DataFrame, x_domain: Domain, y_domain: Domain, varied: VariedSetting, *, loss: bool = False
) -> alt.LayerChart:
    """Delay (log axis), or with ``loss`` the loss ratio, over offered load; a colour per setting.

    The load is a share of the threshold if ``frame`` has it, so that the settings lie on each other.
    """
    columns = ("loss_percent",) if loss else _DELAYS
    settings = frame.unique("setup", maintain_order=True).sort("position", maintain_order=True)
    setups, names = settings["setup"].to_list(), _models(frame)
    model = banded(frame)
    ends = [f"{name}_{end}" for name in columns for end in ("low", "high")] if model else []
    loads = [name for name in ("load_percent", "load_kpps") if name in frame.columns]
    base = alt.Chart(axes.data(frame.select("source", "setup", *loads, *columns, *ends)))
    if not loss:
        base = base.transform_calculate(
            shown=f"datum[{QUANTITY} + '_us']",
            low=f"datum[{QUANTITY} + '_us_low']",
            high=f"datum[{QUANTITY} + '_us_high']",
        )
    across = "Offered load, % of the threshold" if len(loads) > 1 else _LOAD
    # Points beyond the end of the axis are data, too.
    clip = True if len(loads) > 1 else alt.Undefined
    x = alt.X(f"{loads[0]}:Q", title=across, **axes.numbers(x_domain, 6))
    up: dict[str, Any] = {"title": "Frame loss ratio, %", **axes.numbers(y_domain, 5)}
    if not loss:
        up = {"title": "One-way delay, µs", **axes.decades(y_domain)}
    y = alt.Y("loss_percent:Q" if loss else "shown:Q", **up)
    legend = f"{varied.legend} (points: trials)"
    colour = axes.setup_colour(setups, legend)
    points = (
        base.transform_filter(_OF_TRIALS)
        .mark_point(filled=True, size=42, opacity=_POINT_OPACITY, clip=clip)
        .encode(
            x=x,
            y=y,
            color=colour,
            shape=axes.setup_shape(setups, legend),
            tooltip=[
                alt.Tooltip("setup:N", title=varied.name),
                *(_tip(name, _TIPS[name]) for name in (*loads, *columns)),
            ],
        )
    )
    layers = [points]
    if names:
        lines = base.transform_filter(_OF_MODELS).mark_line(clip=True)
        dash = axes.model_lines(names)["strokeDash"]
        layers.insert(0, lines.encode(x=x, y=y, color=colour, strokeDash=dash))
    if model:
        low, high = ("loss_percent_low", "loss_percent_high") if loss else ("low", "high")
        of_model = base.transform_filter(f"datum.source === '{model}'")
        ends_of = [alt.Y(f"{end}:Q", **up) for end in (low, high)]
        # Where bands overlap, their edges still tell them apart.
        edges = of_model.mark_line(clip=True, strokeWidth=0.7)
        layers[:0] = [edges.encode(x=x, y=end, color=colour) for end in ends_of]
        band = of_model.mark_area(clip=True, line=False, opacity=1, fillOpacity=_BAND_OPACITY)
        layers.insert(0, band.encode(x=x, y=ends_of[0], y2=f"{high}:Q", color=colour))
    chart = alt.LayerChart(layer=layers, **axes.framed(320))
    return chart if loss else chart.add_params(axes.quantity())


def threshold(frame: pl.DataFrame, y_domain: Domain, varied: VariedSetting) -> alt.LayerChart:
    """Threshold over what varied: trials with their spread, held out marked, a line per model."""
    names = _models(frame)
    kinds = [kind for kind in ("profiled", "held out") if kind in set(frame["kind"].to_list())]
    frame = frame.with_columns(position=varied.shown(pl.col("position")))
    base = alt.Chart(axes.data(frame))
    least, most = axes.extent(frame, "position")
    x = alt.X("position:Q", title=varied.title, **axes.numbers((least, max(most, least + 1.0)), 6))
    scale = axes.linear(y_domain, nice=True)
    y = alt.Y("threshold_kpps:Q", title="Threshold, kpps", axis=axes.number_axis(5), scale=scale)
    points = base.transform_filter(_OF_TRIALS)
    spread = points.mark_rule(strokeWidth=1.5, color=_INK).encode(
        x=x, y=alt.Y("low_kpps:Q"), y2=alt.Y2("high_kpps:Q")
    )
    told = "datum.label === 'held out' ? 'trials held out (no model has seen them)' : 'trials of the profile'"
    legend = alt.Legend(labelExpr=told, symbolFillColor=_INK, symbolSize=90, columns=1)
    shapes = ["circle" if kind == "profiled" else "diamond" for kind in kinds]
    marks = points.mark_point(filled=True, opacity=1, color=_INK).encode(
        x=x,
        y=y,
        size=alt.condition("datum.kind === 'profiled'", alt.value(70), alt.value(150)),
        shape=axes.shape("kind", kinds, shapes, legend=legend),
        tooltip=[
            _tip("position", f"{varied.name}, %" if varied.percents else varied.name),
            _tip("threshold_kpps", "threshold, kpps"),
            _tip("low_kpps", "lowest, kpps"),
            _tip("high_kpps", "highest, kpps"),
            _tip("trials", "trials in overload"),
        ],
    )
    layers = [spread, marks]
    if names:
        lines = base.transform_filter(_OF_MODELS).mark_line(clip=True)
        layers.insert(0, lines.encode(x=x, y=y, **axes.model_lines(names)))
    return alt.LayerChart(layer=layers, **axes.framed(340))


def scatter(
    frame: pl.DataFrame, observed: str, domain: Domain, varied: VariedSetting, *, loss: bool = False
) -> alt.LayerChart:
    """Predicted over ``observed`` (``measured`` or ``simulated``) with the diagonal; a colour per model."""
    names = frame["model"].unique(maintain_order=True).to_list()
    fields = [
        f"{side}_{c}" for side in ("trial", "predicted") for c in (("loss_percent",) if loss else _DELAYS)
    ]
    base = alt.Chart(axes.data(frame.select("model", "setup", "panel", "held_out", "load_kpps", *fields)))
    if loss:
        across, up, what = "trial_loss_percent", "predicted_loss_percent", "loss ratio, %"
        scale, axis = alt.Scale(domain=list(domain), nice=False, clamp=True), axes.number_axis(5, grid=True)
    else:
        across, up, what = "trial", "predicted", "delay, µs"
        scale, axis = axes.log(domain, clamp=True), axes.log_axis(domain)
        base = base.transform_calculate(
            trial=f"datum['trial_' + {QUANTITY} + '_us']",
            predicted=f"datum['predicted_' + {QUANTITY} + '_us']",
        )
    x = alt.X(f"{across}:Q", title=f"{observed.capitalize()} {what}", scale=scale, axis=axis)
    y = alt.Y(f"{up}:Q", title=f"Predicted {what}", scale=scale, axis=axis)
    ends = alt.Chart(alt.InlineData(values=[{across: end, up: end} for end in domain]))
    diagonal = ends.mark_line(strokeWidth=1.2, color=palette.LIGHT["soft"]).encode(x=x, y=y)
    line, legend = f"Line: predicted = {observed}", alt.Legend(labelExpr="datum.label + ' model'")
    points = base.mark_point(filled=True, size=54, opacity=0.85, clip=True).encode(
        x=x,
        y=y,
        color=axes.colour("model", names, palette.models(len(names)), line, legend),
        shape=axes.shape("model", names, title=line, legend=legend),
        tooltip=[
            alt.Tooltip("model:N"),
            alt.Tooltip("setup:N", title=varied.name),
            alt.Tooltip("panel:N", title="size"),
            alt.Tooltip("held_out:N", title="held out"),
            _tip("load_kpps", "load, kpps"),
            _tip(across, f"{observed} {what}"),
            _tip(up, f"predicted {what}"),
        ],
    )
    chart = alt.LayerChart(layer=[diagonal, points], **axes.framed(340))
    return chart if loss else chart.add_params(axes.quantity())


def distribution(frame: pl.DataFrame, x_domain: Domain, lowest_percent: float) -> alt.Chart:
    """Share of packets slower than a delay, on two log axes; a colour and dash per load."""
    loads = frame.sort("order")["load"].unique(maintain_order=True).to_list()
    shares = alt.Axis(format="~r", values=[v for v in (100, 10, 1, 0.1, 0.01, 0.001) if v >= lowest_percent])
    legend = alt.Legend(columns=1, symbolType="stroke", symbolSize=300)
    base = alt.Chart(axes.data(frame.select("load", "delay_us", "slower_percent")), **axes.framed(300))
    chart: alt.Chart = base.mark_line(interpolate="step-after", clip=True, strokeWidth=2.2).encode(
        x=alt.X("delay_us:Q", title="One-way delay, µs", **axes.decades(x_domain, grid=False)),
        y=alt.Y(
            "slower_percent:Q",
            title="Packets slower than this, %",
            scale=axes.log((lowest_percent, 100.0)),
            axis=shares,
        ),
        color=axes.colour("load", loads, palette.ramp(len(loads)), "Offered load", legend),
        strokeDash=axes.dash("load", loads, "Offered load", legend),
        order=alt.Order("slower_percent:Q", sort="descending"),
    )
    return chart


def cpu_states(frame: pl.DataFrame) -> alt.Chart:
    """Stacked shares of CPU time on the device's core, a bar per load."""
    states = frame.sort("order")["state"].unique(maintain_order=True).to_list()
    ordered = frame.sort("load_kpps")
    labelled = ordered.with_columns(load=pl.Series([_load_label(v) for v in ordered["load_kpps"]]))
    loads = labelled["load"].unique(maintain_order=True).to_list()
    legend = alt.Legend(symbolType="square", symbolStrokeWidth=0, symbolSize=110, columns=4)
    base = alt.Chart(axes.data(labelled), **axes.framed(280))
    chart: alt.Chart = base.mark_bar(stroke=palette.LIGHT["paper"], strokeWidth=0.8).encode(
        x=alt.X(
            "load:O",
            sort=loads,
            title=_LOAD,
            scale=alt.Scale(paddingInner=0.12, paddingOuter=0.06),
            axis=alt.Axis(labelAngle=0),
        ),
        y=alt.Y(
            "share_percent:Q",
            title="CPU time on the device's core, %",
            stack="zero",
            scale=alt.Scale(domain=[0, 100], nice=False, clamp=True),
            axis=axes.number_axis(5),
        ),
        color=axes.colour("state", states, palette.cpu(states), legend=legend),
        order=alt.Order("order:Q"),
        tooltip=[
            alt.Tooltip("load:O", title="load, kpps"),
            alt.Tooltip("state:N"),
            alt.Tooltip("share_percent:Q", title="share, %", format=".1f"),
        ],
    )
    return chart


_TIPS: Final = {f"{key}_us": f"{label.lower()}, µs" for key, label in QUANTITIES.items()} | {
    "load_kpps": "load, kpps",
    "load_percent": "of the threshold, %",
    "loss_percent": "loss, %",
}


def _models(frame: pl.DataFrame) -> list[str]:
    return [source for source in frame["source"].unique(maintain_order=True).to_list() if source != TRIAL]


def _tip(field: str, title: str) -> alt.Tooltip:
    return alt.Tooltip(f"{field}:Q", title=title, format=",.4~g")


def _load_label(kpps: float) -> str:
    return f"{kpps:,.3g}" if kpps < 100 else f"{kpps:,.0f}"
