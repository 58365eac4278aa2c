"""Options of ``weir psock run`` and ``weir psock proxy``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import typer

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.transfers.psock.options import BindOption, ListenPortOption

PORT: Final = 29102
"""TCP port of ``weir psock proxy`` (``weir_relay::PORT``)."""
CONNECTIONS: Final = 2048
"""Connections at one time (``weir_relay::MOST_CONNECTIONS``)."""
MOST_CONNECTIONS: Final = 16_384

By = Literal["bpf", "seccomp"]
BPF: Final = "bpf"
SECCOMP: Final = "seccomp"

ConnectionsOption = Annotated[
    int,
    typer.Option(
        "--connections", min=1, max=MOST_CONNECTIONS, help="Maximum simultaneous connections.", metavar="N"
    ),
]


@dataclass(frozen=True)
class ProgramOptions:
    """Which program, and which of its connections."""

    PANEL: ClassVar = "Program"

    command: Annotated[
        list[str], typer.Argument(help="The program and its arguments, behind --.", metavar="PROGRAM")
    ]
    via: Annotated[str, typer.Option(help=f"The proxy; port {PORT} unless given.", metavar="HOST[:PORT]")]
    only: Annotated[
        list[str] | None,
        typer.Option(
            help="Carry only connections to these destinations, such as 192.0.2.0/24:443; repeatable.",
            metavar="NETWORK[:PORT]",
        ),
    ] = None
    excepted: Annotated[
        list[str] | None,
        typer.Option(
            "--except",
            help="Do not carry connections to these destinations, in spite of --only; repeatable.",
            metavar="NETWORK[:PORT]",
        ),
    ] = None
    by: Annotated[
        By | None, typer.Option(help="What redirects connections (bpf where it works, else seccomp).")
    ] = None
    user: Annotated[str, typer.Option(help="Run the program as this user.", metavar="NAME")] = ""
    direct: Annotated[
        bool, typer.Option("--fallback", help="Connect by plain TCP, if the proxy does not answer.")
    ] = False
    connections: ConnectionsOption = CONNECTIONS
    summary: Annotated[
        bool, typer.Option("--summary", help="Show paths and connections on standard error at the end.")
    ] = False


@dataclass(frozen=True)
class ProxyOptions:
    """Where a proxy listens, and what it connects with."""

    PANEL: ClassVar = "Proxy"

    allow: Annotated[
        list[str] | None,
        typer.Option(
            help="Destinations, such as any, 192.0.2.0/24, 192.0.2.1:443, any:8000-8999; repeatable.",
            metavar="NETWORK[:PORT]",
        ),
    ] = None
    bind: BindOption = None
    port: ListenPortOption = PORT
    connections: ConnectionsOption = CONNECTIONS


def parse_via(text: str) -> tuple[str, int]:
    """``host``, ``host:29102``, ``::1`` or ``[::1]:29102`` as host and port.

    Raises
    ------
    InputError
        It is neither.
    """
    problem = InputError(
        f"--via {quoted(text)} not understood; accepted are HOST, HOST:PORT, such as 192.0.2.1:{PORT}, and "
        f"[::1]:{PORT}"
    )
    host, port = text.strip(), ""
    if host.startswith("["):
        host, bracket, port = host[1:].partition("]")
        if not bracket or (port and not port.startswith(":")):
            raise problem
        colon, port = port[:1], port[1:]
    elif host.count(":") == 1:
        host, colon, port = host.partition(":")
    else:
        colon = ""
    if not host or (colon and not (port.isascii() and port.isdigit() and 1 <= len(port) <= 5)):
        raise problem
    found = int(port) if colon else PORT
    if not 1 <= found <= 65535:
        raise problem
    return host, found
