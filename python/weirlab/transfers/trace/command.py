"""``weir trace``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from weirlab.base.documents import Rows
from weirlab.base.errors import InputError
from weirlab.base.files import standard_input
from weirlab.cli.options import JsonOption, grouped
from weirlab.cli.options.cluster import ClusterOptions
from weirlab.cli.output import Session
from weirlab.cli.results import diagnosis
from weirlab.jobs import batches
from weirlab.trace import cutting, facts, quantities, sheet, wording
from weirlab.trace.analysis import (
    KEEP,
    Flow,
    TraceSettings,
    analyse,
    analyse_share,
    merge,
    parse_flow,
    refuse_inputs,
    select_flows,
)
from weirlab.transfers.trace import tables

if TYPE_CHECKING:
    from weirlab.base.tables import Table
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.trace.cutting import ExcerptResult
    from weirlab.trace.facts import Analysis, Selection
    from weirlab.trace.frames import Trace

TRACE = """Analyse the TCP connections in captures.

For each connection and direction, this reports bytes, throughput,
retransmissions, their causes and which were spurious, reordering, duplicate
ACKs, SACK, windows, round-trip times and data in flight, where on the path
the capture was made, and why the connection was not faster. Voice streams and
ESP are listed too. FILE is pcap or pcapng, plain or compressed with gzip,
zstd, xz, lz4 or bzip2, or - for standard input. Several files are read as one
capture, in this order, such as the rotated files of weir log.

With --each, every file is a capture by itself, with one row of totals; a file
that cannot be read is named in its row. With --cluster, workers (see weir
worker) read them, at the same paths. Without --each, every worker reads all
files and follows a share of the connections, with --no-diagnosis.

T is seconds since the first packet (1.5, 300ms, 2min), a date and time
(2026-01-31T12:00:00.25, UTC unless it ends in +01:00) or @SECONDS since 1970.

Examples:
  weir trace slow.pcapng
  weir trace slow.pcapng --connection 0
  weir trace slow.pcapng --out slow.html --from 2 --to 3.5
  weir trace log-*.pcapng.zst --filter "host 192.0.2.7" --sort retransmissions
  weir trace slow.pcapng --series slow --period 10ms --json
  weir trace slow.pcapng --from 2 --to 3.5 --pcapng part.pcapng
  weir trace archive/*.pcap --each --json
  weir trace archive/*.pcap --each --cluster tcp://127.0.0.1:8786
  weir trace huge.pcap --no-diagnosis --cluster tcp://127.0.0.1:8786
  ssh router tcpdump -c 10000 -w - port 443 | weir trace -
"""


@dataclass(frozen=True)
class PacketOptions:
    """Which packets are analysed."""

    PANEL: ClassVar = "Packets"

    filter: Annotated[
        str, typer.Option(help="Only packets that match; see pcap-filter(7).", metavar="EXPR")
    ] = ""
    start: Annotated[
        str | None, typer.Option("--from", help="Only packets from this time on.", metavar="T")
    ] = None
    end: Annotated[str | None, typer.Option("--to", help="Only packets before this time.", metavar="T")] = (
        None
    )

    def window(self) -> quantities.Window:
        """The time window of the packets."""
        return quantities.window(
            None if self.start is None else quantities.parse_moment(self.start, "--from"),
            None if self.end is None else quantities.parse_moment(self.end, "--to"),
        )


@dataclass(frozen=True)
class DisplayOptions:
    """What is shown and written."""

    PANEL: ClassVar = "Output"

    flow: Annotated[
        list[str] | None,
        typer.Option(
            help="Only connections of 10.0.0.1:40000-192.0.2.1:443, or of one end (an address, :PORT); "
            "repeatable.",
            metavar="END[-END]",
        ),
    ] = None
    connection: Annotated[
        int | None,
        typer.Option(
            min=0, help="Show everything about connection N; also chooses it for --out.", metavar="N"
        ),
    ] = None
    sort: Annotated[tables.SortKey, typer.Option(help="Order of connections.")] = "bytes"
    limit: Annotated[int, typer.Option(min=1, help="Maximum rows in the table.", metavar="N")] = 20
    absolute: Annotated[
        bool,
        typer.Option("--absolute/--relative", help="Times as UTC, or since the first packet."),
    ] = False
    series: Annotated[
        Path | None,
        typer.Option(
            help="Write Parquet files of every packet, round trip, SACK block and period here.",
            metavar="DIR",
        ),
    ] = None
    pcapng: Annotated[
        Path | None,
        typer.Option(
            help="Write the packets that --filter, --from and --to select to this file.",
            metavar="FILE.pcapng",
        ),
    ] = None
    period: Annotated[str, typer.Option(help="Period of computed series.", metavar="TIME")] = "100ms"
    report: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Write an HTML page with the graphs of one connection.", metavar="FILE.html"
        ),
    ] = None
    target: Annotated[
        str | None,
        typer.Option(help="Wanted throughput; the diagnosis says what it needs.", metavar="RATE"),
    ] = None
    diagnosis: Annotated[
        bool,
        typer.Option("--diagnosis/--no-diagnosis", help="Say why connections were not faster."),
    ] = True


def add_to(app: typer.Typer) -> None:
    app.command("trace", help=TRACE, rich_help_panel="Measure")(grouped(trace))


def trace(
    ctx: typer.Context,
    *,
    files: Annotated[list[Path], typer.Argument(help="Captures.", metavar="FILE")],
    packets: PacketOptions,
    options: DisplayOptions,
    each: Annotated[bool, typer.Option("--each", help="Every file by itself, a row for each.")] = False,
    cluster: ClusterOptions,
    json: JsonOption = False,
) -> None:
    series, report, number = options.series, options.report, options.connection
    if each:
        _each(ctx, files, packets, options, cluster, json)
        return
    if (address := cluster.chosen()) is not None:
        _check_shared(files, options)
    with (
        Session(ctx, as_json=json) as session,
        standard_input.readable(files, twice=options.pcapng is not None) as files,
    ):
        window = packets.window()
        wanted = [parse_flow(text) for text in options.flow or ()]
        target_bps = None if options.target is None else _rate_bps(options.target)
        rows = tables.packet_rows(number) if options.diagnosis else None
        settings: TraceSettings = {
            "filter": packets.filter,
            "window": window,
            "period_ns": quantities.period_ns(options.period),
            # Even if few are shown: sentences about the capture cover all connections.
            "keep": KEEP,
            "rows": rows,
        }
        if report is not None:
            refuse_inputs([report], files, "--out")
        if options.pcapng is not None:
            cutting.check(files, options.pcapng, "--pcapng")
        if address is not None:
            read = partial(analyse_share, [str(file.absolute()) for file in files], settings)
            analysis = merge(batches.shares(read, address, session.progress), files)
            chosen = _chosen(analysis, wanted, number)
        elif report is None:
            analysis = analyse(files, series=series, **settings)
            chosen = _chosen(analysis, wanted, number)
        else:
            from weirlab import trace as api

            with api.read(files, series=series or True, **settings) as opened:
                analysis, chosen = opened.facts, _chosen(opened.facts, wanted, number)
                _report(opened, chosen, report, session.command, target_bps)
        part = _part(files, packets.filter, window, options.pcapng)
        shown = tables.ordered(chosen, options.sort)
        reasons: dict[int, Diagnosis] = {}
        unsaid = None
        if rows is not None:
            reasons = tables.diagnosed(rows, shown[: options.limit], target_bps)
            unsaid = tables.reason_not(rows, analysis)
        said = Rows(shown, lambda one: {**one, "diagnosis": _document(reasons.get(one["id"]))})
        document = {"kind": "trace", **analysis, "connections": said}
        document |= {} if part is None else {"pcapng": part}
        found: Iterable[Table]
        if number is None:
            found = _tables(analysis, shown, reasons, options)
        else:
            start_ns = facts.start_ns(analysis)
            found = [
                table for each in shown for table in tables.whole(each, start_ns, absolute=options.absolute)
            ]
            found += [table for reason in reasons.values() for table in diagnosis.tables(reason)]
        conclusion = wording.capture(analysis) if json else _conclusion(analysis, shown, reasons, number)
        session.finish(document, conclusion, found)
        for note in () if json else wording.cautions(analysis):
            session.say(note)
        if unsaid is not None:
            session.say(f"There is no diagnosis: {unsaid}.")
        for what, where in (("Series", series), ("Report", report)):
            if where is not None:
                session.say(f"{what}: {where}")
        if part is not None:
            session.say(f"Packets: {part.packets:,} of {part.read:,} in {part.path}")


def _each(
    ctx: typer.Context,
    files: list[Path],
    packets: PacketOptions,
    options: DisplayOptions,
    cluster: ClusterOptions,
    json: bool,
) -> None:
    from weirlab.transfers.trace.tables import summaries

    others = replace(options, limit=DisplayOptions.limit, diagnosis=DisplayOptions.diagnosis)
    if others != DisplayOptions():
        raise InputError("--each gives totals of each file: of the output options, only --limit goes with it")
    if Path("-") in files:
        raise InputError("--each needs files, and - is standard input")
    with Session(ctx, as_json=json) as session:
        chosen = cluster.chosen()
        found = summaries(files, packets.filter, packets.window(), chosen, session.progress)
        session.finish(found.document(), found.sentence, [found.table(options.limit)], found.problem)
        session.complain(found.problem)


def _check_shared(files: list[Path], options: DisplayOptions) -> None:
    """Refuse what needs the packets of connections: these stay with the workers."""
    if options.series or options.pcapng or options.report:
        raise InputError("--series, --pcapng and --out go with neither --each nor --cluster")
    if options.diagnosis:
        raise InputError(
            "--cluster divides one capture without a diagnosis: add --no-diagnosis, or --each for every file "
            "by itself"
        )
    if Path("-") in files:
        raise InputError("--cluster needs files, and - is standard input")


def _part(
    files: list[Path], filter: str, window: quantities.Window, out: Path | None
) -> ExcerptResult | None:
    return None if out is None else cutting.cut(files, out, filter=filter, window=window, option="--pcapng")


def _chosen(analysis: Analysis, wanted: list[Flow], number: int | None) -> Selection:
    found = select_flows(analysis["connections"], wanted)
    if wanted and not found:
        raise InputError(
            f"none of {len(analysis['connections']):,} TCP connections matches --flow; omit it to see all"
        )
    if number is None:
        return found
    one = found.where(lambda each: each["id"] == number)
    if not found:
        raise InputError(f"--connection {number}: there is no TCP connection in this capture")
    if not one:
        raise InputError(
            f"--connection {number}: no such connection among {len(found):,}; their numbers are in the first "
            "column of the table"
        )
    return one


def _report(opened: Trace, chosen: Selection, report: Path, command: str, target_bps: float | None) -> None:
    from weirlab.transfers.trace.page import story

    first = tables.ordered(chosen, "bytes")[:1]
    if not first:
        raise InputError("--out needs a TCP connection, and there is none in this capture")
    story.build(opened, report, connection=first[0]["id"], command=command, target_bps=target_bps)


def _rate_bps(text: str) -> float:
    from weirlab.base.amounts import parse_line

    return parse_line(text)


def _document(found: Diagnosis | None) -> dict[str, Any] | None:
    return None if found is None else found.document()


def _conclusion(
    analysis: Analysis, shown: Selection, reasons: dict[int, Diagnosis], number: int | None
) -> str:
    """Sentences about the capture, and about the connection that was requested or is the only one."""
    said = [wording.capture(analysis)]
    if number is not None or len(shown) == 1:
        said += [wording.conclusion(each) for each in shown]
        for one, each in reasons.items():
            more = [f"--connection {one} shows the evidence."] if number is None else diagnosis.remarks(each)
            said += [diagnosis.answer(each), *more]
    return "\n".join(said)


def _tables(
    analysis: Analysis, shown: Selection, reasons: dict[int, Diagnosis], options: DisplayOptions
) -> Iterator[Table]:
    """Tables of the first connections in ``shown``, and of what there is besides TCP, one at a time."""
    listed, left_out = shown[: options.limit], analysis["connections_left_out"]
    beside = sheet.others(analysis, options.limit)
    if not listed:
        yield from beside
        return
    caption = sheet.titled("TCP connections", len(shown), options.limit, left_out, "--limit shows more, ")
    start_ns = facts.start_ns(analysis)
    yield tables.overview(listed, caption, start_ns, absolute=options.absolute)
    # For a single connection, the conclusion says it.
    if len(shown) > 1:
        yield tables.conclusions(listed)
        if reasons:
            yield diagnosis.sentences(reasons)
    yield tables.data(listed)
    yield from beside
