"""The page: jitter at idle and beside a hog, the distributions behind it, the most calls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import polars as pl

from weirlab.base.quantities import count, duration, percent, plural
from weirlab.calls.ipsec.endpoints import findings
from weirlab.calls.ipsec.endpoints.findings import EndpointFindings, EndpointGroup
from weirlab.calls.ipsec.endpoints.plan import CLEAR, NAMES, SHORT, WHERE
from weirlab.calls.ipsec.endpoints.rows import DELAY, DELTA, JITTER, LATENESS, QUANTITIES, DistributionRow
from weirlab.calls.ipsec.published import KEY
from weirlab.publications import publication
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.story import Chapter, Story, place, with_more
from weirlab.report.tables import Tile
from weirlab.report.vega import alt

_US: Final = 1e3
_HEIGHT: Final = 220
_WHAT: Final[Mapping[str, str]] = {JITTER: "Jitter", DELAY: "One-way delay", LATENESS: "Lateness of senders"}
_SHOWN: Final = (JITTER, DELAY, LATENESS)
_VALUES: Final = {
    JITTER: (("mean", "jitter_mean_ns", "jitter_mean_ms"), ("maximum", "jitter_max_ns", "jitter_max_ms")),
    DELTA: (("maximum", "delta_max_ns", "delta_max_ms"),),
}
"""What a chart of a quantity shows: column of an attempt, and value of the publication."""

_TERMS: Final = (
    (
        "Bypassing endpoint",
        "A thread with a CPU and an AF_XDP socket, which it polls without ever sleeping for packets. It is "
        "real time, and leaves others some 6 % of the CPU in short pauses.",
    ),
    (
        "Endpoint on sockets",
        "An ordinary thread with a UDP socket, which sleeps until a packet comes or is due.",
    ),
    ("CPU hog", "A program on each endpoint's CPU that never sleeps, of ordinary priority (nice 0)."),
    ("Jitter", "The smoothed difference in arrival of RFC 3550, after every packet of every call."),
    ("Delta", "Time from one packet of a call to the next at the receiver, as protocol analysers show it."),
    ("Lateness", "From when a packet was due until its sender began to build it."),
    ("Delay", "From there until the receiver had decrypted and checked the packet."),
    (
        "CPU per packet",
        "CPU time of both threads over the packets sent and heard. A polling thread takes its CPU whether or "
        "not packets come.",
    ),
)


def tell(
    found: EndpointFindings, distributions: Sequence[DistributionRow], manifest: Mapping[str, Any]
) -> Story:
    """The page about a run."""
    answer, *rest = found.sentences()
    return Story(
        subject="endpoints of calls, past the system and through sockets",
        manifest=manifest,
        answer=answer,
        lede=tuple(rest),
        caution=" ".join(found.remarks()),
        place=place(manifest, "netns", "a pair of endpoints"),
        where_note=" ".join(found.conditions()),
        tiles=tuple(_tiles(found)),
        chapters=tuple(_chapters(found, distributions)),
        terms=_TERMS,
        assurance=_assurance(found),
    )


def _tiles(found: EndpointFindings) -> Iterator[Tile]:
    calls = found.spoken_of
    if calls is None:
        return
    for beside in found.asked.beside:
        for each in found.of(beside, calls)[:2]:
            jitter = duration(each.spread["jitter_mean_ns"].median)
            most = duration(each.spread["jitter_max_ns"].median)
            yield Tile(f"{SHORT[each.arm]}, {beside}", jitter, f"mean jitter; maximum {most}")


def _assurance(found: EndpointFindings) -> str:
    valid = [row for row in found.attempts if row.valid]
    if not valid:
        return ""
    heard = sum(row.packets - row.lost - row.unsent for row in valid)
    esp = "" if found.asked.suite == CLEAR else ", decrypted,"
    return (
        f"{len(valid)} of {plural(len(found.attempts), 'attempt')} counted. In those, {count(heard)} packets "
        f"arrived{esp} and were compared byte by byte with what was sent."
    )


def _chapters(found: EndpointFindings, distributions: Sequence[DistributionRow]) -> Iterator[Chapter]:
    jitters, deltas = (
        [figure for beside in found.asked.beside if (figure := _bars(found, beside, quantity)) is not None]
        for quantity in _VALUES
    )
    yield with_more(
        Chapter(
            "jitter",
            "Jitter",
            tables=(findings.compared(found),),
            note=f"Published: {publication(KEY).citation}" if found.publication else "",
        ),
        jitters,
        deltas,
        "Delta",
    )
    if (calls := found.spoken_of) is not None:
        yield Chapter(
            "distributions",
            f"Distributions with {plural(calls, 'call')}",
            short="Distributions",
            figures=tuple(_distributions(found, calls, distributions)),
        )
    if found.limits:
        yield _limits(found)
    yield Chapter(
        "attempts",
        "Every attempt",
        short="Attempts",
        details=(findings.work(found), findings.attempts(found.attempts)),
    )


def value_rows(found: EndpointFindings, beside: str, quantity: str) -> pl.DataFrame:
    """A row per kind of endpoints and number of calls, in µs; the published ones behind."""
    rows = []
    for group in found.groups:
        if group.beside == beside:
            for what, name, _ in _VALUES[quantity]:
                spread = group.spread[name]
                if spread.known:
                    rows.append(
                        _point(f"{plural(group.calls, 'call')}, {SHORT[group.arm]}", what, *_in_us(spread))
                    )
    for old in found.publication:
        for what, _, name in _VALUES[quantity]:
            if (value := getattr(old, name)) is not None:
                rows.append(_point(f"published: {old.what}", what, *[value * 1e3] * 3))
    schema = {
        "row": pl.String, "what": pl.String, "value": pl.Float64, "low": pl.Float64, "high": pl.Float64,
    }  # fmt: skip
    return pl.DataFrame(rows, schema=schema)


def _in_us(spread: Any) -> tuple[float, float, float]:
    return spread.median / _US, spread.low / _US, spread.high / _US


def _point(row: str, what: str, value: float, low: float, high: float) -> dict[str, object]:
    return {"row": row, "what": what, "value": rounded(value), "low": rounded(low), "high": rounded(high)}


def _bars(found: EndpointFindings, beside: str, quantity: str) -> Figure | None:
    data = value_rows(found, beside, quantity)
    what, column, _ = _VALUES[quantity][0]
    groups = [group for group in found.groups if group.beside == beside and group.spread[column].known]
    if not groups:
        return None
    least = min(groups, key=lambda group: group.spread[column].median)
    most = max(groups, key=lambda group: group.spread[column].median)
    kinds = [kind for kind, *_ in _VALUES[quantity]]
    return Figure(
        key=f"{quantity}-{beside}",
        section="jitter",
        panel=f"{quantity}, {WHERE[beside]}",
        title=f"{_first(WHERE[beside])}, {what} {quantity} is from {_named(least, column)} to "
        f"{_named(most, column)}.",
        caption="Points: medians; lines: from the least to the greatest attempt.",
        alt=f"{_first(' and '.join(kinds))} {quantity} {WHERE[beside]}, a row per kind of endpoints and "
        "number of calls.",
        chart=_dots(data, f"{_first(quantity)}, µs", kinds),
        data=data,
    )


def _named(group: EndpointGroup, column: str) -> str:
    return f"{duration(group.spread[column].median)} ({NAMES[group.arm]}, {plural(group.calls, 'call')})"


def _dots(data: pl.DataFrame, title: str, kinds: Sequence[str]) -> alt.LayerChart:
    rows = data["row"].unique(maintain_order=True).to_list()
    domain = axes.log_domain(*axes.extent(data.filter(pl.col("low") > 0), "low", "high"))
    base = alt.Chart(axes.data(data))
    y = axes.rows(rows)
    x = alt.X("value:Q", title=title, **axes.decades(domain))
    colour = axes.colour("what", kinds, palette.models(len(kinds)))
    tips = [
        alt.Tooltip("row:N", title="endpoints"),
        alt.Tooltip("what:N", title="value"),
        alt.Tooltip("value:Q", title="median, µs", format=",.4~g"),
        alt.Tooltip("low:Q", title="least", format=",.4~g"),
        alt.Tooltip("high:Q", title="greatest", format=",.4~g"),
    ]
    points = base.mark_point(filled=True, size=70, yOffset=10, opacity=1).encode(
        x=x,
        y=y,
        color=colour,
        shape=axes.shape("what", kinds, ["circle", "triangle-up"][: len(kinds)]),
        tooltip=tips,
    )
    ranges = base.mark_rule(strokeWidth=2, yOffset=10).encode(
        x=alt.X("low:Q"), x2="high:Q", y=y, color=colour, tooltip=tips
    )
    return alt.LayerChart(
        layer=[ranges, points, axes.row_names(base, y)], **axes.framed(axes.ROW * len(rows))
    )


def tail_rows(
    found: EndpointFindings, calls: int, quantity: str, rows: Sequence[DistributionRow]
) -> pl.DataFrame:
    """Share of packets beyond a value, in µs, by kind of endpoints: all valid attempts together."""
    kind = {
        row.number: f"{SHORT[row.arm]}, {row.beside}"
        for row in found.attempts
        if row.valid and row.purpose == "compare" and row.calls == calls
    }
    names = [f"{SHORT[arm]}, {beside}" for beside in found.asked.beside for arm in found.asked.arms]
    parts = []
    for name in names:
        bins: dict[float, int] = {}
        for row in rows:
            if row.quantity == quantity and kind.get(row.number) == name:
                bins[row.to_ns] = bins.get(row.to_ns, 0) + row.packets
        beyond = total = sum(bins.values())
        for to_ns in sorted(bins):
            parts.append({"series": name, "value": rounded(to_ns / _US), "share": beyond / total})
            beyond -= bins[to_ns]
    schema = {"series": pl.String, "value": pl.Float64, "share": pl.Float64}
    return pl.DataFrame(parts, schema=schema)


def _distributions(found: EndpointFindings, calls: int, rows: Sequence[DistributionRow]) -> Iterator[Figure]:
    assert set(_SHOWN) <= set(QUANTITIES)
    for quantity in _SHOWN:
        data = tail_rows(found, calls, quantity, rows)
        if not data.height:
            continue
        yield Figure(
            key=f"distribution-{quantity}",
            section="distributions",
            panel=_WHAT[quantity].lower(),
            title=_tail_said(data, quantity),
            caption="Share of packets beyond a value, of all attempts that count; bins are 12 % wide.",
            alt=f"{_WHAT[quantity]}: share of packets beyond a value, a line per kind of endpoints.",
            chart=_tails(data, f"{_WHAT[quantity]}, µs"),
            data=data,
        )


def _tail_said(data: pl.DataFrame, quantity: str) -> str:
    """What 99.9 % of the packets stay below, for the first kind and the worst one."""
    below = {
        str(name[0]): float(part.filter(pl.col("share") >= 0.001)["value"].max() or math.nan)  # type: ignore[arg-type]
        for name, part in data.group_by("series", maintain_order=True)
    }
    first, worst = next(iter(below)), max(below, key=lambda name: below[name])
    what = _WHAT[quantity]
    told = f"{what}: 99.9 % of the packets stay below {duration(below[first] * _US)} ({first})"
    return f"{told}." if first == worst else f"{told}, and below {duration(below[worst] * _US)} ({worst})."


def _tails(data: pl.DataFrame, title: str) -> alt.Chart:
    names = data["series"].unique(maintain_order=True).to_list()
    x, y = axes.log_domain(*axes.extent(data, "value")), axes.log_domain(*axes.extent(data, "share"))
    legend = axes.line_legend(names)
    chart: alt.Chart = (
        alt.Chart(axes.data(data))
        .mark_line(interpolate="step-before", strokeWidth=1.6, clip=True)
        .encode(
            x=alt.X("value:Q", title=title, **axes.decades(x)),
            y=alt.Y(
                "share:Q",
                title="Packets beyond",
                scale=axes.log((y[0], 1.0)),
                axis=alt.Axis(format=".2~%", tickCount=6),
            ),
            **axes.lines("series", names, palette.ramp(len(names)), legend),
            order="value:Q",
            tooltip=[
                alt.Tooltip("series:N", title="endpoints"),
                alt.Tooltip("value:Q", title="µs", format=",.4~g"),
                alt.Tooltip("share:Q", title="packets beyond", format=".3~%"),
            ],
        )
        .properties(**axes.framed(_HEIGHT))
    )
    return chart


def _limits(found: EndpointFindings) -> Chapter:
    limit = found.asked.limit
    intro = ""
    if limit is not None:
        intro = (
            f"A number of calls is carried if at most {percent(limit.bad_share)} of the packets are lost or "
            f"heard later than {duration(limit.late_ms * 1e6)} after they were due."
        )
    return Chapter("limits", "Most calls", intro=intro, tables=(findings.limits(found.limits),), folded=True)


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]
