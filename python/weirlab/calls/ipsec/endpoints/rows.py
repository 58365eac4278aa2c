"""The columns of the study's tables, as rows. Times are in ns unless their names say otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
