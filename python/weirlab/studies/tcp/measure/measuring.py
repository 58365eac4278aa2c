"""A measurement from its start to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from weirlab.studies.tcp import sending
from weirlab.studies.tcp.measure import samples
from weirlab.studies.tcp.measure.clocks import Exchange, Offset, offset
from weirlab.studies.tcp.measure.coarser import Coarser
from weirlab.studies.tcp.measure.samples import Start

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from weirlab.diagnosis.finding import Diagnosis
    from weirlab.studies.tcp.results import Interval
    from weirlab.trace.facts import SideName
    from weirlab.trace.frames import Trace

PACED: Final = ("bbr",)
"""Congestion controls that pace by themselves."""


@dataclass
class Watched:
    """Takes everything that both ends report."""

    observer: sending.Observer
    print_s: float
    reports: list[Mapping[str, Any]] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    began: Mapping[str, Any] = field(default_factory=dict)

    def event(self, event: Mapping[str, Any]) -> None:
        """Any event of the engine."""
        match event["event"]:
            case "clock":
                self.exchanges.append(Exchange(event["sent_ns"], event["at_ns"], event["heard_ns"]))
            case "begun":
                self.began = event
            case "interval":
                self.reports.append(event)

    def started(self, event: Mapping[str, Any]) -> None:
        self.observer.started(event)

    def __post_init__(self) -> None:
        self._coarser = Coarser(self.print_s)

    def interval(self, interval: Interval) -> None:
        """Shown every ``print_s``, whatever the period of the reports."""
        for whole in self._coarser.take(interval):
            self.observer.interval(whole)

    def rest(self) -> None:
        """Show what came after the last whole ``print_s``."""
        for part in self._coarser.rest():
            self.observer.interval(part)

    def blocks(self, event: Mapping[str, Any]) -> None:
        self.observer.blocks(event)


@dataclass(frozen=True)
class Measured:
    """What came of it, before anything is computed."""

    outcome: sending.Outcome
    samples: pl.DataFrame
    start: Start
    offset: Offset | None
    same_clock: bool

    @property
    def ups(self) -> list[bool]:
        return [bool(each["up"]) for each in self.outcome.started["connections"]]


def measured(outcome: sending.Outcome, watched: Watched) -> Measured:
    """What came of a transfer whose events ``watched`` got."""
    started, begun = outcome.started, watched.began
    start = Start(
        client_ns=int(begun.get("client_ns", 0)),
        server_ns=int(begun.get("server_ns", 0)),
        client_since_1970_ns=int(started["since_1970_ns"]),
    )
    same = bool(started["same_clock"])
    # With one clock there is nothing to estimate; what would have been is told beside.
    found = offset(watched.exchanges) if begun else None
    used = Offset(0, 0, len(watched.exchanges)) if same else found
    ups = [bool(each["up"]) for each in started["connections"]]
    return Measured(outcome, samples.frame(watched.reports, ups, start, used), start, found, same)


def diagnoses(measured: Measured, target_bps: float | None = None) -> dict[int, Diagnosis]:
    """By connection, from the kernels of both ends."""
    from weirlab.diagnosis import kernel
    from weirlab.diagnosis.diagnosing import diagnose

    found = {}
    for number, one in enumerate(measured.outcome.started["connections"]):
        sender = samples.of(measured.samples, number, "sender")
        receiver = samples.receiver(samples.of(measured.samples, number, "receiver"))
        read = kernel.read(sender["time_ns"].to_numpy(), samples.columns(sender), receiver)
        if read is None:
            continue
        timeline, facts = read
        if facts.pacing is None and one["congestion"] in PACED:
            facts = replace(facts, pacing=one["congestion"].upper())
        diagnosis = diagnose(timeline, facts, target_bps=target_bps)
        if diagnosis is not None:
            found[number] = diagnosis
    return found


def captured(
    path: Path, measured: Measured, target_bps: float | None = None
) -> tuple[dict[int, Diagnosis], pl.DataFrame | None]:
    """By connection, from the capture at this end; and what it shows of all of them, for the axis."""
    import polars as pl

    from weirlab import trace
    from weirlab.diagnosis import tracing
    from weirlab.trace.facts import side

    found: dict[int, Diagnosis] = {}
    parts: list[pl.DataFrame] = []
    with trace.read(path, series=True) as read:
        ends = {(each["a"]["addr"], each["a"]["port"]): each for each in read.facts["connections"]}
        for number, one in enumerate(measured.outcome.started["connections"]):
            connection = ends.get(tuple(one["local"]))
            if connection is None:
                continue
            name: SideName = "a" if measured.ups[number] else "b"
            if not side(connection, name)["data_packets"]:
                continue
            if (diagnosis := tracing.read(read, connection, name, target_bps=target_bps)) is not None:
                found[number] = diagnosis
            parts.append(_shown(read, connection["id"], name, number))
    return found, pl.concat(parts) if parts else None


def _shown(read: Trace, connection: int, name: SideName, number: int) -> pl.DataFrame:
    """Characteristics of one connection as the capture has them, packet by packet."""
    import polars as pl

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
    )
    trips = rtt.select(
        "time_ns",
        *(pl.lit(None, pl.Int64).alias(each) for each in ("acked_bytes", "flight_bytes", "window_bytes")),
        pl.lit(None, pl.UInt32).alias("retransmissions"),
        (pl.col("rtt_ns") / 1e3).alias("rtt_us"),
    )
    stacked = pl.concat([both, trips], how="vertical_relaxed").sort("time_ns", maintain_order=True)
    filled = stacked.with_columns(pl.col("acked_bytes").forward_fill()).collect()
    return filled.with_columns(pl.lit(number).alias("connection"))
