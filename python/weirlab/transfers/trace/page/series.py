"""What the graphs of one direction show: layers of points, taken from the tables of series."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import polars as pl

from weirlab.diagnosis.causes import UNKNOWN
from weirlab.diagnosis.connection import least_ns
from weirlab.diagnosis.finding import Diagnosis
from weirlab.trace import Trace, sheet, wording
from weirlab.trace.facts import Connection, SideName, side
from weirlab.trace.quantities import percent

COLUMNS: Final = 4000
"""More columns than a screen has pixels across, so that nothing is lost before zooming in."""

MOST_EVENTS: Final = 5000
"""Up to this many events are kept one by one; of more, every n-th."""


def spans(rows: pl.LazyFrame, low: str, high: str, columns: int = COLUMNS) -> pl.DataFrame:
    """From the least of ``low`` to the greatest of ``high``, with the mean of ``high``, per column of time.

    ``rows`` has ``time_ns``. Up to ``columns`` rows are left as they are. Returns ``time_ns`` (the first of a
    column), ``low``, ``high`` and ``mean``, in order of time.
    """
    extent = rows.select(n=pl.len(), first=pl.col("time_ns").min(), last=pl.col("time_ns").max()).collect()
    number, first, last = extent.row(0)
    if number <= columns:
        alike = {"low": pl.col(low), "high": pl.col(high), "mean": pl.col(high).cast(pl.Float64)}
        return rows.select("time_ns", **alike).sort("time_ns").collect()
    # Integers: a float of ns since 1970 is no longer exact to the nanosecond.
    width_ns = (last - first) // columns + 1
    column = (pl.col("time_ns") - first) // width_ns
    return (
        rows.group_by(column=column)
        .agg(
            pl.col("time_ns").min(),
            low=pl.col(low).min(),
            high=pl.col(high).max(),
            mean=pl.col(high).mean(),
        )
        .sort("column")
        .drop("column")
        .collect()
    )


def events(rows: pl.DataFrame, most: int = MOST_EVENTS) -> pl.DataFrame:
    """All rows, or every n-th if there are more than ``most``, in order of time."""
    return rows.sort("time_ns").gather_every(max(1, -(-len(rows) // most)))


Kind = Literal["bars", "line", "band", "blocks", "marks"]
Chart = Literal["cause", "sequence", "throughput", "rtt", "flight"]

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


_CAUSE_COLOURS: Final = ("data", "again", "ack", "probe", "reordered", "unexplained", "dsack", "sack")
"""Of the causes of a connection, the largest first."""


def strip(found: Diagnosis, start_ns: int) -> list[dict[str, Any]]:
    """What held the transfer back and when: a layer per cause, the largest first, as the page takes them.

    ``start_ns`` is the time of the capture's first packet.
    """
    begun_s = (found.begun_ns - start_ns) / 1e9
    told = []
    colours = iter(_CAUSE_COLOURS)
    for finding in found.findings:
        held = [each for each in found.intervals if each.cause is finding.cause]
        lasts = np.array([each.end_s - each.start_s for each in held])
        told.append(
            {
                "chart": "cause",
                "kind": "blocks",
                "name": f"{finding.cause.name} {percent(finding.share)}",
                "colour": "edge" if finding.cause is UNKNOWN else next(colours, "stamp"),
                "leftOut": 0,
                "x": _packed(np.array([begun_s + each.start_s for each in held])),
                "low": _packed(lasts),
                "high": _packed(np.ones(len(held))),
            }
        )
    return told


SCALES: Final[dict[Chart, float]] = {"sequence": 1.0, "throughput": 1.0, "rtt": 1e-6, "flight": 1.0}
"""From the unit of the tables to that of the page: bytes, bit/s, ms."""


@dataclass(frozen=True)
class LayerSource:
    """All points of a layer: ``rows`` has ``time_ns``, ``low`` and ``high``."""

    chart: Chart
    kind: Kind
    name: str
    colour: str
    rows: pl.LazyFrame

    @property
    def single(self) -> bool:
        """Whether points are kept one by one, as far as possible; other sources keep extremes only."""
        return self.kind == "marks" or self.colour in ("sack", "dsack")

    def layer(self) -> Layer:
        """The layer for the whole of the trace."""
        if self.single:
            every = self.rows.collect()
            kept = events(every)
            return Layer(self.chart, self.kind, self.name, self.colour, kept, len(every) - len(kept))
        points = spans(self.rows, "low", "high")
        return Layer(
            self.chart,
            self.kind,
            self.name,
            self.colour,
            points if self.kind == "band" else points.drop("mean"),
        )


def trip_ns(connection: Connection, sender: SideName) -> int:
    """About a round trip of the whole path; 0 if it is not known."""
    return max(least_ns(connection, sender), round(side(connection, sender)["rtt"]["mean_ns"] or 0))


def mean_line(first_ns: int, last_ns: int, bps: float) -> Layer:
    """The mean throughput from the first data to the last."""
    return Layer(
        "throughput",
        "line",
        "mean",
        "stamp",
        pl.DataFrame({"time_ns": [first_ns, last_ns], "low": [bps, bps], "high": [bps, bps]}),
    )


def layers(trace: Trace, connection: Connection, sender: SideName, period_ns: int) -> list[Layer]:
    """All layers about the data that ``sender`` sent, without windows of unknown scale; empty ones are left
    out.
    """
    number, sent = connection["id"], side(connection, sender)
    found = [
        *(s.layer() for s in sources(trace, number, sender, windows=sheet.scaled(connection))),
        *_throughput(
            _of(trace.scan_periods(), number, sender), period_ns, -(-trip_ns(connection, sender) // period_ns)
        ),
    ]
    whole_bps = wording.throughput_bps(sent)
    if sent["data_ns"] is not None and whole_bps == whole_bps:
        found.append(mean_line(*sent["data_ns"], whole_bps))
    return [layer for layer in found if not layer.points.is_empty()]


def sources(trace: Trace, connection: int, sender: SideName, *, windows: bool = True) -> list[LayerSource]:
    """The sources of all layers except throughput; windows only if wanted."""
    receiver: SideName = "b" if sender == "a" else "a"
    mine = _of(trace.scan_segments(), connection, sender)
    theirs = _of(trace.scan_segments(), connection, receiver)
    found = [
        *_sequence(mine, theirs, _of(trace.scan_sack(), connection, receiver)),
        *_round_trips(_of(trace.scan_rtt(), connection, sender)),
        *_flight(mine, theirs),
    ]
    return [source for source in found if windows or source.colour != "edge"]


def embedded(found: list[Layer], start_ns: int) -> list[dict[str, Any]]:
    """Layers as JSON, in the units of the page: bytes, bit/s, ms."""
    return [layer.to_json(start_ns, SCALES[layer.chart]) for layer in found]


def _points(rows: pl.LazyFrame, low: pl.Expr | str, high: pl.Expr | str) -> pl.LazyFrame:
    columns = [pl.col(each) if isinstance(each, str) else each for each in (low, high)]
    return rows.select("time_ns", low=columns[0], high=columns[1])


def _sequence(mine: pl.LazyFrame, theirs: pl.LazyFrame, sack: pl.LazyFrame) -> list[LayerSource]:
    end = pl.col("seq") + pl.col("payload_bytes")
    # An ACK of nothing (its number is 0, or it resets) has no place on the ACK line.
    acks = theirs.filter(_lacks(SYN), _lacks(RST), pl.col("ack") > 0)
    edge = pl.col("ack") + pl.col("window_bytes")
    data = mine.filter(pl.col("payload_bytes") > 0, pl.col("meaning") == "new")
    blocks = [(name, sack.filter(pl.col("duplicate") == (name == "DSACK"))) for name in ("SACK", "DSACK")]
    closed = acks.filter(pl.col("window_bytes") == 0, _lacks(FIN))
    return [
        LayerSource("sequence", "line", "window's edge", "edge", _points(acks, edge, edge)),
        LayerSource("sequence", "line", "acknowledged", "ack", _points(acks, "ack", "ack")),
        LayerSource("sequence", "bars", "segments", "data", _points(data, "seq", end)),
        *(
            LayerSource("sequence", "bars", name, name.lower(), _points(rows, "left", "right"))
            for name, rows in blocks
        ),
        *(
            LayerSource(
                "sequence",
                "marks",
                name,
                colour,
                _points(mine.filter(pl.col("meaning") == meaning), "seq", end),
            )
            for meaning, name, colour in _EVENTS
        ),
        LayerSource("sequence", "marks", "window closed", "closed", _points(closed, "ack", "ack")),
    ]


def _throughput(periods: pl.LazyFrame, period_ns: int, least: int) -> list[Layer]:
    """Bars of at least ``least`` periods."""
    rows = periods.sort("start_ns").collect()
    if rows.is_empty():
        return []
    span = rows["start_ns"][-1] - rows["start_ns"][0] + period_ns
    # One block has enough whole periods for no more blocks than columns.
    width_ns = period_ns * max(1, least, -(-span // (period_ns * COLUMNS)))
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


def _round_trips(rtt: pl.LazyFrame) -> list[LayerSource]:
    return [
        LayerSource(
            "rtt", "band", name, colour, _points(rtt.filter(pl.col("method") == method), "rtt_ns", "rtt_ns")
        )
        for method, name, colour in (
            ("timestamp", "by time stamps", "stamp"),
            ("ack", "by ACKs", "data"),
        )
    ]


def _flight(mine: pl.LazyFrame, theirs: pl.LazyFrame) -> list[LayerSource]:
    window = theirs.filter(_lacks(SYN), _lacks(RST))
    data = mine.filter(pl.col("payload_bytes") > 0)
    return [
        LayerSource(
            "flight", "line", "receiver's window", "edge", _points(window, "window_bytes", "window_bytes")
        ),
        LayerSource("flight", "band", "in flight", "data", _points(data, "flight_bytes", "flight_bytes")),
    ]


def _of(rows: pl.LazyFrame, connection: int, side: SideName) -> pl.LazyFrame:
    return rows.filter(pl.col("connection") == connection, pl.col("from_side") == side)


def _lacks(flag: int) -> pl.Expr:
    return (pl.col("flags") & flag) == 0


def _packed(values: np.ndarray[Any, Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f8").tobytes()).decode("ascii")
