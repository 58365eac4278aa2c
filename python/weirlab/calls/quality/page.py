"""The page of ``weir quality``: how the voice streams of a capture were heard."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from weirlab.base import files
from weirlab.calls.quality import tables, wording
from weirlab.calls.quality.finding import COMPLAINTS
from weirlab.calls.quality.study import QualityOutcome
from weirlab.quality.distribution import SATISFIED
from weirlab.report import axes, palette
from weirlab.report.axes import Domain
from weirlab.report.figure import Figure
from weirlab.report.numbers import NOTHING, count, decimals, duration, percent, plural
from weirlab.report.story import Chapter, PageOrigin, Story
from weirlab.report.tables import Pairs, Table, Tile
from weirlab.report.vega import alt
from weirlab.trace import quantities
from weirlab.trace.quantities import utc_date

NAMED: Final = 16
"""Up to this many streams have a row each, with their name."""
OTHERS: Final = "other codecs"
_COLOURS: Final = 3


def codecs(streams: pl.DataFrame) -> list[str]:
    """The codecs of most streams, so many as there are colours to tell apart, then the rest as one."""
    by_size = streams["codec"].value_counts(sort=True)["codec"].to_list()
    return by_size if len(by_size) <= _COLOURS else [*by_size[: _COLOURS - 1], OTHERS]


def over_streams(
    frame: pl.DataFrame, title: str, domain: Domain, kinds: list[str], *, limit: float | None = None
) -> alt.LayerChart:
    """``value`` of every stream of ``frame``; a dashed line at ``limit``."""
    scale = axes.linear(domain)
    value = alt.Axis(format=",~g", tickCount=6)
    base, marked = alt.Chart(axes.data(frame)), _marked(kinds, title)
    if frame.height <= NAMED:
        names = frame["row"].to_list()
        y = axes.rows(names)
        line = base.mark_rule(color=palette.LIGHT["soft"], strokeWidth=1, yOffset=10).encode(
            y=y, x=alt.X("floor:Q", title=title, scale=scale, axis=value), x2="value:Q"
        )
        x = alt.X("value:Q", title=title, scale=scale, axis=value)
        dots = base.mark_point(size=70, opacity=1, yOffset=10).encode(y=y, x=x, **marked)
        layers = [line, axes.row_names(base, y), dots]
        height = axes.ROW * len(names)
    else:
        times = axes.linear((0.0, float(axes.extent(frame, "end_s")[1])))
        begin = alt.X("begin_s:Q", title="Time in the capture, s", scale=times, axis=axes.number_axis(6))
        height_of = alt.Y("value:Q", title=title, scale=scale, axis=value)
        layers = [
            base.mark_rule(strokeWidth=1.2).encode(
                x=begin, x2="end_s:Q", y=height_of, color=marked["color"], tooltip=marked["tooltip"]
            ),
            base.mark_point(size=34, opacity=0.9).encode(x=begin, y=height_of, **marked),
        ]
        height = 300
    if limit is not None:
        layers.insert(0, axes.limit("x" if frame.height <= NAMED else "y", "limit", limit, scale))
    return alt.LayerChart(layer=layers, **axes.framed(height))


def _marked(kinds: list[str], title: str) -> dict[str, alt.SchemaBase | list[alt.Tooltip]]:
    """Colour and shape by codec, and what pointing at a mark tells."""
    legend = alt.Legend(symbolOpacity=1)
    return {
        "color": axes.colour("kind", kinds, palette.models(len(kinds)), "Codec", legend),
        "shape": axes.shape("kind", kinds, title="Codec", legend=legend),
        "tooltip": [
            alt.Tooltip("stream:Q", title="stream"),
            alt.Tooltip("ends:N", title="from > to"),
            alt.Tooltip("codec:N", title="codec"),
            alt.Tooltip("value:Q", title=title, format=",.4~g"),
        ],
    }


_DRAWN: Final = 2_000
_LISTED: Final = 200
_TERMS: Final = (
    (
        "Lost",
        "Sequence numbers of a stream, from first to last, that never came. ~: estimated from time stamps, "
        "where speech that was suppressed as silence counts as lost (IAX2).",
    ),
    ("Late", "Packets that came after the jitter buffer wanted to play them; heard as lost."),
    (
        "Delay p95",
        "95 % of the packets were delayed by at most this much more than the stream's fastest packet. A "
        "capture does not show the delay of that one.",
    ),
    ("Longest gap", "Between two arrivals of a stream, silences included."),
)


@dataclass(frozen=True)
class StreamAssessment:
    """The streams of a capture, and how they were heard.

    Parameters
    ----------
    name:
        Of the capture file.
    date:
        Of its first packet, ``2026-11-22``, UTC.
    streams:
        A row per stream, the worst first: ``stream``, ``ends``, ``source``, ``codec``, ``packets``,
        ``begin_s``, ``end_s``, ``mos``, ``r``, ``lost``, ``loss_ratio``, ``loss_estimated``, ``causes``,
        ``lost_beyond`` (share), ``longest_run``, ``late``, ``copies``, ``reordered``, ``jitter_ns``,
        ``jitter_max_ns``, ``delay_p95_ns``, ``gap_ns``; null where something cannot be told.
    capture:
        What the capture is, as names and values.
    answer, facts, findings, notes:
        What the reader has to know, in sentences.
    calls:
        Those that SIP names.
    """

    name: str
    date: str
    streams: pl.DataFrame
    capture: Pairs
    answer: str
    facts: str
    findings: tuple[str, ...]
    notes: tuple[str, ...]
    calls: tuple[Table, ...]


def build(assessed: StreamAssessment, out: Path, *, command: str) -> Path:
    """Write the page to ``out`` and return it; raises ``StoreError`` if that is impossible."""
    files.write_bytes(out, tell(assessed, command=command).html().encode())
    return out


def tell(assessed: StreamAssessment, *, command: str) -> Story:
    """The page about ``assessed``, made by ``command``."""
    streams = assessed.streams
    return Story(
        subject=f"voice streams in {assessed.name}",
        answer=assessed.answer,
        lede=(assessed.facts,),
        tiles=tuple(_tiles(streams)),
        findings=assessed.findings,
        chapters=(
            Chapter(
                "heard",
                "Stream by stream",
                "Charts",
                figures=tuple(_figures(streams)),
                missing="There is nothing to draw.",
            ),
            Chapter("calls", "Calls", "Calls", tables=assessed.calls, missing="SIP names no calls."),
            Chapter("streams", "All streams", "Streams", tables=(_table(streams),)),
            Chapter("capture", "The capture", "Capture", facts=assessed.capture, said=assessed.notes),
        ),
        terms=_TERMS,
        made_from=PageOrigin(
            name=assessed.name,
            source=assessed.name,
            date=assessed.date,
            again=(("This reads the capture again and makes this page from it.", command),),
        ),
    )


def _tiles(streams: pl.DataFrame) -> Iterator[Tile]:
    rated = streams.filter(pl.col("mos").is_not_null())["mos"]
    middle, lowest = rated.median(), rated.min()
    yield Tile(
        "MOS of the median stream",
        _mos(middle),
        f"worst {_mos(lowest)}, of {plural(len(rated), 'stream')}" if len(rated) else "unknown",
    )
    known = streams.filter(pl.col("lost").is_not_null())
    lossy = known.filter((pl.col("lost") > 0) | (pl.col("lost_beyond") > 0)).height
    behind = known.filter(pl.col("lost_beyond") > 0).height
    yield Tile(
        "Streams with loss",
        count(lossy) if known.height else NOTHING,
        f"of {count(known.height)}; {plural(int(known['lost'].sum()), 'packet')}"
        + (f" before the capture; {plural(behind, 'stream')} behind it" if behind else " in all")
        if known.height
        else "unknown",
    )
    yield Tile("Highest jitter", _time(streams["jitter_ns"].max()), "mean of a stream (RFC 3550)")
    late = streams["late"].drop_nulls()
    yield Tile(
        "Late",
        count(int(late.sum())) if len(late) else NOTHING,
        "packets that missed their time in the jitter buffer",
    )


def _figures(streams: pl.DataFrame) -> Iterator[Figure]:
    arrived = (1 - pl.col("loss_ratio")) * (1 - pl.col("lost_beyond").fill_null(0.0))
    streams = streams.with_columns(loss_ratio=1 - arrived)
    kinds = codecs(streams)
    left = streams.height - _DRAWN
    for key, column, factor, panel, title, limit in (
        ("mos", "mos", 1.0, "what was heard", "MOS", SATISFIED),
        ("loss", "loss_ratio", 100.0, "loss", "Packets lost, %", None),
        ("jitter", "jitter_ns", 1e-6, "jitter", "Mean jitter, ms", None),
    ):
        frame = _drawn(streams, column, factor, kinds)
        if not frame.height:
            continue
        low, high = axes.extent(frame, "value")
        if key != "mos" and high == 0:
            continue
        domain = (1.0, 4.6) if key == "mos" else (0.0, max(1.05 * high, 1e-3))
        frame = frame.with_columns(floor=pl.lit(domain[0]))
        how = (
            "A row per stream, the worst first."
            if frame.height <= NAMED
            else "A line per stream, from its first packet to its last."
        )
        yield Figure(
            f"quality-{key}",
            "heard",
            panel,
            _said(key, low, high, frame.height),
            how + (f" The {count(_DRAWN)} worst are drawn." if left > 0 else ""),
            f"{title} of each stream.",
            over_streams(frame, title, domain, kinds, limit=limit),
            frame,
        )


def _drawn(streams: pl.DataFrame, column: str, factor: float, kinds: list[str]) -> pl.DataFrame:
    shown = streams.filter(pl.col(column).is_not_null()).head(_DRAWN)
    return shown.select(
        "stream",
        "ends",
        "codec",
        row=pl.format("{}  {}", "stream", "ends"),
        kind=pl.when(pl.col("codec").is_in(kinds)).then("codec").otherwise(pl.lit(OTHERS)),
        begin_s=pl.col("begin_s").round(3),
        end_s=pl.col("end_s").round(3),
        value=(pl.col(column) * factor).round_sig_figs(6),
    )


def _said(key: str, low: float, high: float, streams: int) -> str:
    if key == "mos":
        if streams == 1:
            return f"MOS {high:.2f}."
        return f"From MOS {low:.2f} for the worst stream to {high:.2f} for the best."
    if key == "loss":
        who = "The stream" if streams == 1 else "The worst stream"
        return f"{who} lost {percent(high / 100)} of its packets."
    if streams == 1:
        return f"Jitter is {duration(high * 1e6)}."
    return f"Jitter is {duration(low * 1e6)} to {duration(high * 1e6)}, from stream to stream."


def _table(streams: pl.DataFrame) -> Table:
    listed = streams.head(_LISTED)
    caption = "Streams, the worst first"
    if streams.height > listed.height:
        caption = f"The {count(listed.height)} worst of {count(streams.height)} streams; --json has all"
    return tables.streams(listed.iter_rows(named=True), caption)


def _mos(value: object) -> str:
    return decimals(value) if isinstance(value, float) else NOTHING


def _time(value: object) -> str:
    return duration(value) if isinstance(value, float) else NOTHING


def quality_page(outcome: QualityOutcome, out: Path, *, command: str) -> Path:
    """Write a page about ``outcome`` to ``out``; raises ``StoreError`` if that is impossible."""
    return build(assessed(outcome), out, command=command)


def assessed(outcome: QualityOutcome) -> StreamAssessment:
    """What the page shows."""
    capture = outcome.capture
    lasted_ns = capture["last_ns"] - capture["first_ns"]
    return StreamAssessment(
        name=outcome.path.name,
        date=utc_date(capture["first_ns"]),
        streams=pl.DataFrame(tables.rows(outcome), schema=_SCHEMA),
        capture=[
            ("File", str(outcome.path)),
            ("Format", str(capture["format"])),
            ("Packets", f"{count(capture['packets'])} ({quantities.size(capture['bytes'])})"),
            ("Lasts", quantities.duration(lasted_ns)),
            ("Voice streams", _found(outcome)),
            ("MOS behind the jitter buffer", outcome.buffers.describe(outcome.heard)),
        ],
        answer=wording.verdict(outcome) or wording.facts(outcome),
        facts=wording.facts(outcome),
        findings=tuple(each.text for each in outcome.findings if each.kind in COMPLAINTS),
        notes=(*outcome.notes_on_streams(COMPLAINTS), *outcome.notes_on_capture()),
        calls=tuple(tables.calls(outcome, _LISTED)),
    )


_SCHEMA = {
    "stream": pl.Int64,
    "ends": pl.String,
    "source": pl.String,
    "codec": pl.String,
    "packets": pl.Int64,
    "begin_s": pl.Float64,
    "end_s": pl.Float64,
    "mos": pl.Float64,
    "r": pl.Float64,
    "lost": pl.Int64,
    "loss_ratio": pl.Float64,
    "loss_estimated": pl.Boolean,
    "causes": pl.String,
    "lost_beyond": pl.Float64,
    "longest_run": pl.Int64,
    "late": pl.Int64,
    "copies": pl.Int64,
    "reordered": pl.Int64,
    "jitter_ns": pl.Float64,
    "jitter_max_ns": pl.Float64,
    "delay_p95_ns": pl.Float64,
    "gap_ns": pl.Float64,
}


def _found(outcome: QualityOutcome) -> str:
    shown = len(outcome.streams)
    return count(shown) if shown == outcome.found else f"{count(shown)} of {count(outcome.found)}"
