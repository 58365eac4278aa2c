"""Options of ``weir tcp send`` and ``weir tcp serve``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options.sockets import parse_address, parse_option
from weirlab.transfers.tcp import ends
from weirlab.transfers.tcp.settings import (
    AT_ONCE,
    LASTS_S,
    MOST_CONNECTIONS,
    PORT,
    Reading,
    RemoteClient,
    TransferSettings,
    block_bytes,
)

_SOCKETS = "Sockets"

TokenOption = Annotated[
    str,
    typer.Option(
        "--token",
        help="Secret that clients must know, of 16 characters or more.",
        envvar="WEIR_TCP_TOKEN",
        metavar="TEXT",
    ),
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


@dataclass(frozen=True)
class ServerOptions:
    """The server to send to."""

    host: Annotated[str, typer.Argument(help="Name or address of the server.", metavar="HOST")]
    port: Annotated[int, typer.Option(min=1, max=65535, help="Server port.", metavar="PORT")] = PORT
    token: TokenOption = ""


@dataclass(frozen=True)
class FarOptions:
    """Another host to be the client."""

    PANEL: ClassVar = "Between two other hosts"

    client: Annotated[
        str | None,
        typer.Option(
            help="Use this host as the client; it runs weir tcp serve --allow-client.", metavar="HOST"
        ),
    ] = None
    client_port: Annotated[int, typer.Option(min=1, max=65535, help="Client port.", metavar="PORT")] = PORT
    client_token: Annotated[
        str, typer.Option(help="Client token.", envvar="WEIR_TCP_CLIENT_TOKEN", metavar="TEXT")
    ] = ""

    def via(self) -> RemoteClient | None:
        """The host, if there is one."""
        if self.client is None:
            return None
        return RemoteClient(self.client.strip("[]"), self.client_port, self.client_token)


@dataclass(frozen=True)
class TransferOptions:
    """Who sends, how much, and how fast."""

    PANEL: ClassVar = "Transfer"

    connections: Annotated[
        int, typer.Option(min=1, max=MOST_CONNECTIONS, help="Connections in each direction.", metavar="N")
    ] = 1
    reverse: Annotated[bool, typer.Option("--reverse", help="The server sends.")] = False
    bidir: Annotated[bool, typer.Option("--bidir", help="Both ends send, over separate connections.")] = False
    duration: Annotated[str | None, typer.Option(help="Duration: 90s, 5min (10s).", metavar="TIME")] = None
    total: Annotated[
        str | None,
        typer.Option(
            "--bytes", help="Instead of --duration: bytes in each direction, 500MB, 64MiB.", metavar="SIZE"
        ),
    ] = None
    forever: Annotated[
        bool, typer.Option("--forever", help="Send until Ctrl-C; needs a server with --max-time 0.")
    ] = False
    block: Annotated[str, typer.Option(help="Bytes per write, 24 to 4MiB.", metavar="SIZE")] = "128KiB"
    rate: Annotated[
        str | None,
        typer.Option(help="Maximum rate in each direction: 50Mbit/s; paced block by block.", metavar="RATE"),
    ] = None

    @property
    def up(self) -> int:
        """Connections over which this end sends."""
        return 0 if self.reverse else self.connections

    @property
    def down(self) -> int:
        """Connections over which the server sends."""
        return self.connections if self.reverse or self.bidir else 0

    def check(self) -> None:
        """Raise ``InputError`` for options that exclude each other."""
        if (self.duration is not None) + (self.total is not None) + self.forever > 1:
            raise InputError("--duration, --bytes and --forever exclude each other; give one")
        if self.reverse and self.bidir:
            raise InputError("--reverse and --bidir exclude each other; give one")

    def block_bytes(self) -> int:
        """``--block`` in bytes."""
        return block_bytes(self.block, "--block")

    def lasts_s(self) -> float | None:
        """How long the transfer lasts; None if something else ends it."""
        from weirlab.base.amounts import parse_time

        if self.duration is not None:
            return parse_time(self.duration, "--duration")
        return LASTS_S if self.total is None and not self.forever else None


@dataclass(frozen=True)
class SocketOptions:
    """The sockets of this end."""

    PANEL: ClassVar = _SOCKETS

    congestion: Annotated[
        str, typer.Option(help="Congestion control of both ends, e.g. cubic.", metavar="NAME")
    ] = ""
    option: OptionOption = None
    bind: Annotated[str | None, typer.Option(help="Local address.", metavar="ADDRESS")] = None
    local_port: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=65535,
            help="Local port of the first connection; the others use the ports that follow.",
            metavar="PORT",
        ),
    ] = None


@dataclass(frozen=True)
class OutputOptions:
    """What is reported during the transfer."""

    PANEL: ClassVar = "Output"

    interval: Annotated[str, typer.Option(help="Time between two reports: 1ms to 1h.", metavar="TIME")] = "1s"
    fields: Annotated[
        str | None,
        typer.Option(
            help="Kernel fields in --json, or all (see weir tcp watch --list-fields).", metavar="NAME,..."
        ),
    ] = None
    every_block: Annotated[
        bool, typer.Option("--every-block", help="With --json: report the fields at every block of this end.")
    ] = False

    def interval_s(self) -> float:
        """``--interval`` in seconds."""
        from weirlab.trace.quantities import period_ns

        found = period_ns(self.interval, "--interval")
        if found < 1_000_000:
            raise InputError(f"--interval {self.interval}: 1ms is the shortest")
        return found / 1e9


@dataclass(frozen=True)
class ReadOptions:
    """How this end reads: a slow receiver, on purpose."""

    PANEL: ClassVar = "Receiver"

    read_rate: Annotated[
        str | None,
        typer.Option(
            help="Read no faster than this, all connections of a transfer together: 5Mbit/s.",
            metavar="RATE",
        ),
    ] = None
    read_pause: Annotated[
        str | None,
        typer.Option(help="After AT, read nothing for TIME: 2s,500ms.", metavar="AT,TIME"),
    ] = None

    def reading(self) -> Reading:
        """The same for a transfer; raises ``InputError``."""
        from weirlab.base.amounts import parse_line, parse_time

        pause = None
        if self.read_pause is not None:
            at, comma, lasts = self.read_pause.partition(",")
            if not comma:
                raise InputError(
                    f"--read-pause {self.read_pause}: give its beginning and how long it lasts, e.g. 2s,500ms"
                )
            at_s = 0.0 if at.strip() == "0" else parse_time(at, "--read-pause")
            pause = round(at_s * 1e9), round(parse_time(lasts, "--read-pause") * 1e9)
        rate = None if self.read_rate is None else max(int(parse_line(self.read_rate) / 8), 1)
        return Reading(rate, pause)


@dataclass(frozen=True)
class TcpSendOptions:
    """A requested transfer."""

    server: ServerOptions
    transfer: TransferOptions
    sockets: SocketOptions
    output: OutputOptions
    far: FarOptions = FarOptions()
    receiver: ReadOptions = ReadOptions()

    def settings(self, *, as_json: bool) -> TransferSettings:
        """The parsed settings."""
        from weirlab.base.amounts import parse_line, parse_size
        from weirlab.transfers.tcp import connections as names

        server, transfer, sockets, output = self.server, self.transfer, self.sockets, self.output
        transfer.check()
        self._check_far()
        if output.every_block and not as_json:
            raise InputError("--every-block needs --json; give both")
        ports, first = transfer.up + transfer.down, sockets.local_port
        if first is not None and first + ports - 1 > 65535:
            raise InputError(f"--local-port {first}: there are fewer than {ports} ports from there on")
        reading = self.receiver.reading()
        if reading != AT_ONCE and not transfer.down:
            raise InputError(
                "--read-rate and --read-pause are for what this end receives: give --reverse or --bidir, or "
                "give them to weir tcp serve"
            )
        return TransferSettings(
            host=server.host.strip("[]"),
            port=server.port,
            token=server.token,
            up=transfer.up,
            down=transfer.down,
            block_bytes=transfer.block_bytes(),
            lasts_s=transfer.lasts_s(),
            total_bytes=None if transfer.total is None else parse_size(transfer.total, "--bytes"),
            rate_bps=None if transfer.rate is None else parse_line(transfer.rate),
            interval_s=output.interval_s(),
            congestion=sockets.congestion,
            options=tuple(map(parse_option, sockets.option or ())),
            local=None if sockets.bind is None else parse_address(sockets.bind),
            local_port=first,
            every_block=output.every_block,
            reading=reading,
            names=names.chosen(output.fields),
            via=self.far.via(),
        )

    def _check_far(self) -> None:
        """Raise ``InputError`` for options about this host's sockets if another host is the client."""
        if self.far.client is None:
            return
        given = {
            "--option": self.sockets.option,
            "--bind": self.sockets.bind,
            "--local-port": self.sockets.local_port,
            "--every-block": self.output.every_block,
            "--read-rate": self.receiver.read_rate,
            "--read-pause": self.receiver.read_pause,
        }
        for option, value in given.items():
            if value:
                raise InputError(
                    f"{option} is about sockets of this host, but with --client there are none; leave it out"
                )


@dataclass(frozen=True)
class TcpListenOptions:
    """Where to listen."""

    bind: Annotated[str, typer.Option(help="Address to listen on.", metavar="ADDRESS")] = ends.LOOPBACK
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0: any free port.", metavar="PORT")] = (
        PORT
    )
    token: TokenOption = ""


@dataclass(frozen=True)
class TcpLimitOptions:
    """What clients may use."""

    PANEL: ClassVar = "Limits"

    max_time: Annotated[
        str, typer.Option(help="Maximum duration of a transfer; 0: no limit.", metavar="TIME")
    ] = "1h"
    max_bytes: Annotated[
        str | None,
        typer.Option(help="Maximum bytes of a transfer, both directions together.", metavar="SIZE"),
    ] = None
    max_clients: Annotated[int, typer.Option(min=1, max=100, help="Most transfers at once.", metavar="N")] = (
        ends.MOST_CLIENTS
    )
    allow_client: Annotated[
        bool,
        typer.Option(
            "--allow-client", help="Also act as the client of other servers, for anyone who knows the token."
        ),
    ] = False
    allow_capture: Annotated[
        bool,
        typer.Option("--allow-capture", help="Record the headers of a test's packets if its client asks."),
    ] = False
    capture_bytes: Annotated[str, typer.Option(help="Maximum size of a capture.", metavar="SIZE")] = "100MB"
    capture_time: Annotated[str, typer.Option(help="Maximum duration of a capture.", metavar="TIME")] = "5min"
    capture_interface: Annotated[
        str | None,
        typer.Option(help="Record on this interface (default: the one towards the client).", metavar="IF"),
    ] = None
    transfers: Annotated[
        int | None, typer.Option(min=1, help="Exit after this many transfers.", metavar="N")
    ] = None

    def captures(self) -> ends.Captures | None:
        """The captures that are allowed; None without ``--allow-capture``.

        Raises
        ------
        InputError
            A limit is invalid, or an interface is given without ``--allow-capture``.
        """
        from weirlab.base.amounts import parse_size, parse_time

        if not self.allow_capture:
            if self.capture_interface is not None:
                raise InputError("--capture-interface has no effect without --allow-capture; give both")
            return None
        return ends.Captures(
            most_bytes=parse_size(self.capture_bytes, "--capture-bytes"),
            most_s=parse_time(self.capture_time, "--capture-time"),
            interface=self.capture_interface,
        )
