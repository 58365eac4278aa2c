"""What each trial leaves in the tables ``capacity``, ``inside`` and ``gaps``, and their columns.

Null stands for what was not measured; in a row that is None, or NaN for a real number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from weirlab.calls.capacity.trials.boxes import Count
from weirlab.lab.host import STATES
from weirlab.lab.monitoring.view import InsideView, Sample, between, cpu_share
from weirlab.quality import distribution
from weirlab.quality.distribution import DISSATISFIED
from weirlab.records import F64, CallTable, TrialRecord
from weirlab.store import Run

Phase = Literal["sweep", "search"]


@dataclass(frozen=True, kw_only=True)
class CallAttempt:
    """An attempt at a trial with calls, and what became of its packets."""

    trial_id: str
    """The attempt in `trials`."""
    index: int
    """Number of the trial in its run, from 0."""
    attempt: int
    """Number of the attempt at this trial, from 1."""
    valid: bool
    """Whether the attempt counts."""
    phase: str
    """`sweep` or `search`."""
    position: int
    """Matching position: rules walked before the calls are accepted."""
    calls: int
    """Calls at once."""
    run: int | None
    """Repetition within a sweep; null in a search."""
    offered_pps: float
    """Nominal load, both directions together."""
    achieved_pps: float
    """Load that departed."""
    forwarded_pps: float
    """Packets that arrived per second."""
    sent: int
    """Packets that departed."""
    lost: int
    """Packets that never arrived."""
    loss_ratio: float
    """Share of the packets that were lost; like rates and delays, without disturbed bins."""
    delay_mean_ns: float
    """Mean one-way delay of the packets."""


@dataclass(frozen=True, kw_only=True)
class CallQuality:
    """What callers heard in one trial; a call is as good as the worse of its two directions."""

    mos_min: float = math.nan
    """MOS of the worst call, 1 to 4.5."""
    mos_p1: float = math.nan
    """MOS that 99 % of the calls reach."""
    mos_p5: float = math.nan
    """MOS that 95 % of the calls reach."""
    mos_p50: float = math.nan
    """MOS of the median call."""
    good_share: float = math.nan
    """Share of the calls with at least the MOS asked for."""
    poor_share: float = math.nan
    """Share of the calls below MOS 3.6, where many users are dissatisfied (ITU-T G.109)."""
    loss_forward: float = math.nan
    """Loss ratio of speech from the sender's side, 0 to 1."""
    loss_back: float = math.nan
    """Loss ratio of speech from the receiver's side, 0 to 1."""
    delay_p99_ns: float = math.nan
    """99th percentile of the delay of the worst call."""
    jitter_ns: float = math.nan
    """Mean over the calls of their jitter (RFC 3550)."""
    longest_gap_ns: float = math.nan
    """Longest time between two arrivals of one call."""


@dataclass(frozen=True, kw_only=True)
class DeviceCounts:
    """What the device's own interfaces counted."""

    entered: int | None = None
    """Frames that reached the device, warm-up included, by the counters of its interfaces."""
    left: int | None = None
    """Frames that left the device, warm-up included, by the counters of its interfaces."""
    entered_difference: int | None = None
    """Frames that the device saw more (or, below 0, fewer) than were sent."""
    left_difference: int | None = None
    """Frames that left and did not arrive, or (below 0) arrived without having left."""
    counters_agree: bool | None = None
    """Whether both differences are within what neighbours may send."""


@dataclass(frozen=True, kw_only=True)
class OutsideCpuTime:
    """What the device's CPU did, seen from outside."""

    host_user: float = math.nan
    """Seconds of the device's CPU in user mode, seen from outside over the whole attempt."""
    host_system: float = math.nan
    """Seconds of the device's CPU in the kernel, seen from outside."""
    host_idle: float = math.nan
    """Seconds in which the device's CPU was idle, seen from outside."""
    host_irq: float = math.nan
    """Seconds of the device's CPU in interrupts, seen from outside."""
    host_softirq: float = math.nan
    """Seconds of the device's CPU in softirqs, seen from outside."""
    host_steal: float = math.nan
    """Seconds that the hypervisor took from the device's CPU, seen from outside."""


@dataclass(frozen=True, kw_only=True)
class DisturbanceCounts:
    """What departed in the bins of one trial that the host disturbed."""

    disturbed_s: float = math.nan
    """Recorded time in bins that the host disturbed."""
    disturbed_sent: int | None = None
    """Packets that departed in these bins."""
    disturbed_lost: int | None = None
    """Of these, packets that never arrived."""


@dataclass(frozen=True, kw_only=True)
class CpuShares:
    """What an agent on the device's CPU saw it do."""

    cpu_user: float = math.nan
    """Share of the device's CPU in user mode, 0 to 1, seen from inside."""
    cpu_system: float = math.nan
    """Share of the device's CPU in the kernel, 0 to 1, seen from inside."""
    cpu_idle: float = math.nan
    """Share of time in which the device's CPU was idle, 0 to 1, seen from inside."""
    cpu_irq: float = math.nan
    """Share of the device's CPU in interrupts, 0 to 1, seen from inside."""
    cpu_softirq: float = math.nan
    """Share of the device's CPU in softirqs, 0 to 1, seen from inside."""
    cpu_steal: float = math.nan
    """Share of the device's CPU that the hypervisor took, 0 to 1, seen from inside."""


@dataclass(frozen=True, kw_only=True)
class InsideCpuShares(CpuShares):
    """What the agent saw in one trial, and how well it could look."""

    covered_s: float = math.nan
    """Time that the `cpu_` columns cover."""
    samples_due: int | None = None
    """Samples that the agent was to take in the recorded time."""
    samples_taken: int | None = None
    """Samples that it took before the recorded time was over."""
    sample_late_mean_s: float = math.nan
    """Mean lateness of the samples; those never taken count until the end of the recorded time."""
    sample_late_max_s: float = math.nan
    """Greatest lateness of a sample."""
    connections_max: int | None = None
    """Most entries in the device's connection table."""


# A dataclass has the fields of its last base first.
@dataclass(frozen=True, kw_only=True)
class CapacityRow(InsideCpuShares, DisturbanceCounts, OutsideCpuTime, DeviceCounts, CallQuality, CallAttempt):
    """One attempt at a trial with calls. A call is as good as the worse of its two directions."""


@dataclass(frozen=True, kw_only=True)
class SampleTime:
    """A sample of the agent."""

    trial_id: str
    """The attempt in `trials`."""
    due_s: float
    """When the sample was due, from the start of recording."""
    late_s: float
    """How much later it was taken."""


@dataclass(frozen=True, kw_only=True)
class InsideRow(CpuShares, SampleTime):
    """One sample of the agent inside of the device; shares and counts are those since the sample before."""

    connections: int | None = None
    """Entries in the device's connection table."""
    entered: int | None = None
    """Frames that came into the device."""
    forwarded: int | None = None
    """Frames that left the device."""
    blocked: int | None = None
    """Frames that came in and did not leave."""


@dataclass(frozen=True, kw_only=True)
class CallGapRow:
    """A bin of the times between packets that followed each other, over all calls in one direction."""

    trial_id: str
    """The attempt in `trials`."""
    direction: str
    """`forward` or `back`."""
    place: str
    """`sender` for departures, `receiver` for arrivals; lost packets are in neither."""
    lower_ns: float
    """Shortest gap in the bin."""
    upper_ns: float
    """End of the bin; its gaps are shorter."""
    count: int
    """Gaps."""


CAPACITY: Final = "capacity"
INSIDE: Final = "inside"
GAPS: Final = "gaps"
"""Names of the tables in a run."""

SHARES: Final = tuple(state for state in STATES if state not in ("nice", "iowait"))
"""States of the device's CPU that are told apart; others belong to ``idle``, see ``lab.monitoring.view``."""


def kept(run: Run) -> list[CapacityRow]:
    """The rows of the table ``capacity`` of ``run``; none where it has no such table yet."""
    return run.rows(CapacityRow, CAPACITY)


def heard(table: CallTable, good_mos: float) -> CallQuality:
    """What ``table`` says about its calls together."""
    mos = call_mos(table)
    back = table.back
    p1, p5, p50 = _quantiles(mos, (0.01, 0.05, 0.5))
    return CallQuality(
        mos_min=float(mos.min()) if len(mos) else math.nan,
        mos_p1=p1,
        mos_p5=p5,
        mos_p50=p50,
        good_share=float(np.mean(mos >= good_mos)) if len(mos) else math.nan,
        poor_share=float(np.mean(mos < DISSATISFIED)) if len(mos) else math.nan,
        loss_forward=_loss(table, ~back),
        loss_back=_loss(table, back),
        delay_p99_ns=_known(np.nanmax, table.delay_p99_ns),
        jitter_ns=_known(np.nanmean, table.jitter_ns),
        longest_gap_ns=_known(np.nanmax, table.longest_gap_ns),
    )


def call_mos(table: CallTable) -> F64:
    """MOS of each call, the worse of its directions; those that were not measured are left out."""
    known = ~np.isnan(table.mos)
    calls, place = np.unique(table.call[known], return_inverse=True)
    worst = np.full(len(calls), np.inf)
    np.minimum.at(worst, place, table.mos[known])
    return worst


def capacity_row(
    record: TrialRecord,
    what: CallQuality | None,
    boxes: Count | None,
    inside: InsideView | None,
    host: DisturbanceCounts | None = None,
    *,
    phase: Phase,
    run: int | None,
) -> CapacityRow:
    """The row of the table ``capacity`` for ``record``."""
    result, calls = record.result, record.spec.traffic.calls
    assert calls is not None
    seconds = record.host.cpu_s.get("dut", {})
    return CapacityRow(
        trial_id=record.trial_id,
        index=record.index,
        attempt=record.attempt,
        valid=record.valid,
        phase=phase,
        position=record.spec.rules.position,
        calls=calls.count,
        run=run,
        offered_pps=record.offered_pps,
        achieved_pps=result.achieved_pps,
        forwarded_pps=result.forwarding_pps,
        sent=record.loss.sent,
        lost=max(record.loss.lost, 0),
        loss_ratio=max(result.loss_ratio, 0.0),
        delay_mean_ns=result.delay_mean_ns,
        **({} if what is None else vars(what)),
        **_counted(boxes),
        **_by_state("host", seconds),
        **({} if host is None else vars(host)),
        **_seen(inside),
    )


def inside_rows(record: TrialRecord, inside: InsideView | None, into: str, out_of: str) -> list[InsideRow]:
    """One row of the table ``inside`` per sample taken in the recorded time of ``record``.

    Shares and counts are those since the sample before; the first has none.
    """
    if inside is None:
        return []
    start_ns = record.result.record_start_ns
    rows: list[InsideRow] = []
    before: Sample | None = None
    for sample in inside.samples:
        counted = {into, out_of} <= sample.counters.keys()
        rows.append(
            InsideRow(
                trial_id=record.trial_id,
                due_s=(sample.due_ns - start_ns) / 1e9,
                late_s=(sample.taken_ns - sample.due_ns) / 1e9,
                connections=sample.connections,
                **({} if before is None else _by_state("cpu", cpu_share(before, sample))),
                **(between(before, sample, into, out_of) if before is not None and counted else {}),
            )
        )
        before = sample
    return rows


def gap_rows(record: TrialRecord) -> list[CallGapRow]:
    """The rows of the table ``gaps`` for ``record``; none without its packets."""
    log = record.result.packets
    if log is None:
        return []
    back = log.call_flows.back[log.flow]
    return [
        CallGapRow(
            trial_id=record.trial_id,
            direction=direction,
            place=place,
            lower_ns=lower_ns,
            upper_ns=upper_ns,
            count=count,
        )
        for direction, chosen in (("forward", ~back), ("back", back))
        for place, times_ns in (("sender", log.sent_ns), ("receiver", log.arrival_ns))
        for lower_ns, upper_ns, count in distribution.counted(np.diff(np.sort(times_ns[chosen])))
    ]


def _counted(boxes: Count | None) -> dict[str, Any]:
    if boxes is None:
        return {}
    return {
        "entered": boxes.entered,
        "left": boxes.left,
        "entered_difference": boxes.entered_difference,
        "left_difference": boxes.left_difference,
        "counters_agree": boxes.agree,
    }


def _seen(inside: InsideView | None) -> dict[str, Any]:
    if inside is None:
        return {}
    return {
        **_by_state("cpu", inside.cpu_share),
        "covered_s": inside.covered_s,
        "samples_due": inside.due,
        "samples_taken": inside.taken,
        "sample_late_mean_s": inside.late_mean_s,
        "sample_late_max_s": inside.late_max_s,
        "connections_max": inside.connections_max,
    }


def _by_state(prefix: str, spent: Mapping[str, float]) -> dict[str, Any]:
    return {f"{prefix}_{state}": spent.get(state, math.nan) for state in SHARES}


def _loss(table: CallTable, rows: Any) -> float:
    sent = int(table.sent[rows].sum())
    return int(table.lost[rows].sum()) / sent if sent else math.nan


def _quantiles(values: F64, shares: tuple[float, ...]) -> tuple[float, ...]:
    """Lower quantiles: that share of the calls is at most so good."""
    if not len(values):
        return tuple(math.nan for _ in shares)
    return tuple(float(q) for q in np.quantile(values, shares, method="inverted_cdf"))


def _known(summary: Any, values: F64) -> float:
    return float(summary(values)) if np.isfinite(values).any() else math.nan
