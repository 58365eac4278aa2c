"""The figures of the page, with titles that say what they show."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import polars as pl

from weirlab.links.monitor.compare import Cost, MonitorGroup
from weirlab.links.monitor.plan import CUT_BYTES, RECORDING, WORDS
from weirlab.links.monitor.tables import (
    METHODS,
    PLACES,
    MonitorEvidence,
    cost_name,
    load_words,
    published_losses,
    reference,
    when,
)
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import percent, rounded, words
from weirlab.report.vega import alt

_LEAST_PERCENT: Final = 0.001
"""Below, the axis of losses is linear down to 0."""
_TICKS: Final = (0, 0.001, 0.01, 0.1, 1, 10, 100)
_PUBLISHED: Final = "published, other hardware"

KEPT: Final = "arrived or logged"
UNKNOWN: Final = "in no count"
_FATES: Final = (KEPT, *PLACES.values(), UNKNOWN)
FATE_COLOURS: Final = dict(
    zip(
        _FATES,
        (
            "cpu-user", "cpu-iowait", "cpu-softirq", "cpu-steal", "cpu-irq", "cpu-nice", "cpu-idle",
            "cpu-system", "ink", "ramp-3",
        ),
        strict=True,
    )
)  # fmt: skip
"""Names in the palette."""


def loss_rows(groups: Sequence[MonitorGroup], column: str, *, published: bool) -> pl.DataFrame:
    """Per recording method and payload the median share that is not in the record, in percent."""
    rows: list[dict[str, Any]] = []
    for group in groups:
        if group.method not in RECORDING or getattr(group, column) is None:
            continue
        low, high = group.logged_loss_range if column == "logged_loss_ratio" else (None, None)
        rows.append(
            {
                "what": METHODS[group.method],
                "payload": group.payload_bytes,
                "loss_percent": _percent(getattr(group, column)),
                "low_percent": _percent(low),
                "high_percent": _percent(high),
                "runs": group.runs,
            }
        )
    if published:
        rows += [
            {
                "what": _PUBLISHED,
                "payload": one.payload_bytes,
                "loss_percent": _percent(one.loss_ratio),
                "low_percent": None,
                "high_percent": None,
                "runs": reference().settings["runs"],
            }
            for one in published_losses()
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


def loss(frame: pl.DataFrame, title: str) -> alt.LayerChart:
    """Loss (logarithmic, and linear around 0) over payload size; a line per method."""
    names = [name for name in (*METHODS.values(), _PUBLISHED) if name in set(frame["what"].to_list())]
    base = alt.Chart(axes.data(frame))
    x = alt.X(
        "payload:Q",
        title="UDP payload, bytes",
        scale=axes.linear((0.0, 1.04 * float(frame["payload"].max() or 1.0))),  # type: ignore[arg-type]
        axis=axes.number_axis(4),
    )
    scale = alt.Scale(type="symlog", constant=_LEAST_PERCENT, domain=[0, 100], nice=False)
    axis = alt.Axis(values=list(_TICKS), format=",.3~f", labelOverlap=False)
    y = alt.Y("loss_percent:Q", title=title, scale=scale, axis=axis)
    legend = alt.Legend(columns=1, symbolOpacity=1)
    colour = axes.colour("what", names, _colours(names), legend=legend)
    shape = axes.shape("what", names, legend=legend)
    tooltip = [
        alt.Tooltip("what:N", title="method"),
        alt.Tooltip("payload:Q", title="payload, B"),
        alt.Tooltip("loss_percent:Q", title="lost, %", format=",.4~g"),
        alt.Tooltip("low_percent:Q", title="least run, %", format=",.4~g"),
        alt.Tooltip("high_percent:Q", title="greatest run, %", format=",.4~g"),
        alt.Tooltip("runs:Q", title="runs"),
    ]
    lines = (
        base.transform_filter(f"datum.what != '{_PUBLISHED}'")
        .mark_line(clip=True, strokeWidth=1.4)
        .encode(x=x, y=y, color=colour, order="payload:Q")
    )
    spread = (
        base.transform_filter("isValid(datum.low_percent)")
        .mark_rule(strokeWidth=1.2)
        .encode(x=x, y=alt.Y("low_percent:Q", scale=scale, axis=axis), y2="high_percent:Q", color=colour)
    )
    points = base.mark_point(filled=True, size=60, opacity=0.9).encode(
        x=x, y=y, color=colour, shape=shape, tooltip=tooltip
    )
    return alt.LayerChart(layer=[lines, spread, points], **axes.framed(300))


def _colours(names: Sequence[str]) -> list[str]:
    measured = [name for name in names if name != _PUBLISHED]
    ramp = palette.ramp(len(measured))
    return [palette.LIGHT["soft"] if name == _PUBLISHED else ramp[measured.index(name)] for name in names]


def fate_rows(groups: Sequence[MonitorGroup]) -> pl.DataFrame:
    """Per group, in percent of the frames sent, where they ended as far as its record is concerned.

    What arrived or was logged is counted there, not what the losses leave; what is in no count is told.
    """
    rows: list[dict[str, Any]] = []
    for group in groups:
        places = _places(group.method)
        lost = {place: 100 * group.lost_at[place] for place in places}
        kept = 100 * group.kept_ratio
        shares = {KEPT: kept, **{PLACES[place]: share for place, share in lost.items()}}
        shares[UNKNOWN] = max(rounded(100 - sum(shares.values())) or 0.0, 0.0)
        rows += [
            {
                "row": f"{METHODS[group.method]}, {group.payload_bytes} B",
                "fate": fate,
                "order": _FATES.index(fate),
                "percent": rounded(share),
            }
            for fate, share in shares.items()
        ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _places(method: str) -> tuple[str, ...]:
    """Places on the way from the sender to the record; to the receiver where nobody records."""
    if method not in RECORDING:
        return ("before", "bridge", "behind")
    if method == "tcpdump-receiver":
        return ("before", "bridge", "behind", "socket", "disk")
    return ("before", "ring", "mirror", "logger", "socket", "disk")


def fates(frame: pl.DataFrame) -> alt.LayerChart:
    """A bar per method and payload, divided by where frames ended."""
    names = frame["row"].unique(maintain_order=True).to_list()
    seen = set(frame.filter(pl.col("percent") > 0)["fate"].to_list())
    shown = [fate for fate in _FATES if fate in seen]
    colours = [palette.LIGHT[FATE_COLOURS[fate]] for fate in shown]
    base = alt.Chart(axes.data(frame.filter(pl.col("fate").is_in(shown))))
    y = axes.rows(names)
    bars = base.mark_bar(height=14, yOffset=10, stroke=palette.LIGHT["paper"], strokeWidth=0.8).encode(
        x=alt.X("percent:Q", title="Frames sent, %", stack="zero", **axes.numbers((0.0, 100.0), 5)),
        y=y,
        color=axes.colour("fate", shown, colours, legend=alt.Legend(columns=1)),
        order="order:Q",
        tooltip=[
            alt.Tooltip("row:N", title="method"),
            alt.Tooltip("fate:N", title="fate"),
            alt.Tooltip("percent:Q", title="of the frames sent, %", format=",.4~g"),
        ],
    )
    return alt.LayerChart(layer=[bars, axes.row_names(base, y)], **axes.framed(axes.ROW * len(names)))


def cost_rows(costs: Sequence[Cost]) -> pl.DataFrame:
    """Per method and payload the rate that reached the far end, with copies and without."""
    rows = []
    for cost in costs:
        row = f"{cost_name(cost)}: {100 * cost.ratio:.3g} %"
        for what, pps in (("with copies", cost.with_pps), ("without", cost.without_pps)):
            rows.append({"row": row, "what": what, "kpps": rounded(pps / 1e3), "runs": cost.runs})
    return pl.DataFrame(rows, infer_schema_length=None)


def link_rates(frame: pl.DataFrame, when: str) -> alt.LayerChart:
    """A row per method and payload: two points, which show what copying takes from the link."""
    names = frame["row"].unique(maintain_order=True).to_list()
    whats = ["with copies", "without"]
    base = alt.Chart(axes.data(frame))
    y = axes.rows(names)
    x = alt.X(
        "kpps:Q",
        title=f"Frames at the far end {when}, kpps",
        scale=axes.linear((0.0, 1.06 * float(frame["kpps"].max() or 1.0))),  # type: ignore[arg-type]
        axis=axes.number_axis(5),
    )
    points = base.mark_point(filled=True, size=80, yOffset=10).encode(
        x=x,
        y=y,
        color=axes.colour("what", whats, palette.models(2)),
        shape=axes.shape("what", whats, ["circle", "diamond"]),
        tooltip=[
            alt.Tooltip("row:N", title="method"),
            alt.Tooltip("what:N", title="copies"),
            alt.Tooltip("kpps:Q", title="kpps", format=",.4~g"),
            alt.Tooltip("runs:Q", title="runs"),
        ],
    )
    return alt.LayerChart(layer=[points, axes.row_names(base, y)], **axes.framed(axes.ROW * len(names)))


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else rounded(100 * max(ratio, 0.0))


def losses(evidence: MonitorEvidence) -> Iterator[Figure]:
    """What is not in the records, over the payload size."""
    for load in evidence.loads:
        groups = evidence.groups_at(load)
        columns = [("logged_loss_ratio", "Not logged, % of the frames sent")]
        if load == "max":
            columns.append(("record_loss_ratio", "Missed, % of what reached the record"))
        for column, axis in columns:
            of_sent = column == "logged_loss_ratio"
            frame = loss_rows(
                groups,
                column,
                published=of_sent and load in ("max", f"{reference().settings['link_mbit_s']}Mbps"),
            )
            if not frame.height or "payload" not in frame.columns:
                continue
            yield Figure(
                f"monitor-loss-{_key(load)}{'' if of_sent else '-by'}",
                "loss",
                f"sent {load_words(load)}{'' if of_sent else ', of the frames that reached the record'}",
                _loss_title(groups, column, load),
                f"Medians over the runs{', bars from the least to the greatest' if of_sent else ''}. "
                "The axis is logarithmic down to 0.001 %, and linear from there to 0.",
                f"Share of frames that are not in the record over payload size, sent {load_words(load)}.",
                loss(frame, axis),
                frame,
            )


def _loss_title(groups: list[MonitorGroup], column: str, load: str) -> str:
    worst: dict[str, float] = {}
    for group in groups:
        ratio = float(getattr(group, column))
        if group.method in RECORDING and math.isfinite(ratio):
            worst[group.method] = max(worst.get(group.method, 0.0), ratio)
    clean = [WORDS[method] for method, value in worst.items() if value <= 0]
    lossy = {method: value for method, value in worst.items() if value > 0}
    if not lossy:
        return "Every frame is in every record (median run)."
    most = max(lossy, key=lambda method: lossy[method])
    told = f"{WORDS[most]} misses up to {percent(lossy[most])} {when(load)}"
    told = told[0].upper() + told[1:]
    return f"{told}; {words(clean)} miss{'es' * (len(clean) == 1)} nothing." if clean else f"{told}."


def where(evidence: MonitorEvidence) -> Iterator[Figure]:
    """Where frames were lost, per method."""
    for load in evidence.loads:
        groups = evidence.groups_at(load)
        payloads = sorted({group.payload_bytes for group in groups})
        shown = [group for group in groups if group.payload_bytes in (payloads[0], payloads[-1])]
        frame = fate_rows(shown)
        if not frame.height:
            continue
        yield Figure(
            f"monitor-where-{_key(load)}",
            "where",
            f"sent {load_words(load)}",
            _where_title(frame, load),
            "Of all frames sent in all runs, with the smallest and the largest payload: how many are in the "
            "record's files (without a recorder: how many arrived), and where the others were lost.",
            f"Where frames were lost, per method, sent {load_words(load)}.",
            fates(frame),
            frame,
        )


def _where_title(frame: pl.DataFrame, load: str) -> str:
    lost = frame.filter((pl.col("order") > 0) & (pl.col("percent") > 0)).sort("percent", descending=True)
    if not lost.height:
        return f"Nothing was lost anywhere {when(load)}."
    worst = lost.row(0, named=True)
    return f"Most frames are lost here: {worst['fate']} ({worst['row']}, {percent(worst['percent'] / 100)})."


def costs(evidence: MonitorEvidence) -> Iterator[Figure]:
    """What copying costs the link; nothing where that was not measured."""
    if not evidence.costs:
        return
    frame = cost_rows(evidence.costs)
    worst = min(evidence.costs, key=lambda cost: cost.ratio)
    overload = all(cost.overload for cost in evidence.costs)
    yield Figure(
        "monitor-cost",
        "cost",
        "the link in overload" if overload else "sent as fast as possible",
        f"The most expensive copies leave the link {percent(worst.ratio, 3)} of its rate "
        f"({cost_name(worst)}).",
        "Medians over runs with and without copies in turn. Where the recorder shares the bridge's CPU, its "
        "work is part of the cost." + _doubts(evidence),
        "Rate at the far end with copies and without, per method and payload.",
        link_rates(frame, "in overload" if overload else "when sent as fast as possible"),
        frame,
    )


def _doubts(evidence: MonitorEvidence) -> str:
    """Why a cost may be too low."""
    said = ""
    least = min((cost.logged_ratio for cost in evidence.costs), default=1.0)
    if least < 0.999:
        said += (
            f" At worst, {percent(least, 3)} of the frames that reached the record are in it: a copy that "
            "finds no room costs less."
        )
    most = max((cost.cut_ratio for cost in evidence.costs), default=0.0)
    if most > 0:
        said += (
            f" The link comes first: when the bridge had no time left, it cut copies to {CUT_BYTES} bytes "
            f"(of at most {percent(most, 3)} of the frames). Whole copies are never cut."
        )
    if not all(cost.overload for cost in evidence.costs):
        said += " Where a bridge was not in overload, the sender set the limit."
    return said


def _key(load: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in load).strip("-").lower()
