"""Connections, voice streams and ESP flows as tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

from weirlab.cli.output import Table
from weirlab.trace import others as others_of
from weirlab.trace import sheet, times, words
from weirlab.trace.facts import (
    Analysis,
    Connection,
    Side,
    busier,
    endpoint,
    link_bytes,
    side,
    sides,
)
from weirlab.trace.quantities import bit_rate, count, duration, percent, size

SortKey = Literal["bytes", "start", "retransmissions", "rtt", "duration"]

_KEYS: Final[dict[str, Callable[[Connection], float]]] = {
    "bytes": lambda c: -link_bytes(c),
    "start": lambda c: c["first_ns"],
    "retransmissions": lambda c: -sum(end["retransmissions"]["total"] for end in sides(c)),
    "rtt": lambda c: -(side(c, busier(c))["rtt"]["mean_ns"] or 0.0),
    "duration": lambda c: c["first_ns"] - c["last_ns"],
}


def ordered(connections: Sequence[Connection], key: SortKey) -> list[Connection]:
    """The greatest first, of times of beginning the earliest; equal ones by number."""
    return sorted(connections, key=lambda c: (_KEYS[key](c), c["id"]))


def overview(connections: Sequence[Connection], start_ns: int, *, absolute: bool) -> list[Table]:
    """Who, when and how much; then what became of the data of the busier side."""
    return [_ends(connections, start_ns, absolute), _data(connections)] if connections else []


def _ends(connections: Sequence[Connection], start_ns: int, absolute: bool) -> Table:
    columns = ("#", "a", "b", "start", "duration", "a > b", "b > a", "throughput", "captured", "end")
    rows = []
    for connection in connections:
        a, b = sides(connection)
        begun = connection["first_ns"]
        rows.append(
            (
                str(connection["id"]),
                endpoint(a),
                endpoint(b),
                times.absolute(begun, 3) if absolute else times.since(begun, start_ns),
                duration(connection["last_ns"] - begun),
                size(a["unique_bytes"]),
                size(b["unique_bytes"]),
                bit_rate(words.throughput_bps(side(connection, busier(connection)))),
                words.PLACES[connection["place"]],
                words.ENDS[connection["end"]],
            )
        )
    right = ("#", "start", "duration", "a > b", "b > a", "throughput")
    return Table(columns, rows, title="TCP connections", right=right)


def _data(connections: Sequence[Connection]) -> Table:
    columns = (
        *("#", "from", "segments", "sent again", "", "needless", "out of order", "dup. ACKs"),
        *("RTT mean", "RTT max", "flight max", "window", "full", "zero"),
    )
    rows = []
    for connection in connections:
        name = busier(connection)
        sent = side(connection, name)
        other = side(connection, "b" if name == "a" else "a")
        if not sent["data_packets"]:
            continue
        again = sent["retransmissions"]
        rows.append(
            (
                str(connection["id"]),
                name,
                count(sent["data_packets"]),
                count(again["total"]),
                percent(words.again_ratio(sent)),
                count(again["spurious"]),
                count(sent["out_of_order"]),
                count(other["duplicate_acks"]),
                *_rtt(sent),
                size(sent["flight_max"]),
                sheet.window(connection, other),
                count(other["window_full"]),
                count(other["zero_windows"]),
            )
        )
    return Table(columns, rows, title="Data of the side that sent more", right=(*columns[2:],))


def _rtt(sent: Side) -> tuple[str, str]:
    rtt = sent["rtt"]
    return duration(rtt["mean_ns"]), duration(rtt["max_ns"])


def whole(connection: Connection, start_ns: int, *, absolute: bool) -> list[Table]:
    """The connection, then what each side sent."""
    a, b = sides(connection)
    columns = ("sent by", f"a  {endpoint(a)}", f"b  {endpoint(b)}")
    return [
        Table((f"connection {connection['id']}", ""), sheet.whole(connection, start_ns, absolute=absolute)),
        Table(columns, sheet.both(connection), right=columns[1:]),
    ]


def conclusions(connections: Sequence[Connection]) -> list[str]:
    """A line per connection: its number and a sentence."""
    return [f"{each['id']}: {words.conclusion(each)}" for each in connections]


def others(analysis: Analysis, limit: int) -> list[Table]:
    """Voice streams and ESP flows, where there are any; the first ``limit`` of each."""
    found = []
    if streams := analysis["streams"]:
        found.append(
            Table(
                others_of.STREAM_COLUMNS,
                [others_of.stream_row(each) for each in streams[:limit]],
                title=_titled(others_of.STREAMS, len(streams), limit, others_of.streams_left_out(analysis)),
                right=others_of.STREAM_COLUMNS[others_of.STREAM_TEXTS :],
            )
        )
    if esp := analysis["esp"]:
        found.append(
            Table(
                others_of.ESP_COLUMNS,
                [others_of.esp_row(each) for each in esp[:limit]],
                title=_titled(others_of.ESP, len(esp), limit, analysis["esp_left_out"]),
                right=others_of.ESP_COLUMNS[others_of.ESP_TEXTS :],
            )
        )
    return found


def _titled(title: str, kept: int, limit: int, left_out: int) -> str:
    where = "" if kept <= limit else f", {others_of.in_json(kept, left_out)}"
    return f"{others_of.titled(title, kept, limit, left_out)}{where}"
