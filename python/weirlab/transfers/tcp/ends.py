"""Both ends of bulk transfers: the client's side, and the server's."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, Protocol

from weirlab.base.errors import MissingCapability, TrialError
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp.settings import AT_ONCE, PORT, CaptureFetch, Reading, TransferSettings

if TYPE_CHECKING:
    from weirlab.transfers.tcp.results import DirectionSummary, Interval

Tell = Callable[[Mapping[str, Any]], None]
Inside = Callable[[Callable[[], Any]], Any]

_WAIT_S: Final = 0.1
_NS: Final = 1_000_000_000


class TransferEngine(Protocol):
    """Carries out a transfer, and reports events: ``weirlab._engine.TcpClient`` says which."""

    def next_event(self, within_s: float) -> dict[str, Any] | None: ...

    def stop(self) -> None: ...


class TransferObserver(Protocol):
    """Receives reports during the transfer."""

    def started(self, event: Mapping[str, Any]) -> None: ...

    def interval(self, interval: Interval) -> None: ...

    def blocks(self, event: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class TransferOutcome:
    """The result of a transfer: each direction, and each connection."""

    directions: list[DirectionSummary]
    connections: list[DirectionSummary]
    started: Mapping[str, Any] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    """Requested fields that the sender's kernel does not report."""
    interrupted: bool = False
    """The user ended a transfer that would have ended by itself."""
    recorded: Mapping[str, Any] | None = None
    """What the server recorded, or ``why_not``; None if that was not requested."""
    recorded_via: Mapping[str, Any] | None = None
    """The same for ``via``."""

    def problem(self) -> TrialError | None:
        """The error that makes the numbers invalid, if there is one."""
        failures = [direction.failure for direction in self.directions if direction.failure]
        if failures:
            return TrialError(f"connections broke off: {'; '.join(failures)}")
        return None


def send(
    settings: TransferSettings, observer: TransferObserver, stop: Stop, tell: Tell | None = None
) -> TransferOutcome:
    """Carry out a transfer; a request to stop ends it cleanly.

    ``tell`` gets every event of the engine unchanged; with it, the engine also reports clock exchanges.

    Raises
    ------
    InputError
        The host is not known, an option cannot be set, or a token is missing.
    LabError
        There is no answer, or not one from a Weir server.
    TrialError
        The server refuses, or went away during the transfer.
    """
    return begin(settings, stop, tell).carry(observer, stop)


@dataclass(frozen=True)
class Transfer:
    """A transfer that has begun; made by :func:`begin`. Dropping it breaks the transfer off."""

    settings: TransferSettings
    started: Mapping[str, Any]
    """The event that all connections are established."""
    _client: TransferEngine
    _tell: Tell | None

    def carry(self, observer: TransferObserver, stop: Stop) -> TransferOutcome:
        """Wait for the end; raises the errors of :func:`send`."""
        from weirlab.transfers.tcp.results import Merger

        names = self.settings.names
        merger = Merger([each["up"] for each in self.started["connections"]], names)
        observer.started(self.started)
        stopping, recorded = False, dict[str, Mapping[str, Any]]()
        while True:
            if stop.requested and not stopping:
                self._client.stop()
                stopping = True
            event = _next(self._client, self._tell)
            match event and event["event"]:
                case "interval" | "estimate" if event:
                    for interval in merger.take(event):
                        observer.interval(interval)
                case "samples" if event:
                    observer.blocks(event)
                case "recorded" if event:
                    recorded[event["end"]] = event
                case "done" if event:
                    for interval in merger.rest():
                        observer.interval(interval)
                    directions, connections = merger.summary(event)
                    sent = [event["client" if up else "server"][n] for n, up in enumerate(merger.ups)]
                    told = {name for each in sent for name in each["fields"]}
                    return TransferOutcome(
                        directions,
                        connections,
                        self.started,
                        absent=tuple(name for name in names if name not in told),
                        interrupted=event["stopped"] and not self.settings.endless,
                        recorded=recorded.get("server"),
                        recorded_via=recorded.get("client"),
                    )


def begin(
    settings: TransferSettings, stop: Stop, tell: Tell | None = None, inside: Inside = lambda make: make()
) -> Transfer:
    """Begin a transfer, and return when data flows; raises the errors of :func:`send`.

    ``inside`` calls its argument in the client's place, such as a network namespace.
    """
    via = settings.via

    def made() -> TransferEngine:
        if settings.ndt7:
            from weirlab.transfers.tcp.ndt7 import client

            return client.connect(settings)
        from weirlab._engine import TcpClient

        return TcpClient(
            host=settings.host,
            port=settings.port,
            token=settings.token,
            up=settings.up,
            down=settings.down,
            block_bytes=settings.block_bytes,
            lasts_ns=None if settings.lasts_s is None else round(settings.lasts_s * _NS),
            total_bytes=settings.total_bytes,
            bytes_per_s=None if settings.rate_bps is None else max(int(settings.rate_bps / 8), 1),
            interval_ns=round(settings.interval_s * _NS),
            congestion=settings.congestion,
            options=list(settings.options),
            local=settings.local,
            local_port=settings.local_port,
            every_block=settings.every_block,
            clocks=tell is not None,
            via=None if via is None else (via.host, via.port, via.token),
            fetch=_fetching(settings.fetch),
            fetch_via=_fetching(settings.fetch_via),
            read_bytes_per_s=settings.reading.bytes_per_s,
            read_pause_ns=settings.reading.pause_ns,
        )

    return taken(inside(made), settings, stop, tell)


def taken(
    client: TransferEngine, settings: TransferSettings, stop: Stop, tell: Tell | None = None
) -> Transfer:
    """The transfer of ``client``, when data flows."""
    while True:
        if stop.requested:
            raise KeyboardInterrupt
        event = _next(client, tell)
        if event is not None and event["event"] == "started":
            return Transfer(settings, event, client, tell)


def _fetching(fetch: CaptureFetch | None) -> tuple[str, bool, int] | None:
    return None if fetch is None else (str(fetch.file), fetch.must, fetch.most_bytes)


def _next(client: TransferEngine, tell: Tell | None) -> Mapping[str, Any] | None:
    event = client.next_event(_WAIT_S)
    if event is not None and tell is not None:
        tell(event)
    return event


LOOPBACK: Final = "127.0.0.1"
MOST_S: Final = 3600.0
MOST_CLIENTS: Final = 8
MOST_CAPTURE_BYTES: Final = 100_000_000
MOST_CAPTURE_S: Final = 300.0
SNAP_BYTES: Final = 128
"""Bytes kept of each packet: its headers."""
_FAREWELL_S: Final = 5.0
"""Time for clients to learn that the server stops."""


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
