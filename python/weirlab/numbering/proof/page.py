"""The report page of a proof: the acceptance table, and a ladder diagram of each call."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from weirlab.base.quantities import decimals, duration
from weirlab.numbering.proof import findings
from weirlab.numbering.proof.drawing import drawn
from weirlab.numbering.proof.findings import AS_PLANNED, NOT_AS_PLANNED, MessageRow, ProofCallRow, titled
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.report.vega import alt

if TYPE_CHECKING:
    from weirlab.numbering.proof.chart import Chart
    from weirlab.numbering.proof.findings import ProofFindings

_STEP: Final = 26
"""Height in pixels of a message."""
_HEAD: Final = 14
_LONGEST: Final = 24
"""Characters of a message between two lanes."""
_INK: Final = palette.LIGHT["ink"]
_KINDS: Final = ("request", "answer", "refusal")
_ANSWERS: Final = {
    "ACF": "answer", "LCF": "answer", "DCF": "answer", "Connect": "answer", "Alerting": "answer",
    "ARJ": "refusal", "LRJ": "refusal",
}  # fmt: skip
"""Messages of H.225.0 that are answers."""

_TERMS: Final = (
    ("Way", "The engines on the way that was answered, as the signalling on the wire shows."),
    (
        "Decided",
        "What each engine decided by, from its own log: static for a route, otherwise the ENUM tree.",
    ),
    (
        "Failing",
        "What failed during the call: an engine or name server cut from the network, or a callee that "
        "refused the call with the answer given.",
    ),
    ("Kind", "A kind of route that the plan uses. It is proved if all of its calls went as planned."),
    ("DNS", "The longest time that a name server took to answer; unanswered queries do not count."),
    ("Set-up", "From the caller's INVITE to the answer, on the wire; for an MGCP line, from its last digit."),
    (
        "MOS",
        "By the E-model, from codec, loss and jitter of the packets that arrived, without network delay.",
    ),
)


def tell(
    found: ProofFindings,
    messages: Sequence[MessageRow],
    manifest: Mapping[str, Any],
    chart: Chart | None = None,
) -> Story:
    """The report page of a run."""
    return Story(
        subject=f"Numbering plan {found.plan}",
        manifest=manifest,
        answer=found.sentence,
        lede=tuple(f"{titled(row)}: {row.why}." for row in (*found.failed, *found.left_out)[:3])
        + tuple(filter(None, (found.remark.strip(),))),
        place=place(
            manifest,
            "netns",
            "the engines of the plan" + (f", through {found.device}" if found.device else ""),
        ),
        tiles=tuple(_tiles(found)),
        chapters=tuple(_chapters(found, messages, chart)),
        terms=_TERMS,
    )


def _tiles(found: ProofFindings) -> Iterator[Tile]:
    yield Tile("As planned", f"{len(found.proved)} of {len(found.rows)}", "calls")
    if listed := found.kinds:
        yield Tile("Kinds of routes", f"{sum(each.good for each in listed)} of {len(listed)}", "proved")
    times = sorted(row.setup_ms for row in found.rows if not math.isnan(row.setup_ms) and not row.down)
    if times:
        yield Tile("Set-up", duration(times[len(times) // 2] * 1e6), "median, all engines up")
        yield Tile("Longest set-up", duration(times[-1] * 1e6), "all engines up")
    uneven = found.uneven
    opinions = [
        mos
        for row in found.rows
        if row not in uneven
        for mos in (row.there_mos, row.back_mos)
        if not math.isnan(mos)
    ]
    if opinions:
        yield Tile(
            "Lowest MOS",
            decimals(min(opinions)),
            f"of both directions of {'calls not marked busy' if uneven else 'all calls'}",
        )


def _chapters(found: ProofFindings, messages: Sequence[MessageRow], chart: Chart | None) -> Iterator[Chapter]:
    listed = findings.differing(found.rows)
    yield Chapter(
        "calls",
        "Calls",
        figures=tuple(_setups(found.rows)),
        tables=tuple(filter(None, (findings.acceptance(found.rows, found.uneven), listed))),
        details=tuple(
            filter(
                None,
                (
                    findings.media(found.rows, found.uneven),
                    findings.through(found.rows, found.passed, found.device),
                ),
            )
        ),
    )
    if found.kinds:
        yield Chapter(
            "kinds",
            "Kinds of routes",
            intro="The kinds of routes of which the calls are examples.",
            tables=(findings.kinds_table(found.kinds),),
        )
    if chart is not None:
        yield Chapter(
            "map",
            "Map of the network",
            short="Map",
            intro="The engines by organisation, from the callers at the left, and the ways of the calls."
            + (f" The bar next to a caller is {found.device}." if found.device else ""),
            drawing=drawn(chart, found.rows),
        )
    by_call: dict[int, list[MessageRow]] = {}
    for message in messages:
        by_call.setdefault(message.index, []).append(message)
    ladders = [_figure(row, by_call[row.index]) for row in found.rows if row.index in by_call]
    yield Chapter(
        "ladders",
        "Messages of each call",
        short="Messages",
        intro="Every message on the wire, from top to bottom; the times count from the first one.",
        figures=tuple(ladders),
        missing="No call was made.",
    )


def _setups(rows: Sequence[ProofCallRow]) -> Iterator[Figure]:
    """A figure of the set-up times; none if no call was answered."""
    data = setup_rows(rows)
    if data.is_empty():
        return
    longest = data.sort("setup_ms").row(-1, named=True)
    yield Figure(
        key="setup",
        section="calls",
        panel="",
        title=f"The longest set-up is {duration(longest['setup_ms'] * 1e6)}, of {longest['row']}.",
        caption="From the caller's INVITE or last digit to the answer. A fall-back first waits for a target.",
        alt="A row per answered call with a point at its set-up time.",
        chart=setups(data),
        data=data,
    )


def setup_rows(rows: Sequence[ProofCallRow]) -> pl.DataFrame:
    """A row per answered call."""
    answered = [row for row in rows if not math.isnan(row.setup_ms)]
    listed = [{"row": titled(row), "setup_ms": row.setup_ms, "verdict": row.verdict} for row in answered]
    return pl.DataFrame(listed, schema={"row": pl.String, "setup_ms": pl.Float64, "verdict": pl.String})


def setups(data: pl.DataFrame) -> alt.LayerChart:
    """A row per call, with its name above the point."""
    names = data["row"].unique(maintain_order=True).to_list()
    domain = axes.log_domain(*axes.extent(data, "setup_ms"))
    base = alt.Chart(axes.data(data))
    y = axes.rows(names)
    verdicts = [AS_PLANNED, NOT_AS_PLANNED]
    points = base.mark_point(filled=True, size=70, yOffset=10).encode(
        x=alt.X("setup_ms:Q", title="Set-up time, ms", **axes.decades(domain)),
        y=y,
        color=axes.colour("verdict", verdicts, palette.models(len(verdicts))),
        shape=axes.shape("verdict", verdicts, ["circle", "cross"]),
        tooltip=[
            alt.Tooltip("row:N", title="call"),
            alt.Tooltip("setup_ms:Q", title="ms", format=",.4~g"),
            alt.Tooltip("verdict:N", title="verdict"),
        ],
    )
    return alt.LayerChart(layer=[points, axes.row_names(base, y)], **axes.framed(axes.ROW * len(names)))


def _figure(row: ProofCallRow, messages: Sequence[MessageRow]) -> Figure:
    data = ladder_rows(messages)
    return Figure(
        key=f"ladder-{row.index}",
        section="ladders",
        panel=titled(row),
        title=f"{row.way} answers {row.answer or 'nothing'}: {row.verdict}."
        if row.way
        else f"{row.caller} sent no call: {row.verdict}.",
        caption="",
        alt=f"The {len(messages)} messages of the call to {titled(row)}, as arrows between the engines.",
        chart=ladder(data, lanes(messages)),
        data=data,
    )


def lanes(messages: Sequence[MessageRow]) -> list[str]:
    """Engines in the order in which messages name them."""
    return list(dict.fromkeys(name for message in messages for name in (message.source, message.target)))


def ladder_rows(messages: Sequence[MessageRow]) -> pl.DataFrame:
    """A row per message: its lanes, position, text and time."""
    order = {name: lane for lane, name in enumerate(lanes(messages))}
    rows = [
        {
            "step": step,
            "from": order[each.source],
            "to": order[each.target],
            "middle": (order[each.source] + order[each.target]) / 2,
            "label": f"{_short(each.text)}  {duration(each.at_ms * 1e6) if each.at_ms else ''}".rstrip(),
            "text": each.text,
            "kind": _kind(each.text),
            "rightward": order[each.source] < order[each.target],
            "source": each.source,
            "target": each.target,
            "at_ms": each.at_ms,
        }
        for step, each in enumerate(messages, 1)
    ]
    return pl.DataFrame(rows)


def _short(text: str) -> str:
    """``text``, shortened to the room between two lanes."""
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _kind(text: str) -> str:
    status = text.partition(" ")[0]
    if status in _ANSWERS:
        return _ANSWERS[status]
    if not status.isdigit():
        return "request"
    return "refusal" if int(status) >= 300 else "answer"


def ladder(data: pl.DataFrame, names: Sequence[str]) -> alt.LayerChart:
    """Arrows from lane to lane, the first message on top."""
    base = alt.Chart(axes.data(data))
    last = data.height + 1
    labels = "[" + ",".join(f"'{name}'" for name in names) + "][datum.value]"
    lane = alt.Axis(
        values=list(range(len(names))),
        labelExpr=labels,
        orient="top",
        grid=True,
        title=None,
        labelOverlap=False,
    )
    x = alt.X("from:Q", axis=lane, scale=axes.linear((-0.4, max(len(names) - 1, 1) + 0.4)))
    y = alt.Y("step:Q", axis=None, scale=axes.linear((last, 0)))
    # Failures have the same colour in all figures of the page.
    request, refusal, answer = palette.models(len(_KINDS))
    colour = axes.colour("kind", _KINDS, [request, answer, refusal])
    tips = [
        alt.Tooltip("text:N", title="message"),
        alt.Tooltip("source:N", title="from"),
        alt.Tooltip("target:N", title="to"),
        alt.Tooltip("at_ms:Q", title="ms", format=",.4~g"),
    ]
    arrows = base.mark_rule(strokeWidth=1.5).encode(x=x, x2="to:Q", y=y, color=colour, tooltip=tips)
    heads = [
        base.transform_filter(f"datum.rightward === {truth}")
        .mark_point(filled=True, size=60, shape=shape)
        .encode(x=alt.X("to:Q", axis=lane), y=y, color=colour, tooltip=tips)
        for truth, shape in (("true", "triangle-right"), ("false", "triangle-left"))
    ]
    text = base.mark_text(dy=-7, fontSize=11, color=_INK, font=palette.FONT).encode(
        x=alt.X("middle:Q", axis=lane), y=y, text="label:N"
    )
    return alt.LayerChart(layer=[arrows, *heads, text], **axes.framed(_HEAD + _STEP * last))
