"""Turns what was seen of an attempt into rows and the record of a trial; pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.base.quantities import duration, percent
from weirlab.base.units import FCS_BYTES
from weirlab.emulation.account import losses
from weirlab.records import HostSample, RuleSetup, TrialRecord, TrialSpec, counts_alone
from weirlab.store.frames import frame_of
from weirlab.traffic.load import offered_pps
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Flows, Rate, Traffic
from weirlab.transfers.parallel.findings import (
    APPLICATION,
    ATTEMPTS,
    COMPETITOR,
    PATH,
    PATHS,
    SERIES,
    ParallelAttemptRow,
    PathRow,
    ThroughputRow,
)
from weirlab.transfers.parallel.plan import ParallelPlan

if TYPE_CHECKING:
    from weirlab.emulation.account import EmulationCounters
    from weirlab.transfers.parallel.plan import (
        F64,
        AttemptObservation,
        ParallelAttempt,
        PathObservation,
        PathSpan,
    )

RATE_ERROR: Final = 0.005
"""How far an emulated path may miss its rate, beyond what lateness at the ends of bursts explains."""
_BACK: Final = 0.5
"""Share of its former throughput from which on a path counts as back."""
_LEAST_FRAME_BYTES: Final = 64


@dataclass(frozen=True)
class AttemptEntry:
    """The place of an attempt in its run."""

    run_id: str
    attempt: int
    started_at: str
    wall_s: float
    lab: str
    first_share: float | None = None

    def trial_id(self, planned: ParallelPlan) -> str:
        return f"{self.run_id}-{planned.index:04d}-{self.attempt}"


def reasons(seen: AttemptObservation, late_ns: float) -> tuple[str, ...]:
    """Why an attempt does not count: what the emulated paths report about themselves."""
    found: list[str] = []
    for number, path in seen.paths.items():
        account, where = path.account, f"path {number}: the emulator "
        if account.failure:
            found.append(f"{where}ended: {account.failure}")
        found += [f"path {number}: {complaint}" for complaint in losses(account)]
        late = _late_p99_ns(account)
        if late > late_ns:
            found.append(f"{where}was late: p99 {duration(late)}, {duration(late_ns)} allowed")
        error = _rate_error(account)
        allowed = RATE_ERROR + account.up.rate_doubt
        if abs(error) > allowed:
            found.append(f"{where}missed its rate by {percent(abs(error))}, {percent(allowed)} allowed")
    return tuple(found)


def record(
    planned: ParallelPlan,
    course: ParallelAttempt,
    seen: AttemptObservation,
    entry: AttemptEntry,
    invalid: tuple[str, ...],
) -> TrialRecord:
    """The record with the study's rows. Its packets are the frames that went up the paths, a flow each."""
    trial_id = entry.trial_id(planned)
    ways = [path.account.up for path in seen.paths.values()]
    arrived = sum(way.arrived for way in ways)
    mean = sum(way.arrived_bytes for way in ways) / arrived + FCS_BYTES if arrived else 0
    traffic = Traffic(
        rate=Rate(unit="max"),
        sizes=Constant(max(round(mean), _LEAST_FRAME_BYTES)),
        flows=Flows(len(ways), l4="tcp"),
        warmup_s=course.warmup_s,
        duration_s=course.lasts_s,
    )
    begun_ns = seen.since_1970_ns
    row = attempt_row(planned, course, seen, trial_id, invalid, entry.first_share)
    return TrialRecord(
        trial_id=trial_id,
        run_id=entry.run_id,
        index=planned.index,
        attempt=entry.attempt,
        started_at=entry.started_at,
        spec=TrialSpec(traffic, RuleSetup(), planned.text),
        lab=entry.lab,
        dut="emulated paths",
        offered_pps=offered_pps(traffic),
        result=counts_alone(
            "tcp",
            [way.arrived for way in ways],
            [min(way.sent, way.arrived) for way in ways],
            begun_ns,
            begun_ns + round(course.lasts_s * 1e9),
        ),
        host=HostSample(wall_s=entry.wall_s, cpu_s={}),
        invalid=invalid,
        role="single",
        tables={
            ATTEMPTS: frame_of(ParallelAttemptRow, [row]),
            PATHS: frame_of(
                PathRow, [_path_row(course, n, each, trial_id) for n, each in seen.paths.items()]
            ),
            SERIES: frame_of(ThroughputRow, _series(course, seen, trial_id)),
        },
    )


def attempt_row(
    planned: ParallelPlan,
    course: ParallelAttempt,
    seen: AttemptObservation,
    trial_id: str,
    invalid: tuple[str, ...],
    first_share: float | None,
) -> ParallelAttemptRow:
    """The attempt in one row."""
    edges = course.edges_s()
    again = [path.retransmissions for path in seen.paths.values() if path.retransmissions is not None]
    errors = [_rate_error(path.account) for path in seen.paths.values()]
    rivals = [_rival(course, seen, number) for number in range(len(course.competitors))]
    met = [(mine, rate) for rate, mine in rivals if not math.isnan(jain(mine, rate))]
    mine, rate = min(met, key=lambda pair: jain(*pair), default=(math.nan, math.nan))
    gigabytes = seen.total_bytes / 1e9
    return ParallelAttemptRow(
        trial_id=trial_id,
        case=planned.case.name,
        first_share=math.nan if first_share is None else first_share,
        method=planned.method,
        path=planned.path,
        repetition=planned.repetition,
        valid=not invalid,
        invalid="; ".join(invalid),
        paths=len(course.paths),
        connections=sum(path.connections for path in seen.paths.values()),
        start_ns=seen.since_1970_ns,
        warmup_s=course.warmup_s,
        lasts_s=course.lasts_s,
        goodput_bps=_between(edges, seen.read, 0.0, course.lasts_s),
        total_bytes=seen.total_bytes,
        stall_s=stall_s(seen.reads_s, course.lasts_s),
        outage_bps=_in_outages(course, seen),
        back_s=_back_s(course, seen),
        reorder_peak_bytes=seen.reorder_peak_bytes,
        resent_bytes=seen.resent_bytes,
        retransmissions=sum(again) if again else None,
        competitor_bps=sum(bps for bps, _ in rivals) / len(rivals) if rivals else math.nan,
        jain=jain(mine, rate),
        cpu_s_per_gb=seen.cpu_s / gigabytes if gigabytes and not rivals else math.nan,
        emulator_cpu_s=sum(path.account.cpu_s for path in seen.paths.values()),
        waited_s=seen.waited_s,
        late_p99_ns=max((_late_p99_ns(path.account) for path in seen.paths.values()), default=math.nan),
        rate_error=max((error for error in errors if not math.isnan(error)), key=abs, default=math.nan),
        failure=seen.failure,
        path_share=mine / (mine + rate),
    )


def _path_row(course: ParallelAttempt, number: int, seen: PathObservation, trial_id: str) -> PathRow:
    account, path = seen.account, course.paths[number]
    return PathRow(
        trial_id=trial_id,
        path=number,
        rate_bps=math.nan if path.up.rate_bps is None else float(path.up.rate_bps),
        rtt_ms=path.rtt_ns / 1e6,
        connections=seen.connections,
        throughput_bps=_between(course.edges_s(), seen.received, 0.0, course.lasts_s),
        retransmissions=seen.retransmissions,
        frames=account.up.arrived,
        dropped=account.up.dropped_full + account.up.dropped_early,
        lost=account.up.lost,
        not_kept=account.not_kept,
        late_p99_ns=_late_p99_ns(account),
        rate_error=_rate_error(account),
    )


def _series(course: ParallelAttempt, seen: AttemptObservation, trial_id: str) -> Iterator[ThroughputRow]:
    edges = course.edges_s()
    parts = [
        (APPLICATION, 0, seen.read),
        *((PATH, number, path.received) for number, path in seen.paths.items()),
        *((COMPETITOR, number, read) for number, read in enumerate(seen.competitors, 1)),
    ]
    widths = np.diff(edges)
    for what, number, total in parts:
        for start_s, width_s, grown in zip(edges[:-1], widths, np.diff(total), strict=True):
            # A warm-up that is not a whole number of bins leaves one without width.
            if width_s > 0:
                yield ThroughputRow(trial_id, what, number, float(start_s), float(grown * 8 / width_s))


def stall_s(reads_s: F64, lasts_s: float) -> float:
    """Longest time between two reads in the recorded part, its ends included."""
    inner = reads_s[(reads_s >= 0) & (reads_s <= lasts_s)]
    return float(np.diff(np.concatenate(([0.0], inner, [lasts_s]))).max())


def jain(one: float, other: float) -> float:
    """Jain's index of two shares: 1 where they are equal, 0.5 where one has all; NaN where both are 0."""
    squares = 2 * (one**2 + other**2)
    return (one + other) ** 2 / squares if squares else math.nan


def _between(edges: F64, total: F64, from_s: float, to_s: float) -> float:
    """Mean rate in bit/s between two times, from totals at ``edges``."""
    first, last = np.interp([from_s, to_s], edges, total)
    return float((last - first) * 8 / (to_s - from_s)) if to_s > from_s else math.nan


def _rival(course: ParallelAttempt, seen: AttemptObservation, number: int) -> tuple[float, float]:
    """Goodput of a competitor while it was there, and what the method carried over its path meanwhile."""
    span, edges = course.competitors[number], course.edges_s()
    rate = _between(edges, seen.competitors[number], span.from_s, span.to_s)
    path = seen.paths.get(span.path)
    return rate, math.nan if path is None else _between(edges, path.received, span.from_s, span.to_s)


def _in_outages(course: ParallelAttempt, seen: AttemptObservation) -> float:
    edges = course.edges_s()
    long_s = sum(span.to_s - span.from_s for span in course.outages)
    if not long_s:
        return math.nan
    rates = [
        _between(edges, seen.read, span.from_s, span.to_s) * (span.to_s - span.from_s)
        for span in course.outages
    ]
    return sum(rates) / long_s


def _back_s(course: ParallelAttempt, seen: AttemptObservation) -> float:
    found = [_back_of(course, seen, span) for span in course.outages if span.path in seen.paths]
    return max(found) if found and not any(map(math.isnan, found)) else math.nan


def _back_of(course: ParallelAttempt, seen: AttemptObservation, span: PathSpan) -> float:
    edges, received = course.edges_s(), seen.paths[span.path].received
    before = _between(edges, received, max(0.0, span.from_s - 1.0), span.from_s)
    rates, starts = np.diff(received) * 8 / np.maximum(np.diff(edges), 1e-9), edges[:-1]
    again = np.flatnonzero((starts >= span.to_s - 1e-9) & (rates >= _BACK * before))
    return float(edges[again[0] + 1] - span.to_s) if len(again) and before > 0 else math.nan


def _late_p99_ns(account: EmulationCounters) -> float:
    known = [late for way in account.directions if not math.isnan(late := way.late_ns(0.99))]
    return max(known, default=math.nan)


def _rate_error(account: EmulationCounters) -> float:
    """Of the direction that carries data; the ACKs seldom wait."""
    return account.up.rate_error
