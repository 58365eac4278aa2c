"""``weir tcp send`` and ``weir tcp serve``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from weirlab.base import interrupts
from weirlab.cli.options import grouped
from weirlab.cli.options.sockets import parse_address, parse_option, shown
from weirlab.cli.output import LinesOption, Session, say
from weirlab.cli.streams import tell
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.options import (
    OptionOption,
    ReadOptions,
    TcpLimitOptions,
    TcpListenOptions,
    TcpSendOptions,
)
from weirlab.transfers.tcp.settings import TransferSettings

if TYPE_CHECKING:
    from weirlab.transfers.tcp.results import Interval

SEND = """Send as fast as TCP allows, and report what both ends measured.

HOST runs weir tcp serve. A line per interval goes to stderr, the result to
stdout. Bytes are those that the receiver read; round-trip time, window and
retransmissions come from the sender's kernel. Block latency is one-way and
needs one clock, so it is reported only if both ends run on one host.

With --json, every interval is a JSON document on its own line, and the result
is the last line. Ctrl-C ends the transfer cleanly.

With --client, the transfer runs between two other hosts, both of which run
weir tcp serve. This host only starts it and receives the results.

Examples:
  weir tcp send localhost
  weir tcp send 192.0.2.1 --token SECRET --reverse --connections 4
  weir tcp send 192.0.2.1 --bytes 1GB --congestion cubic --json
  weir tcp send 192.0.2.1 --rate 50Mbit/s --forever --interval 5s
  weir tcp send 192.0.2.1 --option SO_SNDBUF=65536 --option TCP_NODELAY=1
  weir tcp send 192.0.2.1 --token A --client 198.51.100.7 --client-token B
"""

SERVE = """Serve bulk transfers to weir tcp send, until Ctrl-C.

It listens on loopback by default. Any other address needs a token. Clients
prove that they know it; it never crosses the network. The data crosses the
network unencrypted. Limits on time, bytes and clients prevent misuse. A peer
that sends anything else is disconnected, and reported once.

With --allow-client, anyone who knows the token can also have this host send
to, or receive from, another host that runs weir tcp serve. All limits apply
to these transfers, too.

With --allow-capture (needs root), it records the headers of a test's packets
if the client asks for them, and hands them over when the test has ended. Only
packets of the test's own connections are recorded, and nothing is kept here.

With --json, every event is a JSON document on its own line, and the summary
of all transfers is the last line.

Examples:
  weir tcp serve
  weir tcp serve --bind 0.0.0.0 --token SECRET
  weir tcp serve --bind :: --token SECRET --max-time 60s --max-bytes 10GB
  weir tcp serve --option SO_RCVBUF=131072 --transfers 1
  weir tcp serve --bind 0.0.0.0 --token SECRET --allow-client --max-time 1min
  weir tcp serve --bind 0.0.0.0 --token SECRET --allow-capture
"""


def add_to(app: typer.Typer) -> None:
    app.command("send", help=SEND)(grouped(send))
    app.command("serve", help=SERVE)(grouped(serve))


def send(ctx: typer.Context, *, options: TcpSendOptions, json: LinesOption = False) -> None:
    from weirlab.link.stopping import Stop
    from weirlab.transfers.tcp.show import tables

    with Session(ctx, as_json=json) as session:
        settings = options.settings(as_json=json)
        live = _BulkStream(settings) if json else _BulkLines()
        with Stop() as stop:
            outcome = ends.send(settings, live, stop)
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
    *,
    listen: TcpListenOptions,
    limits: TcpLimitOptions,
    receiver: ReadOptions,
    option: OptionOption = None,
    json: LinesOption = False,
) -> None:
    from weirlab.base.amounts import parse_size, parse_time
    from weirlab.link.stopping import Stop
    from weirlab.transfers.tcp.show import tables

    with Session(ctx, as_json=json) as session:
        settings = ends.ServerSettings(
            address=parse_address(listen.bind),
            port=listen.port,
            token=listen.token,
            most_s=None if limits.max_time.strip() == "0" else parse_time(limits.max_time, "--max-time"),
            most_bytes=None if limits.max_bytes is None else parse_size(limits.max_bytes, "--max-bytes"),
            most_clients=limits.max_clients,
            options=tuple(map(parse_option, option or ())),
            transfers=limits.transfers,
            errands=limits.allow_client,
            captures=limits.captures(),
            reading=receiver.reading(),
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
            account = ends.serve(settings, stop, listening, happened)
        document = {"kind": "tcp serve", **vars(account)}
        conclusion = tables.server_conclusion(account)
        if json:
            say({**document, "conclusion": conclusion})
        else:
            session.finish(document, conclusion)


class _BulkLines:
    """A line per interval and direction on stderr."""

    def started(self, event: Mapping[str, Any]) -> None:
        from weirlab.transfers.tcp.show import tables

        tell(f"weir: {tables.send_begun(event)}", sys.stderr)

    def interval(self, interval: Interval) -> None:
        from weirlab.transfers.tcp.show import tables

        tell(tables.interval_line(interval), sys.stderr)

    def blocks(self, event: Mapping[str, Any]) -> None:
        pass


class _BulkStream:
    """A JSON document per interval on stdout."""

    def __init__(self, settings: TransferSettings) -> None:
        self._names = settings.names

    def started(self, event: Mapping[str, Any]) -> None:
        say({"kind": "tcp send started", **{k: v for k, v in event.items() if k != "event"}})

    def interval(self, interval: Interval) -> None:
        from weirlab.base.documents import plain

        throughput = {"throughput_bps": interval.throughput_bps}
        say({"kind": "tcp send interval", **plain(interval), **throughput})

    def blocks(self, event: Mapping[str, Any]) -> None:
        for sample in event["samples"]:
            kept = {name: sample["fields"][name] for name in self._names if name in sample["fields"]}
            say({"kind": "tcp send block", **{k: v for k, v in sample.items() if k != "fields"}, **kept})
        if event["lost"]:
            say({"kind": "tcp send blocks left out", "blocks": event["lost"]})
