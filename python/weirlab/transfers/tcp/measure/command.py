"""``weir tcp measure``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from weirlab.base import interrupts
from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES
from weirlab.cli.options import ReportOptions, ResultOptions, grouped, only, without
from weirlab.cli.streams import tell
from weirlab.trace import quantities
from weirlab.transfers.tcp import ndt7
from weirlab.transfers.tcp.options import (
    FarOptions,
    OutputOptions,
    ServerOptions,
    SocketOptions,
    TcpSendOptions,
    TransferOptions,
)
from weirlab.transfers.tcp.settings import PORT

if TYPE_CHECKING:
    from weirlab.transfers.tcp.results import Interval
    from weirlab.transfers.tcp.settings import TransferSettings
    from weirlab.transfers.tcp.study.findings import AxisView
    from weirlab.transfers.tcp.study.section import TcpScenario

MEASURE = """Measure a transfer from all sides at once, and say why it was not faster.

HOST runs weir tcp serve. Both ends report the kernel's state of every
connection. Both also record the packets: this host if it runs as root, HOST
if weir tcp serve was started with --allow-capture. Everything is put on one
time axis, by the clock of this host; the result says how well the other clock
is known. The run is kept: weir report draws its page, and its tables are
Parquet. weir run slow-transfer measures over an emulated path instead.

With --ndt7, HOST is an ndt7 server instead: weir web --tests, or one of
M-Lab's. One connection sends or receives for 10 s. Of the server's kernel,
this host knows what its messages tell, ten times a second. Give the server as
HOST (with TLS) or as ws://HOST:PORT.

With --client, the transfer runs between two other hosts, both of which run
weir tcp serve. This host starts it, receives what both kernels report, and
keeps it. Each of the two hosts records packets if it was started with
--allow-capture. Times are those of the client's clock.

--capture between:INTERFACE also records on an interface of this host that
forwards the connection, such as a bridge or a router's port. This shows on
which side of this host packets are lost or wait.

--every is the period of the kernel's reports, --period that of computed
values (in --json and in the run), --interval that of printed lines and
tables.

Examples:
  weir tcp measure 192.0.2.1 --token SECRET
  weir tcp measure 192.0.2.1 --token SECRET --reverse --target 1Gbit/s
  weir tcp measure localhost --duration 3s --every 1ms --period 10ms --json
  weir tcp measure 192.0.2.1 --token SECRET --from 2 --to 3.5 --interval 100ms
  weir tcp measure 192.0.2.1 --token SECRET --out slow.html
  weir tcp measure 192.0.2.1 --token SECRET --capture sender,receiver
  weir tcp measure 192.0.2.1 --token A --client 198.51.100.7 --client-token B
  weir tcp measure 192.0.2.1 --client 198.51.100.7 --capture auto,between:br0
  weir tcp measure --ndt7 ws://192.0.2.1:29180 --reverse
"""


@dataclass(frozen=True)
class TestOptions:
    """The transfer, and between whom."""

    server: ServerOptions
    transfer: Annotated[TransferOptions, without("bidir", "forever")]
    sockets: Annotated[SocketOptions, only("congestion", "option")]
    far: FarOptions
    ndt7: Annotated[
        bool, typer.Option("--ndt7", help="HOST is an ndt7 server, such as weir web --tests.")
    ] = False

    def settings(self, *, as_json: bool) -> TransferSettings:
        """The same, understood."""
        asked = TcpSendOptions(self.server, self.transfer, self.sockets, OutputOptions(), self.far)
        settings = asked.settings(as_json=as_json)
        return ndt7.of(settings) if self.ndt7 else settings


@dataclass(frozen=True)
class ObservationOptions:
    """What is looked at, and how often."""

    PANEL: ClassVar = "Sources"

    every: Annotated[str, typer.Option(help="Period of the kernels' reports: 1ms to 1h.", metavar="TIME")] = (
        "10ms"
    )
    capture: Annotated[
        str,
        typer.Option(
            help="Record packets: auto (both ends, if allowed), none, or where: sender, receiver, an "
            "interface of this host (as the client), between:INTERFACE (this host forwards).",
            metavar="auto|none|WHERE,...",
        ),
    ] = "auto"

    def every_ns(self) -> int:
        """``--every`` in ns."""
        found = quantities.period_ns(self.every, "--every")
        if found < 1_000_000:
            raise InputError(f"--every {self.every}: 1ms is the shortest")
        return found

    def check(self, *, reverse: bool) -> None:
        """Raise ``InputError`` for a capture that is not understood."""
        from weirlab.transfers.tcp.measure import capturing

        capturing.ends(self.capture, reverse=reverse)


@dataclass(frozen=True)
class AxisOptions:
    """What is computed, and what of it is shown."""

    PANEL: ClassVar = "Output"

    target: Annotated[
        str | None, typer.Option(help="Wanted throughput; the diagnosis says what it needs.", metavar="RATE")
    ] = None
    period: Annotated[str, typer.Option(help="Period of computed values.", metavar="TIME")] = "100ms"
    interval: Annotated[str, typer.Option(help="Period of printed lines and tables.", metavar="TIME")] = "1s"
    start: Annotated[
        str | None, typer.Option("--from", help="Show values from this time on.", metavar="T")
    ] = None
    end: Annotated[str | None, typer.Option("--to", help="Show values before this time.", metavar="T")] = None
    absolute: Annotated[
        bool, typer.Option("--absolute/--relative", help="Times as UTC, or since the start.")
    ] = False
    fields: Annotated[
        str | None,
        typer.Option(
            help="Kernel fields on the time axis (see weir tcp watch --list-fields).", metavar="NAME,..."
        ),
    ] = None

    def view(self) -> AxisView:
        """What is shown of the axis."""
        from weirlab.transfers.tcp.study.findings import AxisView

        return AxisView(
            print_ns=quantities.period_ns(self.interval, "--interval"),
            window=quantities.window(
                None if self.start is None else quantities.parse_moment(self.start, "--from"),
                None if self.end is None else quantities.parse_moment(self.end, "--to"),
            ),
            absolute=self.absolute,
            chosen=self.fields is not None,
        )

    def check(self) -> None:
        """Raise ``InputError`` for what is not understood; the message names the option."""
        from weirlab.base.amounts import parse_line
        from weirlab.transfers.tcp import connections as names

        quantities.period_ns(self.period)
        if self.fields is not None:
            names.chosen(self.fields)
        if self.target is not None:
            parse_line(self.target)


def measure(
    ctx: typer.Context,
    *,
    what: TestOptions,
    sources: ObservationOptions,
    axis: AxisOptions,
    report: ReportOptions,
    result: ResultOptions,
) -> None:
    from weirlab.jobs.progress import SilentProgress
    from weirlab.jobs.work import Work
    from weirlab.studies import runner
    from weirlab.transfers.tcp.study.running import TcpStudy, TransferDisplay

    with result.session(ctx) as session:
        # Messages name the options before the scenario is made of them.
        settings = what.settings(as_json=result.json)
        sources.every_ns()
        sources.check(reverse=what.transfer.reverse)
        axis.check()
        asked = _scenario(settings, what, sources, axis)
        tokens = what.server.token, what.far.client_token
        live = TransferDisplay(_MeasureLines(quiet=result.json), axis.view(), tokens, shows_interrupted=True)
        outcome = runner.run(
            TcpStudy(live),
            asked,
            Work(session.store, SilentProgress(), session.command, inputs=HOST_FILES),
            out=report.out,
            plots=report.plots,
        )
        told, problem = outcome.summary(), outcome.problem()
        session.finish(outcome.document(), told.conclusion, told.tables, problem)
        for said in () if result.json else outcome.found.remarks():
            session.say(said)
        session.complain(problem)
        if outcome.found.interrupted:
            raise typer.Exit(interrupts.exit_code())


def _scenario(
    settings: TransferSettings, what: TestOptions, sources: ObservationOptions, axis: AxisOptions
) -> TcpScenario:
    from weirlab.transfers.tcp.study.section import TcpScenario, TcpSection

    transfer = what.transfer
    section = TcpSection(
        host=what.server.host,
        port=what.server.port,
        ndt7=what.ndt7,
        client=None if settings.via is None else settings.via.host,
        client_port=PORT if settings.via is None else settings.via.port,
        connections=transfer.connections,
        reverse=transfer.reverse,
        lasts=transfer.duration,
        total=transfer.total,
        rate=transfer.rate,
        block=transfer.block,
        congestion=settings.congestion,
        options=dict(settings.options),
        every=sources.every,
        period=axis.period,
        fields=axis.fields,
        capture=sources.capture,
        target=axis.target,
    )
    return TcpScenario(name=f"TCP transfer to {settings.host}", tcp=section, report=None)


class _MeasureLines:
    """A line per interval on stderr."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def started(self, event: Mapping[str, Any]) -> None:
        from weirlab.transfers.tcp.show import tables

        self._tell(f"weir: {tables.send_begun(event)}")

    def interval(self, interval: Interval) -> None:
        from weirlab.transfers.tcp.show import tables

        self._tell(tables.interval_line(interval))

    def blocks(self, event: Mapping[str, Any]) -> None:
        """Not asked for."""

    def _tell(self, text: str) -> None:
        if not self._quiet:
            tell(text, sys.stderr)


def add_to(app: typer.Typer) -> None:
    app.command("measure", help=MEASURE)(grouped(measure))
