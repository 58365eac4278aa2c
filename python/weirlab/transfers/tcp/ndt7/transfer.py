"""A test at either end: it moves data over a connection, and reports events like those of the engine."""

from __future__ import annotations

import errno
import os
import queue
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from weirlab._engine import tcp_sample
from weirlab.transfers.tcp.ndt7 import messages
from weirlab.transfers.tcp.ndt7.messages import (
    BINARY,
    CLOSE,
    EVERY_S,
    LASTS_S,
    LEAST_BYTES,
    MOST_BINARY_BYTES,
    MOST_S,
    PING,
    PONG,
    TEXT,
    Address,
    FrameError,
    FrameReader,
    Test,
    TransferReport,
    header,
    message,
    parsed,
    text,
)

_LOOK_S: Final = 0.02
_BLOCK: Final = 1 << 17
"""Bytes of a write or read: what a CPU's own cache holds."""
_READS: Final = 16
"""Parts that are read before the loop looks at the rest of its work."""
_FAREWELL_S: Final = 1.0
_MOST_PENDING: Final = 64
"""Beyond, pings get no answer."""
_NORMAL: Final = (1000).to_bytes(2, "big")
"""The reason of a farewell (RFC 6455, 7.4.1)."""
_SO_MAX_PACING_RATE: Final = 47
"""``asm-generic/socket.h``; Python has no name for it."""


@dataclass(frozen=True)
class TransferPlan:
    """One test, as this end carries it out; the rate and the bytes are limits."""

    test: Test
    serves: bool
    lasts_s: float = LASTS_S
    every_s: float = 0.01
    """Period of the kernel's samples."""
    most_bytes: int | None = None
    bytes_per_s: int | None = None
    uuid: str = ""
    moved: list[int] = field(default_factory=lambda: [0])
    """One number: bytes of both ways so far, for whoever limits several tests."""

    @property
    def sends(self) -> bool:
        return self.serves == (self.test == "download")


@dataclass
class _End:
    """What is known of one end: bytes of the connection and when they moved last, and its kernel's state."""

    bytes: int = 0
    last_ns: int = 0
    fields: Mapping[str, int] = field(default_factory=dict)
    waited_ns: int | None = None

    def moved(self, number: int, at_ns: int) -> None:
        if number > self.bytes:
            self.bytes, self.last_ns = number, at_ns

    def flow(self) -> dict[str, Any]:
        return {
            "bytes": self.bytes,
            "blocks": 0,
            "latency": None,
            "waited_ns": self.waited_ns,
            "fields": self.fields,
        }


class Ndt7Transfer:
    """One test over ``connection``, whose handshake is over; it is closed at the end.

    ``rest`` arrived behind the handshake. The other end's kernel is known by its messages, if it sends any;
    otherwise its bytes are those that this end's kernel saw acknowledged or received, reported as
    ``estimate`` instead of ``interval``.
    """

    uuid: str = ""
    """The server's name of the test, once it has told."""

    def __init__(self, connection: socket.socket, plan: TransferPlan, rest: bytes = b"") -> None:
        self._connection, self._plan, self._rest = connection, plan, rest
        self._events: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._reader = FrameReader(masked=plan.serves)
        self._pending: list[memoryview] = []
        """Of messages that have begun, and whole ones that follow."""
        self._closing = False
        """A farewell is sent, or about to be."""
        self._closed_s: float | None = None
        """When the other end's farewell came."""
        self._own, self._far = _End(), _End()
        self._sent_bytes = 0
        self._heard_s = 0.0
        local, remote = (_address(each()) for each in (connection.getsockname, connection.getpeername))
        self._ends = (remote, local) if plan.serves else (local, remote)
        control = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
        self._start_ns, self._since_1970_ns = time.monotonic_ns(), time.time_ns()
        one = {
            "local": self._ends[0],
            "remote": self._ends[1],
            "up": plan.test == "upload",
            "congestion": control.partition(b"\0")[0].decode() if plan.sends else None,
            "options": {},
        }
        self._put("started", connections=[one], same_clock=False, since_1970_ns=self._since_1970_ns)
        self._put("begun", client_ns=self._start_ns, server_ns=self._start_ns)
        threading.Thread(target=self._run, name="weir-ndt7", daemon=True).start()

    def next_event(self, within_s: float) -> dict[str, Any] | None:
        """The next event within ``within_s``; ``done`` is the last."""
        try:
            return self._events.get(timeout=within_s)
        except queue.Empty:
            return None

    def stop(self) -> None:
        """End it in good order; ``done`` follows."""
        self._stopping.set()

    def _put(self, event: str, **about: Any) -> None:
        self._events.put({"event": event, **about})

    def _elapsed_s(self) -> float:
        return (time.monotonic_ns() - self._start_ns) / 1e9

    def _run(self) -> None:
        failure = ""
        try:
            self._carry()
        except FrameError as error:
            failure = str(error)
        except OSError as error:
            # Clients that are through may just go.
            if self._elapsed_s() < self._plan.lasts_s and not self._closing:
                failure = f"connection lost: {error.strerror or error}"
        finally:
            with suppress(OSError):
                self._look()
                self._connection.shutdown(socket.SHUT_WR)
            self._connection.close()
            ours, theirs = (
                [{**end.flow(), "last_ns": end.last_ns, "failure": ""}] for end in (self._own, self._far)
            )
            ours[0]["failure"] = failure
            client, server = (theirs, ours) if self._plan.serves else (ours, theirs)
            stopped = self._stopping.is_set() or self._is_at_limit()
            self._put("done", client=client, server=server, stopped=stopped)

    def _carry(self) -> None:
        plan, connection = self._plan, self._connection
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if plan.bytes_per_s is not None and plan.sends:
            connection.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("@Q", plan.bytes_per_s))
        load, buffer = memoryview(os.urandom(_BLOCK)), memoryview(bytearray(_BLOCK))
        size, begun_s, next_look_s, next_report_s = LEAST_BYTES, 0.0, 0.0, 0.0
        poll = select.poll()
        poll.register(connection.fileno())
        self._take(memoryview(self._rest))
        while not self._is_over(now_s := self._elapsed_s()):
            plan.moved[0] = self._sent_bytes + self._reader.binary_bytes
            if now_s >= next_look_s:
                self._look()
                next_look_s = max(next_look_s + plan.every_s, now_s)
            if not self._pending and not self._closing:
                if self._is_enough(now_s):
                    self._say_farewell()
                elif now_s >= next_report_s:
                    next_report_s = now_s + EVERY_S
                    self._say(TEXT, self._report(now_s))
                elif plan.sends:
                    size = messages.next_size(size, self._sent_bytes, now_s - begun_s, MOST_BINARY_BYTES)
                    begun_s = now_s
                    self._load(load, size)
            events = (select.POLLOUT if self._pending else 0) | (
                select.POLLIN if self._may_read(now_s) else 0
            )
            poll.modify(connection.fileno(), events)
            for _, ready in poll.poll(min(_LOOK_S, max(next_look_s - now_s, 0.001)) * 1e3):
                if ready & select.POLLOUT:
                    self._write()
                if ready & ~select.POLLOUT:
                    self._read(buffer)

    def _is_over(self, now_s: float) -> bool:
        if now_s >= MOST_S:
            return True
        if self._closed_s is None or self._pending:
            return False
        # The server closes the connection first (RFC 6455, 7.1.1).
        return self._plan.serves or now_s >= self._closed_s + _FAREWELL_S

    def _is_enough(self, now_s: float) -> bool:
        plan = self._plan
        return (
            self._stopping.is_set()
            # A receiver leaves the end to the sender, unless it wants less than a whole test.
            or (now_s >= plan.lasts_s and (plan.sends or plan.lasts_s < LASTS_S))
            or self._is_at_limit()
        )

    def _is_at_limit(self) -> bool:
        return self._plan.most_bytes is not None and self._plan.moved[0] >= self._plan.most_bytes

    def _may_read(self, now_s: float) -> bool:
        """A limit of the rate holds what arrives back, too."""
        rate = self._plan.bytes_per_s
        return rate is None or self._reader.binary_bytes <= rate * (now_s + _LOOK_S)

    def _say(self, kind: int, payload: bytes) -> None:
        key = b"" if self._plan.serves else os.urandom(4)
        self._pending.append(memoryview(message(kind, payload, key)))

    def _say_farewell(self) -> None:
        """The last measurement sums the test up; then the close frame."""
        self._look()
        self._say(TEXT, self._report(self._elapsed_s()))
        self._say(CLOSE, _NORMAL)
        self._closing = True

    def _load(self, load: memoryview, size: int) -> None:
        """Have a binary message of ``size`` sent. Random bytes masked by any key are random bytes."""
        key = b"" if self._plan.serves else os.urandom(4)
        first = min(size, LEAST_BYTES)
        self._pending.append(memoryview(header(BINARY, size, key) + bytes(load[:first])))
        for at in range(first, size, _BLOCK):
            self._pending.append(load[: min(_BLOCK, size - at)])
        self._sent_bytes += size

    def _write(self) -> None:
        while self._pending:
            part = self._pending[0]
            try:
                sent = self._connection.send(part)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if sent < len(part):
                self._pending[0] = part[sent:]
                return
            self._pending.pop(0)

    def _read(self, buffer: memoryview) -> None:
        reads = _READS if self._plan.bytes_per_s is None else 1
        # Of what TLS has decrypted already, poll knows nothing.
        while reads > 0 or (isinstance(self._connection, ssl.SSLSocket) and self._connection.pending()):
            reads -= 1
            try:
                number = self._connection.recv_into(buffer)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not number:
                raise ConnectionResetError(errno.ECONNRESET, "the other end closed it")
            self._take(buffer[:number])

    def _take(self, part: memoryview) -> None:
        for kind, payload in self._reader.take(part):
            if kind == CLOSE and self._closed_s is None:
                self._closed_s = self._elapsed_s()
                if not self._closing:
                    self._say_farewell()
            elif kind == PING and len(self._pending) < _MOST_PENDING:
                self._say(PONG, payload)
            elif kind == TEXT:
                self._hear(payload)
        if self._reader.binary_bytes and self._plan.sends:
            raise FrameError("data came from the end that only receives")

    def _hear(self, payload: bytes) -> None:
        """The other end reports; too frequent reports are ignored."""
        now_s = self._elapsed_s()
        report = parsed(payload) if now_s >= self._heard_s + EVERY_S / 4 else None
        if report is None:
            return
        self._heard_s = now_s
        self.uuid = self.uuid or report.uuid
        if report.fields:
            self._far.fields = report.fields
            self._put_flow("interval", self._far, not self._plan.serves, report.elapsed_us * 1000)

    def _report(self, now_s: float) -> bytes:
        plan = self._plan
        report = TransferReport(round(now_s * 1e6), self._moved_bytes(), self._own.fields, plan.uuid)
        return text(report, plan.test, ends=self._ends if plan.serves else None)

    def _moved_bytes(self) -> int:
        """What this end wrote or read of the load."""
        if not self._plan.sends:
            return self._reader.binary_bytes
        return self._sent_bytes - sum(map(len, self._pending))

    def _look(self) -> None:
        """Report what the kernel knows now."""
        at_ns = time.monotonic_ns() - self._start_ns
        self._own.fields, self._own.waited_ns = fields, _ = tcp_sample(self._connection.fileno())
        own = self._moved_bytes()
        far = own - fields.get("wqueue_bytes", 0) if self._plan.sends else own + fields.get("rqueue_bytes", 0)
        self._own.moved(own, at_ns)
        self._far.moved(far, at_ns)
        self._put_flow("interval", self._own, self._plan.serves, at_ns)
        self._put_flow("estimate", self._far, not self._plan.serves, at_ns)

    def _put_flow(self, event: str, end: _End, of_server: bool, at_ns: int) -> None:
        self._put(event, of_server=of_server, at_ns=at_ns, flows=[end.flow()])


def _address(end: tuple[Any, ...]) -> Address:
    return str(end[0]).partition("%")[0], int(end[1])
