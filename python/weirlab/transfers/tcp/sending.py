"""The client's side of a bulk transfer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from weirlab.base.errors import InputError, TrialError
from weirlab.link.stopping import Stop

if TYPE_CHECKING:
    from weirlab.transfers.tcp.results import DirectionSummary, Interval

Tell = Callable[[Mapping[str, Any]], None]
Inside = Callable[[Callable[[], Any]], Any]

PORT: Final = 29100
"""TCP port of ``weir tcp serve`` (``weir_tcp::bulk::PORT``)."""
MOST_CONNECTIONS: Final = 128
"""Most connections in one direction (``weir_tcp::control::MOST_CONNECTIONS``)."""
BLOCK_BYTES: Final = 131_072
LEAST_BLOCK_BYTES: Final = 24
"""The header of a block."""
MOST_BLOCK_BYTES: Final = 4 << 20
LASTS_S: Final = 10.0
_WAIT_S: Final = 0.1
_NS: Final = 1_000_000_000


def block_bytes(text: str, option: str) -> int:
    """Bytes of each write; ``InputError`` if ``text`` is none of the sizes that are possible."""
    from weirlab.base.amounts import parse_size

    found = parse_size(text, option)
    if not LEAST_BLOCK_BYTES <= found <= MOST_BLOCK_BYTES:
        raise InputError(f"{option} {text}: a block has 24 bytes (its header) or more, up to 4 MiB")
    return found


@dataclass(frozen=True)
class RemoteClient:
    """A server that acts as the client."""

    host: str
    port: int = PORT
    token: str = ""


@dataclass(frozen=True)
class CaptureFetch:
    """A capture that another host is to make, and the new file to write it to.

    ``must``: without it there is no transfer. ``most_bytes``: the largest capture that is accepted.
    """

    file: Path
    must: bool
    most_bytes: int


@dataclass(frozen=True)
class Reading:
    """How an end reads: slower than data arrive, on purpose, so that its window closes."""

    bytes_per_s: int | None = None
    """At most, over all connections of a transfer together."""
    pause_ns: tuple[int, int] | None = None
    """When it stops reading after the start, and for how long."""


AT_ONCE: Final = Reading()
"""Whatever has arrived."""


@dataclass(frozen=True)
class TransferSettings:
    """A transfer. If ``lasts_s`` and ``total_bytes`` (per direction) are None, it lasts until Ctrl-C."""

    host: str
    port: int = PORT
    token: str = ""
    up: int = 1
    down: int = 0
    block_bytes: int = BLOCK_BYTES
    lasts_s: float | None = None
    total_bytes: int | None = None
    rate_bps: float | None = None
    interval_s: float = 1.0
    congestion: str = ""
    options: tuple[tuple[str, str], ...] = ()
    local: str | None = None
    local_port: int | None = None
    every_block: bool = False
    names: tuple[str, ...] = ()
    """Fields of the kernel that intervals and blocks report."""
    reading: Reading = AT_ONCE
    """How this end reads what the server sends."""
    via: RemoteClient | None = None
    """The client; None: this host."""
    fetch: CaptureFetch | None = None
    """The server's capture."""
    fetch_via: CaptureFetch | None = None
    """The capture of ``via``."""
    ndt7: str = ""
    """``ws`` or ``wss``: the server speaks ndt7, without or with TLS."""

    @property
    def endless(self) -> bool:
        return self.lasts_s is None and self.total_bytes is None


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
    settings: TransferSettings,
    observer: TransferObserver,
    stop: Stop,
    tell: Tell | None = None,
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
