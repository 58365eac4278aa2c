"""What the captures at both ends show of a transfer, each alone and both together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from weirlab.diagnosis.both import crossing
from weirlab.diagnosis.both.crossing import Crossing, Delays, Leg
from weirlab.studies.tcp.measure import agreement, samples
from weirlab.studies.tcp.measure.agreement import Pair

if TYPE_CHECKING:
    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.studies.tcp.measure.agreement import Place
    from weirlab.studies.tcp.measure.capturing import Capture, End
    from weirlab.studies.tcp.measure.measuring import Measured
    from weirlab.trace.facts import SideName
    from weirlab.trace.frames import Trace

SHOWN: Final[dict[str, Any]] = {
    "time_ns": pl.Int64,
    "acked_bytes": pl.Int64,
    "flight_bytes": pl.Int64,
    "window_bytes": pl.Int64,
    "retransmissions": pl.Int64,
    "rtt_us": pl.Float64,
    "delay_us": pl.Float64,
    "connection": pl.Int64,
    "end": pl.String,
}
"""Characteristics packet by packet; ``delay_us``: how long what arrives here has taken from the other end."""


@dataclass(frozen=True)
class Captured:
    """All of it, by connection. ``diagnoses`` by place as well, the sender's first."""

    packets: pl.DataFrame
    """See :data:`SHOWN`."""
    diagnoses: Mapping[int, Mapping[str, Diagnosis]]
    crossings: Mapping[int, Crossing]
    """Of connections that were captured at both ends from their beginning."""
    pairs: Mapping[int, tuple[Pair, ...]]


@dataclass
class _Found:
    """What was found so far, by connection."""

    parts: list[pl.DataFrame] = field(default_factory=list)
    diagnoses: dict[int, dict[Place, Diagnosis]] = field(default_factory=dict)
    legs: dict[int, dict[Place, Leg]] = field(default_factory=dict)
    seen: dict[int, dict[Place, agreement.Seen]] = field(default_factory=dict)


def captured(
    captures: Mapping[End, Capture], measured: Measured, target_bps: float | None = None
) -> Captured:
    """Read what there is; captures that do not have a connection say nothing of it."""
    found = _Found()
    for end, capture in captures.items():
        if capture.path is not None:
            _read(capture, end, measured, target_bps, found)
    crossings = {}
    for number, legs in found.legs.items():
        if "sender" in legs and "receiver" in legs:
            crossings[number], there, back = crossing.cross(legs["sender"], legs["receiver"])
            up = measured.ups[number]
            found.parts.append(_delays(there, number, "server" if up else "client"))
            found.parts.append(_delays(back, number, "client" if up else "server"))
    packets = pl.concat(found.parts) if found.parts else pl.DataFrame(schema=SHOWN)
    pairs = {
        number: tuple(agreement.pairs(samples.of(measured.samples, number, "sender"), places))
        for number, places in found.seen.items()
    }
    diagnoses = {
        number: {place: each for place in ("sender", "receiver") if (each := by_place.get(place)) is not None}
        for number, by_place in found.diagnoses.items()
    }
    return Captured(
        packets.sort("connection", "end", "time_ns", maintain_order=True), diagnoses, crossings, pairs
    )


def _read(capture: Capture, end: End, measured: Measured, target_bps: float | None, found: _Found) -> None:
    from weirlab import trace
    from weirlab.diagnosis import tracing
    from weirlab.trace.facts import side

    assert capture.path is not None
    with trace.read(capture.path, series=True) as read:
        ends = {(each["a"]["addr"], each["a"]["port"]): each for each in read.facts["connections"]}
        for number, one in enumerate(measured.outcome.started["connections"]):
            connection = ends.get(tuple(one["local"]))
            if connection is None:
                continue
            up = measured.ups[number]
            name: SideName = "a" if up else "b"
            if not side(connection, name)["data_packets"]:
                continue
            place: Place = "sender" if up == (end == "client") else "receiver"
            diagnosis = tracing.read(read, connection, name, place=place, target_bps=target_bps)
            if diagnosis is not None:
                found.diagnoses.setdefault(number, {})[place] = diagnosis
            whole = capture.whole and connection["begin"] == "handshake"
            found.seen.setdefault(number, {})[place] = agreement.Seen(
                connection, name, capture.lost, not (capture.left_out or capture.ended_early)
            )
            if connection["begin"] == "handshake":
                leg = _leg(read, connection["id"], name, capture.shift_ns, whole=whole)
                found.legs.setdefault(number, {})[place] = leg
            shown = _shown(read, connection["id"], name, capture.shift_ns)
            found.parts.append(_labelled(shown, number, end))


def _labelled(rows: pl.DataFrame, number: int, end: End) -> pl.DataFrame:
    named = rows.with_columns(pl.lit(number).alias("connection"), pl.lit(end).alias("end"))
    return named.select(pl.col(name).cast(kind) for name, kind in SHOWN.items())


def _delays(found: Delays, number: int, end: End) -> pl.DataFrame:
    rows = pl.DataFrame({"time_ns": found.time_ns, "delay_us": found.delay_ns / 1e3})
    others = [name for name in SHOWN if name not in (*rows.columns, "connection", "end")]
    return _labelled(rows.with_columns(pl.lit(None).alias(name) for name in others), number, end)


def _leg(read: Trace, connection: int, name: SideName, shift_ns: int, *, whole: bool) -> Leg:
    rows = (
        read.scan_segments()
        # On loopback every packet is captured as it leaves, and as it arrives.
        .filter(pl.col("connection") == connection, pl.col("meaning") != "copy")
        .select(
            (pl.col("time_ns") + shift_ns).alias("time_ns"),
            (pl.col("from_side") == name).alias("ours"),
            *(pl.col(each).cast(pl.Int64) for each in ("seq", "payload_bytes", "new_bytes", "ack")),
        )
        .collect()
    )
    data = rows.filter(pl.col("ours"), pl.col("payload_bytes") > 0)
    acks = rows.filter(~pl.col("ours"), pl.col("ack").is_not_null())
    return Leg(
        data_ns=data["time_ns"].to_numpy(),
        seq=data["seq"].to_numpy(),
        payload_bytes=data["payload_bytes"].to_numpy(),
        new_bytes=data["new_bytes"].to_numpy(),
        ack_ns=acks["time_ns"].to_numpy(),
        ack=acks["ack"].to_numpy(),
        whole=whole,
    )


def _shown(read: Trace, connection: int, name: SideName, shift_ns: int) -> pl.DataFrame:
    """Characteristics of one connection as the capture has them, packet by packet."""
    rows = read.scan_segments().filter(pl.col("connection") == connection)
    ours = pl.col("from_side") == name
    again = pl.col("meaning").is_in(["timeout", "fast", "tail_probe", "unexplained"]) & ours
    rtt = read.scan_rtt().filter(
        pl.col("connection") == connection, pl.col("from_side") == name, pl.col("method") == "ack"
    )
    both = rows.select(
        "time_ns",
        pl.when(~ours).then(pl.col("ack")).cum_max().forward_fill().alias("acked_bytes"),
        pl.when(ours).then(pl.col("flight_bytes")).alias("flight_bytes"),
        pl.when(~ours).then(pl.col("window_bytes")).alias("window_bytes"),
        again.cum_sum().alias("retransmissions"),
        pl.lit(None, pl.Float64).alias("rtt_us"),
        pl.lit(None, pl.Float64).alias("delay_us"),
    )
    trips = rtt.select(
        "time_ns",
        *(pl.lit(None, pl.Int64).alias(each) for each in ("acked_bytes", "flight_bytes", "window_bytes")),
        pl.lit(None, pl.UInt32).alias("retransmissions"),
        (pl.col("rtt_ns") / 1e3).alias("rtt_us"),
        pl.lit(None, pl.Float64).alias("delay_us"),
    )
    stacked = pl.concat([both, trips], how="vertical_relaxed").sort("time_ns", maintain_order=True)
    return stacked.with_columns(pl.col("acked_bytes").forward_fill(), pl.col("time_ns") + shift_ns).collect()
