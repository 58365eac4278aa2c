"""Intervals of a transfer as events, and as tables for other programs."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import polars as pl

from weirlab.base import files
from weirlab.base.documents import plain
from weirlab.base.errors import StoreError
from weirlab.store.parquet import Allowance, InvalidTable
from weirlab.transfers.tcp.results import Interval
from weirlab.web.sending import TableFormat

TABLES: Final = ("intervals", "connections")
"""A row per interval and direction; a row per interval and connection."""

_MOST_BYTES: Final = 500_000_000
"""Memory that a table may take: intervals of an hour, 10 ms each, take 50 MB."""

_LATENCY: Final = ("min_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns")
_SCHEMA: Final[dict[str, Any]] = {
    "direction": pl.String,
    "from_s": pl.Float64,
    "to_s": pl.Float64,
    "received_bytes": pl.Int64,
    "sent_bytes": pl.Int64,
    "throughput_bps": pl.Float64,
    "retransmissions": pl.Int64,
    "rtt_us": pl.Float64,
    "cwnd_bytes": pl.Int64,
    "flight_bytes": pl.Int64,
    "unsent_bytes": pl.Int64,
    "window_bytes": pl.Int64,
    "delivery_bps": pl.Int64,
    **{f"latency_{name}": pl.Float64 for name in _LATENCY},
}


def interval(one: Interval) -> dict[str, Any]:
    """For the page: the connections' own rows are added up."""
    latency = (
        {} if one.latency is None else {f"latency_{name}": getattr(one.latency, name) for name in _LATENCY}
    )
    row = {
        "direction": one.direction,
        "from_s": one.from_s,
        "to_s": one.to_s,
        "received_bytes": one.received_bytes,
        "sent_bytes": one.sent_bytes,
        "throughput_bps": one.throughput_bps,
        "retransmissions": one.retransmissions,
        "rtt_us": one.rtt_us,
        "cwnd_bytes": one.cwnd_bytes,
        "flight_bytes": _sum(one, lambda row: row["unacked"] * row["snd_mss_bytes"]),
        "unsent_bytes": _sum(one, lambda row: row["notsent_bytes"]),
        "window_bytes": _sum(one, lambda row: row["snd_wnd_bytes"]),
        "delivery_bps": _sum(one, lambda row: 8 * row["delivery_rate_bytes_per_s"]),
        **{f"latency_{name}": None for name in _LATENCY},
        **latency,
    }
    return {name: plain(value) for name, value in row.items()}


def _sum(one: Interval, value: Callable[[dict[str, Any]], int]) -> int | None:
    """The sum over all connections at the end of the interval; None if a kernel does not report it."""
    try:
        return sum(map(value, one.connections)) if one.connections else None
    except KeyError:
        return None


def write(folder: Path, intervals: Sequence[Interval], *, detailed: bool) -> None:
    """Keep both tables in ``folder``; that of connections is empty unless ``detailed``."""
    whole = pl.DataFrame([interval(each) for each in intervals], schema=_SCHEMA, orient="row")
    rows = [
        {"direction": each.direction, "from_s": each.from_s, "to_s": each.to_s, **row}
        for each in intervals
        for row in (each.connections if detailed else ())
    ]
    each_one = pl.DataFrame(rows, infer_schema_length=None)
    for name, frame in zip(TABLES, (whole, each_one), strict=True):
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
        files.write_bytes(folder / f"{name}.parquet", buffer.getvalue())


def export(folder: Path, table: str, format: TableFormat) -> bytes:
    """One of :data:`TABLES` as a file."""
    path = folder / f"{table}.parquet"
    allowance = Allowance(_MOST_BYTES)
    try:
        with files.telling(path, "read"), allowance.open(path) as file:
            if format == "parquet":
                return file.read()
            return allowance.bound(path, pl.read_parquet(file)).write_csv().encode()
    except (InvalidTable, pl.exceptions.PolarsError) as error:
        raise StoreError(f"{path} is damaged ({error}); delete {folder}") from error
