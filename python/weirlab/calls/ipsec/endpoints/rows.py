"""What an attempt was like, what the times of its packets show (in ns), and its rows; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.quantities import duration, percent
from weirlab.calls.ipsec.endpoints.plan import HOG, SOCKETS, EndpointCalls, EndpointPlan
from weirlab.measure.validity import DEFAULT_LIMITS
from weirlab.quality import distribution

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

LATENESS: Final = "lateness"
DELAY: Final = "delay"
JITTER: Final = "jitter"
DELTA: Final = "delta"
QUANTITIES: Final = (LATENESS, DELAY, JITTER, DELTA)

_GAIN: Final = 1 / 16
"""RFC 3550, 6.4.1."""


@dataclass(frozen=True)
class Times:
    """The packets of one direction; arrays of the shape (calls, packets), 0 where there was none."""

    due_ns: I64
    sent_ns: I64
    """When the sender began to build the packet."""
    heard_ns: I64
    """When the receiver had decrypted and checked it."""


@dataclass(frozen=True)
class EndpointObservation:
    """What an attempt was like."""

    ways: tuple[Times, Times]
    """From the near endpoint to the far one, and back."""
    since_1970_ns: int
    """Start of the calls."""
    damaged: int
    """Packets that did not arrive as they were sent, or that ESP rejected."""
    refused: int
    """Packets that never left: not taken by the system, or not encapsulated."""
    ip_bytes: tuple[int, int]
    """Shortest and longest IP packet that arrived."""
    cpu_s: float
    """CPU time of both threads."""
    work_s: float
    """Time of the turns of their loops that had a packet."""
    hog_share: float
    """Share of the CPUs that the hogs had; NaN without them."""
    steal_s: Mapping[str, float]
    """By endpoint: for how long the hypervisor took its CPU."""
    wall_s: float
    """How long that was watched."""
    real_time: bool
    real_time_refused: str
    """Why not, where it was wanted; empty otherwise."""
    polls: bool
    zero_copy: bool


@dataclass(frozen=True)
class Figures:
    """What the recorded packets of both directions show; a value per packet of which it is known."""

    due: int
    """Packets that should have been sent."""
    unsent: int
    """Of these, those that were not."""
    lost: int
    """Sent, and not heard."""
    values: Mapping[str, F64]
    """By quantity."""
    overdue: F64
    """From when a packet was due until it was heard."""
    call_jitter: F64
    """Mean jitter of each stream of which two packets were heard."""

    def bad(self, late_ns: float) -> int:
        """Packets that were heard later than that after they were due, or not at all."""
        return self.unsent + self.lost + int(np.count_nonzero(self.overdue > late_ns))

    def distribution(self, quantity: str) -> Iterator[tuple[float, float, int]]:
        """Bins with something in them: from (inclusive), to, how many."""
        return distribution.counted(self.values[quantity])


def times(begins_ns: int, phases_ns: I64, period_ns: int, sent_ns: I64, heard_ns: I64) -> Times:
    """With when packets were due: a packet time apart, from each stream's own start on."""
    due = begins_ns + phases_ns[:, None] + period_ns * np.arange(sent_ns.shape[1], dtype=np.int64)
    return Times(due, np.asarray(sent_ns, np.int64), np.asarray(heard_ns, np.int64))


def figures(ways: Sequence[Times], warmup_packets: int) -> Figures:
    """Of both directions together, without the first packets of each stream."""
    due = unsent = lost = 0
    values: dict[str, list[F64]] = {quantity: [] for quantity in QUANTITIES}
    overdue: list[F64] = []
    per_call: list[F64] = []
    for way in ways:
        recorded = np.zeros(way.due_ns.shape, bool)
        recorded[:, warmup_packets:] = True
        was_sent, was_heard = way.sent_ns > 0, way.heard_ns > 0
        due += int(recorded.sum())
        unsent += int((recorded & ~was_sent).sum())
        lost += int((recorded & was_sent & ~was_heard).sum())
        there = recorded & was_heard
        values[LATENESS].append(_chosen(way.sent_ns - way.due_ns, recorded & was_sent))
        values[DELAY].append(_chosen(way.heard_ns - way.sent_ns, there))
        overdue.append(_chosen(way.heard_ns - way.due_ns, there))
        jitter, delta = arrivals(way)
        follows = there & ~np.isnan(delta)
        values[JITTER].append(jitter[follows])
        values[DELTA].append(delta[follows])
        counted = follows.sum(axis=1)
        sums = np.where(follows, jitter, 0.0).sum(axis=1)
        per_call.append(sums[counted > 0] / counted[counted > 0])
    return Figures(
        due=due,
        unsent=unsent,
        lost=lost,
        values={quantity: np.concatenate(parts) for quantity, parts in values.items()},
        overdue=np.concatenate(overdue),
        call_jitter=np.concatenate(per_call),
    )


def arrivals(way: Times) -> tuple[F64, F64]:
    """Jitter (RFC 3550, 6.4.1) after each packet, and its time after the one heard before it (delta).

    RTP time stamps are those of when packets were due. Shape (calls, packets); NaN where a packet was not
    heard, and for delta also at the first one of each stream.
    """
    calls, packets = way.due_ns.shape
    heard = way.heard_ns > 0
    overdue = (way.heard_ns - way.due_ns).astype(np.float64)
    jitter, delta = np.full((calls, packets), np.nan), np.full((calls, packets), np.nan)
    estimate = np.zeros(calls)
    before_overdue, before_ns = np.full(calls, np.nan), np.zeros(calls, np.int64)
    for number in range(packets):
        there = heard[:, number]
        change = np.abs(overdue[:, number] - before_overdue)
        # The first one of a stream changes nothing.
        follows = there & ~np.isnan(change)
        estimate = np.where(follows, estimate + (change - estimate) * _GAIN, estimate)
        jitter[there, number] = estimate[there]
        delta[follows, number] = (way.heard_ns[:, number] - before_ns)[follows]
        before_overdue = np.where(there, overdue[:, number], before_overdue)
        before_ns = np.where(there, way.heard_ns[:, number], before_ns)
    return jitter, delta


def _chosen(values: I64, which: npt.NDArray[np.bool_]) -> F64:
    return values[which].astype(np.float64)


def quantile(values: F64, share: float) -> float:
    """NaN of nothing."""
    return float(np.quantile(values, share)) if len(values) else float("nan")


def highest(values: F64) -> float:
    """NaN of nothing."""
    return float(values.max()) if len(values) else float("nan")


def mean(values: F64) -> float:
    """NaN of nothing."""
    return float(values.mean()) if len(values) else float("nan")


ATTEMPTS: Final = "endpoints"
DISTRIBUTIONS: Final = "endpoints_distributions"
LIMITS: Final = "endpoints_limits"


@dataclass(frozen=True)
class EndpointAttemptRow:
    """Calls between two endpoints of one kind; figures are of both directions, without the warm-up."""

    number: int
    """Number of the attempt in its run, from 0."""
    purpose: str
    """`compare`, or `limit` for a trial of the search for the most calls."""
    arm: str
    """`bypass`, `sockets` or `sockets-real-time`."""
    beside: str
    """What else the endpoints' CPUs did: `idle` for nothing, or `hog`."""
    calls: int
    """Calls, each with a stream in either direction."""
    repetition: int
    """Number of the repetition, from 1; of a trial at this number of calls."""
    valid: bool
    """Whether it counts."""
    invalid: str
    """Why not; empty if it does."""
    start_ns: int
    """Start of the calls, since 1970."""
    lasts_s: float
    """Recorded part."""
    packets: int
    """Packets that were due."""
    unsent: int
    """Of these, those that the sender did not send."""
    lost: int
    """Sent, and not heard."""
    bad: int
    """Not heard in time: unsent, lost, or later than the limit of the search after they were due."""
    damaged: int
    """Packets that did not arrive as they were sent, or that ESP rejected; warm-up included."""
    ip_bytes: int
    """Length of every IP packet, with ESP; 0 if lengths differed or nothing was heard."""
    late_p50_ns: float
    """From when a packet was due until its sender began to build it: median."""
    late_p99_ns: float
    """Of the same: 99th percentile."""
    late_max_ns: float
    """Of the same: maximum."""
    delay_p50_ns: float
    """From there until the receiver had decrypted and checked the packet: median."""
    delay_p99_ns: float
    """Of the same: 99th percentile."""
    delay_max_ns: float
    """Of the same: maximum."""
    jitter_mean_ns: float
    """Jitter (RFC 3550) after each packet: mean."""
    jitter_max_ns: float
    """Of the same: maximum."""
    delta_p99_ns: float
    """Time from one packet of a stream to the next at the receiver: 99th percentile."""
    delta_max_ns: float
    """Of the same: maximum."""
    cpu_ns: float
    """CPU time of both endpoints' threads over the packets that they sent and heard, warm-up included."""
    work_ns: float
    """Time of the turns of their loops that had a packet, over the same packets: without polling in vain."""
    cpu_share: float
    """CPU time of both endpoints' threads over twice the time that the calls lasted."""
    hog_share: float
    """Share of its CPU that a hog had, the lower of both; null without them."""
    steal_ratio: float
    """Share of the endpoints' CPUs that the hypervisor took."""
    real_time: bool
    """Whether the threads were real time."""
    polls: bool
    """Whether the endpoints served the interfaces' queues themselves (busy polling of the kernel)."""
    zero_copy: bool
    """Whether the interfaces' drivers used the sockets' memory themselves."""
    refused: int = 0
    """Packets that never left, warm-up included: not taken by the system, or not encapsulated."""


@dataclass(frozen=True)
class DistributionRow:
    """How many packets of an attempt lie in a bin."""

    number: int
    """The attempt."""
    quantity: str
    """`lateness`, `delay`, `jitter` or `delta`."""
    from_ns: float
    """Lower end of the bin."""
    to_ns: float
    """Upper end of the bin."""
    packets: int
    """How many."""


@dataclass(frozen=True)
class EndpointLimitRow:
    """What the search for the most calls found."""

    arm: str
    """Kind of endpoints."""
    beside: str
    """What else their CPUs did."""
    carried: float
    """Most calls of which few enough packets were bad; null if even one call had too many."""
    too_many: float
    """Fewest calls that had too many; null if even the most had not. The same as `carried` where trials with
    one number of calls differed."""
    at_least: bool
    """No higher number could be tried: the endpoints may carry more."""
    problem: str
    """Why nothing was found; empty otherwise."""


LEAST_HOG_SHARE: Final = 0.01
"""A hog that had less of the CPUs was none."""


@dataclass(frozen=True)
class EndpointAttempt:
    """An attempt as it is kept."""

    row: EndpointAttemptRow
    distributions: tuple[DistributionRow, ...]


def reasons(talked: EndpointObservation, talk: EndpointCalls) -> Iterator[str]:
    """Why an attempt does not count: by what the host did, and never by the result."""
    limits = DEFAULT_LIMITS
    allowed_s = max(limits.steal_ratio * talked.wall_s, limits.steal_ticks * limits.tick_s)
    for role, stolen_s in talked.steal_s.items():
        # Differences of ticks in floating point: half a tick decides.
        if stolen_s > allowed_s + limits.tick_s / 2:
            told = f"{duration(stolen_s * 1e9)} stolen from the {role} endpoint's CPU"
            yield f"{told} (at most {duration(allowed_s * 1e9)})"
    if talk.arm != SOCKETS and not talked.real_time:
        yield f"the threads could not be real time ({talked.real_time_refused})"
    if talk.beside == HOG and talked.hog_share < LEAST_HOG_SHARE:
        yield f"a CPU hog had {percent(talked.hog_share)} of its CPU only"


def recorded(
    talked: EndpointObservation,
    talk: EndpointCalls,
    planned: EndpointPlan,
    number: int,
    purpose: str,
    *,
    late_ns: float,
) -> EndpointAttempt:
    """The rows of an attempt; a packet is bad that is heard later than ``late_ns`` after it was due."""
    found = figures(talked.ways, talk.warmup_packets)
    late, delay, jitter, delta = (found.values[each] for each in (LATENESS, DELAY, JITTER, DELTA))
    invalid = "; ".join(reasons(talked, talk))
    shortest, longest = talked.ip_bytes
    handled = sum(int((way.sent_ns > 0).sum() + (way.heard_ns > 0).sum()) for way in talked.ways)
    nan = float("nan")
    row = EndpointAttemptRow(
        number=number,
        purpose=purpose,
        arm=planned.arm,
        beside=planned.beside,
        calls=planned.calls,
        repetition=planned.repetition,
        valid=not invalid,
        invalid=invalid,
        start_ns=talked.since_1970_ns,
        lasts_s=(talk.packets - talk.warmup_packets) * talk.stream.packet_ns / 1e9,
        packets=found.due,
        unsent=found.unsent,
        lost=found.lost,
        bad=found.bad(late_ns),
        damaged=talked.damaged,
        ip_bytes=shortest if shortest == longest else 0,
        late_p50_ns=quantile(late, 0.5),
        late_p99_ns=quantile(late, 0.99),
        late_max_ns=highest(late),
        delay_p50_ns=quantile(delay, 0.5),
        delay_p99_ns=quantile(delay, 0.99),
        delay_max_ns=highest(delay),
        jitter_mean_ns=mean(jitter),
        jitter_max_ns=highest(jitter),
        delta_p99_ns=quantile(delta, 0.99),
        delta_max_ns=highest(delta),
        cpu_ns=talked.cpu_s * 1e9 / handled if handled else nan,
        work_ns=talked.work_s * 1e9 / handled if handled else nan,
        cpu_share=talked.cpu_s / (2 * talk.lasts_s),
        hog_share=talked.hog_share,
        steal_ratio=sum(talked.steal_s.values()) / (len(talked.steal_s) * talked.wall_s)
        if talked.steal_s
        else nan,
        real_time=talked.real_time,
        polls=talked.polls,
        zero_copy=talked.zero_copy,
        refused=talked.refused,
    )
    bins = (
        DistributionRow(number, quantity, from_ns, to_ns, packets)
        for quantity in QUANTITIES
        for from_ns, to_ns, packets in found.distribution(quantity)
    )
    # Of the search only its figures are kept.
    return EndpointAttempt(row, () if purpose != "compare" else tuple(bins))
