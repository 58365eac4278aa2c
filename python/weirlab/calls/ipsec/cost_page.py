"""The page: processing time over the length of packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import polars as pl

from weirlab.base.errors import InputError
from weirlab.base.quantities import duration
from weirlab.calls.ipsec import cost
from weirlab.calls.ipsec.cost import EspCostFindings
from weirlab.jobs.progress import RESUME
from weirlab.report import axes, palette
from weirlab.report.figure import Figure
from weirlab.report.numbers import rounded
from weirlab.report.story import Chapter, Story, place
from weirlab.report.tables import Tile
from weirlab.report.vega import alt
from weirlab.store import Run

_HEIGHT: Final = 220
_TERMS: Final = (
    (
        "Out, in",
        "A packet in memory is encapsulated, or checked and decapsulated, by Weir's library on one CPU.",
    ),
    (
        "UDP",
        "How much longer it takes to decapsulate a packet and find its call with UDP's header and checksum.",
    ),
    (
        "Layers",
        "How much longer it takes if the packet goes from IPsec to UDP through a queue, with its IP header "
        "checked once more.",
    ),
    ("System's socket", "How much longer it takes through a socket on the loopback interface."),
)


def page(run: Run, found: EspCostFindings) -> Story:
    """The page about ``run``, which shows ``found``."""
    if not found.rows:
        raise InputError(
            f"run {run.run_id} was interrupted before its tenth round: go on with {RESUME} {run.run_id}"
        )
    manifest = vars(run.manifest)
    return Story(
        subject="packets of speech with ESP",
        manifest=manifest,
        answer=found.sentence,
        place=place(manifest, "", "this machine's memory"),
        tiles=tuple(_tiles(found)),
        chapters=(
            Chapter(
                "costs",
                "Processing time",
                figures=tuple(_figures(found)),
                tables=(cost.compared(found),),
                details=tuple(cost.over_size(found, mode) for mode in found.asked.modes),
            ),
        ),
        terms=_TERMS,
    )


def _tiles(found: EspCostFindings) -> Iterator[Tile]:
    for suite in found.asked.suites[:4]:
        spread = found.spread(suite, found.asked.modes[0], "in", found.usual_ms)
        if spread.known:
            yield Tile(suite, duration(spread.median), f"an incoming packet, {found.asked.modes[0]} mode")


def _figures(found: EspCostFindings) -> Iterator[Figure]:
    lengths = dict(found.asked.sizes())
    for mode in found.asked.modes:
        points = [
            {"series": f"{suite}, {way}", "bytes": lengths[packet_ms], "value": rounded(spread.median)}
            for suite in found.asked.suites
            for way in ("out", "in")
            for packet_ms in sorted(found.asked.packet_times_ms)
            if (spread := found.spread(suite, mode, way, packet_ms)).known
        ]
        if points:
            data = pl.DataFrame(points)
            yield Figure(
                key=f"cost-{mode}",
                section="costs",
                panel=f"{mode} mode",
                title=f"In {mode} mode a packet costs {duration(_least(data))} to {duration(_most(data))}.",
                caption="Medians of the rounds, over the length of the IP packet in the clear.",
                alt=f"Processing time over packet length in {mode} mode, a line per suite and direction.",
                chart=_lines(data),
                data=data,
            )


def _least(data: pl.DataFrame) -> float:
    return float(data["value"].min())  # type: ignore[arg-type]


def _most(data: pl.DataFrame) -> float:
    return float(data["value"].max())  # type: ignore[arg-type]


def _lines(data: pl.DataFrame) -> alt.Chart:
    names = data["series"].unique(maintain_order=True).to_list()
    legend = axes.line_legend(names)
    chart: alt.Chart = (
        alt.Chart(axes.data(data))
        .mark_line(strokeWidth=1.6, point=True)
        .encode(
            x=alt.X("bytes:Q", title="IP packet in the clear, bytes", axis=axes.number_axis(6)),
            y=alt.Y("value:Q", title="Processing time, ns", axis=axes.number_axis(6)),
            **axes.lines("series", names, palette.ramp(len(names)), legend),
            tooltip=[
                alt.Tooltip("series:N", title="suite, direction"),
                alt.Tooltip("bytes:Q", title="bytes", format=","),
                alt.Tooltip("value:Q", title="ns", format=",.4~g"),
            ],
        )
        .properties(**axes.framed(_HEIGHT))
    )
    return chart
