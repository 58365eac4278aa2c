"""``weir tcp measure``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weirlab import interrupts
from weirlab.cli.options import JsonOption, StoreOption
from weirlab.cli.output import Session
from weirlab.cli.streams import tell
from weirlab.errors import InputError
from weirlab.studies.tcp import options, sending

if TYPE_CHECKING:
    from weirlab.studies.tcp.results import Interval

MEASURE = """Measure a transfer from all sides at once, and say why it was not faster.

HOST runs weir tcp serve. Both ends report the kernel's state of every
connection; this end records the packets too, where it may (root). Everything is
put on one axis of time, by the clock of this host; how well the other clock is
known is told. The run is kept: weir runs lists it, its tables are Parquet.

--every is the period of the kernel's reports, --period that of computed values
(in --json and in the run), --interval that of lines and tables for people.

Examples:
  weir tcp measure 192.0.2.1 --token SECRET
  weir tcp measure 192.0.2.1 --token SECRET --reverse --target 1Gbit/s
  weir tcp measure localhost --time 3s --every 1ms --period 10ms --json
  weir tcp measure 192.0.2.1 --token SECRET --from 2 --to 3.5 --interval 100ms
"""

_TRANSFER = "Transfer"
_SOURCES = "Sources"
_OUTPUT = "Output"


def measure(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(help="Name or address of the server.", metavar="HOST")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.", metavar="PORT")] = sending.PORT,
    token: options.TokenOption = "",
    connections: Annotated[
        int,
        typer.Option(
            min=1, max=sending.MOST_CONNECTIONS, help="How many.", metavar="N", rich_help_panel=_TRANSFER
        ),
    ] = 1,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The server sends.", rich_help_panel=_TRANSFER)
    ] = False,
    duration: Annotated[
        str | None,
        typer.Option("--time", help="How long: 90s, 5min (10s).", metavar="TIME", rich_help_panel=_TRANSFER),
    ] = None,
    total: Annotated[
        str | None,
        typer.Option(
            "--bytes", help="How much, instead: 500MB, 64MiB.", metavar="SIZE", rich_help_panel=_TRANSFER
        ),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="At most: 50Mbit/s.", metavar="RATE", rich_help_panel=_TRANSFER)
    ] = None,
    congestion: Annotated[
        str,
        typer.Option(
            help="Congestion control of both ends, e.g. cubic.", metavar="NAME", rich_help_panel=_TRANSFER
        ),
    ] = "",
    option: options.OptionOption = None,
    every: Annotated[
        str,
        typer.Option(
            help="Period of the kernels' reports: 1ms to 1h.", metavar="TIME", rich_help_panel=_SOURCES
        ),
    ] = "10ms",
    capture: Annotated[
        str,
        typer.Option(
            help="Record packets here: auto (where allowed), none, or an interface.",
            metavar="auto|none|IF",
            rich_help_panel=_SOURCES,
        ),
    ] = "auto",
    target: Annotated[
        str | None,
        typer.Option(
            help="Throughput that is wanted: say what it would need.",
            metavar="RATE",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    period: Annotated[
        str, typer.Option(help="Period of computed values.", metavar="TIME", rich_help_panel=_OUTPUT)
    ] = "100ms",
    interval: Annotated[
        str,
        typer.Option(help="Period of what is printed.", metavar="TIME", rich_help_panel=_OUTPUT),
    ] = "1s",
    start: Annotated[
        str | None,
        typer.Option(
            "--from", help="Show only what is from this time on.", metavar="T", rich_help_panel=_OUTPUT
        ),
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="Show only what is before.", metavar="T", rich_help_panel=_OUTPUT),
    ] = None,
    absolute: Annotated[
        bool,
        typer.Option(
            "--absolute/--relative", help="Times as UTC, or since the start.", rich_help_panel=_OUTPUT
        ),
    ] = False,
    fields: Annotated[
        str | None,
        typer.Option(
            help="The kernel's fields on the axis (weir tcp watch --list-fields).",
            metavar="NAME,...",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    store: StoreOption = None,
    json: JsonOption = False,
) -> None:
    """Measure."""
    from weirlab.link.settings import parse_size, parse_time
    from weirlab.link.stopping import Stop
    from weirlab.studies.tcp import fields as names
    from weirlab.studies.tcp.measure import capturing, measuring, result, told
    from weirlab.trace import times
    from weirlab.traffic.calls.lines import parse_line

    with Session(ctx, as_json=json, store=store) as session:
        if duration is not None and total is not None:
            raise InputError("--time and --bytes exclude each other; give one")
        every_ns, period_ns = times.period_ns(every, "--every"), times.period_ns(period)
        interval_ns = times.period_ns(interval, "--interval")
        if every_ns < 1_000_000:
            raise InputError(f"--every {every}: 1ms is the shortest")
        asked = result.Asked(
            period_ns=period_ns,
            print_ns=interval_ns,
            window=times.window(
                None if start is None else times.parse(start, "--from"),
                None if end is None else times.parse(end, "--to"),
            ),
            names=None if fields is None else names.chosen(fields),
            target_bps=None if target is None else parse_line(target),
        )
        settings = sending.Settings(
            host=host.strip("[]"),
            port=port,
            token=token,
            up=0 if reverse else connections,
            down=connections if reverse else 0,
            lasts_s=(sending.LASTS_S if total is None else None)
            if duration is None
            else parse_time(duration, "--time"),
            total_bytes=None if total is None else parse_size(total, "--bytes"),
            rate_bps=None if rate is None else parse_line(rate),
            interval_s=every_ns / 1e9,
            congestion=congestion,
            options=tuple(map(sending.option, option or ())),
        )
        # Polars takes Ctrl-C for itself when it is imported.
        import polars  # noqa: F401

        lines = _Lines(quiet=json)
        with TemporaryDirectory(prefix="weir-measure-") as scratch, Stop() as stop:
            with capturing.capturing(settings.host, port, Path(scratch), capture) as recorded:
                measured = measuring.measure(settings, lines, interval_ns / 1e9, stop)
            outcome = result.found(measured, recorded, asked)
            run = result.keep(session.store, outcome, settings, session.command)
        problem = measured.outcome.problem()
        document = told.document(outcome, run)
        session.finish(
            document, told.conclusion(outcome, run), told.tables(outcome, absolute=absolute), problem
        )
        for said in () if json else told.remarks(outcome):
            session.say(said)
        session.complain(problem)
        if measured.outcome.interrupted:
            raise typer.Exit(interrupts.exit_code())


class _Lines:
    """A line per interval on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def started(self, event: Mapping[str, Any]) -> None:
        from weirlab.studies.tcp.show import tables

        self._tell(f"weir: {tables.send_begun(event)}")

    def interval(self, interval: Interval) -> None:
        from weirlab.studies.tcp.show import tables

        self._tell(tables.interval_line(interval))

    def blocks(self, event: Mapping[str, Any]) -> None:
        """Not asked for."""

    def _tell(self, text: str) -> None:
        if not self._quiet:
            tell(text, sys.stderr)


def add_to(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("measure", help=MEASURE)(measure)
