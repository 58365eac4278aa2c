"""What was reported, on one time axis: by both ends as a table, and all sources side by side; pure.

A request is sent at ``sent`` and its reply received at ``heard``, both by the local clock. The remote clock
read ``at`` in between. Hence the remote clock is ahead of the local one by ``at - heard`` to ``at - sent``,
whatever the path does and however different its two directions are (RFC 5905 section 8 has the same bounds).
The offset must satisfy the bounds of all exchanges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from weirlab.base.errors import InputError
from weirlab.diagnosis import kernel
from weirlab.trace.quantities import Window
from weirlab.transfers.tcp.results import Direction, Interval, joined_latency


@dataclass(frozen=True)
class Exchange:
    """A request and its reply, ns."""

    sent_ns: int
    at_ns: int
    heard_ns: int

    @property
    def least_ns(self) -> int:
        return self.at_ns - self.heard_ns

    @property
    def most_ns(self) -> int:
        return self.at_ns - self.sent_ns


@dataclass(frozen=True)
class Offset:
    """The remote clock is ahead of the local one by ``ns``, give or take ``bound_ns``."""

    ns: int
    bound_ns: int
    exchanges: int
    drifted: bool = False
    """No single offset fits all exchanges: the clocks drifted apart meanwhile, or one was set."""


def offset(exchanges: Sequence[Exchange]) -> Offset | None:
    """The offset that all exchanges allow; None without any.

    If they contradict each other, the bound is wide enough for all of them.
    """
    if not exchanges:
        return None
    least, most = (
        max(exchange.least_ns for exchange in exchanges),
        min(exchange.most_ns for exchange in exchanges),
    )
    drifted = least > most
    if drifted:
        least, most = (
            min(exchange.least_ns for exchange in exchanges),
            max(exchange.most_ns for exchange in exchanges),
        )
    return Offset((least + most) // 2, (most - least + 1) // 2, len(exchanges), drifted)


End = Literal["client", "server"]
KEYS: Final = ("time_ns", "end", "connection", "role")
"""Of a row: ns since 1970 by the client's clock, the reporting end, the connection, the end's role."""
_MOST_SHIFT: Final = 14
OWN: Final = ("app_bytes", "waited_ns")
"""Bytes that the application wrote or read; how long its thread was ready to run and had no CPU."""


@dataclass(frozen=True)
class Start:
    """When both ends began, each by its own ``CLOCK_MONOTONIC``, and the client's since 1970; ns."""

    client_ns: int
    server_ns: int
    client_since_1970_ns: int

    def axis_ns(self, end: End, at_ns: int, offset: Offset | None) -> int:
        """``at_ns`` since the start at ``end``, as ns since 1970 by the client's clock."""
        if end == "client" or offset is None:
            return self.client_since_1970_ns + at_ns
        return self.client_since_1970_ns + self.server_ns + at_ns - offset.ns - self.client_ns


def frame(
    events: Iterable[Mapping[str, Any]], ups: Sequence[bool], start: Start, offset: Offset | None
) -> pl.DataFrame:
    """A row for each report of each connection: :data:`KEYS`, :data:`OWN`, and the kernel's fields."""
    rows = []
    for event in events:
        end: End = "server" if event["of_server"] else "client"
        time_ns = start.axis_ns(end, event["at_ns"], offset)
        for number, (flow, up) in enumerate(zip(event["flows"], ups, strict=True)):
            role = "sender" if up == (end == "client") else "receiver"
            row = {"time_ns": time_ns, "end": end, "connection": number, "role": role}
            rows.append({**row, "app_bytes": flow["bytes"], "waited_ns": flow["waited_ns"], **flow["fields"]})
    names = dict.fromkeys(name for row in rows for name in row)
    schema = {name: pl.String if name in ("end", "role") else _type(name) for name in names}
    return pl.DataFrame(rows, schema=schema, orient="row").sort("time_ns", maintain_order=True)


def _type(name: str) -> Any:
    # A limit that is not set has all bits set.
    return pl.Int64 if name in (*KEYS, *OWN) else pl.UInt64


def of(samples: pl.DataFrame, connection: int, role: str) -> pl.DataFrame:
    """The rows of one end of a connection."""
    return samples.filter((pl.col("connection") == connection) & (pl.col("role") == role))


def window_shifts(samples: pl.DataFrame, connection: int) -> tuple[int, int] | None:
    """The window scales of client and server, in bits, as the kernel of either end reports them.

    None if none does, or if it reports what RFC 7323 does not allow.
    """
    names = ("rcv_wscale", "snd_wscale")
    for end, order in (("client", names), ("server", names[::-1])):
        if set(names) <= set(samples.columns):
            ours = (pl.col("connection") == connection) & (pl.col("end") == end)
            found = samples.filter(ours).select(order).drop_nulls()
            if found.height and max(found.row(-1)) <= _MOST_SHIFT:
                client, server = found.row(-1)
                return int(client), int(server)
    return None


def receiver(rows: pl.DataFrame) -> kernel.Receiver | None:
    """The receiver's rows as input of a diagnosis."""
    if rows.height < 2 or "rqueue_bytes" not in rows.columns:
        return None
    times = rows["time_ns"].to_numpy().astype(np.float64)
    waited = rows["waited_ns"].cast(pl.Float64).to_numpy()
    unread = rows["rqueue_bytes"].cast(pl.Float64).to_numpy()
    return kernel.Receiver(times, unread, kernel.starvation(times, waited))


def columns(rows: pl.DataFrame) -> dict[str, Any]:
    """The kernel's fields as arrays, NaN for missing values."""
    names = [name for name in rows.columns if name not in (*KEYS, *OWN)]
    return {name: rows[name].cast(pl.Float64).fill_null(float("nan")).to_numpy() for name in names}


_SLACK: float = 1e-9


class IntervalMerger:
    """Takes intervals in order; yields longer ones of about ``period_s`` by direction, or all if it is 0."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._parts: dict[Direction, list[Interval]] = {}

    def take(self, interval: Interval) -> Iterator[Interval]:
        """Take one more; yield the interval that it completes, if any."""
        if not self._period_s:
            yield interval
            return
        parts = self._parts.setdefault(interval.direction, [])
        parts.append(interval)
        # An interval ends at a multiple of the period, or just after it, so that no drift adds up.
        if interval.to_s // self._period_s > (parts[0].from_s + _SLACK) // self._period_s:
            yield self._joined(interval.direction)

    def rest(self) -> Iterator[Interval]:
        """Yield what is left at the end."""
        yield from [self._joined(direction) for direction in tuple(self._parts)]

    def _joined(self, direction: Direction) -> Interval:
        return joined(self._parts.pop(direction))


def joined(parts: Sequence[Interval]) -> Interval:
    """Intervals of one direction, one after the other, as one."""
    if len(parts) == 1:
        return parts[0]
    retransmissions = [part.retransmissions for part in parts if part.retransmissions is not None]
    return replace(
        parts[-1],
        from_s=parts[0].from_s,
        received_bytes=sum(part.received_bytes for part in parts),
        sent_bytes=sum(part.sent_bytes for part in parts),
        retransmissions=sum(retransmissions) if retransmissions else None,
        latency=joined_latency([part.latency for part in parts if part.latency is not None]),
        connections=tuple(_rows(parts)),
    )


def _rows(parts: Sequence[Interval]) -> Iterator[dict[str, Any]]:
    """By connection: the kernel's last report, and the sum of the bytes."""
    received: dict[int, int] = {}
    for row in (row for part in parts for row in part.connections):
        received[row["connection"]] = received.get(row["connection"], 0) + row["received_bytes"]
    for row in parts[-1].connections:
        yield {**row, "received_bytes": received[row["connection"]]}


USUAL: Final = ("throughput_bps", "rtt_us", "snd_cwnd", "snd_wnd_bytes", "notsent_bytes", "total_retrans")
RECEIVING: Final = ("throughput_bps", "rqueue_bytes", "rcv_wnd_bytes")
CAPTURED: Final = (
    "throughput_bps", "flight_bytes", "cwnd_bytes", "window_bytes", "rtt_us", "retransmissions",
    "duplicate_acks",
)  # fmt: skip
CAPTURES: Final[Mapping[str, str]] = {
    "client": "capture",
    "server": "server_capture",
    "between": "between_capture",
}
"""The names of captures, by the end at which they were made."""


def axis(
    sources: Mapping[str, pl.DataFrame], chosen: Mapping[str, Sequence[str]], period_ns: int, start_ns: int
) -> pl.DataFrame:
    """One row per period of ``period_ns`` from ``start_ns`` on.

    Parameters
    ----------
    sources
        Tables with ``time_ns`` and characteristics, by name. The last value in a period counts;
        ``app_bytes`` and ``acked_bytes`` become ``throughput_bps``.
    chosen
        Which characteristics of which source, in order.

    Returns
    -------
    polars.DataFrame
        ``time_ns`` (the beginning of the period, since 1970), then ``source.characteristic``; null if a
        source reported nothing in a period.
    """
    parts = [
        _periods(rows, name, chosen.get(name, ()), period_ns, start_ns) for name, rows in sources.items()
    ]
    if not parts:
        return pl.DataFrame(schema={"time_ns": pl.Int64})
    found = parts[0]
    for part in parts[1:]:
        found = found.join(part, on="period", how="full", coalesce=True)
    found = found.sort("period").with_columns((pl.col("period") * period_ns + start_ns).alias("time_ns"))
    # The handshake is before the start.
    found = found.filter(pl.col("period") >= 0)
    names = [name for name in found.columns if name not in ("period", "time_ns")]
    return found.select("time_ns", *names)


def within(table: pl.DataFrame, window: Window, start_ns: int) -> pl.DataFrame:
    """The periods of ``table`` that begin in ``window``.

    Raises
    ------
    InputError
        There is none.
    """
    first, last = _limits(window, start_ns)
    found = table.filter(pl.col("time_ns") >= first, pl.col("time_ns") < last)
    if found.is_empty():
        raise InputError("nothing was measured between --from and --to")
    return found


def coarser(table: pl.DataFrame, period_ns: int, start_ns: int) -> pl.DataFrame:
    """``table`` with one row per ``period_ns``: throughput is averaged, otherwise the last value counts."""
    names = [name for name in table.columns if name != "time_ns"]
    merged = [
        pl.col(name).mean() if name.endswith("_bps") else pl.col(name).drop_nulls().last() for name in names
    ]
    period = ((pl.col("time_ns") - start_ns) // period_ns * period_ns + start_ns).alias("time_ns")
    return table.group_by(period, maintain_order=True).agg(merged)


def _limits(window: Window, start_ns: int) -> tuple[int, int]:
    add = start_ns if window.relative else 0
    first = -(1 << 62) if window.from_ns is None else window.from_ns + add
    last = 1 << 62 if window.to_ns is None else window.to_ns + add
    return first, last


def _periods(
    rows: pl.DataFrame, name: str, chosen: Sequence[str], period_ns: int, start_ns: int
) -> pl.DataFrame:
    counter = next((each for each in ("app_bytes", "acked_bytes") if each in rows.columns), None)
    period = ((pl.col("time_ns") - start_ns) // period_ns).alias("period")
    kept = [each for each in chosen if each in rows.columns]
    wanted = [pl.col(each).drop_nulls().last().alias(f"{name}.{each}") for each in kept]
    if counter is not None and "throughput_bps" in chosen:
        wanted.insert(0, pl.col(counter).drop_nulls().last().alias("counted"))
    found = rows.sort("time_ns").group_by(period, maintain_order=True).agg(wanted)
    if "counted" not in found.columns:
        return found
    # There are gaps: periods without any report, or with a report of something else.
    counted = pl.col("counted").cast(pl.Int64).forward_fill().fill_null(0)
    grown = counted.diff().fill_null(counted)
    # What an end has counted by its first report, it has since the start; a capture may begin at any time.
    first = pl.col("period").clip(0) + 1 if counter == "app_bytes" else 1
    lasted = pl.col("period").diff().fill_null(first) * period_ns
    throughput = (grown * 8e9 / lasted).alias(f"{name}.throughput_bps")
    others = [column for column in found.columns if column not in ("period", "counted")]
    return found.select("period", throughput, *others)
