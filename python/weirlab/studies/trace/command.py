"""``weir trace``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weirlab.cli import diagnosis
from weirlab.cli.options import JsonOption
from weirlab.cli.output import Session
from weirlab.cli.streams import tell
from weirlab.errors import InputError
from weirlab.studies.trace import tables, why
from weirlab.studies.trace.drawing import drawn
from weirlab.trace import facts, flows, others, times, words
from weirlab.trace.analysis import KEEP, analyse, refuse_inputs
from weirlab.trace.quantities import plural

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.trace.facts import Analysis, Connection

TRACE = """Tell what happened to the TCP connections in captures.

For each connection and direction: bytes, throughput, what was sent again and
why, how much of it needlessly, order, duplicate ACKs, SACK, windows, round
trips, data in flight; where on the path it was captured; why it was not faster.
Voice streams and ESP are listed too. FILE is pcap or pcapng, also in gzip or
zstd; several files are one capture, in this order, such as the rotated ones of
weir log.

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
    target: Annotated[
        str | None,
        typer.Option(
            help="Throughput that is wanted: say what it would need.",
            metavar="RATE",
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
        target_bps = None if target is None else _rate_bps(target)
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
        found: dict[int, Diagnosis] = {}
        unsaid = why.reason_not(files, shown) if (listed := why.worth(shown[:limit], files)) else None
        if listed and unsaid is None:
            found = why.diagnosed(files, analysis, listed, series, settings, target_bps)
        if json:
            said = [{**each, "diagnosis": _document(found.get(each["id"]))} for each in shown]
            session.finish({"kind": "trace", **analysis, "connections": said}, words.capture(analysis))
        else:
            session.close()
            _print(analysis, shown, limit, found, absolute=absolute, whole=connection is not None)
        for note in () if json else words.cautions(analysis):
            session.say(note)
        if unsaid is not None:
            session.say(f"Why it was slow is not told: {unsaid}.")
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


def _rate_bps(text: str) -> float:
    from weirlab.traffic.calls.lines import parse_line

    return parse_line(text)


def _document(found: Diagnosis | None) -> dict[str, Any] | None:
    return None if found is None else found.document()


def _print(
    analysis: Analysis,
    shown: list[Connection],
    limit: int,
    found: dict[int, Diagnosis],
    *,
    absolute: bool,
    whole: bool,
) -> None:
    start_ns = facts.start_ns(analysis)
    parts = [words.capture(analysis)]
    if whole:
        parts += [drawn(table) for each in shown for table in tables.whole(each, start_ns, absolute=absolute)]
        for each in found.values():
            parts += [drawn(table) for table in diagnosis.tables(each)]
            parts += ["\n".join(diagnosis.remarks(each))] if diagnosis.remarks(each) else []
        parts += [words.conclusion(each) for each in shown]
        parts += [each.sentence for each in found.values()]
    else:
        listed = shown[:limit]
        parts += [drawn(table) for table in tables.overview(listed, start_ns, absolute=absolute)]
        rest = len(shown) - len(listed) + analysis["connections_left_out"]
        if rest:
            in_json = others.in_json(len(analysis["connections"]), analysis["connections_left_out"])
            parts.append(f"{plural(rest, 'other')}: --limit shows more, {in_json}.")
        if listed:
            parts.append("\n".join(tables.conclusions(listed)))
        if found:
            because = [f"{number}: {each.sentence}" for number, each in found.items()]
            parts.append("\n".join(["Why not faster (--connection tells the rest):", *because]))
        parts += [drawn(table) for table in tables.others(analysis, limit)]
    tell("\n\n".join(parts))
