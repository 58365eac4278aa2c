"""The page put together."""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from weirlab import files
from weirlab.errors import InputError
from weirlab.report.shell import assembled
from weirlab.report.tables import Table, Tile
from weirlab.studies.trace.page import series
from weirlab.trace import Trace, others, sheet, words
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

TERMS: Final = (
    (
        "Time-sequence graph",
        "Each bar is a segment, from its first sequence number to its last, at the time of its capture. "
        "Below it runs the line of what the receiver has acknowledged, above it the edge of the receiver's "
        "window. The height between segments and that line is what is in flight.",
    ),
    (
        "Sent again",
        "Needless are those that the receiver had already, as it reported by DSACK (RFC 2883).",
    ),
    (
        "Round trip",
        "From a segment to the ACK of it, of segments sent once only (Karn), as seen where the capture was "
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
        "for single packets of a part make the page anew with --from and --to. Repetitions, SACK blocks and "
        "closed windows are all there, or the legend says how many are left out.",
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
    files.write_bytes(out, render(trace, connection=connection, command=command).encode())
    return out


def render(trace: Trace, *, connection: int, command: str = "") -> str:
    """The page's HTML; it needs no network."""
    found = [each for each in trace.facts["connections"] if each["id"] == connection]
    if not found:
        raise InputError(f"the trace has no connection {connection}; see its connections for their numbers")
    one = found[0]
    read = trace.facts["capture"]
    files = [Path(file["path"]).name for file in read["files"]]
    return assembled(
        "trace.html",
        (),
        subject=f"connection {connection} in {', '.join(files)}",
        run_id="",
        run_name=", ".join(files),
        simulated=False,
        answer=words.conclusion(one),
        lede=[f"Connection {connection}: {endpoint(one['a'])} (a) and {endpoint(one['b'])} (b)."],
        caution=" ".join(words.cautions(trace.facts)),
        capture=words.capture(trace.facts),
        tiles=tiles(one),
        directions=_DIRECTIONS,
        busier=busier(one),
        facts=sheet.whole(one, start_ns(trace.facts), absolute=True),
        sheet=sheet_table(one),
        connections=_connections(trace),
        others=other_tables(trace.facts),
        terms=TERMS,
        command=command
        or shlex.join(
            ["weir", "trace", *(file["path"] for file in read["files"]), "--report", "report.html"]
        ),
        vendored=Markup(f"/*\n{_asset('uPlot.LICENSE')}*/\n{_asset('uPlot.iife.min.js')}"),
        drawing=Markup(_asset("trace.js")),
        looks=Markup(_asset("uPlot.min.css") + _asset("trace.css")),
        graphs=_json(_graphs(trace, one)),
    )


def _graphs(trace: Trace, one: Connection) -> dict[str, Any]:
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
            bit_rate(words.throughput_bps(sent)),
            f"{size(sent['unique_bytes'])} from first to last data, each byte once",
        ),
        Tile(
            "Sent again",
            plural(again["total"], "packet"),
            (words.causes(sent) + f"; {count(again['spurious'])} needless")
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


def sheet_table(one: Connection) -> Table:
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
    columns = ("#", "a", "b", "duration", "a > b", "b > a", "sent again", "", "RTT mean", "end")
    return Table(caption, columns, tuple(rows), frozenset(range(3, 9)))


def other_tables(analysis: Analysis) -> list[Table]:
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


def _json(value: Any) -> Markup:
    """JSON that cannot end the ``script`` element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
