"""The page put together."""

from __future__ import annotations

import shlex
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from weirlab import files
from weirlab.errors import InputError
from weirlab.report.graphs import Graphs
from weirlab.report.shell import environment
from weirlab.report.story import Chapter, Origin, Story
from weirlab.report.tables import Table, Tile
from weirlab.studies.trace.page import colours, series
from weirlab.trace import Trace, others, sheet, times, words
from weirlab.trace.facts import (
    Analysis,
    Connection,
    SideName,
    busier,
    endpoint,
    link_bytes,
    side,
    sides,
    start_ns,
)
from weirlab.trace.quantities import bit_rate, count, duration, octets, percent, plural, size

_ASSETS: Final = Path(__file__).parent / "assets"
_MOST_ROWS: Final = 50
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
        "Below it runs the line of what the receiver has acknowledged, above it the edge of the receiver's "
        "window. The height between segments and that line is what is in flight.",
    ),
    (
        "Retransmitted",
        "Spurious are those that the receiver had already, as it reported by DSACK (RFC 2883).",
    ),
    (
        "Round trip",
        "From a segment to the ACK of it, of segments sent only once (Karn), as seen where the capture was "
        "made: at the sender it is all of the path, at the receiver next to nothing.",
    ),
    (
        "Window",
        "As the receiver advertised it. Its scale is in the handshake alone: where the capture, or the part "
        "that was chosen, begins later, the window is not known and not drawn.",
    ),
    (
        "In flight",
        "Data sent and not yet acknowledged, as seen where the capture was made.",
    ),
    (
        "At first sight",
        "Lines and bands of long transfers are drawn in columns of time that keep least and greatest values; "
        "for single packets of a part make the page anew with --from and --to. Retransmissions, SACK blocks "
        "and closed windows are all there, or the legend says how many are left out.",
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
    """The page about ``connection``; raises ``InputError`` as :func:`build`."""
    found = [each for each in trace.facts["connections"] if each["id"] == connection]
    if not found:
        raise InputError(f"the trace has no connection {connection}; see its connections for their numbers")
    one = found[0]
    read = trace.facts["capture"]
    paths = [file["path"] for file in read["files"]]
    names = ", ".join(Path(path).name for path in paths)
    ends = f"{endpoint(one['a'])} (a) and {endpoint(one['b'])} (b)"
    chapters = [
        Chapter(
            "graphs",
            "Graphs",
            intro="All on one time axis. Drag across a graph to look closer, double-click for the whole.",
            graphs=_graphs(trace, one),
        ),
        Chapter(
            "sheet",
            "All numbers",
            facts=sheet.whole(one, start_ns(trace.facts), absolute=True),
            tables=(_sheet(one),),
        ),
        Chapter("connections", "Connections", tables=(_connections(trace),)),
    ]
    if beside := _others(trace.facts):
        chapters.append(Chapter("others", "Voice and ESP", tables=tuple(beside)))
    return Story(
        subject=f"connection {connection} in {names}",
        manifest={},
        simulated=False,
        answer=words.conclusion(one),
        lede=(f"Connection {connection}: {ends}.",),
        caution=" ".join(words.cautions(trace.facts)),
        place="",
        where_note=words.capture(trace.facts),
        tiles=tuple(_tiles(one)),
        chapters=tuple(chapters),
        terms=TERMS,
        made_from=Origin(
            name=names,
            source=names,
            date=times.utc_date(one["first_ns"]),
            again=(
                (
                    "This reads the captures again and makes this page of them.",
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


def _tiles(one: Connection) -> list[Tile]:
    name = busier(one)
    sent, other = side(one, name), side(one, "b" if name == "a" else "a")
    again, rtt = sent["retransmissions"], sent["rtt"]
    return [
        Tile(
            f"Throughput from {name}",
            bit_rate(words.throughput_bps(sent)),
            f"{size(sent['unique_bytes'])} from first to last data, each byte once",
        ),
        Tile(
            "Retransmitted",
            plural(again["total"], "packet"),
            (words.causes(sent) + f"; {count(again['spurious'])} spurious")
            if again["total"]
            else f"of {plural(sent['data_packets'], 'segment')}",
        ),
        Tile(
            "Round trip, mean",
            duration(rtt["mean_ns"]),
            f"at most {duration(rtt['max_ns'])}, {plural(rtt['count'], 'sample')}"
            if rtt["count"]
            else "no data was acknowledged that was sent once",
        ),
        Tile(
            "Most in flight",
            octets(sent["flight_max"]),
            f"the receiver's window: {sheet.window(one, other)}; "
            f"full {plural(other['window_full'], 'time')}, closed {plural(other['zero_windows'], 'time')}",
        ),
    ]


def _sheet(one: Connection) -> Table:
    columns = ("", f"a  {endpoint(one['a'])}", f"b  {endpoint(one['b'])}")
    return Table("What each side sent", columns, tuple(sheet.both(one)), frozenset({1, 2}))


def _connections(trace: Trace) -> Table:
    listed = sorted(trace.facts["connections"], key=lambda c: (-link_bytes(c), c["id"]))
    rows = []
    for each in listed[:_MOST_ROWS]:
        a, b = sides(each)
        sent = side(each, busier(each))
        rtt = sent["rtt"]
        rows.append(
            (
                *(str(each["id"]), endpoint(a), endpoint(b)),
                *(
                    duration(each["last_ns"] - each["first_ns"]),
                    size(a["unique_bytes"]),
                    size(b["unique_bytes"]),
                ),
                *(count(sent["retransmissions"]["total"]), percent(words.again_ratio(sent))),
                duration(rtt["mean_ns"]),
                words.ENDS[each["end"]],
            )
        )
    total = len(listed) + trace.facts["connections_left_out"]
    caption = (
        "TCP connections"
        if total == len(rows)
        else f"The {len(rows)} greatest of {total:,} TCP connections, by bytes on the link"
    )
    columns = ("#", "a", "b", "duration", "a > b", "b > a", "retransmitted", "", "RTT mean", "end")
    return Table(caption, columns, tuple(rows), frozenset(range(3, 9)))


def _others(analysis: Analysis) -> list[Table]:
    """Voice streams and ESP flows, where there are any."""
    found = []
    if streams := analysis["streams"]:
        caption = others.titled(others.STREAMS, len(streams), _MOST_ROWS, others.streams_left_out(analysis))
        rows = tuple(others.stream_row(each) for each in streams[:_MOST_ROWS])
        numbers = frozenset(range(others.STREAM_TEXTS, len(others.STREAM_COLUMNS)))
        found.append(Table(caption, others.STREAM_COLUMNS, rows, numbers))
    if esp := analysis["esp"]:
        caption = others.titled(others.ESP, len(esp), _MOST_ROWS, analysis["esp_left_out"])
        rows = tuple(others.esp_row(each) for each in esp[:_MOST_ROWS])
        numbers = frozenset(range(others.ESP_TEXTS, len(others.ESP_COLUMNS)))
        found.append(Table(caption, others.ESP_COLUMNS, rows, numbers))
    return found


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
