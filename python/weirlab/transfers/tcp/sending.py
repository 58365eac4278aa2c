"""The client's side of a bulk transfer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from weirlab.base.errors import TrialError
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp.settings import CaptureFetch, TransferSettings

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
