"""Connections as tables."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final, Literal

from weirlab.base.tables import Table
from weirlab.trace import sheet, times, wording
from weirlab.trace.facts import (
    Connection,
    Selection,
    busier,
    endpoint,
    link_bytes,
    side,
    sides,
)
from weirlab.trace.quantities import bit_rate, count, duration, size

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
            times.absolute(begun, 3) if absolute else times.since(begun, start_ns),
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
