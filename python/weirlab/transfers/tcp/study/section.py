"""The section of a scenario about a TCP transfer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from weirlab.base.amounts import parse_line, parse_size, parse_time
from weirlab.base.errors import InputError
from weirlab.links.emulator.section import PathSection, Size, TextOrNumber, Words
from weirlab.scenario.model import Root, Section
from weirlab.scenario.values import readable
from weirlab.transfers.tcp import ndt7
from weirlab.transfers.tcp.measure import capturing
from weirlab.transfers.tcp.settings import (
    LASTS_S,
    MOST_CONNECTIONS,
    PORT,
    RemoteClient,
    TransferSettings,
    block_bytes,
)

LEAST_EVERY_NS: Final = 1_000_000

Conflict = tuple[tuple[int | str, ...], str]


def _period(text: str) -> int:
    from weirlab.trace.quantities import period_ns

    return period_ns(text, "the period")


def _fields(text: str) -> tuple[str, ...]:
    from weirlab.transfers.tcp.connections import chosen

    return chosen(text, "the field")


def _captures(text: str) -> capturing.CapturePoints:
    try:
        return capturing.ends(text, reverse=False)
    except InputError as error:
        raise InputError(str(error).removeprefix("--capture ")) from None


def _every(text: str) -> int:
    found = _period(text)
    if found < LEAST_EVERY_NS:
        raise InputError(f"{text}: 1ms is the shortest")
    return found


Time = Annotated[TextOrNumber, readable(lambda text: parse_time(text, "the time"))]
BitRate = Annotated[TextOrNumber, readable(parse_line)]
Period = Annotated[str, readable(_period)]


class TcpSection(Section):
    """One transfer, and how it is measured."""

    host: Annotated[str, Field(min_length=1, max_length=255)] | None = None
    """Name or address of a host that runs ``weir tcp serve``. The token comes from ``WEIR_TCP_TOKEN``, or
    from ``--token`` of ``weir tcp measure``."""
    port: Annotated[int, Field(strict=True, ge=1, le=65535)] = PORT
    ndt7: bool = False
    """``host`` is an ndt7 server, such as ``weir web --tests``: ``HOST`` (with TLS) or ``ws://HOST:PORT``.
    One connection, at most 10 s."""
    client: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """Another host as the client; it runs ``weir tcp serve --allow-client``. Its token comes from
    ``WEIR_TCP_CLIENT_TOKEN``, or from ``--client-token``."""
    client_port: Annotated[int, Field(strict=True, ge=1, le=65535)] = PORT
    path: PathSection | None = None
    """Instead of ``host``: client and server are in network namespaces of this host, with this path between
    them (needs root)."""
    connections: Annotated[int, Field(strict=True, ge=1, le=MOST_CONNECTIONS)] = 1
    reverse: bool = False
    """The server sends."""
    lasts: Time | None = None
    """Duration; 10 s if neither this nor ``total`` is given."""
    total: Size | None = None
    """Size of the transfer, instead of ``lasts``: ``500MB``."""
    rate: BitRate | None = None
    """Maximum rate: ``50Mbit/s``."""
    block: Size = "128KiB"
    """Bytes of each write, from 24 to 4 MiB."""
    buffer: Size | None = None
    """Socket buffer of the sender and of the receiver (``SO_SNDBUF``, ``SO_RCVBUF``); left out: the system's,
    which grow. With ``host``, that of the client's end only."""
    congestion: Annotated[str, Field(max_length=15)] = ""
    """Congestion control of both ends; empty: each host's default."""
    options: Words = {}
    """Socket options of the client's data connections, by name or ``LEVEL:NUMBER``."""
    server_options: Words = {}
    """Socket options of the server (with ``path`` only)."""
    every: Annotated[str, readable(_every)] = "10ms"
    """Period of the kernels' reports, from 1ms."""
    period: Period = "100ms"
    """Period of the computed values in the table ``axis``."""
    fields: Annotated[str, readable(_fields)] | None = None
    """The kernel's fields in the table ``axis``: names separated by commas, or ``all``. The table ``samples``
    has all of them anyway."""
    capture: Annotated[str, readable(_captures)] = capturing.AUTO
    """Record packets: ``auto`` (at both ends, if allowed), ``none``, or the ends that must be recorded:
    ``sender``, ``receiver``, or both with a comma between. An interface (with ``host``) stands for the
    client, and ``between:INTERFACE`` for an interface of this host that forwards the connection. Other hosts
    record if they run ``weir tcp serve --allow-capture``."""
    target: BitRate | None = None
    """Wanted throughput; the diagnosis says what it needs."""

    @property
    def every_ns(self) -> int:
        return _every(self.every)

    @property
    def period_ns(self) -> int:
        return _period(self.period)

    @property
    def captures(self) -> capturing.CapturePoints:
        """``capture``, parsed."""
        return capturing.ends(self.capture, reverse=self.reverse)

    @property
    def names(self) -> tuple[str, ...] | None:
        """``fields``, parsed; None: the usual ones."""
        return None if self.fields is None else _fields(self.fields)

    @property
    def target_bps(self) -> float | None:
        return None if self.target is None else parse_line(self.target)

    @property
    def where(self) -> str:
        """The other end in words."""
        return self.host or "a namespace of this host"

    def buffers(self, receives: bool) -> tuple[tuple[str, str], ...]:
        """Socket options of an end that sends, or that receives."""
        if self.buffer is None:
            return ()
        name = "SO_RCVBUF" if receives else "SO_SNDBUF"
        return ((name, str(parse_size(self.buffer, "the buffer"))),)

    def settings(self, *, host: str, token: str, client_token: str = "") -> TransferSettings:
        """The transfer, to a server at ``host``."""
        via = (
            None
            if self.client is None
            else RemoteClient(self.client.strip("[]"), self.client_port, client_token)
        )
        lasts = self.lasts or f"{LASTS_S:g}s"
        settings = TransferSettings(
            host=host.strip("[]"),
            port=self.port,
            token=token,
            up=0 if self.reverse else self.connections,
            down=self.connections if self.reverse else 0,
            lasts_s=parse_time(lasts, "the time") if self.total is None else None,
            total_bytes=None if self.total is None else parse_size(self.total, "the size"),
            rate_bps=None if self.rate is None else parse_line(self.rate),
            block_bytes=block_bytes(self.block, "the block"),
            interval_s=self.every_ns / 1e9,
            congestion=self.congestion,
            options=(*self.buffers(self.reverse), *self.options.items()),
            via=via,
        )
        return ndt7.of(settings) if self.ndt7 else settings


class TcpScenario(Root, title="Weir scenario: TCP transfer"):
    """A scenario about a TCP transfer."""

    KEY = "tcp"

    tcp: TcpSection

    def conflicts(self) -> Iterator[Conflict]:
        what = self.tcp
        if what.host is None and what.path is None:
            yield ("tcp",), "give 'host', where weir tcp serve runs, or 'path', an emulated path on this host"
        if what.ndt7:
            try:
                what.settings(host=what.host or "", token="")
            except InputError as error:
                yield ("tcp", "ndt7"), str(error).removeprefix("--ndt7: ")
        try:
            block_bytes(what.block, "the block")
        except InputError as error:
            yield ("tcp", "block"), str(error)
        if what.buffer is not None and what.client is not None:
            yield ("tcp", "buffer"), "applies to sockets of this host, and with 'client' it has none"
        if what.lasts is not None and what.total is not None:
            yield ("tcp", "total"), "excludes 'lasts': give one of them"
        if what.client is not None:
            if what.options:
                yield ("tcp", "options"), "apply to sockets of this host, and with 'client' it has none"
            if what.captures.client not in capturing.WISHES:
                yield (
                    ("tcp", "capture"),
                    "with 'client' an interface of this host is between the ends: write between:INTERFACE",
                )
        if what.path is None:
            if what.server_options:
                yield ("tcp", "server_options"), "can be set with 'path' only; see weir tcp serve --option"
            return
        if what.host is not None:
            yield ("tcp", "path"), "excludes 'host': the path to another host is not emulated"
        if what.client is not None:
            yield ("tcp", "client"), "excludes 'path': its client is in a namespace of this host"
        if what.captures.client not in capturing.WISHES or what.captures.between != capturing.NONE:
            yield ("tcp", "capture"), "with 'path' names no interface: give sender, receiver, auto or none"
        for side, why in what.path.conflicts():
            yield ("tcp", "path", side), why

    def beside(self, folder: Path) -> TcpScenario:
        if self.tcp.path is None:
            return self
        section = self.tcp.model_copy(update={"path": self.tcp.path.beside(folder)})
        return self.model_copy(update={"tcp": section})
