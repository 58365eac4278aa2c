"""Connections of both ends, sampled and summed by path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from weirlab.links.emulator import hosts

if TYPE_CHECKING:
    from weirlab.links.emulator.hosts import Hosts
    from weirlab.transfers.parallel.bed.base import F64

_AGAIN: Final = "total_retrans"
_RECEIVED: Final = "bytes_received"


@dataclass(frozen=True)
class Counter:
    """A counter of one connection over time."""

    times_ns: npt.NDArray[np.int64]
    """Since 1970."""
    values: npt.NDArray[np.int64]

    @property
    def last(self) -> int:
        return int(self.values[-1])


@dataclass(frozen=True)
class PathCounters:
    """The counters of a method's connections, by the address of this end."""

    retransmitted: Mapping[str, list[Counter]]
    """Segments, at the client."""
    arrived: Mapping[str, list[Counter]]
    """Bytes in order, at the server."""

    def received(self, path: int, edges_ns: F64) -> F64:
        """Bytes that had arrived over ``path`` at times since 1970."""
        total = np.zeros(len(edges_ns))
        for each in self._at_server(path):
            total += np.interp(edges_ns, each.times_ns, each.values, left=0.0)
        return total

    def connections(self, path: int) -> int:
        """How many connections carried data over ``path``."""
        return sum(each.last > 0 for each in self._at_server(path))

    def retransmissions(self, path: int) -> int | None:
        """Segments that the sender sent again over ``path``; None where no connection was seen."""
        found = self.retransmitted.get(hosts.client_port(path - 1).address, [])
        return sum(each.last for each in found) if found else None

    def _at_server(self, path: int) -> list[Counter]:
        return self.arrived.get(hosts.server_port(path - 1).address, [])


@dataclass(frozen=True)
class Watch:
    """Samplers in the namespaces of client and server."""

    client: Any
    server: Any
    """``weirlab._engine.TcpWatcher``."""

    def finish(self, port: int) -> PathCounters:
        """End it; the connections of a method are those to ``port``."""
        return PathCounters(
            _taken(self.client, _AGAIN, "remote", port), _taken(self.server, _RECEIVED, "local", port)
        )


def _taken(watcher: Any, field: str, served: str, port: int) -> dict[str, list[Counter]]:
    watcher.stop()
    samples = watcher.take()
    values, there = samples["fields"][field]
    found: dict[str, list[Counter]] = {}
    for number, each in enumerate(watcher.progress()["connections"]):
        rows = np.flatnonzero((samples["connection"] == number) & there)
        if each[served][1] == port and len(rows):
            counter = Counter(samples["time_ns"][rows], values[rows].astype(np.int64))
            found.setdefault(each["local"][0], []).append(counter)
    return found


@contextmanager
def watched(made: Hosts, every_s: float) -> Iterator[Watch]:
    """Sample the connections of both hosts for as long as the block lasts."""
    client = made.client.call(lambda: _watcher([_AGAIN], every_s))
    try:
        server = made.server.call(lambda: _watcher([_RECEIVED], every_s))
        try:
            yield Watch(client, server)
        finally:
            server.stop()
    finally:
        client.stop()


def _watcher(fields: Sequence[str], every_s: float) -> Any:
    from weirlab._engine import TcpWatcher

    return TcpWatcher(
        ends=[(None, 0), (None, 0)],
        pid=None,
        program=None,
        period_ns=round(every_s * 1e9),
        wait=True,
        fields=list(fields),
    )
