"""``weir tcp measure``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from weirlab import interrupts
from weirlab.cli.options import ResultOptions, grouped, only, without
from weirlab.cli.streams import tell
from weirlab.errors import InputError
from weirlab.studies.tcp.options import (
    OutputOptions,
    SendOptions,
    ServerOptions,
    SocketOptions,
    TransferOptions,
)
from weirlab.trace import times

if TYPE_CHECKING:
    from weirlab.studies.tcp.measure.result import Asked
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


@dataclass(frozen=True)
class SourceOptions:
    """What is looked at, and how often."""

    PANEL: ClassVar = "Sources"

    every: Annotated[str, typer.Option(help="Period of the kernels' reports: 1ms to 1h.", metavar="TIME")] = (
        "10ms"
    )
    capture: Annotated[
        str,
        typer.Option(
            help="Record packets here: auto (where allowed), none, or an interface.", metavar="auto|none|IF"
        ),
    ] = "auto"

    def every_ns(self) -> int:
        """``--every`` in ns."""
        found = times.period_ns(self.every, "--every")
        if found < 1_000_000:
            raise InputError(f"--every {self.every}: 1ms is the shortest")
        return found


@dataclass(frozen=True)
class AxisOptions:
    """What is computed, and what of it is shown."""

    PANEL: ClassVar = "Output"

    target: Annotated[
        str | None,
        typer.Option(help="Throughput that is wanted: say what it would need.", metavar="RATE"),
    ] = None
    period: Annotated[str, typer.Option(help="Period of computed values.", metavar="TIME")] = "100ms"
    interval: Annotated[str, typer.Option(help="Period of what is printed.", metavar="TIME")] = "1s"
    start: Annotated[
        str | None, typer.Option("--from", help="Show only what is from this time on.", metavar="T")
    ] = None
    end: Annotated[str | None, typer.Option("--to", help="Show only what is before.", metavar="T")] = None
    absolute: Annotated[
        bool, typer.Option("--absolute/--relative", help="Times as UTC, or since the start.")
    ] = False
    fields: Annotated[
        str | None,
        typer.Option(
            help="The kernel's fields on the axis (weir tcp watch --list-fields).", metavar="NAME,..."
        ),
    ] = None

    def asked(self) -> Asked:
        """The same, understood."""
        from weirlab.studies.tcp import fields as names
        from weirlab.studies.tcp.measure.result import Asked
        from weirlab.traffic.calls.lines import parse_line

        return Asked(
            period_ns=times.period_ns(self.period),
            print_ns=times.period_ns(self.interval, "--interval"),
            window=times.window(
                None if self.start is None else times.parse(self.start, "--from"),
                None if self.end is None else times.parse(self.end, "--to"),
            ),
            names=None if self.fields is None else names.chosen(self.fields),
            target_bps=None if self.target is None else parse_line(self.target),
        )


def measure(
    ctx: typer.Context,
    *,
    server: ServerOptions,
    transfer: Annotated[TransferOptions, without("bidir", "forever", "block")],
    sockets: Annotated[SocketOptions, only("congestion", "option")],
    sources: SourceOptions,
    axis: AxisOptions,
    result: ResultOptions,
) -> None:
    """Measure."""
    from weirlab.link.stopping import Stop
    from weirlab.studies.tcp.measure import capturing, measuring, told
    from weirlab.studies.tcp.measure import result as results

    with result.session(ctx) as session:
        asked = axis.asked()
        sending = SendOptions(server, transfer, sockets, OutputOptions())
        settings = replace(sending.settings(as_json=result.json), interval_s=sources.every_ns() / 1e9)
        # Polars takes Ctrl-C for itself when it is imported.
        import polars  # noqa: F401

        lines = _Lines(quiet=result.json)
        with TemporaryDirectory(prefix="weir-measure-") as scratch, Stop() as stop:
            with capturing.capturing(
                settings.host, settings.port, Path(scratch), sources.capture
            ) as recorded:
                measured = measuring.measure(settings, lines, asked.print_ns / 1e9, stop)
            outcome = results.found(measured, recorded, asked)
            run = results.keep(session.store, outcome, settings, session.command)
        problem = measured.outcome.problem()
        document = told.document(outcome, run)
        session.finish(
            document, told.conclusion(outcome, run), told.tables(outcome, absolute=axis.absolute), problem
        )
        for said in () if result.json else told.remarks(outcome):
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
    app.command("measure", help=MEASURE)(grouped(measure))
