"""Assembles the page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from markupsafe import Markup

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.cli.results import diagnosis
from weirlab.diagnosis import tracing
from weirlab.diagnosis.finding import Diagnosis
from weirlab.report.graphs import Graphs
from weirlab.report.story import Chapter, PageOrigin, Story
from weirlab.report.tables import Table, Tile
from weirlab.trace import Trace, quantities, sheet, wording
from weirlab.trace.facts import (
    Connection,
    SideName,
    busier,
    endpoint,
    link_bytes,
    side,
    start_ns,
)
from weirlab.trace.quantities import bit_rate, count, duration, octets, plural, size
from weirlab.transfers.trace import tables
from weirlab.transfers.trace.page import series

LIGHT: Final[Mapping[str, str]] = {
    "data": "#1f6fb2",
    "ack": "#1f8a4c",
    "edge": "#39424d",
    "sack": "#5f8f14",
    "dsack": "#b03a86",
    "again": "#c8500a",
    "timeout": "#c3142d",
    "fast": "#cf5c00",
    "probe": "#7a3fbf",
    "unexplained": "#8a6d00",
    "reordered": "#0e8080",
    "closed": "#8a1023",
    "stamp": "#7a7f2b",
}
DARK: Final[Mapping[str, str]] = {
    "data": "#6cb2f0",
    "ack": "#54c983",
    "edge": "#d5dde6",
    "sack": "#a5c84a",
    "dsack": "#ee86b8",
    "again": "#ff9550",
    "timeout": "#ff6b7d",
    "fast": "#ffab4a",
    "probe": "#bd93ff",
    "unexplained": "#e3c64a",
    "reordered": "#4fd6d6",
    "closed": "#ff4d62",
    "stamp": "#c9cf74",
}


_ASSETS: Final = Path(__file__).parent / "assets"
"""``make webui`` builds them from the sources of the page of ``weir web``."""
MOST_ROWS: Final = 50
SIDES: Final[tuple[SideName, ...]] = ("a", "b")

TERMS: Final = (
    (
        "Time-sequence graph",
        "Each bar is a segment, from its first sequence number to its last, at the time of its capture. "
        "The line below is what the receiver has acknowledged, the line above is the edge of the receiver's "
        "window. The height from the lower line to the segments is the data in flight.",
    ),
    (
        "Retransmitted",
        "A retransmission is spurious if the receiver already had the data and reported that by DSACK "
        "(RFC 2883).",
    ),
    (
        "Round trip",
        "From a segment to its ACK, for segments sent only once (Karn), as seen where the capture was made: "
        "at the sender it covers the whole path, at the receiver next to nothing.",
    ),
    (
        "Window",
        "As the receiver advertised it. Only the handshake has its scale: if the capture, or the chosen part "
        "of it, begins later, the window is not known and not drawn.",
    ),
    (
        "In flight",
        "Data sent and not yet acknowledged, as seen where the capture was made.",
    ),
    (
        "Level of detail",
        "Lines and bands of long transfers are drawn in columns of time that keep the least and greatest "
        "values. To see single packets, make the page again with --from and --to. All retransmissions, SACK "
        "blocks and closed windows are drawn, or the legend says how many are left out.",
    ),
)


def build(
    trace: Trace, out: Path, *, connection: int, command: str = "", target_bps: float | None = None
) -> Path:
    """Write the page about ``connection`` to ``out`` and return it; ``target_bps`` is the throughput wanted.

    Raises
    ------
    InputError
        The trace has no series, or no such connection.
    StoreError
        ``out`` cannot be written.
    """
    story = tell(trace, connection=connection, command=command, target_bps=target_bps)
    files.write_bytes(out, story.html().encode())
    return out


def tell(trace: Trace, *, connection: int, command: str = "", target_bps: float | None = None) -> Story:
    """The page about ``connection``; raises ``InputError`` like :func:`build`."""
    one = next((each for each in trace.facts["connections"] if each["id"] == connection), None)
    if one is None:
        raise InputError(f"the trace has no connection {connection}; weir trace lists their numbers")
    read = trace.facts["capture"]
    paths = [file["path"] for file in read["files"]]
    names = ", ".join(Path(path).name for path in paths)
    ends = f"{endpoint(one['a'])} (a) and {endpoint(one['b'])} (b)"
    found = tracing.read(trace, one, target_bps=target_bps)
    chapters = [
        Chapter("graphs", "Graphs", graphs=_graphs(trace, one, found)),
        *([] if found is None else [_evidence(found)]),
        Chapter(
            "sheet",
            "All numbers",
            intro="" if found is None else wording.conclusion(one),
            facts=sheet.whole(one, start_ns(trace.facts), absolute=True),
            details=(tables.both(one),),
        ),
    ]
    if len(trace.facts["connections"]) > 1:
        chapters.append(Chapter("connections", "Connections", tables=(_connections(trace),)))
    if beside := sheet.others(trace.facts, MOST_ROWS):
        chapters.append(Chapter("others", "Voice and ESP", tables=tuple(beside)))
    return Story(
        subject=f"connection {connection} in {names}",
        answer=wording.conclusion(one) if found is None else found.sentence,
        lede=tuple(_lede(one, ends, found)),
        caution=" ".join(wording.cautions(trace.facts)),
        where_note=wording.capture(trace.facts) if len(trace.facts["connections"]) > 1 else "",
        tiles=tuple(tiles(one)),
        chapters=tuple(chapters),
        terms=TERMS,
        made_from=PageOrigin(
            name=names,
            source=names,
            date=quantities.utc_date(one["first_ns"]),
            again=(
                (
                    "This command reads the captures again and makes this page from them.",
                    command or shlex.join(["weir", "trace", *paths, "--out", "report.html"]),
                ),
            ),
        ),
    )


def _lede(one: Connection, ends: str, found: Diagnosis | None) -> Iterator[str]:
    if found is not None and found.advice:
        yield found.advice
    yield f"Connection {one['id']}: {ends}."


def _evidence(found: Diagnosis) -> Chapter:
    return Chapter(
        "evidence",
        "Evidence",
        said=tuple(diagnosis.remarks(found)),
        tables=tuple(diagnosis.tables(found)[:2]),
        details=tuple(diagnosis.tables(found)[2:]),
    )


def _graphs(trace: Trace, one: Connection, found: Diagnosis | None) -> Graphs:
    begin_ns = start_ns(trace.facts)
    return Graphs(
        markup=Markup('<div id="graphs-here"></div>'),
        style=_asset("graphs.css"),
        script=f"/*\n{_asset('graphs.LICENSES')}*/\n{_asset('graphs.js')}",
        data={
            "id": one["id"],
            "busier": busier(one),
            # Text: a double is not exact to the nanosecond since 1970.
            "start_ns": str(begin_ns),
            "from": (one["first_ns"] - begin_ns) / 1e9,
            "to": (one["last_ns"] - begin_ns) / 1e9,
            "causes": [] if found is None else series.strip(found, begin_ns),
            "layers": {
                name: series.embedded(series.layers(trace, one, name, trace.period_ns), begin_ns)
                for name in SIDES
            },
        },
        light=LIGHT,
        dark=DARK,
        drawn_by="uPlot and Svelte",
    )


def tiles(one: Connection) -> list[Tile]:
    name = busier(one)
    sent, other = side(one, name), side(one, "b" if name == "a" else "a")
    again, rtt = sent["retransmissions"], sent["rtt"]
    return [
        Tile(
            f"Throughput from {name}",
            bit_rate(wording.throughput_bps(sent)),
            f"{size(sent['unique_bytes'])} from first to last data, each byte once",
        ),
        Tile(
            "Retransmitted",
            plural(again["total"], "packet"),
            (wording.causes(sent) + f"; {count(again['spurious'])} spurious")
            if again["total"]
            else f"of {plural(sent['data_packets'], 'segment')}",
        ),
        Tile(
            "Round trip, mean",
            duration(rtt["mean_ns"]),
            f"at most {duration(rtt['max_ns'])}, {plural(rtt['count'], 'sample')}"
            if rtt["count"]
            else "no data that was sent only once was acknowledged",
        ),
        Tile(
            "Most in flight",
            octets(sent["flight_max"]),
            f"the receiver's window: {sheet.window(one, other)}; "
            f"full {plural(other['window_full'], 'time')}, closed {plural(other['zero_windows'], 'time')}",
        ),
    ]


def _connections(trace: Trace) -> Table:
    listed = sorted(trace.facts["connections"], key=lambda c: (-link_bytes(c), c["id"]))
    left_out = trace.facts["connections_left_out"]
    caption = sheet.titled("TCP connections, by bytes on the link", len(listed), MOST_ROWS, left_out)
    return tables.overview(listed[:MOST_ROWS], caption, start_ns(trace.facts))


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
