"""Many captures, each by itself: a row for every file, from this process or from the workers of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weirlab.base.errors import InputError, WeirError
from weirlab.base.quantities import NOTHING, count, duration, plural
from weirlab.base.tables import Table
from weirlab.jobs.batches import results, unreadable
from weirlab.trace.analysis import KEEP, analyse
from weirlab.trace.facts import data_again, sides
from weirlab.trace.others import streams_left_out
from weirlab.trace.quantities import size
from weirlab.trace.times import Window

if TYPE_CHECKING:
    from weirlab.cli.progress import Reporter
    from weirlab.jobs.cluster import ClusterAddress


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
        sum(map(data_again, ends)),
        len(found["streams"]) + streams_left_out(found),
        len(found["esp"]) + found["esp_left_out"],
        read["cut_short"],
    )


@dataclass(frozen=True)
class CaptureSummaries:
    """Those of many captures, in the order in which they were named."""

    captures: tuple[CaptureSummary, ...]

    @property
    def problem(self) -> InputError | None:
        """The error if captures could not be read."""
        return unreadable(self.captures, "capture")

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
        return {"kind": "captures", "captures": self.captures}

    def table(self, limit: int) -> Table:
        """The first ``limit`` captures."""
        more = len(self.captures) - limit
        caption = "Captures" if more <= 0 else f"Captures, {more:,} more with --limit"
        columns = ("File", "Packets", "Size", "Time", "TCP", "Retransmitted", "Voice", "ESP", "Problem")
        return Table(caption, columns, [_row(one) for one in self.captures[:limit]], spare=("Problem",))


def _row(one: CaptureSummary) -> tuple[str, ...]:
    if one.problem:
        return (one.path, *[NOTHING] * 7, one.problem)
    known = one.first_ns is not None and one.last_ns is not None
    lasted = duration(one.last_ns - one.first_ns) if known else NOTHING  # type: ignore[operator]
    retransmitted = f"{count(one.retransmitted)} of {count(one.segments)}"
    numbers = (count(one.connections), retransmitted, count(one.streams), count(one.esp))
    return (one.path, count(one.packets), size(one.bytes), lasted, *numbers, NOTHING)


def summaries(
    paths: Sequence[Path], filter: str, window: Window, address: ClusterAddress | None, progress: Reporter
) -> CaptureSummaries:
    """Summarise each of ``paths``, here or, with an ``address``, by the workers of that cluster."""
    read = partial(summary, filter=filter, window=window)
    return CaptureSummaries(results(paths, read, CaptureSummary, address, progress))
