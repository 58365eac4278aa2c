"""Computes the results of a measurement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import polars as pl

from weirlab.diagnosis.finding import Diagnosis
from weirlab.transfers.tcp.measure import captured as seen
from weirlab.transfers.tcp.measure import measuring, samples
from weirlab.transfers.tcp.measure import samples as axes
from weirlab.transfers.tcp.measure.captured import CaptureResults
from weirlab.transfers.tcp.measure.capturing import End, TransferCapture
from weirlab.transfers.tcp.measure.measuring import TransferMeasurement

MOST_PERIODS: Final = 2000
"""Most rows about one connection in one capture."""


@dataclass(frozen=True)
class AnalysisSettings:
    """What to compute; ``names``: the kernel's fields on the axis, None for the usual ones."""

    every_ns: int
    period_ns: int
    names: Sequence[str] | None = None
    target_bps: float | None = None


@dataclass(frozen=True)
class MeasurementResult:
    """All results. Diagnoses are by connection and source: ``kernel``, and the places of captures."""

    measured: TransferMeasurement
    asked: AnalysisSettings
    captures: Mapping[End, TransferCapture]
    captured: CaptureResults
    axis: pl.DataFrame
    """A row per period: ``time_ns``, then ``connection.end.characteristic``."""
    packets: pl.DataFrame
    """What the captures show, in periods; see :func:`periods`."""
    diagnoses: Mapping[int, Mapping[str, Diagnosis]]

    @property
    def start_ns(self) -> int:
        return self.measured.start.client_since_1970_ns


def found(
    measured: TransferMeasurement, captures: Mapping[End, TransferCapture], asked: AnalysisSettings
) -> MeasurementResult:
    """Compute everything."""
    by_kernel = measuring.diagnoses(measured, asked.target_bps)
    captured = seen.captured(captures, measured, asked.target_bps)
    every: dict[int, dict[str, Diagnosis]] = {}
    for number, _ in enumerate(measured.outcome.started["connections"]):
        kernel = {"kernel": by_kernel[number]} if number in by_kernel else {}
        every[number] = {**kernel, **captured.diagnoses.get(number, {})}
    packets = periods(captured.packets, asked.every_ns, measured.start.client_since_1970_ns)
    together = axis(measured, captured.packets, asked)
    return MeasurementResult(measured, asked, captures, captured, together, packets, every)


PACKETS: Final = {
    "connection": pl.Int64,
    "end": pl.String,
    "time_ns": pl.Int64,
    "acked_bytes": pl.Int64,
    "flight_bytes": pl.Int64,
    "window_bytes": pl.Int64,
    "rtt_us": pl.Float64,
    "rtt_max_us": pl.Float64,
    "retransmissions": pl.Int64,
    "delay_us": pl.Float64,
    "delay_max_us": pl.Float64,
    "duplicate_acks": pl.Int64,
    "cwnd_bytes": pl.Int64,
}


def periods(shown: pl.DataFrame, every_ns: int, start_ns: int) -> pl.DataFrame:
    """Packets by connection, end and period of ``every_ns``, or longer ones if there were too many rows.

    For each period: its beginning; by its end, what had been acknowledged and retransmitted, and how many
    ACKs were duplicates; the most data in flight, the greatest estimate of the congestion window, and the
    smallest window; the mean and greatest round trip and one-way delay. Null if it shows nothing.
    """
    if shown.is_empty():
        return pl.DataFrame(schema=PACKETS)
    times = shown["time_ns"]
    span_ns = int(times.max() or 0) - start_ns  # type: ignore[arg-type]
    length_ns = max(every_ns, -(-span_ns // MOST_PERIODS))
    begun = (pl.col("time_ns") - start_ns) // length_ns * length_ns + start_ns
    # What an ACK or a segment shows is valid until the next one.
    filled = shown.sort("time_ns", maintain_order=True).with_columns(
        pl.col("retransmissions", "duplicate_acks").forward_fill().over("connection", "end")
    )
    return (
        filled.group_by("connection", "end", begun.alias("begun"), maintain_order=True)
        .agg(
            pl.col("acked_bytes").last(),
            pl.col("flight_bytes").max(),
            pl.col("window_bytes").min(),
            pl.col("rtt_us").mean(),
            pl.col("rtt_us").max().alias("rtt_max_us"),
            pl.col("retransmissions").last(),
            pl.col("delay_us").mean(),
            pl.col("delay_us").max().alias("delay_max_us"),
            pl.col("duplicate_acks").last(),
            pl.col("cwnd_bytes").max(),
        )
        .rename({"begun": "time_ns"})
        .sort("connection", "end", "time_ns")
        .select(pl.col(name).cast(kind) for name, kind in PACKETS.items())
    )


def axis(measured: TransferMeasurement, shown: pl.DataFrame, asked: AnalysisSettings) -> pl.DataFrame:
    """All sources side by side; ``shown`` is what captures show, packet by packet."""
    sources: dict[str, pl.DataFrame] = {}
    chosen: dict[str, Sequence[str]] = {}
    many = len(measured.ups) > 1
    for number in range(len(measured.ups)):
        prefix = f"{number}." if many else ""
        for role, usual in (("sender", axes.USUAL), ("receiver", axes.RECEIVING)):
            rows = samples.of(measured.samples, number, role)
            if rows.height:
                names = usual if asked.names is None else ("throughput_bps", *asked.names)
                sources[f"{prefix}{role}"], chosen[f"{prefix}{role}"] = rows, names
        for end, source in axes.CAPTURES.items():
            rows = shown.filter(pl.col("connection") == number, pl.col("end") == end)
            if rows.height:
                known = [] if rows["delay_us"].is_null().all() else ["delay_us"]
                name = f"{prefix}{source}"
                sources[name], chosen[name] = rows, (*axes.CAPTURED, *known)
    return axes.axis(sources, chosen, asked.period_ns, measured.start.client_since_1970_ns)
