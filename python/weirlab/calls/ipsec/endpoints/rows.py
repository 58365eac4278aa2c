"""Attempts as rows of the study's tables; pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weirlab.base.quantities import duration, percent
from weirlab.calls.ipsec.endpoints.figures import (
    DELAY,
    DELTA,
    JITTER,
    LATENESS,
    QUANTITIES,
    figures,
    highest,
    mean,
    quantile,
)
from weirlab.calls.ipsec.endpoints.plan import HOG, SOCKETS, EndpointCalls, EndpointPlan
from weirlab.measure.validity import DEFAULT_LIMITS

if TYPE_CHECKING:
    from weirlab.calls.ipsec.endpoints.bed import EndpointObservation


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
