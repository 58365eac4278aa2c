"""``weir tcp send`` and ``weir tcp serve``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weirlab import interrupts
from weirlab.cli.output import Session
from weirlab.cli.streams import tell
from weirlab.errors import InputError
from weirlab.studies.tcp import sending, serving
from weirlab.studies.tcp.show.lines import LinesOption, say

if TYPE_CHECKING:
    from weirlab.studies.tcp.results import Interval

SEND = """Send as fast as TCP allows, and report what both ends measured.

HOST runs weir tcp serve. A line per interval goes to stderr, the result to
stdout. Bytes are those that the receiver read; round-trip time, window and
retransmissions are the sender's, from the kernel. Block latency is one-way
and needs one clock: it is reported only where both ends run on one host.

With --json every interval is a JSON document on a line of its own, and the
result is the last line. Ctrl-C ends the transfer in good order.

Examples:
  weir tcp send localhost
  weir tcp send 192.0.2.1 --token SECRET --reverse --connections 4
  weir tcp send 192.0.2.1 --bytes 1GB --congestion cubic --json
  weir tcp send 192.0.2.1 --rate 50Mbit/s --forever --interval 5s
  weir tcp send 192.0.2.1 --option SO_SNDBUF=65536 --option TCP_NODELAY=1
"""

SERVE = """Serve bulk transfers to weir tcp send, until Ctrl-C.

It listens on loopback. Any other address of this host needs a token, which
clients prove to know; it never crosses the network, but data do in clear.
Limits of time, bytes and clients keep it from being misused. Whoever sends
something else is disconnected, and reported once.

With --json every event is a JSON document on a line of its own, and the
account of all transfers is the last line.

Examples:
  weir tcp serve
  weir tcp serve --bind 0.0.0.0 --token SECRET
  weir tcp serve --bind :: --token SECRET --max-time 60s --max-bytes 10GB
  weir tcp serve --option SO_RCVBUF=131072 --transfers 1
"""

_TRANSFER = "Transfer"
_SOCKETS = "Sockets"
_OUTPUT = "Output"
_LIMITS = "Limits"

TokenOption = Annotated[
    str,
    typer.Option("--token", help="What clients must know.", envvar="WEIR_TCP_TOKEN", metavar="TEXT"),
]
OptionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        help="Socket option by name, or LEVEL:NUMBER, of the data connections; repeatable.",
        metavar="NAME=VALUE",
        rich_help_panel=_SOCKETS,
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command("send", help=SEND)(send)
    app.command("serve", help=SERVE)(serve)


def send(
    ctx: typer.Context,
    host: Annotated[str, typer.Argument(help="Name or address of the server.", metavar="HOST")],
    port: Annotated[int, typer.Option(min=1, max=65535, help="Its port.", metavar="PORT")] = sending.PORT,
    token: TokenOption = "",
    connections: Annotated[
        int,
        typer.Option(
            min=1,
            max=sending.MOST_CONNECTIONS,
            help="Connections in each direction.",
            metavar="N",
            rich_help_panel=_TRANSFER,
        ),
    ] = 1,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="The server sends.", rich_help_panel=_TRANSFER)
    ] = False,
    bidir: Annotated[
        bool,
        typer.Option("--bidir", help="Both send, over connections of their own.", rich_help_panel=_TRANSFER),
    ] = False,
    duration: Annotated[
        str | None,
        typer.Option("--time", help="How long: 90s, 5min (10s).", metavar="TIME", rich_help_panel=_TRANSFER),
    ] = None,
    total: Annotated[
        str | None,
        typer.Option(
            "--bytes",
            help="How much in each direction, instead: 500MB, 64MiB.",
            metavar="SIZE",
            rich_help_panel=_TRANSFER,
        ),
    ] = None,
    forever: Annotated[
        bool,
        typer.Option(
            "--forever",
            help="Until Ctrl-C, instead; needs a server with --max-time 0.",
            rich_help_panel=_TRANSFER,
        ),
    ] = False,
    block: Annotated[
        str,
        typer.Option(
            help="Bytes that are written at once, 24 to 4MiB.", metavar="SIZE", rich_help_panel=_TRANSFER
        ),
    ] = "128KiB",
    rate: Annotated[
        str | None,
        typer.Option(
            help="At most, in each direction: 50Mbit/s; kept block by block.",
            metavar="RATE",
            rich_help_panel=_TRANSFER,
        ),
    ] = None,
    congestion: Annotated[
        str,
        typer.Option(
            help="Congestion control of both ends, e.g. cubic.", metavar="NAME", rich_help_panel=_SOCKETS
        ),
    ] = "",
    option: OptionOption = None,
    bind: Annotated[
        str | None,
        typer.Option(help="Address of this end.", metavar="ADDRESS", rich_help_panel=_SOCKETS),
    ] = None,
    local_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Port of this end; further connections have the ones that follow.",
            metavar="PORT",
            rich_help_panel=_SOCKETS,
        ),
    ] = None,
    interval: Annotated[
        str,
        typer.Option(help="Time between two reports: 1ms to 1h.", metavar="TIME", rich_help_panel=_OUTPUT),
    ] = "1s",
    fields: Annotated[
        str | None,
        typer.Option(
            help="Kernel's fields in --json, or all (weir tcp watch --list-fields).",
            metavar="NAME,...",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    every_block: Annotated[
        bool,
        typer.Option(
            "--every-block",
            help="With --json: the fields at every block of this end.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    json: LinesOption = False,
) -> None:
    """Send."""
    from weirlab.link.settings import parse_size, parse_time
    from weirlab.link.stopping import Stop
    from weirlab.studies.tcp import fields as names
    from weirlab.studies.tcp.show import tables
    from weirlab.trace.times import period_ns
    from weirlab.traffic.calls.lines import parse_line

    with Session(ctx, as_json=json) as session:
        if (duration is not None) + (total is not None) + forever > 1:
            raise InputError("--time, --bytes and --forever exclude each other; give one")
        if reverse and bidir:
            raise InputError("--reverse and --bidir exclude each other; give one")
        if every_block and not json:
            raise InputError("--every-block has no place to go; give --json as well")
        both = 2 if bidir else 1
        if local_port is not None and local_port + both * connections - 1 > 65535:
            raise InputError(
                f"--local-port {local_port}: {both * connections} ports from there on do not exist"
            )
        block_bytes = parse_size(block, "--block")
        if not sending.LEAST_BLOCK_BYTES <= block_bytes <= sending.MOST_BLOCK_BYTES:
            raise InputError(f"--block {block}: a block has 24 bytes (its header) to 4 MiB")
        interval_ns = period_ns(interval, "--interval")
        if interval_ns < 1_000_000:
            raise InputError(f"--interval {interval}: 1ms is the shortest")
        lasts_s = sending.LASTS_S if total is None and not forever else None
        settings = sending.Settings(
            host=host.strip("[]"),
            port=port,
            token=token,
            up=0 if reverse else connections,
            down=connections if reverse or bidir else 0,
            block_bytes=block_bytes,
            lasts_s=lasts_s if duration is None else parse_time(duration, "--time"),
            total_bytes=None if total is None else parse_size(total, "--bytes"),
            rate_bps=None if rate is None else parse_line(rate),
            interval_s=interval_ns / 1e9,
            congestion=congestion,
            options=tuple(map(sending.option, option or ())),
            local=_address(bind),
            local_port=local_port,
            every_block=every_block,
            names=names.chosen(fields),
        )
        live = _Stream(settings) if json else _Lines()
        with Stop() as stop:
            outcome = sending.send(settings, live, stop)
        problem = outcome.problem()
        document = tables.send_document(outcome, settings)
        conclusion = tables.send_conclusion(outcome)
        if json:
            valid = {} if problem is None else {"valid": False}
            say({**document, **valid, "conclusion": conclusion})
        else:
            session.finish(document, conclusion, tables.sent(outcome), problem)
        session.complain(problem)
        if outcome.interrupted:
            raise typer.Exit(interrupts.exit_code())


def serve(
    ctx: typer.Context,
    bind: Annotated[str, typer.Option(help="Address to listen on.", metavar="ADDRESS")] = serving.LOOPBACK,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port; 0: one that is free.", metavar="PORT")
    ] = sending.PORT,
    token: TokenOption = "",
    max_time: Annotated[
        str,
        typer.Option(
            help="How long a transfer may last; 0: as long as it likes.",
            metavar="TIME",
            rich_help_panel=_LIMITS,
        ),
    ] = "1h",
    max_bytes: Annotated[
        str | None,
        typer.Option(
            help="How much a transfer may move, both directions together.",
            metavar="SIZE",
            rich_help_panel=_LIMITS,
        ),
    ] = None,
    max_clients: Annotated[
        int,
        typer.Option(min=1, max=100, help="Transfers at once.", metavar="N", rich_help_panel=_LIMITS),
    ] = serving.MOST_CLIENTS,
    transfers: Annotated[
        int | None,
        typer.Option(min=1, help="Exit after this many transfers.", metavar="N", rich_help_panel=_LIMITS),
    ] = None,
    option: OptionOption = None,
    json: LinesOption = False,
) -> None:
    """Serve."""
    from weirlab.link.settings import parse_size, parse_time
    from weirlab.link.stopping import Stop
    from weirlab.studies.tcp.connections import shown
    from weirlab.studies.tcp.show import tables

    with Session(ctx, as_json=json) as session:
        settings = serving.Settings(
            address=_address(bind) or serving.LOOPBACK,
            port=port,
            token=token,
            most_s=None if max_time.strip() == "0" else parse_time(max_time, "--max-time"),
            most_bytes=None if max_bytes is None else parse_size(max_bytes, "--max-bytes"),
            most_clients=max_clients,
            options=tuple(map(sending.option, option or ())),
            transfers=transfers,
        )

        def listening(address: tuple[str, int]) -> None:
            if json:
                say({"kind": "tcp serve listening", "address": address[0], "port": address[1]})
            session.say(f"listening on {shown(address)}; Ctrl-C ends it")

        def happened(event: Mapping[str, Any]) -> None:
            if json:
                rest = {key: value for key, value in event.items() if key != "event"}
                say({"kind": f"tcp serve {event['event']}", **rest})
            else:
                session.say(tables.server_event(event))

        with Stop() as stop:
            account = serving.serve(settings, stop, listening, happened)
        document = {"kind": "tcp serve", **vars(account)}
        conclusion = tables.server_conclusion(account)
        if json:
            say({**document, "conclusion": conclusion})
        else:
            session.finish(document, conclusion)


class _Lines:
    """A line per interval and direction on stderr."""

    def started(self, event: Mapping[str, Any]) -> None:
        from weirlab.studies.tcp.show import tables

        tell(f"weir: {tables.send_begun(event)}", sys.stderr)

    def interval(self, interval: Interval) -> None:
        from weirlab.studies.tcp.show import tables

        tell(tables.interval_line(interval), sys.stderr)

    def blocks(self, event: Mapping[str, Any]) -> None:
        pass


class _Stream:
    """A JSON document per interval on stdout."""

    def __init__(self, settings: sending.Settings) -> None:
        self._names = settings.names

    def started(self, event: Mapping[str, Any]) -> None:
        say({"kind": "tcp send started", **{k: v for k, v in event.items() if k != "event"}})

    def interval(self, interval: Interval) -> None:
        from weirlab.cli.output import plain

        throughput = {"throughput_bps": interval.throughput_bps}
        say({"kind": "tcp send interval", **plain(interval), **throughput})

    def blocks(self, event: Mapping[str, Any]) -> None:
        for sample in event["samples"]:
            kept = {name: sample["fields"][name] for name in self._names if name in sample["fields"]}
            say({"kind": "tcp send block", **{k: v for k, v in sample.items() if k != "fields"}, **kept})
        if event["lost"]:
            say({"kind": "tcp send blocks left out", "blocks": event["lost"]})


def _address(text: str | None) -> str | None:
    from ipaddress import ip_address

    from weirlab.quoting import quoted

    if text is None:
        return None
    try:
        address = ip_address(text.strip())
    except ValueError:
        raise InputError(f"--bind {quoted(text)} is no IP address, such as 192.0.2.1 or ::") from None
    if getattr(address, "scope_id", None):
        raise InputError(f"--bind {quoted(text)}: an address with a zone cannot be used; leave %zone out")
    return str(address)
