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
from weirlab.studies.trace import tables
from weirlab.studies.trace.page import series
from weirlab.trace import Trace, others, sheet, words
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
        "Retransmitted",
        "Spurious are those that the receiver had already, as it reported by DSACK (RFC 2883).",
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
        tiles=_tiles(one),
        directions=_DIRECTIONS,
        busier=busier(one),
        facts=sheet.whole(one, start_ns(trace.facts), absolute=True),
        sheet=tables.both(one),
        connections=_connections(trace),
        others=others.tables(trace.facts, _MOST_ROWS),
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


def _connections(trace: Trace) -> Table:
    listed = sorted(trace.facts["connections"], key=lambda c: (-link_bytes(c), c["id"]))
    left_out = trace.facts["connections_left_out"]
    caption = others.titled("TCP connections, by bytes on the link", len(listed), _MOST_ROWS, left_out)
    return tables.overview(listed[:_MOST_ROWS], caption, start_ns(trace.facts))


def _json(value: Any) -> Markup:
    """JSON that cannot end the ``script`` element it stands in."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c"))


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
