"""Many captures, each by itself: a row for every file, from this process or from the workers of a cluster."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.errors import InputError, WeirError
from weirlab.base.quantities import NOTHING, count, duration, plural
from weirlab.base.tables import Table
from weirlab.trace.analysis import KEEP, analyse
from weirlab.trace.facts import sides
from weirlab.trace.quantities import size
from weirlab.trace.times import Window

if TYPE_CHECKING:
    from weirlab.cli.progress import Reporter
    from weirlab.jobs.cluster import ClusterAddress

_ATTEMPTS: Final = 3
"""How often a capture is given to a worker, if workers die over it."""
_BATCH: Final = 20
"""Captures that a worker gets at once: sending takes as long as reading a small one."""


@dataclass(frozen=True)
class CaptureSummary:
    """What one capture holds; only ``path`` and ``problem`` if it cannot be read."""

    path: str
    problem: str = ""
    packets: int = 0
    selected: int = 0
    """Packets that the filter and the times let through."""
    bytes: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    connections: int = 0
    """TCP connections."""
    segments: int = 0
    """With data, of the connections kept."""
    retransmitted: int = 0
    """Of these."""
    streams: int = 0
    """Voice streams."""
    esp: int = 0
    """ESP flows."""
    cut_short: bool = False
    """The file ends inside a packet."""


def summary(path: str, filter: str, window: Window) -> CaptureSummary:
    """The summary of the capture at ``path``; an error of its content is its ``problem``."""
    try:
        found = analyse(path, filter=filter, window=window, keep=KEEP, rows=None)
    except WeirError as error:
        return CaptureSummary(path, str(error))
    read, connections = found["capture"], found["connections"]
    ends = [end for connection in connections for end in sides(connection)]
    return CaptureSummary(
        path,
        "",
        read["packets"],
        read["selected"],
        read["bytes"],
        read["first_ns"],
        read["last_ns"],
        len(connections) + found["connections_left_out"],
        sum(end["data_packets"] for end in ends),
        sum(end["retransmissions"]["total"] - end["retransmissions"]["handshake"] for end in ends),
        len(found["streams"]),
        len(found["esp"]) + found["esp_left_out"],
        read["cut_short"],
    )


def batch_of(paths: Sequence[str], filter: str, window: Window) -> list[CaptureSummary]:
    """The summary of each of ``paths``."""
    return [summary(path, filter, window) for path in paths]


@dataclass(frozen=True)
class CaptureSummaries:
    """Those of many captures, in the order in which they were named."""

    captures: tuple[CaptureSummary, ...]

    @property
    def problem(self) -> InputError | None:
        """The error if captures could not be read."""
        failed = [one for one in self.captures if one.problem]
        if not failed:
            return None
        of = plural(len(self.captures), "capture")
        return InputError(f"{len(failed):,} of {of} could not be read: {failed[0].problem}")

    @property
    def sentence(self) -> str:
        """What all of them hold."""
        total = Counter[str]()
        for one in self.captures:
            total.update({name: getattr(one, name) for name in ("packets", "connections", "streams", "esp")})
        return (
            f"{plural(len(self.captures), 'capture')}: {plural(total['packets'], 'packet')}, "
            f"{plural(total['connections'], 'TCP connection')}, {plural(total['streams'], 'voice stream')}, "
            f"{plural(total['esp'], 'ESP flow')}."
        )

    def document(self) -> dict[str, Any]:
        """For ``--json``."""
        return {"kind": "captures", "captures": self.captures}

    def table(self, limit: int) -> Table:
        """The first ``limit`` captures."""
        more = len(self.captures) - limit
        caption = "Captures" if more <= 0 else f"Captures, {more:,} more with --limit"
        columns = ("File", "Packets", "Size", "Time", "TCP", "Retransmitted", "Voice", "ESP", "Problem")
        return Table(caption, columns, [_row(one) for one in self.captures[:limit]], spare=("Problem",))


def _row(one: CaptureSummary) -> tuple[str, ...]:
    known = one.first_ns is not None and one.last_ns is not None
    lasted = duration(one.last_ns - one.first_ns) if known else NOTHING  # type: ignore[operator]
    retransmitted = f"{count(one.retransmitted)} of {count(one.segments)}"
    numbers = (count(one.connections), retransmitted, count(one.streams), count(one.esp))
    return (one.path, count(one.packets), size(one.bytes), lasted, *numbers, one.problem or NOTHING)


def summaries(
    paths: Sequence[Path], filter: str, window: Window, address: ClusterAddress | None, progress: Reporter
) -> CaptureSummaries:
    """Summarise each of ``paths``, here or, with an ``address``, by the workers of that cluster."""
    names = [os.fspath(path) if address is None else str(path.absolute()) for path in paths]
    done: dict[int, CaptureSummary] = {}
    made = (
        _here(names, filter, window) if address is None else _there(names, filter, window, address, progress)
    )
    for number, found in made:
        done[number] = found
        progress.advance(len(done), len(names), found.path)
    return CaptureSummaries(tuple(done[number] for number in range(len(names))))


def _here(names: Sequence[str], filter: str, window: Window) -> Iterator[tuple[int, CaptureSummary]]:
    for number, name in enumerate(names):
        yield number, summary(name, filter, window)


def _there(
    names: Sequence[str], filter: str, window: Window, address: ClusterAddress, progress: Reporter
) -> Iterator[tuple[int, CaptureSummary]]:
    from weirlab.jobs import cluster
    from weirlab.jobs.worker import ANALYSIS

    at_once = range(0, len(names), _BATCH)
    waiting = [range(begin, min(begin + _BATCH, len(names))) for begin in reversed(at_once)]
    underway, tried = dict[int, range](), Counter[int]()
    with cluster.Cluster(address, ANALYSIS, progress.note) as workers:
        while waiting or underway:
            while waiting and workers.room > 0:
                batch = waiting.pop()
                tried[batch.start] += 1
                underway[batch.start] = batch
                workers.submit(batch.start, batch_of, [names[number] for number in batch], filter, window)
            for done in workers.results():
                batch = underway.pop(done.key)
                if done.error is None:
                    yield from zip(batch, done.value, strict=True)
                elif len(batch) > 1:
                    # One of its captures may be what kills workers.
                    waiting += [range(number, number + 1) for number in batch]
                    tried[done.key] = 0
                elif tried[done.key] < _ATTEMPTS:
                    waiting.append(batch)
                else:
                    name = names[done.key]
                    yield done.key, CaptureSummary(name, f"{name}: {cluster.failure(done.error)}")
