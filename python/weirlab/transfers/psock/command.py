"""``weir psock``: send, serve, cat; ``dropin`` adds run and proxy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from weirlab.base.errors import InputError, NobodyReads, OutputError, TrialError
from weirlab.cli.options import JsonOption, grouped, without
from weirlab.cli.options.sockets import shown
from weirlab.cli.output import Session, to_json
from weirlab.cli.streams import tell
from weirlab.transfers.psock import dropin
from weirlab.transfers.psock.options import (
    PORT,
    BindOption,
    EndOptions,
    ListenPortOption,
    PsockSourceOptions,
    SessionOptions,
    StreamOptions,
    ends,
)

PSOCK = """Copy bytes over several TCP connections at once.

A session carries one stream of bytes over any number of TCP connections, over
one path or several. Data arrive once, in order and complete, or there is an
error. Connections may end and come back. No command needs root, but weir
psock run does more as root.

Examples:
  weir psock serve                       receive
  weir psock send localhost data.bin     send a file
  weir psock proxy --allow any           connect sessions with destinations
  weir psock run --via localhost -- curl -O http://192.0.2.1/data.bin
"""

SEND = """Send a file, standard input or generated data to weir psock serve.

Without --path, all streams use the path that the system chooses. A path is
given by its ends: the address of this host, that of the other, or both.
Streams that end are reopened until everything has arrived.

Schedulers: earliest gives each stream the block that is due when the stream
can deliver it; poll-all gives the next block to any stream that can take it;
round-robin gives blocks in turn; ecf and blest come from multipath TCP;
redundant gives every block to every stream, for few and urgent bytes.

Examples:
  weir psock send localhost data.bin
  weir psock send 192.0.2.1 --bytes 1GB --streams 4 --token SECRET
  weir psock send 192.0.2.1 --path 198.51.100.1 --path 203.0.113.1 data.bin
  weir psock send 192.0.2.1 --path ,192.0.2.1 --path ,192.0.2.65 data.bin
  weir psock send 192.0.2.1 --bytes 1GB --streams 4 --fair
  weir psock send 192.0.2.1 --port 9000 --fallback data.bin
  tar c folder | weir psock send 192.0.2.1 --scheduler poll-all --json
"""

SERVE = """Receive what weir psock send sends, until Ctrl-C.

It listens on loopback by default. Any other address needs a token. Clients
prove that they know it; it never crosses the network. The data crosses the
network unencrypted. Sessions are received one after another. The data is
counted and discarded, unless --out names a file, which is written as a whole
or not at all, or is -, which is standard output.

Examples:
  weir psock serve
  weir psock serve --out copy.bin --transfers 1
  weir psock serve --out - --transfers 1 | tar x
  weir psock serve --bind 192.0.2.1 --bind 192.0.2.65 --token SECRET --json
"""

CAT = """Connect standard input and output with another host, both ways.

One end listens, the other connects. Each end sends its standard input and
writes what it receives to standard output, until both directions have ended.
With --json, the result, which has the SHA-256 of both directions, goes to
standard error, since standard output has the data.

Examples:
  weir psock cat --listen > copy.bin              here
  weir psock cat localhost < data.bin             there
  weir psock cat --listen --bind 192.0.2.1 --token SECRET < question > answer
"""


def add_to(app: typer.Typer) -> None:
    psock = typer.Typer(help=PSOCK, no_args_is_help=True)
    psock.command("send", help=SEND)(grouped(send))
    psock.command("serve", help=SERVE)(grouped(serve))
    psock.command("cat", help=CAT)(grouped(cat))
    dropin.add_to(psock)
    app.add_typer(psock, name="psock", rich_help_panel="Link")


def send(
    ctx: typer.Context,
    *,
    what: PsockSourceOptions,
    streams: StreamOptions,
    session_options: SessionOptions,
    json: JsonOption = False,
) -> None:
    from weirlab.transfers.psock import copying, tables

    with Session(ctx, as_json=json) as session:
        host = what.host.strip("[]")
        how = session_options.how(streams)
        tries = copying.routes(host, what.port, streams.paths(), streams.streams)
        with _source(what.file, what.total_bytes()) as source:
            made = copying.connect(tries, how)
            copied = copying.send(made, source, shown((host, what.port)))
        document = {"kind": "psock send", **tables.document(copied)}
        session.finish(document, tables.sent(copied), [tables.streams(copied)])


@contextmanager
def _source(file: Path | None, made_up_bytes: int | None) -> Iterator[Iterator[bytes]]:
    """What is to be sent, in parts."""
    from weirlab.base import files
    from weirlab.transfers.psock import copying

    if made_up_bytes is not None:
        yield copying.made_up(made_up_bytes)
    elif file is None:
        if sys.stdin.isatty():
            raise InputError("FILE is missing; give a file, --bytes, or data on standard input")
        yield copying.read_from(sys.stdin.buffer)
    else:
        with files.telling(file, "read"), file.open("rb") as opened:
            yield copying.read_from(opened)


def _put_out(data: bytes) -> None:
    """Write ``data`` to standard output, at once."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError as error:
        raise NobodyReads from error
    except OSError as error:
        raise OutputError(f"standard output cannot be written: {error.strerror}") from error


def serve(
    ctx: typer.Context,
    *,
    bind: BindOption = None,
    port: ListenPortOption = PORT,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the data here (-: standard output); needs --transfers 1.", metavar="FILE"),
    ] = None,
    transfers: Annotated[
        int | None, typer.Option(min=1, help="Exit after this many sessions.", metavar="N")
    ] = None,
    session_options: SessionOptions,
    json: JsonOption = False,
) -> None:
    from weirlab._engine import ParallelListener
    from weirlab.base import files
    from weirlab.link.stopping import Stop
    from weirlab.transfers.psock import copying, tables

    is_streamed = out is not None and str(out) == "-"

    def into(receive: Callable[[Callable[[bytes], object]], None]) -> None:
        if out is None:
            receive(lambda data: None)
        elif is_streamed:
            receive(_put_out)
        else:
            files.write(out, lambda file: receive(file.write))

    with Session(ctx, as_json=json) as session:
        if out is not None:
            if transfers != 1:
                raise InputError("--out holds one session; give --transfers 1 as well")
            if not is_streamed:
                files.check_output(out, "--out")
            elif json:
                raise InputError("--out - and --json exclude each other: both write to standard output")
            elif sys.stdout.isatty():
                raise InputError("--out -: standard output is a terminal; redirect it")
        listener = ParallelListener(ends(bind, port), session_options.how().plain())
        session.say(f"listening on {', '.join(map(shown, listener.addresses))}; Ctrl-C ends it")
        with Stop() as stop:
            account = copying.serve(listener, stop, transfers, into, session.say)
        problem = None
        if transfers is not None and account.broken_off:
            failures = [each.failure for each in account.sessions if each.failure]
            problem = TrialError(f"{len(failures)} of {account.transfers} sessions broke off: {failures[-1]}")
        if is_streamed:
            session.say(tables.served(account))
        else:
            session.finish(tables.served_document(account), tables.served(account), problem=problem)
        session.complain(problem)


def cat(
    ctx: typer.Context,
    *,
    end: EndOptions,
    streams: Annotated[StreamOptions, without("fallback")],
    session_options: SessionOptions,
    json: JsonOption = False,
) -> None:
    from weirlab._engine import ParallelListener
    from weirlab.link.stopping import Stop
    from weirlab.transfers.psock import copying, tables

    with Session(ctx, as_json=json) as session:
        end.check()
        how = session_options.how(streams)
        source = sys.stdin.fileno()
        with Stop() as stop:
            if end.listen:
                listener = ParallelListener(ends(end.bind, end.port), how.plain())
                session.say(f"listening on {', '.join(map(shown, listener.addresses))}")
                made, peer = copying.accept(listener, stop, session.say)
            else:
                peer = (end.host.strip("[]"), end.port)
                made = copying.connect(copying.routes(*peer, streams.paths(), streams.streams), how)
            found = copying.exchange(made, shown(peer), source, _put_out, stop)
        if json:
            tell(
                to_json({**tables.exchange_document(found), "conclusion": tables.exchanged(found)}),
                sys.stderr,
            )
        else:
            session.say(tables.exchanged(found))
