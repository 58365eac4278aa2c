"""A finished transfer as the record of a trial, with its rows; pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final, TypeVar

import polars as pl

from weirlab.base.documents import plain
from weirlab.cli.options.sockets import shown
from weirlab.diagnosis.both.crossing import Delay
from weirlab.diagnosis.finding import TimeShares
from weirlab.records import HostSample, RuleSetup, TrialRecord, TrialSpec, counts_alone
from weirlab.store.frames import frame_of
from weirlab.traffic.load import offered_pps
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic
from weirlab.transfers.tcp.measure import samples
from weirlab.transfers.tcp.measure.captured import CaptureResults
from weirlab.transfers.tcp.measure.measuring import TransferMeasurement
from weirlab.transfers.tcp.measure.result import MeasurementResult
from weirlab.transfers.tcp.results import BlockLatency
from weirlab.transfers.tcp.settings import TransferSettings
from weirlab.transfers.tcp.study.columns import (
    AgreementRow,
    CaptureRow,
    ConnectionRow,
    CrossingRow,
    DiagnosisRow,
    DirectionRow,
    FindingRow,
    TransferRow,
)

R = TypeVar("R")

TRANSFERS: Final = "transfers"
DIRECTIONS: Final = "directions"
CONNECTIONS: Final = "connections"
DIAGNOSES: Final = "diagnoses"
FINDINGS: Final = "findings"
SAMPLES: Final = "samples"
AXIS: Final = "axis"
PACKETS: Final = "packets"
CAPTURES: Final = "captures"
CROSSINGS: Final = "crossings"
AGREEMENT: Final = "agreement"

_ETHERNET_BYTES: Final = 14 + 4
_IP_BYTES: Final = {4: 20, 6: 40}
_TCP_BYTES: Final = 20
_TIMESTAMP_BYTES: Final = 12
_HAS_TIMESTAMPS: Final = 1
"""Bit of ``options`` (``TCPI_OPT_TIMESTAMPS``)."""


def record(
    found: MeasurementResult,
    settings: TransferSettings,
    *,
    run_id: str,
    attempt: int,
    started_at: str,
    lab: str,
) -> TrialRecord:
    """The record of the trial: a packet is a segment with data, and retransmissions do not count.

    The first and last departure and arrival are the start and the end of the transfer. There are no delays:
    TCP measures round trips, which are in the tables of the study.
    """
    outcome = found.measured.outcome
    seconds = max((direction.seconds for direction in outcome.directions), default=0.0)
    segments, received = _segments(found)
    first_ns = found.measured.start.client_ns
    last_ns = first_ns + max(round(seconds * 1e9), 1)
    trial_id = f"{run_id}-0000-{attempt}"
    traffic = Traffic(
        rate=Rate(unit="max") if settings.rate_bps is None else Rate(settings.rate_bps, "bps"),
        sizes=Constant(_frame_bytes(found, sum(segments))),
        flows=Flows(max(len(outcome.connections), 1), l4="tcp", ip=_version(found)),
        warmup_s=0.0,
        duration_s=max(seconds, 1e-9),
    )
    problem = outcome.problem()
    return TrialRecord(
        trial_id=trial_id,
        run_id=run_id,
        index=0,
        attempt=attempt,
        started_at=started_at,
        spec=TrialSpec(traffic, RuleSetup()),
        lab=lab,
        dut="tcp",
        offered_pps=offered_pps(traffic),
        result=counts_alone("tcp", segments, received, first_ns, last_ns),
        host=HostSample(wall_s=seconds, cpu_s={}),
        invalid=() if problem is None else (str(problem),),
        role="single",
        tables=tables(found, settings, trial_id),
    )


def tables(found: MeasurementResult, settings: TransferSettings, trial_id: str) -> Mapping[str, pl.DataFrame]:
    """All rows of the study's own tables."""
    measured = found.measured
    named = pl.lit(trial_id).alias("trial_id")
    return {
        TRANSFERS: frame_of(TransferRow, [_transfer(found, settings, trial_id)]),
        DIRECTIONS: frame_of(DirectionRow, _directions(measured, trial_id)),
        CONNECTIONS: frame_of(ConnectionRow, _connections(measured, trial_id)),
        DIAGNOSES: frame_of(DiagnosisRow, _diagnoses(found, trial_id)),
        FINDINGS: frame_of(FindingRow, _findings(found, trial_id)),
        SAMPLES: measured.samples.select(named, pl.all()),
        AXIS: found.axis.select(named, pl.all()),
        PACKETS: found.packets.select(named, pl.all()),
        CAPTURES: frame_of(
            CaptureRow,
            [row_of(CaptureRow, each, trial_id=trial_id, end=end) for end, each in found.captures.items()],
        ),
        CROSSINGS: frame_of(CrossingRow, crossings(found.captured, trial_id)),
        AGREEMENT: frame_of(AgreementRow, agreement(found.captured, trial_id)),
    }


def row_of(kind: type[R], *sources: object, **given: Any) -> R:
    """A row of the ``given`` values, and otherwise of attributes of ``sources`` named like its fields."""
    names = [field.name for field in fields(kind) if field.name not in given]  # type: ignore[arg-type]
    return kind(**given, **{n: getattr(source, n) for n in names for source in sources if hasattr(source, n)})


def crossings(found: CaptureResults, trial_id: str = "") -> list[CrossingRow]:
    """What happened to the data between two captures."""
    return [
        row_of(
            CrossingRow,
            each,
            trial_id=trial_id,
            connection=number,
            section=section,
            **_delay("there", each.there),
            **_delay("back", each.back),
        )
        for number, sections in sorted(found.crossings.items())
        for section, each in sections.items()
    ]


def _delay(way: str, found: Delay | None) -> dict[str, Any]:
    values = (math.nan,) * 3 if found is None else (found.least, found.mean, found.most)
    named = {
        f"{way}_{name}_us": value / 1e3 for name, value in zip(("min", "mean", "max"), values, strict=True)
    }
    return {f"{way}_packets": 0 if found is None else found.count, **named}


def agreement(found: CaptureResults, trial_id: str = "") -> list[AgreementRow]:
    """The same quantities from the kernel and from captures."""
    return [
        AgreementRow(trial_id=trial_id, connection=number, **vars(pair))
        for number, pairs in sorted(found.pairs.items())
        for pair in pairs
    ]


def _transfer(found: MeasurementResult, settings: TransferSettings, trial_id: str) -> TransferRow:
    measured, client = found.measured, found.captures["client"]
    offset = measured.offset
    return row_of(
        TransferRow,
        found.asked,
        settings,
        trial_id=trial_id,
        start_ns=found.start_ns,
        client="" if settings.via is None else settings.via.host,
        interrupted=measured.outcome.interrupted,
        same_clock=measured.same_clock,
        offset_ns=None if offset is None else offset.ns,
        bound_ns=None if offset is None else offset.bound_ns,
        exchanges=0 if offset is None else offset.exchanges,
        drifted=offset is not None and offset.drifted,
        interface=client.interface,
        why_no_capture=client.why_not,
    )


def _directions(measured: TransferMeasurement, trial_id: str) -> Iterator[DirectionRow]:
    for direction in measured.outcome.directions:
        least, mean, most = direction.rtt_us or (math.nan,) * 3
        narrow, usual, wide = direction.cwnd_bytes or (math.nan,) * 3
        yield row_of(
            DirectionRow,
            direction,
            trial_id=trial_id,
            connections=sum(one.direction == direction.direction for one in measured.outcome.connections),
            lasted_s=direction.seconds,
            rtt_min_us=least,
            rtt_mean_us=mean,
            rtt_max_us=most,
            cwnd_min_bytes=float(narrow),
            cwnd_mean_bytes=float(usual),
            cwnd_max_bytes=float(wide),
            **_latency(direction.latency),
            **_shares(direction.shares),
        )


def _latency(found: BlockLatency | None) -> dict[str, Any]:
    names = ("min_ns", "mean_ns", "p50_ns", "p99_ns", "max_ns")
    values = {f"latency_{name}": math.nan if found is None else float(getattr(found, name)) for name in names}
    return {"latency_blocks": 0 if found is None else found.blocks, **values}


def _shares(found: TimeShares | None) -> dict[str, Any]:
    names = ("application", "receiver", "send_buffer", "network")
    return {f"{name}_share": math.nan if found is None else getattr(found, name) for name in names}


def _connections(measured: TransferMeasurement, trial_id: str) -> Iterator[ConnectionRow]:
    outcome = measured.outcome
    made = outcome.started["connections"]
    for number, (each, one) in enumerate(zip(outcome.connections, made, strict=True)):
        least, mean, _ = each.rtt_us or (math.nan,) * 3
        yield row_of(
            ConnectionRow,
            each,
            trial_id=trial_id,
            connection=number,
            local=shown(one["local"]),
            remote=shown(one["remote"]),
            congestion=str(one["congestion"] or ""),
            lasted_s=each.seconds,
            rtt_min_us=least,
            rtt_mean_us=mean,
            options=json.dumps(plain(one["options"])),
        )


def _diagnoses(found: MeasurementResult, trial_id: str) -> list[DiagnosisRow]:
    return [
        DiagnosisRow(
            trial_id=trial_id,
            connection=number,
            source=source,
            cause=each.main.key,
            cause_share=each.findings[0].share,
            sentence=each.sentence,
            document=json.dumps(plain(each.document())),
        )
        for number, by_source in found.diagnoses.items()
        for source, each in by_source.items()
    ]


def _findings(found: MeasurementResult, trial_id: str) -> list[FindingRow]:
    return [
        FindingRow(
            trial_id=trial_id,
            connection=number,
            source=source,
            cause=one.cause.key,
            who=one.cause.who,
            time_share=one.share,
            lasted_s=one.seconds,
            confidence=one.confidence,
            sentence=one.sentence,
        )
        for number, by_source in found.diagnoses.items()
        for source, each in by_source.items()
        for one in each.findings
    ]


def _segments(found: MeasurementResult) -> tuple[list[int], list[int]]:
    """By connection: segments with data, each counted once, and how many of them were read."""
    sent, received = [], []
    for number, each in enumerate(found.measured.outcome.connections):
        rows = samples.of(found.measured.samples, number, "sender")
        out, again = (_last(rows, name) for name in ("data_segs_out", "total_retrans"))
        once = max(out - again, 0)
        sent.append(once)
        read = each.received_bytes / each.sent_bytes if each.sent_bytes else 0.0
        received.append(min(round(once * read), once))
    return sent, received


def _last(rows: pl.DataFrame, name: str) -> int:
    if name not in rows.columns:
        return 0
    known = rows[name].drop_nulls()
    return int(known.max()) if known.len() else 0  # type: ignore[arg-type]


def _frame_bytes(found: MeasurementResult, segments: int) -> int:
    """Mean size of a frame with data, FCS included, as it would be on Ethernet."""
    sent = sum(connection.sent_bytes for connection in found.measured.outcome.connections)
    rows = found.measured.samples
    stamped = "options" in rows.columns and bool(((rows["options"].fill_null(0) & _HAS_TIMESTAMPS) > 0).any())
    headers = _ETHERNET_BYTES + _IP_BYTES[_version(found)] + _TCP_BYTES + _TIMESTAMP_BYTES * stamped
    return headers + (round(sent / segments) if segments else 0)


def _version(found: MeasurementResult) -> Any:
    made: Sequence[Mapping[str, Any]] = found.measured.outcome.started["connections"]
    return 6 if any(":" in each["remote"][0] for each in made) else 4
