"""The server's side of bulk transfers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weirlab.link.stopping import Stop
from weirlab.studies.tcp.sending import PORT

LOOPBACK: Final = "127.0.0.1"
MOST_S: Final = 3600.0
MOST_CLIENTS: Final = 8
_WAIT_S: Final = 0.1
_FAREWELL_S: Final = 5.0
"""For clients to be told that the server stops."""
_NS: Final = 1_000_000_000


@dataclass(frozen=True)
class Settings:
    """A server; None: no limit. Without ``token`` only a loopback address is allowed."""

    address: str = LOOPBACK
    port: int = PORT
    token: str = ""
    most_s: float | None = MOST_S
    most_bytes: int | None = None
    most_clients: int = MOST_CLIENTS
    options: tuple[tuple[str, str], ...] = ()
    transfers: int | None = None
    """End after so many."""
    errands: bool = False
    """Be the client of other servers, for whoever knows the token."""


@dataclass
class Account:
    """What a server did: transfers that ended, of those that broke off, and clients that were refused."""

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
    settings: Settings,
    stop: Stop,
    listening: Callable[[tuple[str, int]], None],
    happened: Callable[[Mapping[str, Any]], None],
) -> Account:
    """Serve until a request to stop, or until ``settings.transfers`` have ended.

    Raises
    ------
    InputError
        A token is needed, or an option cannot be set.
    LabError
        The address cannot be had.
    """
    from weirlab._engine import TcpServer

    server = TcpServer(
        address=settings.address,
        port=settings.port,
        token=settings.token,
        most_ns=None if settings.most_s is None else round(settings.most_s * _NS),
        most_bytes=settings.most_bytes,
        most_clients=settings.most_clients,
        options=list(settings.options),
        errands=settings.errands,
    )
    account = Account()
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
