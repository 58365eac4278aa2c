"""Assembles the page."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from weirlab.base import files
from weirlab.base.errors import InputError
from weirlab.report.graphs import Graphs
from weirlab.report.shell import environment
from weirlab.report.story import Chapter, PageOrigin, Story
from weirlab.report.tables import Table, Tile
from weirlab.trace import Trace, others, sheet, times, wording
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
from weirlab.transfers.trace.page import colours, series

_ASSETS: Final = Path(__file__).parent / "assets"
MOST_ROWS: Final = 50
_DIRECTIONS: Final[tuple[tuple[SideName, str], ...]] = (("a", "a to b"), ("b", "b to a"))

_GRAPHS: Final = (
    (
        "sequence",
        "Sequence numbers, bytes",
        "Segments, acknowledgements, the receiver's window, and retransmissions by their cause.",
    ),
    ("throughput", "Throughput, bit/s", "Payload per period, with retransmissions and with each byte once."),
    ("rtt", "Round trip, ms", "From segments to their acknowledgements, and by time stamps."),
    ("flight", "In flight and window, bytes", "Data not yet acknowledged, below the receiver's window."),
)

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


def build(trace: Trace, out: Path, *, connection: int, command: str = "") -> Path:
    """Write the page about ``connection`` to ``out`` and return it.

    Raises
    ------
    InputError
        The trace has no series, or no such connection.
    StoreError
        ``out`` cannot be written.
    """
    files.write_bytes(out, tell(trace, connection=connection, command=command).html().encode())
    return out


def tell(trace: Trace, *, connection: int, command: str = "") -> Story:
    """The page about ``connection``; raises ``InputError`` like :func:`build`."""
    found = [each for each in trace.facts["connections"] if each["id"] == connection]
    if not found:
        raise InputError(f"the trace has no connection {connection}; weir trace lists their numbers")
    one = found[0]
    read = trace.facts["capture"]
    paths = [file["path"] for file in read["files"]]
    names = ", ".join(Path(path).name for path in paths)
    ends = f"{endpoint(one['a'])} (a) and {endpoint(one['b'])} (b)"
    chapters = [
        Chapter(
            "graphs",
            "Graphs",
            intro="All graphs share one time axis. Drag across a graph to zoom in, double-click to zoom out.",
            graphs=_graphs(trace, one),
        ),
        Chapter(
            "sheet",
            "All numbers",
            facts=sheet.whole(one, start_ns(trace.facts), absolute=True),
            tables=(tables.both(one),),
        ),
        Chapter("connections", "Connections", tables=(_connections(trace),)),
    ]
    if beside := others.tables(trace.facts, MOST_ROWS):
        chapters.append(Chapter("others", "Voice and ESP", tables=tuple(beside)))
    return Story(
        subject=f"connection {connection} in {names}",
        manifest={},
        simulated=False,
        answer=wording.conclusion(one),
        lede=(f"Connection {connection}: {ends}.",),
        caution=" ".join(wording.cautions(trace.facts)),
        place="",
        where_note=wording.capture(trace.facts),
        tiles=tuple(tiles(one)),
        chapters=tuple(chapters),
        terms=TERMS,
        made_from=PageOrigin(
            name=names,
            source=names,
            date=times.utc_date(one["first_ns"]),
            again=(
                (
                    "This command reads the captures again and makes this page from them.",
                    command or shlex.join(["weir", "trace", *paths, "--report", "report.html"]),
                ),
            ),
        ),
    )


def _graphs(trace: Trace, one: Connection) -> Graphs:
    template = environment().from_string(_asset("graphs.html"))
    spans = duration(one["last_ns"] - one["first_ns"])
    return Graphs(
        markup=Markup(
            template.render(directions=_DIRECTIONS, busier=busier(one), graphs=_GRAPHS, spans=spans)
        ),
        style=_asset("uPlot.min.css") + _asset("trace.css"),
        script=f"/*\n{_asset('uPlot.LICENSE')}*/\n{_asset('uPlot.iife.min.js')}\n{_asset('trace.js')}",
        data=_data(trace, one),
        light=colours.LIGHT,
        dark=colours.DARK,
        drawn_by="uPlot",
    )


def _data(trace: Trace, one: Connection) -> dict[str, Any]:
    begin_ns = start_ns(trace.facts)
    return {
        # Text: a double is not exact to the nanosecond since 1970.
        "startNs": str(begin_ns),
        "from": (one["first_ns"] - begin_ns) / 1e9,
        "to": (one["last_ns"] - begin_ns) / 1e9,
        "layers": {
            name: series.embedded(
                series.layers(trace, one["id"], name, trace.period_ns, windows=sheet.scaled(one)), begin_ns
            )
            for name, _ in _DIRECTIONS
        },
    }


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
    caption = others.titled("TCP connections, by bytes on the link", len(listed), MOST_ROWS, left_out)
    return tables.overview(listed[:MOST_ROWS], caption, start_ns(trace.facts))


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
