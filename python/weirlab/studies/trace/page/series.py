"""What the graphs of one direction show: layers of points, taken from the tables of series."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from weirlab.studies.trace.page import decimate
from weirlab.trace import Trace
from weirlab.trace.facts import SideName

Kind = Literal["bars", "line", "band", "blocks", "marks"]
Chart = Literal["sequence", "throughput", "rtt", "flight"]

RST: Final = 0x04
SYN: Final = 0x02
FIN: Final = 0x01

_EVENTS: Final = (
    ("timeout", "retransmitted after a time-out", "timeout"),
    ("fast", "retransmitted after dup. ACKs or SACK", "fast"),
    ("tail_probe", "tail probe", "probe"),
    ("handshake", "SYN retransmitted", "probe"),
    ("unexplained", "retransmitted, no visible reason", "unexplained"),
    ("out_of_order", "out of order", "reordered"),
    ("copy", "copy made on the way", "reordered"),
    ("keep_alive", "keep-alive", "probe"),
    ("window_probe", "window probe", "probe"),
)


@dataclass(frozen=True)
class Layer:
    """Points of one meaning. ``x`` in seconds since the first packet; ``low`` to ``high`` in ``unit``."""

    chart: Chart
    kind: Kind
    name: str
    colour: str
    points: pl.DataFrame
    """``time_ns``, ``low``, ``high`` and, of bands, ``mean``."""
    left_out: int = 0

    def to_json(self, start_ns: int, scale: float = 1.0) -> dict[str, Any]:
        """For the page: numbers as little-endian doubles in base64."""
        data = {"x": _packed((self.points["time_ns"] - start_ns).to_numpy() / 1e9)}
        for name in ("low", "high", "mean"):
            if name in self.points.columns:
                data[name] = _packed(self.points[name].to_numpy() * scale)
        return {
            "chart": self.chart,
            "kind": self.kind,
            "name": self.name,
            "colour": self.colour,
            "leftOut": self.left_out,
            **data,
        }


_SCALES: Final[dict[Chart, float]] = {"sequence": 1.0, "throughput": 1.0, "rtt": 1e-6, "flight": 1.0}


def layers(
    trace: Trace, connection: int, sender: SideName, period_ns: int, *, windows: bool = True
) -> list[Layer]:
    """All layers about the data that ``sender`` sent; empty ones are left out, and windows unless wanted."""
    receiver: SideName = "b" if sender == "a" else "a"
    mine = _of(trace.scan_segments(), connection, sender)
    theirs = _of(trace.scan_segments(), connection, receiver)
    found = [
        *_sequence(mine, theirs, _of(trace.scan_sack(), connection, receiver)),
        *_throughput(_of(trace.scan_periods(), connection, sender), period_ns),
        *_round_trips(_of(trace.scan_rtt(), connection, sender)),
        *_flight(mine, theirs),
    ]
    return [layer for layer in found if not layer.points.is_empty() and (windows or layer.colour != "edge")]


def embedded(found: list[Layer], start_ns: int) -> list[dict[str, Any]]:
    """Layers as JSON, in the units of the page: bytes, bit/s, ms."""
    return [layer.to_json(start_ns, _SCALES[layer.chart]) for layer in found]


def _sequence(mine: pl.LazyFrame, theirs: pl.LazyFrame, sack: pl.LazyFrame) -> list[Layer]:
    end = pl.col("seq") + pl.col("payload_bytes")
    sent = mine.filter(pl.col("payload_bytes") > 0).with_columns(end=end)
    # An ACK of nothing (its number is 0, or it resets) is no place on the ACK line.
    acks = theirs.filter(_lacks(SYN), _lacks(RST), pl.col("ack") > 0)
    edge = acks.with_columns(edge=pl.col("ack") + pl.col("window_bytes"))
    found = [
        Layer("sequence", "line", "window's edge", "edge", decimate.spans(edge, "edge", "edge").drop("mean")),
        Layer("sequence", "line", "acknowledged", "ack", decimate.spans(acks, "ack", "ack").drop("mean")),
        Layer(
            "sequence",
            "bars",
            "segments",
            "data",
            decimate.spans(sent.filter(pl.col("meaning") == "new"), "seq", "end").drop("mean"),
        ),
    ]
    blocks = sack.select("time_ns", "duplicate", low="left", high="right").collect()
    for name, duplicate, colour in (("SACK", False, "sack"), ("DSACK", True, "dsack")):
        found.append(_events(name, colour, blocks.filter(pl.col("duplicate") == duplicate), kind="bars"))
    told = [meaning for meaning, *_ in _EVENTS]
    odd = (
        mine.filter(pl.col("meaning").is_in(told)).select("time_ns", "meaning", low="seq", high=end).collect()
    )
    for meaning, name, colour in _EVENTS:
        found.append(_events(name, colour, odd.filter(pl.col("meaning") == meaning)))
    closed = acks.filter(pl.col("window_bytes") == 0, _lacks(FIN)).select("time_ns", low="ack", high="ack")
    return [*found, _events("window closed", "closed", closed.collect())]


def _events(name: str, colour: str, rows: pl.DataFrame, kind: Kind = "marks") -> Layer:
    kept = decimate.events(rows.select("time_ns", "low", "high"))
    return Layer("sequence", kind, name, colour, kept, len(rows) - len(kept))


def _throughput(periods: pl.LazyFrame, period_ns: int) -> list[Layer]:
    rows = periods.sort("start_ns").collect()
    if rows.is_empty():
        return []
    span = rows["start_ns"][-1] - rows["start_ns"][0] + period_ns
    # So many whole periods make one block that no more blocks are left than columns.
    width_ns = period_ns * max(1, -(-span // (period_ns * decimate.COLUMNS)))
    begun = (pl.col("start_ns") - rows["start_ns"][0]) // width_ns * width_ns + rows["start_ns"][0]
    summed = rows.group_by(time_ns=begun).agg(pl.sum("payload_bytes"), pl.sum("unique_bytes")).sort("time_ns")
    found = []
    for column, name, colour in (
        ("payload_bytes", "with retransmissions", "again"),
        ("unique_bytes", "each byte once", "data"),
    ):
        points = summed.select("time_ns", high=pl.col(column) * 8e9 / width_ns)
        # A block needs its width: its end stands where a band has its low.
        points = points.with_columns(low=pl.lit(width_ns / 1e9))
        found.append(Layer("throughput", "blocks", name, colour, points))
    return found


def _round_trips(rtt: pl.LazyFrame) -> list[Layer]:
    return [
        Layer(
            "rtt",
            "band",
            name,
            colour,
            decimate.spans(rtt.filter(pl.col("method") == method), "rtt_ns", "rtt_ns"),
        )
        for method, name, colour in (
            ("timestamp", "by time stamps", "stamp"),
            ("ack", "by ACKs (Karn)", "data"),
        )
    ]


def _flight(mine: pl.LazyFrame, theirs: pl.LazyFrame) -> list[Layer]:
    window = theirs.filter(_lacks(SYN), _lacks(RST))
    data = mine.filter(pl.col("payload_bytes") > 0)
    return [
        Layer(
            "flight",
            "line",
            "receiver's window",
            "edge",
            decimate.spans(window, "window_bytes", "window_bytes").drop("mean"),
        ),
        Layer("flight", "band", "in flight", "data", decimate.spans(data, "flight_bytes", "flight_bytes")),
    ]


def _of(rows: pl.LazyFrame, connection: int, side: SideName) -> pl.LazyFrame:
    return rows.filter(pl.col("connection") == connection, pl.col("from_side") == side)


def _lacks(flag: int) -> pl.Expr:
    return (pl.col("flags") & flag) == 0


def _packed(values: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")
