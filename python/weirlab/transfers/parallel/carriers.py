"""Who sends and receives: plain connections, TCP or multipath TCP, and sessions of parallel sockets.

A carrier sends as fast as it can, from :meth:`Carrier.start` to :meth:`Carrier.stop`. The receiver compares
every byte with what was sent.
"""

from __future__ import annotations

import random
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from weirlab.base.errors import LabError, TrialError, WeirError
from weirlab.links.emulator import running

if TYPE_CHECKING:
    from weirlab._engine import ParallelListener, ParallelSocket
    from weirlab.links.emulator.running import Hosts
    from weirlab.transfers.parallel.plan import F64
    from weirlab.transfers.psock.copying import SessionSettings

CHUNK_BYTES: Final = 256 << 10
_PATTERN: Final = random.Random(1).randbytes(CHUNK_BYTES)
_TWICE: Final = _PATTERN * 2
_WAIT_S: Final = 0.1
"""Between two looks at whether it is to end."""
_CONNECT_S: Final = 10.0
_RESET: Final = struct.pack("ii", 1, 0)
"""``struct linger``: closing sends RST, and leaves nothing behind for the next attempt."""
_ANY: Final = "0.0.0.0"
BUFFERS: Final = {"SO_SNDBUFFORCE": 32, "SO_RCVBUFFORCE": 33}
"""Options that set socket buffers beyond the system's limit, which Python does not name."""


class Intake:
    """What a receiver has read: how much in all, at every read."""

    def __init__(self) -> None:
        self.total = 0
        self._times_ns: list[int] = []
        self._totals: list[int] = []

    def take(self, data: bytes | bytearray) -> None:
        """Count ``data``, at most a chunk; raises ``TrialError`` where it is not what was sent."""
        place = self.total % CHUNK_BYTES
        if data != _TWICE[place : place + len(data)]:
            raise TrialError(
                "the data received differs from what was sent, somewhere in the "
                f"{len(data)} bytes from byte {self.total} on"
            )
        self.total += len(data)
        self._times_ns.append(time.monotonic_ns())
        self._totals.append(self.total)

    @property
    def times_ns(self) -> F64:
        """When something was read, CLOCK_MONOTONIC."""
        return np.asarray(self._times_ns, np.float64)

    def at(self, edges_ns: F64) -> F64:
        """Bytes that had been read at these times."""
        totals = np.concatenate(([0.0], np.asarray(self._totals, np.float64)))
        return np.asarray(totals[np.searchsorted(self.times_ns, edges_ns, side="right")], np.float64)


@dataclass(frozen=True)
class SessionReports:
    """What both ends of a session say of it."""

    client: dict[str, Any]
    server: dict[str, Any]


class TransferCarrier(Protocol):
    """Sends and receives by one method."""

    intakes: Sequence[Intake]

    @property
    def failure(self) -> str:
        """Why it ended before it was stopped; empty if it did not."""

    def start(self) -> None:
        """Begin to send."""

    def reports(self) -> SessionReports | None:
        """What both ends of a session say now; None for anything else."""

    def stop(self) -> None:
        """End it, at any moment; may be called twice."""


class Workers:
    """Threads that work until they are told to end; the first failure is kept."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.failure = ""
        self._threads: list[threading.Thread] = []

    def start(self, *works: Callable[[], None]) -> None:
        """A thread for each of ``works``, which returns soon after :attr:`ended` is set."""
        for work in works:
            thread = threading.Thread(target=self._guarded, args=(work,), name="weir-carrier", daemon=True)
            self._threads.append(thread)
            thread.start()

    def join(self) -> None:
        """Wait for all."""
        for thread in self._threads:
            thread.join()

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (OSError, WeirError) as error:
            # What breaks because it was told to end is no failure.
            if not self.ended.is_set():
                self.failure = self.failure or str(error)


Pair = tuple[socket.socket, socket.socket]
"""The sender's end and the receiver's."""


class ConnectionCarrier:
    """Plain connections, each with a stream of its own."""

    def __init__(self, pairs: Sequence[Pair], also: Sequence[socket.socket]) -> None:
        self.intakes: Sequence[Intake] = [Intake() for _ in pairs]
        self._pairs, self._also = pairs, also
        self._workers = Workers()

    @property
    def failure(self) -> str:
        return self._workers.failure

    def start(self) -> None:
        for (sender, receiver), intake in zip(self._pairs, self.intakes, strict=True):
            self._workers.start(partial(self._send, sender), partial(self._receive, receiver, intake))

    def reports(self) -> None:
        return None

    def stop(self) -> None:
        self._workers.ended.set()
        self._workers.join()
        for end in [end for pair in self._pairs for end in pair]:
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            end.close()
        for listener in self._also:
            listener.close()

    def _send(self, sender: socket.socket) -> None:
        whole, place = memoryview(_PATTERN), 0
        while not self._workers.ended.is_set():
            with suppress(TimeoutError):
                place = (place + sender.send(whole[place:])) % CHUNK_BYTES

    def _receive(self, receiver: socket.socket, intake: Intake) -> None:
        buffer = bytearray(CHUNK_BYTES)
        while not self._workers.ended.is_set():
            with suppress(TimeoutError):
                size = receiver.recv_into(buffer)
                if not size:
                    raise TrialError("the connection was closed")
                intake.take(buffer[:size])


@dataclass(frozen=True)
class Sockets:
    """What plain connections are made of, and how many of them there are over each path."""

    congestion: str
    streams: int = 1
    protocol: int = socket.IPPROTO_TCP
    buffer_bytes: int | None = None
    """As of :class:`ParallelAttempt`."""

    def make(self) -> socket.socket:
        """One that is neither bound nor connected."""
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM, self.protocol)
        try:
            made.settimeout(_CONNECT_S)
            control(made, self.congestion)
            # Before it connects or listens: the window scale follows from it.
            if self.buffer_bytes is not None:
                for name in BUFFERS.values():
                    made.setsockopt(socket.SOL_SOCKET, name, self.buffer_bytes)
        except BaseException:
            made.close()
            raise
        return made


def control(made: socket.socket, congestion: str) -> None:
    """Set the congestion control; of multipath TCP that of all subflows."""
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())


def connections(made: Hosts, paths: Sequence[int], port: int, sockets: Sockets) -> ConnectionCarrier:
    """Connections over each of ``paths``; raises ``LabError`` where one cannot be made."""
    pairs: list[Pair] = []
    listeners: list[socket.socket] = []
    try:
        for path in paths:
            here, there = _ends(path)
            # Subflows join by other addresses of the server.
            at = there if sockets.protocol == socket.IPPROTO_TCP else _ANY
            listener = made.server.call(partial(_listen, at, port, sockets))
            listeners.append(listener)
            for _ in range(sockets.streams):
                sender = made.client.call(partial(_connect, here, there, port, sockets))
                receiver, _ = listener.accept()
                pairs.append((sender, receiver))
        for end in [end for pair in pairs for end in pair]:
            end.settimeout(_WAIT_S)
    except OSError as error:
        for each in [*listeners, *(end for pair in pairs for end in pair)]:
            each.close()
        raise LabError(f"no connection over path {path}: {error}") from error
    return ConnectionCarrier(pairs, listeners)


def _ends(path: int) -> tuple[str, str]:
    """The sender's address on a path and the receiver's."""
    return running.client_port(path - 1).address, running.server_port(path - 1).address


def _listen(address: str, port: int, sockets: Sockets) -> socket.socket:
    listener = sockets.make()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.listen(64)
    except BaseException:
        listener.close()
        raise
    return listener


def _connect(local: str, remote: str, port: int, sockets: Sockets) -> socket.socket:
    sender = sockets.make()
    try:
        sender.bind((local, 0))
        sender.connect((remote, port))
    except BaseException:
        sender.close()
        raise
    return sender


class SessionCarrier:
    """A session of parallel sockets."""

    def __init__(self, listener: ParallelListener, client: ParallelSocket, server: ParallelSocket) -> None:
        self.intakes: Sequence[Intake] = [Intake()]
        self._listener, self._client, self._server = listener, client, server
        self._workers = Workers()

    @property
    def failure(self) -> str:
        return self._workers.failure

    def start(self) -> None:
        self._workers.start(self._send, self._receive)

    def reports(self) -> SessionReports:
        return SessionReports(self._client.report(), self._server.report())

    def stop(self) -> None:
        self._workers.ended.set()
        self._client.abort()
        self._server.abort()
        self._workers.join()

    def _send(self) -> None:
        while not self._workers.ended.is_set():
            self._client.write_all(_PATTERN)

    def _receive(self) -> None:
        while not self._workers.ended.is_set():
            data = self._server.read(CHUNK_BYTES, _WAIT_S)
            if data == b"":
                raise TrialError("the session was closed")
            if data:
                self.intakes[0].take(data)


def session(
    made: Hosts, paths: Sequence[int], port: int, *, streams: int, how: SessionSettings
) -> SessionCarrier:
    """A session with so many streams over each of ``paths``; raises ``LabError`` where it cannot be made."""
    from weirlab._engine import ParallelListener, ParallelSocket

    plain = replace(how, token=secrets.token_hex(16)).plain()
    ends = [_ends(path) for path in paths]
    listener = made.server.call(lambda: ParallelListener([(there, port) for _, there in ends], plain))
    # By turns, so that the first streams use different paths.
    routes = [(here, there, port) for _ in range(streams) for here, there in ends]
    client = made.client.call(lambda: ParallelSocket.connect(routes, plain))
    latest_s = time.monotonic() + _CONNECT_S
    while (accepted := listener.accept(_WAIT_S)) is None:
        if time.monotonic() > latest_s:
            raise LabError(f"no session came about within {_CONNECT_S:g} s")
    return SessionCarrier(listener, client, accepted[0])
