"""Connections as tables, many captures, a row for every file, and why connections were not faster."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from weirlab.base.errors import InputError, WeirError
from weirlab.base.quantities import NOTHING, plural
from weirlab.base.quantities import duration as base_duration
from weirlab.base.tables import Table
from weirlab.diagnosis.connection import LEAST_SEGMENTS, LEAST_TIMEOUTS, worth_it
from weirlab.jobs.batches import results, unreadable
from weirlab.trace import quantities, sheet, wording
from weirlab.trace.analysis import KEEP, analyse
from weirlab.trace.facts import (
    Analysis,
    Connection,
    Selection,
    busier,
    data_again,
    endpoint,
    link_bytes,
    side,
    sides,
    streams_left_out,
)
from weirlab.trace.quantities import Window, bit_rate, count, duration, size

if TYPE_CHECKING:
    from weirlab._engine import ConnectionRows
    from weirlab.cli.progress import Reporter
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.jobs.cluster import ClusterAddress

_TOLD: Final = 3
"""Up to this many sentences are shown; more are details."""

SortKey = Literal["bytes", "start", "retransmissions", "rtt", "duration"]

_KEYS: Final[dict[str, Callable[[Connection], float]]] = {
    "bytes": lambda c: -link_bytes(c),
    "start": lambda c: c["first_ns"],
    "retransmissions": lambda c: -sum(end["retransmissions"]["total"] for end in sides(c)),
    "rtt": lambda c: -(side(c, busier(c))["rtt"]["mean_ns"] or 0.0),
    "duration": lambda c: c["first_ns"] - c["last_ns"],
}


def ordered(connections: Selection, key: SortKey) -> Selection:
    """The greatest first, or the earliest for the start; equal ones by number."""
    return connections.ordered(lambda c: (_KEYS[key](c), c["id"]))


def overview(listed: Sequence[Connection], caption: str, start_ns: int, *, absolute: bool = False) -> Table:
    """A row per connection: who, how much, how fast, and what happened to the busier side's data."""
    columns = (
        "#", "a > b", "Duration", "a sent", "b sent", "Throughput", "Retransmitted", "Mean RTT", "End",
        "Start", "Captured",
    )  # fmt: skip
    rows = []
    for connection in listed:
        a, b = sides(connection)
        begun = connection["first_ns"]
        sent = side(connection, busier(connection))
        # Most cells of a scan are equal.
        cells = (
            str(connection["id"]),
            f"{endpoint(a)} > {endpoint(b)}",
            duration(connection["last_ns"] - begun),
            size(a["unique_bytes"]),
            size(b["unique_bytes"]),
            bit_rate(wording.throughput_bps(sent)),
            wording.retransmitted(sent),
            duration(sent["rtt"]["mean_ns"]),
            wording.ENDS[connection["end"]],
            quantities.absolute(begun, 3) if absolute else quantities.since(begun, start_ns),
            wording.PLACES[connection["place"]],
        )
        rows.append(tuple(map(sys.intern, cells)))
    b_more = sum(connection["b"]["unique_bytes"] - connection["a"]["unique_bytes"] for connection in listed)
    less, more = ("a sent", "b sent") if b_more > 0 else ("b sent", "a sent")
    spare = ("Captured", *(() if absolute else ("Start",)), "End", less, "Duration", more)
    return Table(caption, columns, rows, spare=spare)


def data(listed: Sequence[Connection]) -> Table:
    """More about the data of the busier side of each connection."""
    columns = (
        "#", "From", "Segments", "Retransmitted", "Spurious", "Out of order", "Duplicate ACKs", "Max. RTT",
        "Max. in flight", "Window", "Window full", "Zero windows",
    )  # fmt: skip
    rows = []
    for connection in listed:
        name = busier(connection)
        sent = side(connection, name)
        other = side(connection, "b" if name == "a" else "a")
        if not sent["data_packets"]:
            continue
        rows.append(
            (
                str(connection["id"]),
                name,
                count(sent["data_packets"]),
                wording.retransmitted(sent),
                count(sent["retransmissions"]["spurious"]),
                count(sent["out_of_order"]),
                count(other["duplicate_acks"]),
                duration(sent["rtt"]["max_ns"]),
                size(sent["flight_max"]),
                sheet.window(connection, other),
                count(other["window_full"]),
                count(other["zero_windows"]),
            )
        )
    spare = ("Out of order", "Segments", "Duplicate ACKs", "Zero windows")
    return Table("Data of the side that sent more", columns, rows, spare=spare, details=True)


def conclusions(listed: Sequence[Connection]) -> Table:
    """A sentence per connection."""
    rows = [(str(each["id"]), wording.conclusion(each)) for each in listed]
    return Table("What happened", ("#", ""), rows, details=len(rows) > _TOLD)


def whole(connection: Connection, start_ns: int, *, absolute: bool) -> list[Table]:
    """The connection, then what each side sent."""
    facts = sheet.whole(connection, start_ns, absolute=absolute)
    return [Table(f"Connection {connection['id']}", ("", ""), facts), both(connection)]


def both(connection: Connection) -> Table:
    """What each side sent, in columns."""
    a, b = sides(connection)
    columns = ("", f"a  {endpoint(a)}", f"b  {endpoint(b)}")
    return Table("What each side sent", columns, sheet.both(connection))


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
    lasted = base_duration(one.last_ns - one.first_ns) if known else NOTHING  # type: ignore[operator]
    retransmitted = f"{count(one.retransmitted)} of {count(one.segments)}"
    numbers = (
        count(one.connections),
        retransmitted,
        count(one.streams),
        count(one.esp),
    )
    return (one.path, count(one.packets), size(one.bytes), lasted, *numbers, NOTHING)


def summaries(
    paths: Sequence[Path], filter: str, window: Window, address: ClusterAddress | None, progress: Reporter
) -> CaptureSummaries:
    """Summarise each of ``paths``, here or, with an ``address``, by the workers of that cluster."""
    read = partial(summary, filter=filter, window=window)
    return CaptureSummaries(results(paths, read, CaptureSummary, address, progress))


MOST_PACKETS: Final = 10_000_000
"""Packets, round trips and SACK blocks that are kept in memory, some 40 bytes each; ten times as many of
a single connection."""
MOST: Final = 20
"""Most connections that are diagnosed: those that are shown first."""


def packet_rows(number: int | None) -> ConnectionRows:
    """What takes the packets that diagnoses need, in the course of the analysis: those of connection
    ``number`` or of all connections that are worth it.
    """
    from weirlab import _engine

    return _engine.ConnectionRows(
        least_segments=LEAST_SEGMENTS,
        least_timeouts=LEAST_TIMEOUTS,
        most=MOST_PACKETS if number is None else 10 * MOST_PACKETS,
        only=number,
    )


def diagnosed(
    rows: ConnectionRows, shown: Sequence[Connection], target_bps: float | None = None, *, most: int = MOST
) -> dict[int, Diagnosis]:
    """Diagnoses by connection number, of the first ``most`` connections, if they have enough data."""
    found = {}
    for connection in shown[:most]:
        if not worth_it(connection):
            continue
        from weirlab.diagnosis import tracing

        found[connection["id"]] = tracing.read(rows, connection, target_bps=target_bps)
    return {number: diagnosis for number, diagnosis in found.items() if diagnosis is not None}


def reason_not(rows: ConnectionRows, analysis: Analysis) -> str | None:
    """Why there is no diagnosis although there is enough data; None if there is one."""
    if not rows.overflowed:
        return None
    many = f"the captures have {count(analysis['capture']['packets'])} packets"
    if rows.only is not None:
        return f"{many}, too many for a diagnosis; take a part of the time with --from and --to"
    return f"{many}; choose one with --connection"
