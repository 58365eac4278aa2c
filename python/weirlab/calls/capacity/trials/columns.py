"""The columns of the tables ``capacity``, ``inside`` and ``gaps``, as rows.

Null stands for what was not measured; in a row that is None, or NaN for a real number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

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
    """`lost` over `sent`."""
    delay_mean_ns: float
    """Mean one-way delay of all packets."""


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
