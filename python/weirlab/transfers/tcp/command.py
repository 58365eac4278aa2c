"""``weir tcp``: list, watch, send, serve."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.cli.options import JsonOption, grouped
from weirlab.cli.output import LinesOption, Session, line, say
from weirlab.transfers.tcp import bulk
from weirlab.transfers.tcp.measure import command as measuring

if TYPE_CHECKING:
    from weirlab.transfers.tcp.causes import CauseLog, ConnectionCause
    from weirlab.transfers.tcp.connections import TcpSocket
    from weirlab.transfers.tcp.watching import RetransmissionLog, WatchOutcome, WatchSettings

DEFAULT_EVERY = "100ms"

TCP = """Run bulk transfers, and watch what the kernel knows about TCP connections.

Only captures (weir tcp measure --capture, weir tcp serve --allow-capture) and
weir tcp watch --events and --by bpf need root. Without root, the processes of
other users are not named.

Examples:
  weir tcp serve                         one end of a transfer
  weir tcp send localhost                the other
  weir tcp measure localhost             the same from all sides, and why
  weir tcp why curl                      why connections of a program are slow
  weir tcp list                          all connections of this host
  weir tcp watch :443 --every 10ms       sample some of them
"""

LIST = """List the TCP connections of this network namespace.

Sockets in the states listen, close and time-wait are left out unless --state
names them. A connection must match all options; several --state are
alternatives.

Examples:
  weir tcp list
  weir tcp list --port 443 --state established
  weir tcp list --address 192.0.2.7
  weir tcp list --process sshd --json
"""

WHY = """Say why the connections of a program are not faster, live.

TARGET is a program by its name (curl), a process by its ID (4711), one end
(:443, 192.0.2.1, HOST:PORT), or two (10.0.0.1:40000-192.0.2.1:443). weir
waits until they exist, says once a second what held them back in the last
ten seconds, and sums up when they end, or at Ctrl-C. It needs neither root
nor Weir at the other end. The end that sends knows most; at an end that
receives, weir tells a slow reader and a small buffer from everything else.

Examples:
  weir tcp why curl
  weir tcp why :443 --duration 30s
  weir tcp why db.example.org:5432 --json
"""

WATCH = """Watch connections of any program, sampled at a fixed period or by events.

CONNECTION is two ends (10.0.0.1:40000-192.0.2.1:443), one end (192.0.2.1,
:443), a process by its ID (4711) or a program by its name (iperf3). All
connections that match are watched until they end. Missed samples are counted.

As root, where the kernel allows it, BPF programs take the samples, each at
the first event after it is due: a segment arrives, the program reads, a
segment is retransmitted, or the state changes. While nothing happens, due
samples are not taken but counted as idle. Elsewhere INET_DIAG takes the
samples, which waits for the connection's lock.

With --events, nothing is sampled. BPF programs report each state change, each
received segment, and each retransmission with its sequence number, all with
the congestion window and RTT at that moment. This needs root. Events that the
buffer has no room for are counted.

With --json, every sample or event is a JSON document on its own line, and the
result is the last line. With --out as well, the result is the only line.

Examples:
  weir tcp watch :5201
  weir tcp watch iperf3 --wait --every 1ms --out run.parquet
  weir tcp watch 192.0.2.1:443 --fields rtt,snd_cwnd,total_retrans --json
  weir tcp watch 4711 --fields all --duration 30s --out run.csv
  weir tcp watch :5201 --by inet-diag --fields timer,timer_expires_ms
  weir tcp watch :5201 --events --wait --json
  weir tcp watch --list-fields
"""


@dataclass(frozen=True)
class SampleOptions:
    """How connections are watched."""

    PANEL: ClassVar = "What is watched"

    every: Annotated[
        str | None,
        typer.Option(help="Time between two samples: 10us to 1h (100ms).", metavar="TIME"),
    ] = None
    events: Annotated[
        bool,
        typer.Option(
            "--events", help="Report every state change, received segment and retransmission; needs root."
        ),
    ] = False
    by: Annotated[
        str | None,
        typer.Option(
            help="How to sample: bpf (needs root), inet-diag, or auto (the default): bpf if it works.",
            metavar="WAY",
        ),
    ] = None
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for connections that do not exist yet; also watch later ones."),
    ] = False
    duration: Annotated[str | None, typer.Option(help="Stop after this time: 90s, 5min.", metavar="TIME")] = (
        None
    )

    def period_ns(self) -> int | None:
        """``--every`` in ns; None with ``--events``."""
        if self.events:
            if self.every is not None:
                raise InputError("--every and --events exclude each other: events are not periodic")
            return None
        return _period_ns(DEFAULT_EVERY if self.every is None else self.every)

    def way(self) -> str:
        """``--by``, one of ``watching.WAYS``."""
        from weirlab.transfers.tcp.watching import AUTO, WAYS

        if self.by is not None and self.events:
            raise InputError("--by and --events exclude each other: events are never sampled")
        if self.by not in (None, *WAYS):
            raise InputError(f"--by {quoted(self.by)}: expected {', '.join(WAYS)}")
        return self.by or AUTO


@dataclass(frozen=True)
class FieldOptions:
    """What is shown and stored of the connections."""

    PANEL: ClassVar = "Output"

    fields: Annotated[
        str | None, typer.Option(help="Fields to keep and show, or all.", metavar="NAME,...")
    ] = None
    list_fields: Annotated[bool, typer.Option("--list-fields", help="List all fields and exit.")] = False
    out: Annotated[Path | None, typer.Option(help="Write all samples here.", metavar="FILE.parquet|.csv")] = (
        None
    )


def add_to(app: typer.Typer) -> None:
    tcp = typer.Typer(help=TCP, no_args_is_help=True)
    tcp.command("list", help=LIST)(list_)
    tcp.command("why", help=WHY)(why)
    tcp.command("watch", help=WATCH)(grouped(watch))
    bulk.add_to(tcp)
    measuring.add_to(tcp)
    app.add_typer(tcp, name="tcp", rich_help_panel="Measure")


def list_(
    ctx: typer.Context,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Local or remote port.", metavar="PORT")
    ] = None,
    address: Annotated[str | None, typer.Option(help="Local or remote address.", metavar="ADDRESS")] = None,
    state: Annotated[
        list[str] | None,
        typer.Option(help="established, syn-sent, listen, ... (as in ss); repeatable.", metavar="STATE"),
    ] = None,
    process: Annotated[
        str | None, typer.Option(help="Process ID or program name.", metavar="PID|NAME")
    ] = None,
    json: JsonOption = False,
) -> None:
    from weirlab.transfers.tcp import connections
    from weirlab.transfers.tcp.show import tables

    with Session(ctx, as_json=json) as session:
        wanted = connections.target(port=port, address=address, process=process)
        everything = connections.listed()
        found = connections.select(everything, wanted, state or ())
        document = {"kind": "tcp list", "connections": [_plain(each) for each in found]}
        session.finish(document, tables.counted(found, len(everything)), [tables.connections(found)])


def watch(
    ctx: typer.Context,
    *,
    connection: Annotated[
        str | None, typer.Argument(help="Ends, process or program.", metavar="CONNECTION")
    ] = None,
    samples: SampleOptions,
    shown: FieldOptions,
    json: LinesOption = False,
) -> None:
    from weirlab.transfers.tcp import causes as why_slow
    from weirlab.transfers.tcp import connections
    from weirlab.transfers.tcp import connections as names
    from weirlab.transfers.tcp.causes import CauseLog
    from weirlab.transfers.tcp.show import tables
    from weirlab.transfers.tcp.watching import RetransmissionLog, WatchSettings

    fields, out = shown.fields, shown.out
    with Session(ctx, as_json=json) as session:
        if shown.list_fields:
            known = names.event_fields() if samples.events else names.fields()
            document = {"kind": "tcp fields", "fields": known}
            session.finish(document, f"{len(known)} fields.", [tables.fields(known)])
            return
        if connection is None:
            raise InputError("CONNECTION is missing: two ends, one end, a process or a program")
        settings = WatchSettings(
            target=connections.parse(connection),
            period_ns=samples.period_ns(),
            names=names.chosen(fields, events=samples.events),
            wait=samples.wait,
            duration_s=_seconds(samples.duration),
            by=samples.way(),
            insists=fields not in (None, names.ALL),
            others=() if samples.events else why_slow.fields(),
        )
        again = RetransmissionLog()
        log = None if samples.events else CauseLog()
        outcome = _watched(session, settings, out, again, log, chosen=fields is not None)
        causes = [] if log is None else log.causes(outcome.progress)
        document = tables.watch_document(outcome, settings, connection, out, causes)
        conclusion = tables.watch_conclusion(outcome, settings, causes)
        if json:
            say({**document, "conclusion": conclusion})
            return
        shown_tables = tables.watched(outcome, events=settings.by_events)
        if again.count:
            shown_tables.append(tables.retransmissions(again))
        session.finish(document, conclusion, shown_tables)
        # A field may be absent just because its event did not happen.
        if fields is not None and fields != names.ALL and outcome.absent and not settings.by_events:
            session.say(names.absent_sentence(outcome.absent))
        if out is not None:
            session.say(f"Samples: {out}")


def why(
    ctx: typer.Context,
    *,
    target: Annotated[str, typer.Argument(help="A program, a process, or ends.", metavar="TARGET")],
    every: Annotated[
        str, typer.Option(help="Time between two samples: 10us to 1h.", metavar="TIME")
    ] = "10ms",
    duration: Annotated[
        str | None, typer.Option(help="Stop after this time: 90s, 5min.", metavar="TIME")
    ] = None,
    json: LinesOption = False,
) -> None:
    from weirlab.link.stopping import Stop
    from weirlab.transfers.tcp import causes, connections, watching
    from weirlab.transfers.tcp.show import screen

    with Session(ctx, as_json=json) as session:
        wanted = connections.parse(target, "TARGET")
        settings = causes.watch_settings(wanted, _period_ns(every), _seconds(duration))
        log = causes.CauseLog()
        observers: list[watching.WatchObserver] = [log]
        if json:
            observers.append(screen.LiveCauses(log, lambda found: say(_why_document(target, found))))
        elif not sys.stderr.isatty():
            news = causes.CauseNews()

            def tell(found: Sequence[ConnectionCause]) -> None:
                for each in news.lines(found):
                    session.say(each)

            observers.append(screen.LiveCauses(log, tell))
        with Stop() as stop, screen.screen(sys.stderr, (), log, quiet=json) as live:
            outcome = watching.watch(settings, [*observers, live], stop)
        found = log.causes(outcome.progress)
        lines = [one.line for one in found] or ["No connection appeared."]
        if json:
            say({**_why_document(target, found), "conclusion": " ".join(lines)})
            return
        session.finish({}, "\n".join(lines), [screen.evidence(one) for one in found if one.findings])


def _why_document(target: str, found: Sequence[ConnectionCause]) -> dict[str, Any]:
    return {"kind": "tcp why", "target": target, "causes": [one.document() for one in found]}


def _watched(
    session: Session,
    settings: WatchSettings,
    out: Path | None,
    again: RetransmissionLog,
    causes: CauseLog | None,
    *,
    chosen: bool,
) -> WatchOutcome:
    from weirlab.link.stopping import Stop
    from weirlab.transfers.tcp import watching
    from weirlab.transfers.tcp.show.screen import MOST_COLUMNS, SampleFile, SampleLines, screen

    observers: list[Any] = [again] if causes is None else [causes]
    keeper = None if out is None else SampleFile(out, settings.names, events=settings.by_events)
    if keeper is not None:
        # Polars takes Ctrl-C for itself when it is imported.
        import polars  # noqa: F401

        observers.append(keeper)
    names = settings.names if chosen and len(settings.names) <= MOST_COLUMNS else ()
    if session.json and keeper is None:
        observers.append(SampleLines(settings.names, lambda document: print(line(document))))
    with Stop() as stop, screen(sys.stderr, names, causes, quiet=session.json) as live:
        outcome = watching.watch(settings, [*observers, live], stop)
    if keeper is not None:
        keeper.write()
    return outcome


def _plain(connection: TcpSocket) -> dict[str, Any]:
    names = ("local", "remote", "state", "pid", "process", "uid", "inode", "congestion", "fields")
    return {name: getattr(connection, name) for name in names}


def _period_ns(text: str) -> int:
    from weirlab.trace.quantities import period_ns
    from weirlab.transfers.tcp.watching import SHORTEST_NS

    found = period_ns(text, "--every")
    if found < SHORTEST_NS:
        raise InputError(f"--every {text}: the kernel does not answer faster than every 10us")
    return found


def _seconds(text: str | None) -> float | None:
    from weirlab.base.amounts import parse_time

    return None if text is None else parse_time(text, "--duration")
