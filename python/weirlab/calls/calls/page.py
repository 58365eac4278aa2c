"""The page about calls through a device: what each caller heard, and over time, from what a run stores."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.base.errors import InputError
from weirlab.calls.calls.tables import SPOILED, worst
from weirlab.jobs.trials import left_out_ratio, loss
from weirlab.quality.jitterbuffer import USUAL, BufferChoice, Buffers
from weirlab.records import device_in_words
from weirlab.report import axes, palette
from weirlab.report.axes import Domain
from weirlab.report.figure import Figure
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent, plural, rate, rounded, rules
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Pairs, Table, Tile
from weirlab.report.vega import alt
from weirlab.store import Run
from weirlab.store.codec import spec_from_json
from weirlab.traffic.calls.spec import describe

WAYS: Final = ["caller at the sender's side speaks", "caller at the receiver's side speaks"]
_POINTS: Final = 160


def shares(calls: pl.DataFrame, column: str, factor: float = 1.0) -> pl.DataFrame:
    """Per direction the share of callers for whom ``column`` (times ``factor``) is at most each value."""
    frames = []
    for back, way in enumerate(WAYS):
        values = calls.filter((pl.col("back") == bool(back)) & pl.col(column).is_not_null())[column]
        found = np.sort(values.to_numpy() * factor)
        if not len(found):
            continue
        places = np.unique(
            np.round(np.linspace(0, len(found) - 1, min(len(found), _POINTS))).astype(np.int64)
        )
        frames.append(
            pl.DataFrame(
                {
                    "way": way,
                    # From 0 % on, so that callers who are all alike, or one, show as a step.
                    "value": [rounded(float(found[i]), 5) for i in (0, *places)],
                    "percent": [0.0, *(rounded(100.0 * (i + 1) / len(found)) for i in places)],
                }
            )
        )
    return pl.concat(frames) if frames else pl.DataFrame(schema={"way": pl.String, "value": pl.Float64})


def distribution(
    frame: pl.DataFrame, title: str, domain: Domain, *, limit: float | None = None
) -> alt.LayerChart:
    """Share of callers over a quantity; a line per direction."""
    ways = [way for way in WAYS if way in set(frame["way"].to_list())]
    lines = (
        alt.Chart(axes.data(frame))
        .mark_line(interpolate="step-after", clip=True)
        .encode(
            x=alt.X("value:Q", title=title, **axes.numbers(domain, 6)),
            y=alt.Y("percent:Q", title="Callers with at most so much, %", **axes.numbers((0.0, 100.0), 5)),
            **axes.lines("way", ways, palette.models(len(ways)), alt.Legend(columns=1)),
            order=alt.Order("percent:Q"),
            tooltip=[
                alt.Tooltip("way:N", title="direction"),
                alt.Tooltip("value:Q", title=title, format=",.4~g"),
                alt.Tooltip("percent:Q", title="callers, %", format=",.3~g"),
            ],
        )
    )
    dashed = [] if limit is None else [axes.limit("x", "value", limit, axes.linear(domain))]
    return alt.LayerChart(layer=[*dashed, lines], **axes.framed(280))


def over_time(frame: pl.DataFrame, top: float) -> alt.Chart:
    """Mean delay of the packets that departed in each bin, both directions together."""
    chart: alt.Chart = (
        alt.Chart(axes.data(frame), **axes.framed(240))
        .mark_line(strokeWidth=1.3, color=palette.models(1)[0], clip=True)
        .encode(
            x=alt.X(
                "time_s:Q",
                title="Time from the start of recording, s",
                **axes.numbers(axes.extent(frame, "time_s"), 6),
            ),
            y=alt.Y("mean_us:Q", title="Mean delay, µs", **axes.numbers((0.0, top), 4)),
            tooltip=[
                alt.Tooltip("time_s:Q", title="s", format=",.3~f"),
                alt.Tooltip("mean_us:Q", title="mean delay, µs", format=",.4~g"),
                alt.Tooltip("lost:Q", title="lost"),
            ],
        )
    )
    return chart


_POOR: Final = 3.6
_WORST: Final = 20

_TERMS: Final = (
    ("Caller", "One side of a call as heard by the other. A call in both directions has two."),
    (
        "Burst ratio",
        "Mean length of a run of lost packets over what random loss of the same rate would give (G.107).",
    ),
    ("Delay", "One way through the network, from departure to arrival, on one clock."),
)


@dataclass(frozen=True)
class CallsRun:
    """The attempt that counts of a run of kind ``calls``.

    Parameters
    ----------
    manifest:
        The run's, as a mapping.
    trial:
        Its row in the table ``trials``.
    calls, series:
        Its rows of these tables.
        ``calls`` has ``mos`` and ``late`` behind the requested jitter buffer.
    what:
        The calls in words.
    buffer:
        The jitter buffer in words.
    """

    manifest: Mapping[str, Any]
    trial: Mapping[str, Any]
    calls: pl.DataFrame
    series: pl.DataFrame
    what: str
    buffer: str


def tell(heard: CallsRun) -> Story:
    """The page about ``heard``."""
    trial, manifest = heard.trial, heard.manifest
    rated = heard.calls.filter(pl.col("mos").is_not_null())
    device, lab = device_in_words(str(trial["dut"])), str(trial["lab"])
    answer = _answer(rated, heard.calls.height - rated.height)
    lede = [f"{heard.what[:1].upper()}{heard.what[1:]}, through {device} with {rules(trial['position'])}."]
    lost, left_out = loss(trial), left_out_ratio(trial)
    if lost.lost and left_out:
        lede.append(
            f"{percent(lost.ratio)} of the packets were lost; without {percent(left_out)} of the time, which "
            f"the host disturbed, {percent(lost.rest_ratio)}."
        )
    spoiled = "" if trial["valid"] else f"The host spoiled this trial: {trial['invalid']}."
    return Story(
        subject=f"calls through {device}",
        manifest=manifest,
        simulated=lab == "sim",
        answer=SPOILED if spoiled else answer,
        lede=(*lede, *([f"In the spoiled trial: {answer}"] if spoiled else [])),
        caution=spoiled,
        place=place(manifest, lab, device),
        tiles=tuple(_tiles(heard, rated)),
        chapters=(
            Chapter("callers", "From caller to caller", "Callers", figures=tuple(_callers(heard.calls))),
            Chapter("time", "Over time", figures=tuple(_over_time(heard.series))),
            Chapter("worst", "The worst callers", "Worst", tables=tuple(_worst(heard.calls))),
            Chapter("setting", "What was tested", "Setting", facts=_setting(heard)),
        ),
        terms=_TERMS,
    )


def _answer(rated: pl.DataFrame, unknown: int) -> str:
    if not rated.height:
        return "What callers heard was not measured."
    beside = f" For {plural(unknown, 'more caller')} it was not measured." if unknown else ""
    poor = rated.filter(pl.col("mos") < _POOR).height
    middle = float(rated["mos"].to_numpy().mean())
    if poor == 0:
        lowest, _ = axes.extent(rated, "mos")
        who = f"All {count(rated.height)} callers hear" if rated.height > 1 else "The caller hears"
        return f"{who} well: MOS {middle:.2f} on average, {lowest:.2f} at worst.{beside}"
    return (
        f"{plural(poor, 'caller')} of {count(rated.height)} ({percent(poor / rated.height)}) "
        f"{'hears' if poor == 1 else 'hear'} badly (MOS below {_POOR}); the average is {middle:.2f}.{beside}"
    )


def _tiles(heard: CallsRun, rated: pl.DataFrame) -> Iterator[Tile]:
    trial = heard.trial
    median = float(np.median(rated["mos"].to_numpy())) if rated.height else math.nan
    lowest = axes.extent(rated, "mos")[0] if rated.height else math.nan
    yield Tile(
        "MOS of the median caller",
        decimals(median),
        f"worst {decimals(lowest)}" if rated.height else "not measured",
    )
    lost, left_out = loss(trial), left_out_ratio(trial)
    yield Tile(
        "Packets lost",
        "none" if lost.ratio == 0 else percent(lost.ratio),
        f"of {count(lost.sent)}" + (f"; {percent(lost.rest_ratio)} of those undisturbed" if left_out else ""),
    )
    p99 = trial["delay_p99_ns"]
    which = "of those undisturbed" if left_out else "of all packets"
    yield Tile("Delay, 99th percentile", duration(p99), f"{which}, one way")
    yield Tile("Load", rate(trial["achieved_pps"]), "packets that left, both directions together")


def _setting(heard: CallsRun) -> Pairs:
    trial, manifest = heard.trial, heard.manifest
    return [
        ("Calls", heard.what),
        ("Device under test", device_in_words(str(trial["dut"]))),
        ("Rules before the match", rules(trial["position"])),
        ("Connection tracking", "yes" if trial["stateful"] else "no"),
        ("Jitter buffer", heard.buffer),
        ("Recorded", f"{trial['record_s'] + (trial['left_out_s'] or 0.0):g} s"),
        *([("Disturbed by the host", percent(left_out))] if (left_out := left_out_ratio(trial)) else []),
        ("Host", str(manifest.get("host") or NOTHING)),
        ("Kernel", str(manifest.get("kernel") or NOTHING)),
    ]


def _callers(calls: pl.DataFrame) -> Iterator[Figure]:
    for key, column, factor, panel, title, limit in (
        ("mos", "mos", 1.0, "what they hear", "MOS", _POOR),
        ("delay", "delay_mean_ns", 1e-3, "delay", "Mean one-way delay, µs", None),
        ("loss", "loss_percent", 1.0, "loss", "Packets lost, %", None),
        ("jitter", "jitter_ns", 1e-3, "jitter", "Mean jitter, µs", None),
    ):
        known = calls.with_columns(loss_percent=100.0 * pl.col("lost") / pl.col("sent"))
        frame = shares(known, column, factor)
        if not frame.height:
            continue
        low, high = axes.extent(frame, "value")
        if key == "loss" and high == 0:
            continue
        domain = (1.0, 4.6) if key == "mos" else (0.0, max(1.05 * high, 1e-3))
        yield Figure(
            f"calls-{key}",
            "callers",
            panel,
            _said(key, low, high),
            "How to read it: half of the callers have at most the value at 50 %.",
            f"Share of the callers over {title}.",
            distribution(frame, title, domain, limit=limit),
            frame,
        )


def _said(key: str, low: float, high: float) -> str:
    if key == "mos" and f"{low:.2f}" == f"{high:.2f}":
        return f"MOS is {low:.2f} for every caller."
    if key == "mos":
        return f"From MOS {low:.2f} for the worst caller to {high:.2f} for the best."
    if key == "loss":
        return f"The worst caller lost {high:.3g} % of the packets."
    what = "Packets take" if key == "delay" else "Jitter is"
    if duration(low * 1e3) == duration(high * 1e3):
        return f"{what} {duration(low * 1e3)} for every caller."
    return f"{what} {duration(low * 1e3)} to {duration(high * 1e3)}, from caller to caller."


def _over_time(series: pl.DataFrame) -> Iterator[Figure]:
    frame = (
        series.filter(pl.col("delay_mean_ns").is_not_null())
        .sort("start_ns")
        .select(
            time_s=pl.col("start_ns") / 1e9,
            mean_us=(pl.col("delay_mean_ns") / 1e3).round_sig_figs(4),
            lost=pl.col("sent") - pl.col("received"),
        )
    )
    if frame.height < 2:
        return
    # More points than a screen has pixels show nothing more.
    thin = max(frame.height // 600, 1)
    shown = frame.gather_every(thin)
    _, top = axes.extent(shown, "mean_us")
    lost = int(frame["lost"].sum())
    yield Figure(
        "calls-over-time",
        "time",
        "delay of all packets",
        f"{plural(lost, 'packet')} {'was' if lost == 1 else 'were'} lost." if lost else "Nothing was lost.",
        "Mean delay of the packets that departed in each bin of time.",
        "Mean delay over the time of the trial.",
        over_time(shown, 1.1 * top),
        shown,
    )


def _worst(calls: pl.DataFrame) -> Iterator[Table]:
    rated = calls.filter(pl.col("mos").is_not_null()).sort("mos", "call", "back").head(_WORST)
    if not rated.height:
        return
    yield worst(rated.iter_rows(named=True), f"The {plural(rated.height, 'caller')} with the lowest MOS")


def page(run: Run) -> Story:
    """The page about the calls of ``run``."""
    trials = run.trials()
    if not trials.height:
        raise InputError(f"run {run.run_id} was interrupted before its first trial: make the calls again")
    # The last attempt counts, as for every trial.
    trial = trials.row(-1, named=True)
    mine = pl.col("trial_id") == trial["trial_id"]
    calls = spec_from_json(json.loads(trial["spec"])).traffic.calls
    what = "calls" if calls is None else describe(calls)
    buffer = {**run.manifest.section("calls").get("jitter_buffer", {})}
    choice: BufferChoice = buffer.pop("heard", "best")
    return tell(
        CallsRun(
            vars(run.manifest),
            trial,
            _behind(choice, run.calls().filter(mine)),
            run.series().filter(mine),
            what,
            (Buffers(**buffer) if buffer else USUAL).describe(choice),
        )
    )


def _behind(choice: BufferChoice, calls: pl.DataFrame) -> pl.DataFrame:
    """The table with ``mos`` and ``late`` behind the requested buffer."""
    if choice != "best":
        return calls.with_columns(mos=pl.col(f"mos_{choice}"), late=pl.col(f"late_{choice}"))
    fixed = pl.col("mos_fixed") >= pl.col("mos_adaptive")
    return calls.with_columns(late=pl.when(fixed).then("late_fixed").otherwise("late_adaptive"))
