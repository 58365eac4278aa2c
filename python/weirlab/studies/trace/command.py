"""``weir trace``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weirlab.cli.options import JsonOption
from weirlab.cli.output import Session
from weirlab.errors import InputError
from weirlab.studies.trace import tables
from weirlab.trace import facts, flows, others, times, words
from weirlab.trace.analysis import KEEP, analyse, refuse_inputs

if TYPE_CHECKING:
    from weirlab.tables import Table
    from weirlab.trace.facts import Analysis, Connection

TRACE = """Analyse the TCP connections in captures.

For each connection and direction: bytes, throughput, retransmissions, their
causes and which were spurious, order, duplicate ACKs, SACK, windows, round
trips, data in flight; where on the path it was captured. Voice streams and ESP
are listed too. FILE is pcap or pcapng, also in gzip or zstd; several files are
one capture, in this order, such as the rotated ones of weir log.

T is seconds since the first packet (1.5, 300ms, 2min), a date and time
(2026-01-31T12:00:00.25, UTC unless it ends in +01:00) or @SECONDS since 1970.

Examples:
  weir trace slow.pcapng
  weir trace slow.pcapng --connection 0
  weir trace slow.pcapng --report slow.html --from 2 --to 3.5
  weir trace log-*.pcapng.zst --filter "host 192.0.2.7" --sort retransmissions
  weir trace slow.pcapng --series slow --period 10ms --json
"""

_OUTPUT = "Output"
_PACKETS = "Packets"


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("trace", help=TRACE, rich_help_panel="Measure")(trace)


def trace(
    ctx: typer.Context,
    files: Annotated[list[Path], typer.Argument(help="Captures.", metavar="FILE")],
    filter: Annotated[
        str,
        typer.Option(
            help="Only packets that this accepts; pcap-filter(7).", metavar="EXPR", rich_help_panel=_PACKETS
        ),
    ] = "",
    start: Annotated[
        str | None,
        typer.Option("--from", help="Only packets from this time on.", metavar="T", rich_help_panel=_PACKETS),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="Only packets before this time.", metavar="T", rich_help_panel=_PACKETS),
    ] = None,
    flow: Annotated[
        list[str] | None,
        typer.Option(
            help="Show only these: 10.0.0.1:40000-192.0.2.1:443, or one end (an address, :PORT); repeatable.",
            metavar="END[-END]",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    connection: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Show everything about connection N; --report is about it, too.",
            metavar="N",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    sort: Annotated[
        tables.SortKey, typer.Option(help="Which connections come first.", rich_help_panel=_OUTPUT)
    ] = "bytes",
    limit: Annotated[
        int,
        typer.Option(min=1, help="Rows in the table, at most.", metavar="N", rich_help_panel=_OUTPUT),
    ] = 20,
    absolute: Annotated[
        bool,
        typer.Option(
            "--absolute/--relative", help="Times as UTC, or since the first packet.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    series: Annotated[
        Path | None,
        typer.Option(
            help="Write Parquet files of every packet, round trip, SACK block and period here.",
            metavar="DIR",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    period: Annotated[
        str,
        typer.Option(help="Period of computed series.", metavar="TIME", rich_help_panel=_OUTPUT),
    ] = "100ms",
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write an HTML page with the graphs of one connection.",
            metavar="FILE.html",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Analyse captures."""
    with Session(ctx, as_json=json) as session:
        window = times.window(
            None if start is None else times.parse(start, "--from"),
            None if end is None else times.parse(end, "--to"),
        )
        wanted = [flows.parse(text) for text in flow or ()]
        settings: dict[str, Any] = {
            "filter": filter,
            "window": window,
            "period_ns": times.period_ns(period),
            # Also where few are shown: what is said about the capture is about all of them.
            "keep": KEEP,
        }
        if report is not None:
            refuse_inputs([report], files, "--report")
        if report is None:
            analysis = analyse(files, series=series, **settings)
            chosen = _chosen(analysis, wanted, connection)
        else:
            analysis, chosen = _reported(files, series, settings, wanted, connection, report, session.command)
        shown = tables.ordered(chosen, sort)
        document = {"kind": "trace", **analysis, "connections": shown}
        if connection is None:
            found = _tables(analysis, shown, limit, absolute=absolute)
        else:
            start_ns = facts.start_ns(analysis)
            found = [table for each in shown for table in tables.whole(each, start_ns, absolute=absolute)]
        session.finish(document, _conclusion(analysis, shown, whole=connection is not None, json=json), found)
        for note in () if json else words.cautions(analysis):
            session.say(note)
        for what, where in (("Series", series), ("Report", report)):
            if where is not None:
                session.say(f"{what}: {where}")


def _chosen(analysis: Analysis, wanted: list[flows.Flow], number: int | None) -> list[Connection]:
    found = flows.select(analysis["connections"], wanted)
    if wanted and not found:
        raise InputError(
            f"none of {len(analysis['connections']):,} TCP connections fits --flow; see them all without it"
        )
    if number is None:
        return found
    one = [each for each in found if each["id"] == number]
    if not one:
        raise InputError(
            f"--connection {number}: no such connection among {len(found):,}; their numbers are in the first "
            "column of the table"
        )
    return one


def _reported(
    files: list[Path],
    series: Path | None,
    settings: dict[str, Any],
    wanted: list[flows.Flow],
    number: int | None,
    report: Path,
    command: str,
) -> tuple[Analysis, list[Connection]]:
    from weirlab import trace as api
    from weirlab.studies.trace import page as pages

    with api.read(files, series=series or True, **settings) as read:
        chosen = _chosen(read.facts, wanted, number)
        first = tables.ordered(chosen, "bytes")[:1]
        if not first:
            raise InputError("--report needs a TCP connection, and there is none in this capture")
        pages.build(read, report, connection=first[0]["id"], command=command)
        return read.facts, chosen


def _conclusion(analysis: Analysis, shown: list[Connection], *, whole: bool, json: bool) -> str:
    """About the capture, and the connection that was asked for."""
    about = [words.capture(analysis)]
    return "\n".join([*about, *(words.conclusion(each) for each in shown if whole and not json)])


def _tables(analysis: Analysis, shown: list[Connection], limit: int, *, absolute: bool) -> list[Table]:
    """``limit`` of the connections ``shown``, and what there is beside TCP."""
    listed, left_out = shown[:limit], analysis["connections_left_out"]
    beside = others.tables(analysis, limit)
    if not listed:
        return beside
    caption = others.titled("TCP connections", len(shown), limit, left_out, "--limit shows more, ")
    start_ns = facts.start_ns(analysis)
    found = [tables.overview(listed, caption, start_ns, absolute=absolute), tables.conclusions(listed)]
    return [*found, tables.data(listed), *beside]
