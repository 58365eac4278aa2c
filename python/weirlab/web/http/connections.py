"""Connections of clients: how many there may be, and how long a client may take to send a request."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from itertools import islice
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from weirlab.web.addresses import site

KNOWN: Final = "known"
"""Key of a request's state: true if its sender may use the service."""
LOST: Final = "lost"
"""Key of a request's state: what is called if the connection ends while the request waits for its turn."""
TAKE: Final = "take"
"""Key of a request's state: takes the socket of its connection away; see :meth:`HttpConnection.take`."""
_SWEEP_S: Final = 0.1
_ENDED_AT_ONCE: Final = 10
"""Connections that a sweep ends. Clients that began together would otherwise all come back together."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Numbers of connections, times in s."""

    most: int = 1000
    most_of_client: int = 128
    """Of one address, or of 64 bits of IPv6."""
    header_s: float = 10.0
    """For the header of a request, since the connection or the answer before it."""
    body_s: float = 10.0
    """A body must have :attr:`least_rate` over any such time while the service takes it."""
    least_rate: float = 500.0
    """Bytes per second."""
    rest_s: float = 5.0
    """For the rest of a body whose request has been answered."""


class HttpConnectionTable:
    """All connections. Where there are too many, the one goes that has waited longest for its client.

    Clients that have not shown that they may use the service go before others. ``exempt`` tells the addresses
    that many clients share, of proxies. ``now`` is in s.
    """

    def __init__(
        self,
        limits: ConnectionLimits,
        exempt: Callable[[str], bool] = lambda address: False,
        now: Callable[[], float] | None = None,
    ) -> None:
        self.limits = limits
        self._exempt = exempt
        self._now = now
        self._open: dict[HttpConnection, str] = {}
        """With what counts as its client; empty for a proxy."""
        self._count: Counter[str] = Counter()
        self._waiting: tuple[OrderedDict[HttpConnection, None], ...] = (OrderedDict(), OrderedDict())
        """For strangers and for others: connections that wait for their client, the longest wait first."""
        self.refused = 0
        self.ended = 0
        """Connections that missed a deadline or made room."""

    def now(self) -> float:
        return asyncio.get_running_loop().time() if self._now is None else self._now()

    def admit(self, connection: HttpConnection, address: str) -> bool:
        """Count a new connection; false if there is no room for it."""
        client = "" if self._exempt(address) else site(address)
        limits = self.limits
        if (client and self._count[client] >= limits.most_of_client and not self._make_room(client)) or (
            len(self._open) >= limits.most and not self._make_room("")
        ):
            self.refused += 1
            return False
        self._open[connection] = client
        self._count[client] += 1
        return True

    def discard(self, connection: HttpConnection) -> None:
        """Forget a connection that has ended."""
        client = self._open.pop(connection, None)
        if client is not None:
            self._count[client] -= 1
            if not self._count[client]:
                del self._count[client]
        self.waits(connection, waiting=False)

    def waits(self, connection: HttpConnection, *, waiting: bool) -> None:
        """``connection`` begins to wait for its client, or ceases to."""
        for each in self._waiting:
            each.pop(connection, None)
        if waiting and connection in self._open:
            self._waiting[connection.known][connection] = None

    async def watch(self) -> None:
        """End connections that miss a deadline, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            self.sweep()

    def sweep(self) -> None:
        """End connections that miss a deadline now."""
        now = self.now()
        late = (connection for connection in [*self._open] if connection.is_late(now))
        for connection in islice(late, _ENDED_AT_ONCE):
            self.ended += 1
            self.discard(connection)
            connection.time_out()

    def _make_room(self, client: str) -> bool:
        """End a connection that waits for its client; of this ``client``, unless empty."""
        now = self.now()
        for waiting in self._waiting:
            for connection in waiting:
                if (not client or self._open[connection] == client) and not connection.is_steady(now):
                    self.ended += 1
                    self.discard(connection)
                    connection.transport.abort()
                    return True
        return False


class ConnectionPhase(Enum):
    """What a connection waits for."""

    HEADER = auto()
    """The client: the header of a request."""
    BODY = auto()
    """The client: the body."""
    REST = auto()
    """The client: the rest of the body of a request that has been answered."""
    ANSWER = auto()
    """The service."""


class HttpConnection(H11Protocol):
    """A connection to a client, which must send its requests in time."""

    def __init__(self, *args: Any, connections: HttpConnectionTable, **named: Any) -> None:
        super().__init__(*args, **named)
        self.app_state = {**self.app_state, TAKE: self.take}
        self.known = False
        """Whether the client has shown that it may use the service."""
        self._connections = connections
        self._phase = ConnectionPhase.ANSWER
        self._since = 0.0
        """When the phase began."""
        self._window = 0.0
        self._received = 0
        """Bytes of the body since :attr:`_window`."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._connections.admit(self, self.client[0] if self.client else ""):
            self._advance(0)
        else:
            self._answer(b"503 Service Unavailable\r\nRetry-After: 1")

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        super().connection_lost(exc)
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and (lost := cycle.scope["state"].get(LOST)) is not None:
            lost()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._advance(len(data))

    # H11Protocol

    def on_response_complete(self) -> None:
        self.known = self.known or bool(self.scope.get("state", {}).get(KNOWN))
        super().on_response_complete()
        self._advance(0)

    def take(self, answer: bytes) -> socket.socket | None:
        """The socket of this connection, from which the client gets ``answer``, and no more from this server.

        None if the client has gone, or has not waited for the answer. To be called in the event loop.
        """
        transport = self.transport
        if transport.is_closing() or self.conn.trailing_data[0] or transport.get_write_buffer_size():
            return None
        transport.write(answer)
        if transport.is_closing() or transport.get_write_buffer_size():
            return None
        taken = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        # It closes its own descriptor only.
        transport.abort()
        return taken

    # Deadlines

    def is_late(self, now: float) -> bool:
        """Whether the client has missed a deadline; begins a new interval of a body's rate."""
        limits = self._connections.limits
        match self._phase:
            case ConnectionPhase.HEADER:
                return now - self._since > limits.header_s
            case ConnectionPhase.REST:
                return now - self._since > limits.rest_s
            case ConnectionPhase.BODY if self.flow.read_paused or now - self._window > limits.body_s:
                late = not self.is_steady(now)
                self._window, self._received = now, 0
                return late
        return False

    def is_steady(self, now: float) -> bool:
        """Whether a body arrives fast enough, or the service is the one that is slow."""
        return self._phase is ConnectionPhase.BODY and (
            self.flow.read_paused
            or self._received >= self._connections.limits.least_rate * (now - self._window)
        )

    def time_out(self) -> None:
        """End the connection; a request that has begun and has no answer gets status 408."""
        begun = bool(self.conn.trailing_data[0]) if self._phase is ConnectionPhase.HEADER else True
        if (
            self._phase in (ConnectionPhase.HEADER, ConnectionPhase.BODY)
            and begun
            and not self._is_answering()
        ):
            self._answer(b"408 Request Timeout")
        else:
            self.transport.close()

    def _is_answering(self) -> bool:
        cycle = self.cycle
        return cycle is not None and cycle.response_started and not cycle.response_complete

    def _advance(self, received: int) -> None:
        """Note the phase, and how many bytes were ``received`` in it."""
        match self.conn.their_state:
            case h11.IDLE:
                phase = ConnectionPhase.HEADER
            case h11.SEND_BODY:
                phase = ConnectionPhase.REST if self.cycle.response_complete else ConnectionPhase.BODY
            case _:
                phase = ConnectionPhase.ANSWER
        if phase is self._phase:
            self._received += received
            return
        self._phase = phase
        self._since = self._window = self._connections.now()
        self._received = 0
        self._connections.waits(self, waiting=phase is not ConnectionPhase.ANSWER)

    def _answer(self, status: bytes) -> None:
        self.transport.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        self.transport.close()
