"""The columns of the study's tables, as rows; times count from the start of the recorded part."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

ATTEMPTS: Final = "parallel"
PATHS: Final = "parallel_paths"
SERIES: Final = "parallel_series"

APPLICATION: Final = "application"
PATH: Final = "path"
COMPETITOR: Final = "competitor"


@dataclass(frozen=True)
class ParallelAttemptRow:
    """A transfer by one method in one case."""

    trial_id: str
    """The attempt in `trials`."""
    case: str
    """What the scenario calls the set of paths and what happens on them."""
    first_share: float
    """The first path's share of the rate of both; null outside of `split`."""
    method: str
    """`tcp`, `independent`, `mptcp`, or a scheduler of parallel sockets."""
    path: int
    """The only path that `tcp` uses, from 1; 0: all."""
    repetition: int
    """Number of the repetition, from 1."""
    valid: bool
    """Whether it counts."""
    invalid: str
    """Why not; empty if it does."""
    paths: int
    """Paths that the method could use."""
    connections: int
    """Connections that carried data."""
    start_ns: int
    """Start of the recorded part, since 1970."""
    warmup_s: float
    """Sent before."""
    lasts_s: float
    """Recorded part."""
    goodput_bps: float
    """What the receiving application read in order in the recorded part, over its length, in bit/s."""
    total_bytes: int
    """Read in the whole attempt."""
    stall_s: float
    """Longest time without any data for the application, in the recorded part."""
    outage_bps: float
    """Goodput while paths were dead; null without outages."""
    back_s: float
    """From a path's return until it carries half of what it did before, to the bin; the longest. Null without
    outages, or where it never does."""
    reorder_peak_bytes: int | None
    """Most data that waited at the receiver for earlier data; null if the method does not report it."""
    resent_bytes: int | None
    """Sent again over another stream; null except for parallel sockets."""
    retransmissions: int | None
    """Segments that TCP sent again, on all paths."""
    competitor_bps: float
    """Goodput of the competing streams while they were there, mean over them; null without."""
    jain: float
    """Jain's index of method and competitor on the path that they share, 0.5 to 1; the least of all
    competitors. Null without."""
    cpu_s_per_gb: float
    """CPU time of sender and receiver over 10^9 B read, warm-up included. The kernel's work on arriving
    frames counts for the emulated paths, which are left out. Null with competitors, whose CPU time cannot be
    told apart."""
    emulator_cpu_s: float
    """CPU time of the emulated paths."""
    waited_s: float
    """How long the process's threads were ready and had no CPU, all together."""
    late_p99_ns: float
    """99 % of the frames left the emulated paths at most this much later than due; the worst direction."""
    rate_error: float
    """Rate at which a path carried waiting frames over the one set, less 1; the worst direction."""
    failure: str
    """Why the transfer broke off; empty if it did not."""
    path_share: float = math.nan
    """What the method carried over the path that it shares with a competitor, over what both carried there,
    while that was there; with several competitors the share that is furthest from a half. Null without."""


@dataclass(frozen=True)
class PathRow:
    """One path in an attempt."""

    trial_id: str
    """The attempt in `trials`."""
    path: int
    """Number of the path, from 1."""
    rate_bps: float
    """Rate set from sender to receiver; null for none."""
    rtt_ms: float
    """Round trip of the empty path."""
    connections: int
    """Connections of the method that carried data over it."""
    throughput_bps: float
    """Bytes that the receiver's kernel received in order in the recorded part, over its length."""
    retransmissions: int | None
    """Segments that the sender sent again."""
    frames: int
    """Frames that the sender's side gave to the emulated path, a competitor's included."""
    dropped: int
    """Of these, dropped because its queue was full, or early."""
    lost: int
    """Of these, lost by the loss set for the path."""
    not_kept: int
    """Lost by the emulator itself."""
    late_p99_ns: float
    """99 % of the frames left at most this much later than due; the worse direction."""
    rate_error: float
    """Rate at which it carried waiting frames over the one set, less 1; null where none waited."""


@dataclass(frozen=True)
class ThroughputRow:
    """Throughput in a bin of time."""

    trial_id: str
    """The attempt in `trials`."""
    what: str
    """`application`: what the receiver read, in order; `path`: what arrived over one path; `competitor`: what
    a competing stream's receiver read."""
    number: int
    """Of the path or of the competitor, from 1; 0 for the application."""
    start_s: float
    """Start of the bin; negative in the warm-up."""
    throughput_bps: float
    """Mean over the bin."""
