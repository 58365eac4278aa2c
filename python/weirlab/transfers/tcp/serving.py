"""The server's side of bulk transfers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any, Final

from weirlab.base.errors import MissingCapability
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp.settings import AT_ONCE, PORT, Reading

LOOPBACK: Final = "127.0.0.1"
MOST_S: Final = 3600.0
MOST_CLIENTS: Final = 8
MOST_CAPTURE_BYTES: Final = 100_000_000
MOST_CAPTURE_S: Final = 300.0
SNAP_BYTES: Final = 128
"""Bytes kept of each packet: its headers."""
_WAIT_S: Final = 0.1
_FAREWELL_S: Final = 5.0
"""Time for clients to learn that the server stops."""
_NS: Final = 1_000_000_000


@dataclass(frozen=True)
class Captures:
    """What a server records for clients that request it.

    ``interface``: None means the one towards the client.
    """

    most_bytes: int = MOST_CAPTURE_BYTES
    most_s: float = MOST_CAPTURE_S
    interface: str | None = None

    def allowed(self, folder: str) -> tuple[str, int, int, int, str | None]:
        """The arguments for ``weirlab._engine.TcpServer``; it makes files in ``folder`` and unlinks them."""
        return folder, self.most_bytes, round(self.most_s * _NS), SNAP_BYTES, self.interface


@dataclass(frozen=True)
class ServerSettings:
    """A server; None means no limit. Without ``token`` only a loopback address is allowed."""

    address: str = LOOPBACK
    port: int = PORT
    token: str = ""
    most_s: float | None = MOST_S
    most_bytes: int | None = None
    most_clients: int = MOST_CLIENTS
    options: tuple[tuple[str, str], ...] = ()
    transfers: int | None = None
    """End after this number of transfers."""
    errands: bool = False
    """Also be the client of other servers, for anyone who knows the token."""
    captures: Captures | None = None
    """None: record nothing."""
    reading: Reading = AT_ONCE
    """How the server reads."""


@dataclass
class ServerTotals:
    """What a server did: transfers that ended, how many of them broke off, and clients that were refused."""

    transfers: int = 0
    broken_off: int = 0
    refused: int = 0
    strangers: int = 0
    received_bytes: int = 0
    sent_bytes: int = 0

    def take(self, event: Mapping[str, Any]) -> None:
        match event["event"]:
            case "ended":
                self.transfers += 1
                self.broken_off += bool(event["failure"])
                self.received_bytes += event["received_bytes"]
                self.sent_bytes += event["sent_bytes"]
            case "refused":
                self.refused += 1
            case "garbage":
                self.strangers += 1


def serve(
    settings: ServerSettings,
    stop: Stop,
    listening: Callable[[tuple[str, int]], None],
    happened: Callable[[Mapping[str, Any]], None],
) -> ServerTotals:
    """Serve until a request to stop, or until ``settings.transfers`` have ended.

    Raises
    ------
    InputError
        A token is needed, or an option cannot be set.
    LabError
        The address cannot be bound, or the interface of ``settings.captures`` does not exist.
    MissingCapability
        This host cannot record packets.
    """
    with ExitStack() as stack:
        allowed = None
        if settings.captures is not None:
            folder = stack.enter_context(TemporaryDirectory(prefix="weir-serve-"))
            allowed = settings.captures.allowed(folder)
        try:
            return _serve(settings, allowed, stop, listening, happened)
        except MissingCapability as error:
            raise MissingCapability(f"--allow-capture: {error}; run as root, or leave it out") from error


def _serve(
    settings: ServerSettings,
    allowed: tuple[str, int, int, int, str | None] | None,
    stop: Stop,
    listening: Callable[[tuple[str, int]], None],
    happened: Callable[[Mapping[str, Any]], None],
) -> ServerTotals:
    import resource

    from weirlab._engine import TcpServer

    # A client has up to 256 connections, and there may be 1024 that have not said what they are.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    server = TcpServer(
        address=settings.address,
        port=settings.port,
        token=settings.token,
        most_ns=None if settings.most_s is None else round(settings.most_s * _NS),
        most_bytes=settings.most_bytes,
        most_clients=settings.most_clients,
        options=list(settings.options),
        errands=settings.errands,
        capture=allowed,
        read_bytes_per_s=settings.reading.bytes_per_s,
        read_pause_ns=settings.reading.pause_ns,
    )
    account = ServerTotals()
    listening(server.address)

    def next_event(within_s: float) -> bool:
        event = server.next_event(within_s)
        if event is not None:
            account.take(event)
            happened(event)
        return event is not None

    while not stop.requested and (settings.transfers is None or account.transfers < settings.transfers):
        next_event(_WAIT_S)
    server.stop()
    last_s = time.monotonic() + _FAREWELL_S
    while server.clients and time.monotonic() < last_s:
        next_event(_WAIT_S)
    while next_event(0.0):
        pass
    return account
