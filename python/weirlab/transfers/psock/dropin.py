"""``weir psock run`` and ``weir psock proxy``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from weirlab.base.errors import InputError, LabError
from weirlab.cli import layout
from weirlab.cli.options import JsonOption, grouped, only, without
from weirlab.cli.options.sockets import shown
from weirlab.cli.output import Session
from weirlab.cli.streams import tell
from weirlab.transfers.psock.options import (
    BPF,
    CONNECTIONS,
    By,
    ProgramOptions,
    ProxyOptions,
    SessionOptions,
    StreamOptions,
    ends,
    parse_via,
)

if TYPE_CHECKING:
    from weirlab._engine import ParallelProxy
    from weirlab.transfers.psock.copying import Route, SessionSettings
    from weirlab.transfers.psock.redirecting import RelayProgram
    from weirlab.transfers.psock.tables import RelayTotals

_STREAMS = 4
"""Of a session, as far as a proxy makes room for them in advance."""
_MAGIC = b"WEIRPXY"
_REPLY_BYTES = 16
"""Of a proxy to a request, which begin with ``_MAGIC``."""
_LAST_S = 10.0
"""How long a proxy waits for its sessions to break off."""

RUN = """Run a program whose TCP connections are carried over parallel sockets.

The program needs no change: it keeps real sockets of the kernel. Connections
that it and its children make are redirected to a relay in this command, which
opens a session to weir psock proxy for each, over all --path; the proxy
connects to the destination. Connections to loopback and link-local addresses
and to this host's own networks are not carried unless --only names them; they
are then made by the proxy's host.

BPF programs redirect connections, which needs root and cgroup v2. Elsewhere a
seccomp filter does, which needs no root: setuid programs such as sudo then
gain no privileges. Both need Linux 5.14.

The exit code is that of the program (128 + n if signal n ended it). With
--json, standard output carries only the result, and the output of the program
goes to standard error.

Both ends need the same --token, or WEIR_PSOCK_TOKEN.

Examples:
  weir psock run --via 192.0.2.1 --token SECRET -- curl -O http://host/a.bin
  weir psock run --via 192.0.2.1 --path 10.0.1.1 --path 10.0.2.1 -- ssh host
  weir psock run --via 192.0.2.1 --only any:443 --summary -- ./fetch all
  weir psock run --via 192.0.2.1 --by seccomp -- wget http://host/data.bin
  weir psock run --via 192.0.2.1 --fallback --user alice --json -- ./fetch
"""

PROXY = """Connect sessions of weir psock run with their destinations, until Ctrl-C.

Each session names a destination. The proxy connects only to destinations that
--allow names: networks, addresses, or any, with or without a port or a range
of ports. any and wide networks leave out loopback, link-local and multicast
addresses and all addresses of this host; name those explicitly.

It listens on loopback by default. Any other address needs a token. The data
crosses the network as the program sends it: only the program encrypts it.

Examples:
  weir psock proxy --allow any
  weir psock proxy --bind 192.0.2.1 --token SECRET --allow 198.51.100.0/24:443
  weir psock proxy --allow any:80 --allow 127.0.0.1:22 --json
"""


def add_to(psock: typer.Typer) -> None:
    """Add the commands to the group ``weir psock``."""
    psock.command("run", help=RUN, context_settings={"allow_interspersed_args": False})(grouped(run))
    psock.command("proxy", help=PROXY)(grouped(proxy))


def run(
    ctx: typer.Context,
    *,
    what: ProgramOptions,
    streams: Annotated[StreamOptions, without("fallback")],
    session_options: SessionOptions,
    json: JsonOption = False,
) -> None:
    from weirlab.transfers.psock import copying, program, tables
    from weirlab.transfers.psock.redirecting import check_root, redirected

    with Session(ctx, as_json=json) as session:
        path = program.located(what.command[0])
        user = program.check_user(what.user)
        host, port = parse_via(what.via)
        if what.by == BPF:
            check_root()
        how = session_options.how(streams)
        tries = copying.routes(host, port, streams.paths(), streams.streams)
        found = tables.RelayTotals()

        # Each connection of the program waits for its paths, and this one carries nothing.
        check = replace(how, wait_for_paths=False)
        routes = program.apart(lambda: _reached(tries, check, session.say if what.direct else None))
        descriptors, most = _room(what.connections, len(routes), session.say)
        began = program.UserProgram(path, what.command, user, descriptors, aside=json)
        given = {
            "routes": routes,
            "how": how.plain(),
            "only": what.only or ["any"],
            "excepted": what.excepted or [],
            "fallback": what.direct,
            "most": most,
        }
        with program.signals_held():
            by, code = _carried(redirected(what.by, began, given, session.say), found, session.say)
        document = {"kind": "psock run", "exit_code": code, "by": by, **tables.relayed_document(found)}
        if json:
            session.finish(document, tables.relayed(found, "connection"))
        elif what.summary:
            columns = None if session.wide else layout.width()
            drawn = ["\n".join(layout.lines(table, columns)) for table in tables.relayed_tables(found)]
            tell("\n\n".join([tables.relayed(found, "connection"), *drawn]), sys.stderr)
    raise typer.Exit(code)


def _room(connections: int, streams: int, say: Callable[[str], None]) -> tuple[int, int]:
    """As ``program.allow_descriptors``; who asked for more connections than there may be is told."""
    from weirlab.transfers.psock import program

    before, most = program.allow_descriptors(connections, streams)
    if most < connections != CONNECTIONS:
        say(f"--connections {connections}: the limit of open files (ulimit -Hn) allows {most}; others wait")
    return before, most


def _reached(
    tries: Sequence[Sequence[Route]], how: SessionSettings, fall_back: Callable[[str], None] | None
) -> list[Route]:
    """The first set of routes by which the proxy answers; before a program relies on it.

    Raises ``LabError`` where there is none, unless ``fall_back`` is told.
    """
    from weirlab.transfers.psock import copying

    problem: LabError | None = None
    for routes in tries:
        try:
            with closing(copying.connect([routes], how)) as made:
                made.finish()
                # A proxy that is asked for nothing says nothing, unless it has no room.
                answer = made.read(_REPLY_BYTES) or b""
                if answer.startswith(_MAGIC):
                    raise LabError(
                        f"{shown(routes[0][1:])} has no room for another session; try again later, "
                        "or raise --connections of weir psock proxy"
                    )
                if answer:
                    raise LabError(f"{shown(routes[0][1:])} is no weir psock proxy")
        except LabError as error:
            problem = problem or error
        else:
            return list(routes)
    if fall_back is None:
        raise problem or LabError("there is no address to connect to")
    fall_back(f"connections are made by plain TCP while the proxy does not answer: {problem}")
    return list(tries[0])


def _carried(
    begun: AbstractContextManager[RelayProgram], found: RelayTotals, say: Callable[[str], None]
) -> tuple[By, int]:
    """Run the program until it and its connections have ended; what redirected them, and its exit code."""
    from weirlab.transfers.psock import program

    with begun as made:

        def look() -> None:
            made.look()
            for problem in found.take(made.relay.ended()):
                say(problem)

        code = program.run(made.process, look)
        program.settle(made.is_left, made.relay, look, say)
    return made.by, code


def proxy(
    ctx: typer.Context,
    *,
    what: ProxyOptions,
    streams: Annotated[StreamOptions, only("scheduler", "block", "unsent", "fair")],
    session_options: SessionOptions,
    json: JsonOption = False,
) -> None:
    from weirlab._engine import ParallelProxy
    from weirlab.link.stopping import Stop
    from weirlab.transfers.psock import tables

    with Session(ctx, as_json=json) as session:
        if not what.allow:
            raise InputError(
                "--allow is missing: the proxy connects to no destination that it was not told; --allow any "
                "allows all but loopback and link-local addresses and those of this host"
            )
        _, most = _room(what.connections, _STREAMS, session.say)
        how = session_options.how(streams).plain()
        made = ParallelProxy(ends(what.bind, what.port), how, allow=what.allow, most=most)
        session.say(f"listening on {', '.join(map(shown, made.addresses))}; Ctrl-C ends it")
        found = tables.RelayTotals()
        with Stop() as stop:
            while not stop.requested:
                stop.wait((), 0.1)
                _look(made, found, session.say)
        made.stop()
        # Sessions that break off are counted, too.
        due_s = time.monotonic() + _LAST_S
        while made.active and time.monotonic() < due_s:
            time.sleep(0.02)
        _look(made, found, session.say)
        document = {"kind": "psock proxy", **tables.relayed_document(found)}
        session.finish(document, tables.relayed(found, "session"))


def _look(made: ParallelProxy, found: RelayTotals, say: Callable[[str], None]) -> None:
    from weirlab.transfers.psock.copying import strangers

    found.strangers += strangers(made, say)
    for problem in found.take(made.ended()):
        say(problem)
