"""The lines drawn over time: values from both kernels and the capture, in as many points as are visible."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from weirlab.transfers.tcp.measure import samples
from weirlab.transfers.tcp.study.kept import TransferRecord

MOST_POINTS: Final = 400
"""Per line: no chart here can show more."""

SENDER: Final = "sender's kernel"
RECEIVER: Final = "receiver's kernel"
ENDS: Final = ("client", "server")

SCHEMA: Final = {"at_s": pl.Float64, "value": pl.Float64, "series": pl.String}


@dataclass(frozen=True)
class Axis:
    """Time since ``start_ns`` up to ``seconds``, in pieces of ``step_ns``."""

    start_ns: int
    seconds: float
    step_ns: int

    def at(self, column: str = "time_ns") -> pl.Expr:
        """The middle of the piece that contains a time, in s."""
        piece = (pl.col(column) - self.start_ns) // self.step_ns
        return ((piece * self.step_ns + self.step_ns / 2) / 1e9).alias("at_s")


def axis(kept: TransferRecord) -> Axis:
    """The axis of all charts about ``kept``."""
    start_ns = kept.transfer.start_ns
    last_ns = max(
        (int(each["time_ns"].max()) for each in (kept.samples, kept.packets) if each.height),  # type: ignore[arg-type]
        default=start_ns,
    )
    seconds = max((last_ns - start_ns) / 1e9, 1e-3)
    # Each piece has several reports, so that none is empty by chance.
    step_ns = max(round(seconds * 1e9 / MOST_POINTS), 2 * kept.transfer.every_ns, _period_ns(kept.packets), 1)
    return Axis(start_ns, seconds, step_ns)


def _period_ns(packets: pl.DataFrame) -> int:
    """The least time between two rows of a connection."""
    apart = packets.select(pl.col("time_ns").diff().over("connection", "end"))["time_ns"].drop_nulls()
    return int(apart.min()) if apart.len() else 0  # type: ignore[arg-type]


def coarse(kept: TransferRecord, fine: Axis) -> Axis:
    """The same axis in longer pieces: applications write and read in blocks, which must not look like a
    change of rate.
    """
    return replace(fine, step_ns=max(fine.step_ns, kept.transfer.period_ns))


def throughput(kept: TransferRecord, over: Axis) -> pl.DataFrame:
    """Throughput in bit/s of all connections together: written, read, and acknowledged by the capture."""
    parts = [
        _rate(samples_of(kept, role), "app_bytes", over, name)
        for role, name in (("sender", "written by the sender"), ("receiver", "read by the receiver"))
    ]
    for end in ENDS:
        rows = kept.packets.filter(pl.col("end") == end)
        parts.append(_rate(rows, "acked_bytes", over, f"acknowledged ({_at(kept, end)})"))
    return _together(parts)


def window(kept: TransferRecord, number: int, over: Axis) -> pl.DataFrame:
    """Congestion window and data in flight of a connection, bytes: the greatest value of each piece."""
    sender = samples.of(kept.samples, number, "sender")
    parts = []
    if {"snd_cwnd", "snd_mss_bytes", "unacked"} <= set(sender.columns):
        cwnd = pl.col("snd_cwnd") * pl.col("snd_mss_bytes")
        flight = pl.col("unacked") * pl.col("snd_mss_bytes")
        parts += [
            _piecewise(sender, cwnd, over, f"congestion window ({SENDER})"),
            _piecewise(sender, flight, over, f"in flight ({SENDER})"),
        ]
    if (rows := _packets(kept, number, "sender")) is not None:
        capture = _at(kept, _end(kept, number, "sender"))
        parts += [
            _piecewise(rows, pl.col("flight_bytes"), over, f"in flight ({capture})"),
            _piecewise(rows, pl.col("cwnd_bytes"), over, f"congestion window, estimated ({capture})"),
        ]
    return _together(parts)


def sequence(kept: TransferRecord, number: int, over: Axis) -> pl.DataFrame:
    """Bytes of a connection written, sent and acknowledged so far."""
    sender = samples.of(kept.samples, number, "sender")
    parts = [
        _piecewise(sender, pl.col(name).cast(pl.Int64), over, f"{what} ({SENDER})")
        for name, what in (("app_bytes", "written"), ("bytes_sent", "sent, with repeats"))
        if name in sender.columns
    ]
    if (rows := _packets(kept, number, "sender")) is not None:
        capture = _at(kept, _end(kept, number, "sender"))
        parts.append(_piecewise(rows, pl.col("acked_bytes"), over, f"acknowledged ({capture})"))
    return _together(parts)


def duplicates(kept: TransferRecord, over: Axis) -> pl.DataFrame:
    """Duplicate ACKs that reached each sender in each piece; pieces without any are left out."""
    parts = [
        _grown(rows, "duplicate_acks", over, f"connection {each.connection}")
        for each in kept.connections
        if (rows := _packets(kept, each.connection, "sender")) is not None
    ]
    found = _together(parts)
    one = len(kept.connections) == 1
    named = found.with_columns(series=pl.lit("capture")) if one else found
    return named.filter(pl.col("value") > 0)


def repeated(kept: TransferRecord, over: Axis) -> pl.DataFrame:
    """Retransmitted bytes in each piece, all connections together; pieces without any are left out."""
    return _together([_grown(samples_of(kept, "sender"), "bytes_retrans", over, SENDER)]).filter(
        pl.col("value") > 0
    )


def round_trip(kept: TransferRecord, number: int, over: Axis) -> pl.DataFrame:
    """Round trips of a connection, ms."""
    sender = samples.of(kept.samples, number, "sender")
    parts = []
    if "rtt_us" in sender.columns:
        told = sender.filter(pl.col("rtt_us") > 0)
        parts.append(_piecewise(told, pl.col("rtt_us") / 1e3, over, f"smoothed ({SENDER})"))
    if (rows := _packets(kept, number, "sender")) is not None:
        capture = _at(kept, _end(kept, number, "sender"))
        parts.append(_piecewise(rows, pl.col("rtt_max_us") / 1e3, over, f"greatest ({capture})"))
    return _together(parts)


def one_way(kept: TransferRecord, number: int, over: Axis) -> pl.DataFrame:
    """One-way delays of data and of ACKs, ms; empty without captures at both ends."""
    parts = [
        _piecewise(rows, pl.col("delay_max_us") / 1e3, over, name)
        for place, name in (("receiver", "data, to the receiver"), ("sender", "ACKs, to the sender"))
        if (rows := _packets(kept, number, place)) is not None
    ]
    return _together(parts)


def buffers(kept: TransferRecord, number: int, over: Axis) -> pl.DataFrame:
    """The receiver's window and its unread data, bytes."""
    sender, receiver = (samples.of(kept.samples, number, role) for role in ("sender", "receiver"))
    parts = [
        _piecewise(rows, pl.col(name), over, f"{what} ({where})", least=least)
        for rows, name, what, where, least in (
            (sender, "snd_wnd_bytes", "receiver's window", SENDER, True),
            *_windows(kept, number),
            (receiver, "rqueue_bytes", "received, not read", RECEIVER, False),
        )
        if name in rows.columns
    ]
    return _together(parts)


def unsent(kept: TransferRecord, number: int, over: Axis) -> pl.DataFrame:
    """Data that the application has written and TCP has not sent, bytes; empty if there never was any."""
    sender = samples.of(kept.samples, number, "sender")
    if "notsent_bytes" not in sender.columns or not sender["notsent_bytes"].max():
        return pl.DataFrame(schema=SCHEMA)
    return _together([_piecewise(sender, pl.col("notsent_bytes"), over, f"written, not sent ({SENDER})")])


def retransmissions(kept: TransferRecord, over: Axis) -> pl.DataFrame:
    """Retransmitted segments in each piece, all connections together; pieces without any are left out."""
    parts = [
        _grown(samples_of(kept, "sender"), "total_retrans", over, SENDER),
        *(
            _grown(kept.packets.filter(pl.col("end") == end), "retransmissions", over, _at(kept, end))
            for end in ENDS
        ),
    ]
    found = _together(parts)
    return found.filter(pl.col("value") > 0)


def samples_of(kept: TransferRecord, role: str) -> pl.DataFrame:
    """The rows of one role, of all connections."""
    return kept.samples.filter(pl.col("role") == role)


def _windows(kept: TransferRecord, number: int) -> Iterator[tuple[pl.DataFrame, str, str, str, bool]]:
    for place in ("sender", "receiver"):
        if (rows := _packets(kept, number, place)) is not None:
            capture = _at(kept, _end(kept, number, place))
            yield rows, "window_bytes", "receiver's window", capture, True


def _end(kept: TransferRecord, number: int, place: str) -> str:
    return next(end for end in ENDS if kept.role(number, end) == place)


def _at(kept: TransferRecord, end: str) -> str:
    """The name of the capture at ``end``: the place is named only if there are two captures."""
    both = kept.packets["end"].n_unique() > 1
    return f"capture at the {end}" if both else "capture"


def _packets(kept: TransferRecord, number: int, place: str) -> pl.DataFrame | None:
    """What the capture at the sender or the receiver shows of a connection; None without one."""
    mine = pl.col("connection") == number, pl.col("end") == _end(kept, number, place)
    rows = kept.packets.filter(*mine)
    return rows if rows.height else None


def _piecewise(
    rows: pl.DataFrame, value: pl.Expr, over: Axis, name: str, *, least: bool = False
) -> pl.DataFrame:
    """The greatest value of each piece, or the least."""
    if rows.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    chosen = value.cast(pl.Float64)
    return (
        rows.filter(pl.col("time_ns") >= over.start_ns)
        .group_by(over.at(), maintain_order=True)
        .agg((chosen.min() if least else chosen.max()).alias("value"))
        .filter(pl.col("value").is_not_null())
        .sort("at_s")
        .select("at_s", "value", pl.lit(name).alias("series"))
    )


def _grown(rows: pl.DataFrame, name: str, over: Axis, series: str) -> pl.DataFrame:
    """By how much a counter grew in each piece, connections added up."""
    if name not in rows.columns or rows.is_empty():
        return pl.DataFrame(schema=SCHEMA)
    return (
        rows.filter(pl.col(name).is_not_null())
        .sort("time_ns", maintain_order=True)
        .with_columns(pl.col(name).cast(pl.Int64).diff().over("connection").alias("grown"))
        .with_columns(pl.coalesce("grown", pl.lit(0)))
        .filter(pl.col("time_ns") >= over.start_ns)
        .group_by(over.at(), maintain_order=True)
        .agg(pl.col("grown").sum().cast(pl.Float64).alias("value"))
        .sort("at_s")
        .select("at_s", "value", pl.lit(series).alias("series"))
    )


def _rate(rows: pl.DataFrame, name: str, over: Axis, series: str) -> pl.DataFrame:
    """A counter of bytes as bit/s."""
    return _grown(rows, name, over, series).with_columns(pl.col("value") * 8e9 / over.step_ns)


def _together(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """The lines that have at least two points."""
    drawn = [part.select(SCHEMA.keys()) for part in parts if part.height > 1]
    return pl.concat(drawn) if drawn else pl.DataFrame(schema=SCHEMA)
