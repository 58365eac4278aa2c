"""Connections watched in a namespace while something happens to them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from weirlab.lab.linux.namespace import Namespace
from weirlab.link.stopping import Stop
from weirlab.transfers.tcp import connections, watching
from weirlab.transfers.tcp.watching import BPF, ConnectionTally, Samples, WatchOutcome, WatchSettings

DEADLINE_S = 60.0
EVERY_NS = 1_000_000
HOUR_NS = 3_600_000_000_000
COUNTERS = ("bytes_acked", "bytes_received", "segs_in", "segs_out", "delivered")
Row = dict[str, int]


class Seen:
    """The rows of a watch, by connection, and how far it is."""

    def __init__(self) -> None:
        self.waits, self.news = threading.Event(), threading.Condition()
        self.rows: dict[int, list[Row]] = {}
        self.progress: Mapping[str, Any] = {}

    def waiting(self) -> None:
        self.waits.set()

    def samples(
        self, samples: Samples, progress: Mapping[str, Any], tallies: Sequence[ConnectionTally]
    ) -> None:
        with self.news:
            for row, number in enumerate(samples.connection):
                told = {name: int(v[row]) for name, (v, there) in samples.fields.items() if there[row]}
                self.rows.setdefault(int(number), []).append(told)
            self.progress = progress
            self.news.notify_all()

    def has(self, what: Callable[[dict[int, list[Row]]], bool]) -> bool:
        """Wait until the rows are such."""
        with self.news:
            return self.news.wait_for(lambda: what(self.rows), DEADLINE_S)

    @property
    def rounds(self) -> int:
        """Samples at events, of all connections."""
        return int(self.progress["lateness"]["rounds"]) if self.progress else 0

    @property
    def idle(self) -> int:
        return sum(each["idle"] for each in self.progress["connections"]) if self.progress else 0

    @property
    def is_whole(self) -> bool:
        """What was counted has been seen."""
        counted: int = sum(each["samples"] for each in self.progress["connections"])
        return sum(map(len, self.rows.values())) == counted

    def sampled(self, rounds: int) -> None:
        """Wait until there are so many samples at events, and all are seen."""
        assert self.has(lambda _: self.rounds >= rounds and self.is_whole)

    def quiet(self) -> int:
        """Wait until nothing happens, so that a sample is due at the next event. Their number."""
        before = self.idle
        assert self.has(lambda _: self.idle > before)
        return self.rounds


def _watch(end: Namespace, settings: WatchSettings, seen: Seen, stop: Stop | None = None) -> WatchOutcome:
    def work() -> WatchOutcome:
        with stop or Stop() as wanted:
            return watching.watch(settings, [seen], wanted)

    return end.call(work)


def _settings(
    port: int, by: str = BPF, names: Sequence[str] = COUNTERS, period_ns: int = EVERY_NS, **more: Any
) -> WatchSettings:
    return WatchSettings(connections.parse(f":{port}"), period_ns, tuple(names), by=by, **more)


class Watch:
    """A watch by BPF in a thread, which ends with its connections, or when it is stopped."""

    def __init__(self, end: Namespace, port: int, *, wait: bool, **more: Any) -> None:
        self.seen, self._stop = Seen(), Stop()
        self._outcomes: list[WatchOutcome] = []
        settings = _settings(port, wait=wait, **more)
        self._thread = threading.Thread(
            target=lambda: self._outcomes.append(_watch(end, settings, self.seen, self._stop))
        )
        self._thread.start()
        if wait:
            assert self.seen.waits.wait(DEADLINE_S)

    def stop(self) -> WatchOutcome:
        self._stop.request()
        return self.end()

    def end(self) -> WatchOutcome:
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive(), "it ends with the connection"
        return self._outcomes[0]


def _listen(server: Namespace, address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return server.call(lambda: socket.create_server((address, 0), family=family))


def _connect(
    client: Namespace, listener: socket.socket, port: int = 0
) -> tuple[socket.socket, socket.socket]:
    """Both ends of a connection, the client's at ``port``."""

    def connect() -> socket.socket:
        made = socket.socket(listener.family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", port))
        made.connect(listener.getsockname()[:2])
        return made

    made = client.call(connect)
    return made, listener.accept()[0]


def _transfer(sender: socket.socket, receiver: socket.socket, total: int) -> None:
    thread = threading.Thread(target=sender.sendall, args=(bytes(total),))
    thread.start()
    left = total
    while left:
        left -= len(receiver.recv(min(left, 1 << 16)))
    thread.join()
