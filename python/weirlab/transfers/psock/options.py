"""Options of ``weir psock``."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal

import typer

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.cli.options.sockets import parse_address, parse_option

if TYPE_CHECKING:
    from weirlab.transfers.psock.copying import SessionSettings

PORT: Final = 29101
"""TCP port of ``weir psock serve`` (``weir_psock::io::PORT``)."""
MOST_STREAMS: Final = 64
LOOPBACK: Final = "127.0.0.1"
TOKEN: Final = "WEIR_PSOCK_TOKEN"
"""Environment variable that holds the secret of both ends."""

Scheduler = Literal["earliest", "poll-all", "round-robin", "ecf", "blest", "redundant"]
TokenOption = Annotated[
    str,
    typer.Option(
        "--token", help="Shared secret of both ends, of 16 characters or more.", envvar=TOKEN, metavar="TEXT"
    ),
]
BindOption = Annotated[
    list[str] | None,
    typer.Option("--bind", help="Address to listen on (127.0.0.1); repeatable.", metavar="ADDRESS"),
]
ListenPortOption = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free port.", metavar="PORT")
]


@dataclass(frozen=True)
class PsockSourceOptions:
    """What is sent, and where."""

    host: Annotated[str, typer.Argument(help="Name or address of the receiver.", metavar="HOST")]
    file: Annotated[
        Path | None, typer.Argument(help="What to send (default: standard input).", metavar="FILE")
    ] = None
    total: Annotated[
        str | None, typer.Option("--bytes", help="Generated data instead: 500MB, 64MiB.", metavar="SIZE")
    ] = None
    port: Annotated[int, typer.Option(min=1, max=65535, help="The receiver's port.", metavar="PORT")] = PORT

    def total_bytes(self) -> int | None:
        """``--bytes``; None if a file or standard input is sent."""
        from weirlab.base.amounts import parse_size

        if self.total is None:
            return None
        if self.file is not None:
            raise InputError("FILE and --bytes exclude each other; give one")
        return parse_size(self.total, "--bytes")


@dataclass(frozen=True)
class EndOptions:
    """The other end, or where to wait for it."""

    host: Annotated[str, typer.Argument(help="Name or address of the end that listens.", metavar="HOST")] = ""
    listen: Annotated[bool, typer.Option("--listen", help="Wait for the other end.")] = False
    bind: BindOption = None
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port.", metavar="PORT")] = PORT

    def check(self) -> None:
        """Raise ``InputError`` for options that contradict each other."""
        if self.listen == bool(self.host):
            raise InputError("give either HOST, to connect, or --listen")
        if self.bind and not self.listen:
            raise InputError("--bind is for --listen; --path names this end of a connection")


@dataclass(frozen=True)
class SessionOptions:
    """How a session is carried, at this end."""

    PANEL: ClassVar = "Session"

    token: TokenOption = ""
    memory: Annotated[
        str,
        typer.Option(
            help="Buffer of each direction, for data that waits for earlier data or for an acknowledgement.",
            metavar="SIZE",
        ),
    ] = "4MiB"
    lost: Annotated[
        str,
        typer.Option(
            "--lost-after", help="Fail after this time without a connection that works.", metavar="TIME"
        ),
    ] = "15s"
    congestion: Annotated[
        str, typer.Option(help="Congestion control of this end, e.g. cubic.", metavar="NAME")
    ] = ""
    option: Annotated[
        list[str] | None,
        typer.Option(
            help="Socket option of every stream, by name or LEVEL:NUMBER; repeatable.",
            metavar="NAME=VALUE",
        ),
    ] = None

    def how(self, streams: StreamOptions | None = None) -> SessionSettings:
        """The options as the engine takes them, with those of the streams."""
        from weirlab.base.amounts import parse_size, parse_time
        from weirlab.transfers.psock.copying import SessionSettings

        streams = streams or StreamOptions()
        block, unsent = streams.block, streams.unsent
        options = [parse_option(text) for text in self.option or ()]
        if self.congestion:
            options.insert(0, ("TCP_CONGESTION", self.congestion))
        return SessionSettings(
            token=self.token,
            scheduler=streams.scheduler,
            block_bytes=_within(parse_size(block, "--block"), f"--block {block}", 1, 64 << 10),
            memory_bytes=_within(
                parse_size(self.memory, "--memory"), f"--memory {self.memory}", 4096, 1 << 30
            ),
            unsent_bytes=0 if unsent == "0" else min(parse_size(unsent, "--unsent"), (1 << 31) - 1),
            lost_s=parse_time(self.lost, "--lost-after"),
            options=tuple(options),
            fair=streams.fair,
            fallback=streams.fallback,
            wait_for_paths=streams.wait,
        )


@dataclass(frozen=True)
class StreamOptions:
    """Which streams there are, and which carries what."""

    PANEL: ClassVar = "Streams"

    streams: Annotated[
        int, typer.Option(min=1, max=MOST_STREAMS, help="Streams over each path.", metavar="N")
    ] = 2
    path: Annotated[
        list[str] | None,
        typer.Option(
            help="A path, given by its local address, its remote address, or both; repeatable.",
            metavar="[LOCAL][,REMOTE]",
        ),
    ] = None
    scheduler: Annotated[Scheduler, typer.Option(help="Which stream carries which block.")] = "earliest"
    block: Annotated[str, typer.Option(help="Size of a block of data, up to 64KiB.", metavar="SIZE")] = (
        "32KiB"
    )
    unsent: Annotated[
        str,
        typer.Option(
            help="Most unsent bytes that a stream may hold (TCP_NOTSENT_LOWAT); 0: the system's limit.",
            metavar="SIZE",
        ),
    ] = "64KiB"
    fair: Annotated[
        bool,
        typer.Option(
            "--fair", help="Take no more of a shared bottleneck than one TCP connection; slower elsewhere."
        ),
    ] = False
    fallback: Annotated[
        bool,
        typer.Option("--fallback", help="Use plain TCP if the receiver speaks no psock; not with --token."),
    ] = False
    wait: Annotated[
        bool,
        typer.Option(
            "--wait-for-paths", help="Send nothing before every path works or has failed, for 5 s at most."
        ),
    ] = False

    def paths(self) -> list[tuple[str, str]]:
        """This end's and the other end's address of each path; empty where not given."""
        found = [_path(text) for text in self.path or ()]
        if len(found) * self.streams > MOST_STREAMS:
            raise InputError(
                f"{len(found)} paths with --streams {self.streams}: {MOST_STREAMS} streams are possible"
            )
        return found


def ends(bind: list[str] | None, port: int) -> list[tuple[str, int]]:
    """Addresses and ports to listen on; loopback if no address is given."""
    return [(parse_address(text), port) for text in bind or [LOOPBACK]]


def _path(text: str) -> tuple[str, str]:
    local, _, remote = (part.strip() for part in text.partition(","))
    if not local and not remote:
        raise InputError(
            f"--path {quoted(text)} names no address; accepted are 192.0.2.1 and 192.0.2.1,198.51.100.1"
        )
    ends = [parse_address(end, "--path") if end else "" for end in (local, remote)]
    if all(ends) and ip_address(ends[0]).version != ip_address(ends[1]).version:
        raise InputError(f"--path {quoted(text)}: one end is IPv4 and the other IPv6")
    return ends[0], ends[1]


def _within(found: int, said: str, least: int, most: int) -> int:
    if not least <= found <= most:
        raise InputError(f"{said}: {least:,} to {most:,} bytes are possible")
    return found


PROXY_PORT: Final = 29102
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
    port: ListenPortOption = PROXY_PORT
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
    found = int(port) if colon else PROXY_PORT
    if not 1 <= found <= 65535:
        raise problem
    return host, found
