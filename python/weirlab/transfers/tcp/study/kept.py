"""A measurement as stored in a run, whichever version of Weir made the run."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import polars as pl

from weirlab.base.errors import InputError, StoreError
from weirlab.diagnosis import finding
from weirlab.diagnosis.both.crossing import ConnectionCrossing, Delay
from weirlab.diagnosis.causes import PLACES, UNKNOWN
from weirlab.diagnosis.finding import Diagnosis, TimeShares
from weirlab.jobs.progress import RESUME
from weirlab.store import Run
from weirlab.store.frames import INT, TEXT, Schema, rows_of
from weirlab.trace.quantities import percent
from weirlab.transfers.tcp.measure import samples
from weirlab.transfers.tcp.measure.capturing import FILES, End
from weirlab.transfers.tcp.measure.result import PACKETS as PACKET_COLUMNS
from weirlab.transfers.tcp.results import BlockLatency, DirectionSummary
from weirlab.transfers.tcp.study.columns import (
    AgreementRow,
    CaptureRow,
    ConnectionRow,
    CrossingRow,
    DiagnosisRow,
    DirectionRow,
    TransferRow,
)
from weirlab.transfers.tcp.study.recording import (
    AGREEMENT,
    AXIS,
    CAPTURES,
    CONNECTIONS,
    CROSSINGS,
    DIAGNOSES,
    DIRECTIONS,
    PACKETS,
    SAMPLES,
    TRANSFERS,
    row_of,
)

Diagnoses = Mapping[int, Mapping[str, "Diagnosis"]]
"""By connection and source; the source that shows most comes first."""

MOSTLY: Final = 0.5
"""Share of the time for which another place must blame somebody else before it is said."""
_AXIS: Final[Schema] = {"time_ns": INT}
_SAMPLES: Final[Schema] = {"time_ns": INT, "connection": INT, "end": TEXT, "role": TEXT, "app_bytes": INT}
_PACKETS: Final[Schema] = {"time_ns": INT, "connection": INT}
"""Columns that these tables have had in every version."""
R = TypeVar("R")
EARLIER: Final = "diagnosis"
"""The name under which runs of earlier versions, which lack this study's tables, have all diagnoses."""


@dataclass(frozen=True)
class TransferRecord:
    """A transfer, and everything that was observed of it."""

    transfer: TransferRow
    directions: tuple[DirectionRow, ...]
    connections: tuple[ConnectionRow, ...]
    diagnoses: Diagnoses
    axis: pl.DataFrame
    samples: pl.DataFrame
    """As :func:`weirlab.transfers.tcp.measure.samples.frame` makes them."""
    packets: pl.DataFrame
    """Empty without a capture."""
    captures: Mapping[str, CaptureRow]
    """By end."""
    files: Mapping[End, Path]
    """Files of captures, by end."""
    crossings: tuple[CrossingRow, ...] = ()
    """For connections that were captured at two places."""
    agreement: tuple[AgreementRow, ...] = ()

    @cached_property
    def best(self) -> dict[int, Diagnosis]:
        """The best diagnosis of each connection; see :func:`most_telling`."""
        return {number: most_telling(each) for number, each in self.diagnoses.items() if each}

    @cached_property
    def busiest(self) -> int:
        """The connection that moved the most bytes."""
        return (
            max(self.connections, key=lambda each: each.received_bytes).connection if self.connections else 0
        )

    def crossing(self, connection: int, section: str = "all") -> ConnectionCrossing | None:
        """What happened to its data between two captures, if there are two; see :class:`CrossingRow`."""
        for row in self.crossings:
            if (row.connection, row.section) == (connection, section):
                return _crossing(row)
        return None

    def role(self, connection: int, end: str) -> str:
        """``sender`` or ``receiver``: the role of ``end`` in this connection."""
        up = any(each.connection == connection and each.direction == "up" for each in self.connections)
        return "sender" if up == (end == "client") else "receiver"

    def summaries(self) -> list[DirectionSummary]:
        """The directions as ``weir tcp send`` reports them."""
        return [_summary(direction) for direction in self.directions]


def most_telling(found: Mapping[str, Diagnosis]) -> Diagnosis:
    """The best diagnosis of a connection: the kernel's for causes at the ends, both captures' on the path."""
    first, both = next(iter(found.values())), found.get("both")
    if both is None:
        return replace(first, sentence=_sentence(first, found))
    on_the_path = first.findings[0].cause.who in ("network", "unknown")
    best = both if on_the_path and both.main != UNKNOWN else first
    # What one of the two can tell is not unknown.
    untold = {each.what for each in first.blind} & {each.what for each in both.blind}
    blind = tuple(spot for spot in best.blind if spot.what in untold)
    return replace(best, blind=blind, sentence=_sentence(best, found))


def _sentence(best: Diagnosis, found: Mapping[str, Diagnosis]) -> str:
    """The sentence of ``best``, with the place that blames somebody else for most of the time, if any."""
    others = [
        (other.findings[0].share, source, other.main)
        for source, other in found.items()
        if other.main.who not in (best.main.who, "unknown") and other.findings[0].share >= MOSTLY
    ]
    if best.main == UNKNOWN or not others:
        return best.sentence
    share, source, cause = max(others, key=lambda other: other[0])
    alone = f"From {PLACES[source]} alone it looks as if {percent(share)} of the time {cause.held}."
    return f"{best.sentence} {alone}"


def has_transfer(run: Run) -> bool:
    """Whether a transfer of ``run`` was completed."""
    return run.has_table(TRANSFERS) or (run.has(EARLIER) and run.has_table(SAMPLES) and run.has_table(AXIS))


def read(run: Run) -> TransferRecord:
    """The measurement in ``run``.

    Raises
    ------
    InputError
        The run was interrupted before there was any result.
    StoreError
        The run is damaged.
    """
    files = {end: run.path / name for end, name in FILES.items() if (run.path / name).exists()}
    if run.has_table(TRANSFERS):
        return _of_tables(run, files)
    if has_transfer(run):
        return _of_earlier(run, files)
    raise InputError(
        f"run {run.run_id} was interrupted before the transfer had ended: repeat it with "
        f"{RESUME} {run.run_id}"
    )


def _of_tables(run: Run, files: Mapping[End, Path]) -> TransferRecord:
    # If there are several attempts, the last one counts.
    transfers = rows_of(TransferRow, run.table(TRANSFERS, TransferRow))
    if not transfers:
        raise StoreError(
            f"the table {TRANSFERS} of run {run.run_id} is damaged: it has no row; measure again"
        )
    transfer = transfers[-1]

    def mine(name: str, columns: type | Schema) -> pl.DataFrame:
        return run.table(name, columns).filter(pl.col("trial_id") == transfer.trial_id)

    def rows(row: type[R], name: str) -> tuple[R, ...]:
        return tuple(rows_of(row, mine(name, row))) if run.has_table(name) else ()

    diagnoses: dict[int, dict[str, Diagnosis]] = {}
    for row in rows(DiagnosisRow, DIAGNOSES):
        diagnoses.setdefault(row.connection, {})[row.source] = _diagnosis(run, json.loads(row.document))
    return TransferRecord(
        transfer=transfer,
        directions=rows(DirectionRow, DIRECTIONS),
        connections=rows(ConnectionRow, CONNECTIONS),
        diagnoses=diagnoses,
        axis=mine(AXIS, {"trial_id": TEXT, **_AXIS}).drop("trial_id"),
        samples=mine(SAMPLES, {"trial_id": TEXT, **_SAMPLES}).drop("trial_id"),
        packets=_packets(mine(PACKETS, {"trial_id": TEXT, **_PACKETS})),
        captures={row.end: row for row in rows(CaptureRow, CAPTURES)}
        if run.has_table(CAPTURES)
        else _client_only(transfer),
        files=files,
        crossings=rows(CrossingRow, CROSSINGS),
        agreement=rows(AgreementRow, AGREEMENT),
    )


def _packets(rows: pl.DataFrame) -> pl.DataFrame:
    """Earlier versions captured at the client only."""
    lacking = [name for name in PACKET_COLUMNS if name not in rows.columns]
    filled = rows.with_columns(pl.lit("client" if name == "end" else None).alias(name) for name in lacking)
    return filled.select(pl.col(name).cast(kind) for name, kind in PACKET_COLUMNS.items())


def _client_only(transfer: TransferRow) -> dict[str, CaptureRow]:
    return {"client": CaptureRow(transfer.trial_id, "client", transfer.interface, transfer.why_no_capture)}


def _crossing(row: CrossingRow) -> ConnectionCrossing:
    def delay(way: str) -> Delay | None:
        count = getattr(row, f"{way}_packets")
        if not count:
            return None
        least, mean, most = (getattr(row, f"{way}_{name}_us") * 1e3 for name in ("min", "mean", "max"))
        return Delay(count, least, mean, most)

    return row_of(ConnectionCrossing, row, there=delay("there"), back=delay("back"))


def _diagnosis(run: Run, document: Mapping[str, Any]) -> Diagnosis:
    try:
        return finding.read(document)
    except (LookupError, TypeError) as error:
        raise StoreError(f"a diagnosis in run {run.run_id} is damaged ({error}); measure again") from error


def _of_earlier(run: Run, files: Mapping[End, Path]) -> TransferRecord:
    """A run of a version that stored two tables and the diagnoses, but no trial."""
    rows, axis, manifest = run.table(SAMPLES, _SAMPLES), run.table(AXIS, _AXIS), run.manifest
    asked = (manifest.scenario.get("tcp") or {}).get("measure") or {}
    clocks = manifest.facts.get("clocks") or {}
    start_ns = int(axis["time_ns"].min()) if axis.height else 0  # type: ignore[arg-type]
    period_ns = int(axis["time_ns"].diff().min() or 0) if axis.height > 1 else 0  # type: ignore[arg-type]
    found = run.get_json(
        EARLIER,
        lambda content: {
            int(number): {source: _diagnosis(run, each) for source, each in by_source.items()}
            for number, by_source in content.items()
        },
    )
    connections = tuple(_earlier_connection(rows, number, start_ns) for number in sorted(found))
    transfer = TransferRow(
        trial_id="",
        start_ns=start_ns,
        host=str(asked.get("host") or ""),
        port=int(asked.get("port") or 0),
        client="",
        every_ns=round(float(asked.get("interval_s") or 0) * 1e9),
        period_ns=period_ns,
        interrupted=False,
        same_clock=bool(clocks.get("same_clock")),
        offset_ns=clocks.get("offset_ns"),
        bound_ns=clocks.get("bound_ns"),
        exchanges=int(clocks.get("exchanges") or 0),
        drifted=bool(clocks.get("drifted")),
        interface="",
        why_no_capture="" if files else "this run has none",
    )
    return TransferRecord(
        transfer=transfer,
        directions=tuple(_earlier_directions(connections)),
        connections=connections,
        diagnoses=found,
        axis=axis,
        samples=rows,
        packets=_earlier_packets(axis, len(found)),
        captures=_client_only(transfer),
        files=files,
    )


def _earlier_connection(rows: pl.DataFrame, number: int, start_ns: int) -> ConnectionRow:
    sender, receiver = (samples.of(rows, number, role) for role in ("sender", "receiver"))
    received = int(receiver["app_bytes"].max() or 0) if receiver.height else 0  # type: ignore[arg-type]
    last_ns = receiver.filter(pl.col("app_bytes") == received)["time_ns"].min() if receiver.height else None
    seconds = max(int(last_ns) - start_ns, 0) / 1e9 if last_ns is not None else 0.0  # type: ignore[arg-type]

    def last(name: str) -> int | None:
        known = sender[name].drop_nulls() if name in sender.columns else pl.Series([], dtype=pl.Int64)
        return int(known[-1]) if known.len() else None

    def mean(name: str) -> float:
        known = sender[name].drop_nulls() if name in sender.columns else pl.Series([], dtype=pl.Int64)
        return float(known.cast(pl.Float64).mean()) if known.len() else math.nan  # type: ignore[arg-type]

    least = last("min_rtt_us")
    up = sender.height > 0 and sender["end"][0] == "client"
    return ConnectionRow(
        trial_id="",
        connection=number,
        direction="up" if up else "down",
        local="",
        remote="",
        congestion="",
        received_bytes=received,
        lasted_s=seconds,
        throughput_bps=received * 8 / seconds if seconds > 0 else 0.0,
        retransmissions=last("total_retrans"),
        retransmitted_bytes=last("bytes_retrans"),
        rtt_min_us=math.nan if least is None else float(least),
        rtt_mean_us=mean("rtt_us"),
        options="{}",
    )


def _earlier_directions(connections: tuple[ConnectionRow, ...]) -> Iterator[DirectionRow]:
    for direction in dict.fromkeys(connection.direction for connection in connections):
        parts = [connection for connection in connections if connection.direction == direction]
        seconds = max(part.lasted_s for part in parts)
        received = sum(part.received_bytes for part in parts)
        again = [part.retransmissions for part in parts if part.retransmissions is not None]
        repeated = [part.retransmitted_bytes for part in parts if part.retransmitted_bytes is not None]
        yield DirectionRow(
            trial_id="",
            direction=direction,
            connections=len(parts),
            received_bytes=received,
            sent_bytes=received,
            lasted_s=seconds,
            throughput_bps=received * 8 / seconds if seconds > 0 else 0.0,
            retransmissions=sum(again) if again else None,
            retransmitted_bytes=sum(repeated) if repeated else None,
            rtt_min_us=min(part.rtt_min_us for part in parts),
            rtt_mean_us=sum(part.rtt_mean_us for part in parts) / len(parts),
            latency_blocks=0,
            failure="",
            **dict.fromkeys(_UNKNOWN, math.nan),
        )


_UNKNOWN: Final = (
    "rtt_max_us", "cwnd_min_bytes", "cwnd_mean_bytes", "cwnd_max_bytes", "latency_min_ns", "latency_mean_ns",
    "latency_p50_ns", "latency_p99_ns", "latency_max_ns", "application_share", "receiver_share",
    "send_buffer_share", "network_share",
)  # fmt: skip


def _earlier_packets(axis: pl.DataFrame, connections: int) -> pl.DataFrame:
    """The capture's columns of the table ``axis``."""
    parts = []
    for number in range(connections):
        prefix = "capture" if connections == 1 else f"{number}.capture"
        if f"{prefix}.flight_bytes" not in axis.columns:
            continue
        sent = pl.col(f"{prefix}.throughput_bps").fill_null(0.0) / 8e9 * axis["time_ns"].diff().fill_null(0)
        names = ("flight_bytes", "window_bytes", "rtt_us", "retransmissions")
        found = axis.select(
            pl.lit(number).alias("connection"),
            "time_ns",
            sent.cum_sum().alias("acked_bytes"),
            *(pl.col(f"{prefix}.{name}").alias(name) for name in names),
            pl.col(f"{prefix}.rtt_us").alias("rtt_max_us"),
        )
        parts.append(_packets(found))
    return pl.concat(parts) if parts else pl.DataFrame(schema=PACKET_COLUMNS)


def _summary(row: DirectionRow) -> DirectionSummary:
    def known(*values: float) -> bool:
        return not any(map(math.isnan, values))

    rtt = (row.rtt_min_us, row.rtt_mean_us, row.rtt_max_us)
    cwnd = (row.cwnd_min_bytes, row.cwnd_mean_bytes, row.cwnd_max_bytes)
    shares = (row.application_share, row.receiver_share, row.send_buffer_share, row.network_share)
    latency = None
    if row.latency_blocks:
        latency = BlockLatency(
            blocks=row.latency_blocks,
            min_ns=int(row.latency_min_ns),
            mean_ns=row.latency_mean_ns,
            p50_ns=int(row.latency_p50_ns),
            p99_ns=int(row.latency_p99_ns),
            max_ns=int(row.latency_max_ns),
        )
    return row_of(
        DirectionSummary,
        row,
        direction="up" if row.direction == "up" else "down",
        seconds=row.lasted_s,
        rtt_us=rtt if known(*rtt) else None,
        cwnd_bytes=cwnd if known(*cwnd) else None,
        latency=latency,
        shares=TimeShares(*shares) if known(*shares) else None,
    )
