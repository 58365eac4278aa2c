"""Facts about connections as rows of tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from weirlab.trace import schema
from weirlab.trace.facts import RETRANSMISSIONS, Connection, EspFlow, Side, Stream, sides


def connections(facts: Sequence[Connection]) -> pl.DataFrame:
    """One row per connection, as ``schema.CONNECTIONS``."""
    return pl.DataFrame([_connection(fact) for fact in facts], schema=schema.CONNECTIONS, orient="row")


def directions(facts: Sequence[Connection]) -> pl.DataFrame:
    """Two rows per connection, as ``schema.DIRECTIONS``."""
    return pl.DataFrame(list(_directions(facts)), schema=schema.DIRECTIONS, orient="row")


def streams(facts: Sequence[Stream]) -> pl.DataFrame:
    """One row per voice stream, as ``schema.STREAMS``."""
    types = ("payload_type", "packets", "encoding")
    rows = [
        {**fact, "payload_types": [dict(zip(types, one, strict=True)) for one in fact["payload_types"]]}
        for fact in facts
    ]
    return pl.DataFrame(rows, schema=schema.STREAMS)


def esp(facts: Sequence[EspFlow]) -> pl.DataFrame:
    """One row per ESP flow, as ``schema.ESP``."""
    rows = []
    for fact in facts:
        src_port, dst_port = fact["ports"] or (None, None)
        rows.append({**fact, "src_port": src_port, "dst_port": dst_port})
    return pl.DataFrame(rows, schema=schema.ESP)


def _connection(each: Connection) -> tuple[Any, ...]:
    a, b = sides(each)
    return (
        *(each["id"], a["addr"], a["port"], b["addr"], b["port"], each["vlan"], each["interface"]),
        *(each["first_ns"], each["last_ns"], each["begin"], each["end"], each["place"]),
        *(*each["handshake_ns"], each["idle_max_ns"]),
    )


def _directions(facts: Sequence[Connection]) -> Iterator[tuple[Any, ...]]:
    for fact in facts:
        for name, end in zip(schema.SIDES, sides(fact), strict=True):
            values = _side(end)
            yield (fact["id"], name, end["addr"], end["port"], *(values[column] for column in schema.SIDE))


def _side(end: Side) -> dict[str, Any]:
    options, again = end["options"], end["retransmissions"]
    values: dict[str, Any] = dict(end)
    values["data_first_ns"], values["data_last_ns"] = end["data_ns"] or (None, None)
    values["window_min_bytes"], values["window_max_bytes"] = end["window"] or (None, None)
    values["payload_max_bytes"] = end["payload_max"]
    values["mss_bytes"] = options["mss"] if options else None
    values["window_scale"] = options["window_scale"] if options else None
    values["sack_permitted"] = options["sack"] if options else None
    values["timestamps"] = options["timestamps"] if options else None
    values["flight_max_bytes"], values["flight_mean_bytes"] = end["flight_max"], end["flight_mean"]
    values["retransmissions"], values["retransmissions_bytes"] = again["total"], again["bytes"]
    for cause in (*RETRANSMISSIONS, "fins", "spurious"):
        values[f"retransmissions_{cause}"] = dict(again).get(cause, 0)
    for kind, rtt in (("rtt", end["rtt"]), ("rtt_timestamp", end["rtt_timestamp"])):
        for what, number in rtt.items():
            values[f"{kind}_{what}"] = number
    return values
