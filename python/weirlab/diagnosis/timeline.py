"""A transfer in pieces of time, during each of which the state of the sender did not change."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.diagnosis.causes import Source

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from weirlab.diagnosis.finding import PathEvidence

    Floats = NDArray[np.float64]
    Bools = NDArray[np.bool_]

DELAYED_S: Final = 0.015
"""An ACK this much later than a round trip was delayed on purpose (RFC 1122: up to 500 ms; Linux: 40 ms)."""
QUEUE_S: Final = 0.001
"""Hosts scatter delays by this time even without a queue."""
SHORTEST_WINDOW_S: Final = 0.01
"""Shortest time over which a rate is computed: below it, the rate depends on the order of single packets."""

FULL: Final = 0.8
"""Share of the capacity from which on it counts as fully used (as in BBR's and Dapper's rules)."""
EMPTY: Final = 0.5
"""Share of what the path itself holds below which data in flight fills no queue."""
EARLY_TRIPS: Final = 2
"""Round trips with so little in flight that show how long one takes without a queue."""
SHRUNK: Final = 0.5
"""Share of the largest window. Below it, the missing part of the window is unread data in the buffer."""
NEIGHBOURS: Final = 2
"""Samples before and after one, of which most show what it should be like."""


@dataclass(frozen=True)
class BlackHole:
    """Segments of more than ``passed_bytes`` never arrived."""

    passed_bytes: int
    """The largest payload that was acknowledged."""
    lost_bytes: int
    """The smallest payload that was not."""
    tries: int
    """Transmissions of larger payloads, all in vain."""
    later_passed: bool
    """A small segment arrived that was sent after a larger one: the path was alive."""


@dataclass(frozen=True)
class Timeouts:
    """The time-outs of a sender."""

    number: int
    tails: int
    """Nothing had been sent after the lost segment, so that no duplicate ACK could report it."""
    ignored: int
    """Three or more duplicate ACKs had asked for the segment, but the sender waited."""
    longest_s: float
    black_hole: BlackHole | None = None


@dataclass(frozen=True)
class Policer:
    """A token bucket that explains what was lost."""

    rate_bytes_per_s: float
    from_s: float
    """The first loss."""
    until_s: float
    lost: int
    """Segments lost between these."""
    sent: int


@dataclass(frozen=True)
class Drain:
    """Data that arrived at one rate, and without gaps, although much was lost."""

    rate_bytes_per_s: float
    from_s: float
    until_s: float
    is_full: bool
    """It never came faster for a moment: a link was full."""


@dataclass(frozen=True)
class Timeline:
    """Columns of one length; NaN if the source does not show a value.

    ``flight_bytes`` were sent but not acknowledged, ``window_bytes`` may be in flight (receive window),
    ``unsent_bytes`` wait in the sender (0: nothing to send), ``acked_bytes`` have arrived since the
    beginning, and ``lost`` counts the retransmissions so far.
    """

    source: Source
    start_s: Floats
    lasts_s: Floats
    flight_bytes: Floats
    window_bytes: Floats
    unsent_bytes: Floats
    rtt_s: Floats
    acked_bytes: Floats
    lost: Floats
    recovery: Bools
    held_small: Bools
    """Less than a segment waits for the ACK of an earlier one."""
    flat: Bools
    """The flight follows the ACKs, and no longer grows although nothing is lost (captures)."""
    paced: Bools
    """Segments leave evenly, independently of ACKs (captures)."""
    starting: Bools
    """Slow start."""
    timing_out: Bools
    """The sender waits for a retransmission time-out (captures)."""
    cwnd_room_bytes: Floats
    buffer_fill: Floats
    """Greatest share of the send buffer in use in the last round trip; 0 if it does not block the writer."""
    pacing_bytes_per_s: Floats
    estimate_bytes_per_s: Floats
    """The congestion control's estimate of the path's capacity (BBR)."""
    unread_bytes: Floats
    """Unread data at the receiver."""
    cpu_wait: Floats
    """Share of the time that the receiving thread waited for a CPU."""
    asked: Floats | None = None
    """Share of each piece in which the sender's next data waits for data of the receiver (captures)."""
    queue_s: Floats | None = None
    """How long data waits on its way to the receiver; None if only round trips are known."""
    back_s: Floats | None = None
    """How long ACKs wait on their way back; None if the two directions cannot be told apart."""
    marks: Floats | None = None
    """Congestion marks (ECN) that the receiver reported so far: segments, or, in captures, ACKs."""
    begun_ns: float = 0.0
    """When the first piece begins, by the clock of the capture; 0 for other sources."""

    @cached_property
    def seconds(self) -> float:
        return float(self.lasts_s.sum())

    @property
    def steady_flight_bytes(self) -> Floats:
        """``flight_bytes``; of a kernel without single samples that were taken while ACKs came in a bunch."""
        if self.source != "kernel":
            return self.flight_bytes
        around = np.pad(self.flight_bytes, NEIGHBOURS, mode="edge")
        return np.median(np.lib.stride_tricks.sliding_window_view(around, 2 * NEIGHBOURS + 1), axis=1)

    def settled(self) -> Bools:
        """Where a kernel's mean of round trips follows the data in flight.

        It lags behind a queue that grows, and contains trips of the last recovery.
        """
        usual_s = weighted_quantile(self.rtt_s, self.lasts_s, 0.5)
        calm = np.asarray(~(recent_most(self.recovery.astype(np.float64), self.lasts_s, usual_s) > 0))
        return calm & ~self.starting if (calm & ~self.starting).any() else calm

    def waits_without_flight(self, counts: Bools, full: Bools, capacity: float, least_s: float) -> bool:
        """Whether round trips were as long before enough was in flight for a queue, as hosts delay ACKs."""
        early = counts & (np.arange(len(counts)) < int(np.argmax(full)))
        early &= self.flight_bytes < EMPTY * capacity * least_s
        if self.lasts_s[early].sum() < EARLY_TRIPS * least_s:
            return False
        before, later = (
            weighted_quantile(self.rtt_s, np.where(part, self.lasts_s, 0.0), 0.5)
            for part in (early, counts & full)
        )
        return before - least_s > FULL * (later - least_s) > 0

    def rates(self, amount: Floats, trips: float = 1.0) -> Floats:
        """How much ``amount`` grows per second around each piece, over about ``trips`` round trips."""
        return rates(self.start_s, self.lasts_s, amount, self._rate_s * trips)

    @cached_property
    def _rate_s(self) -> float:
        return rate_window(self.lasts_s, median(self.rtt_s))

    def knows(self, name: str) -> bool:
        """Whether the source shows any value of a column."""
        return bool(np.isfinite(getattr(self, name)).any())


@dataclass(frozen=True)
class TransferFacts:
    """Facts about the whole transfer; None for what is not known."""

    mss_bytes: int
    min_rtt_s: float
    data_bytes: int
    segments: int
    retransmitted: int
    spurious: int
    """How many of these the receiver reported as needless."""
    reordered: int
    """How often reordering was seen."""
    data_s: float | None = None
    """From the first data to the last; None: what the timeline spans."""
    sent_bytes: int | None = None
    """All payload, repetitions included; None if it is not known."""
    header_bytes: float | None = None
    """What a packet has beside its payload; None if it is not known."""
    early: int = 0
    """How many came again too early, or for no visible reason, to be retransmissions (captures)."""
    fast: int | None = None
    """How many retransmissions duplicate ACKs or SACK had asked for; None if the source does not tell."""
    duplicate_acks: int | None = None
    sack_blocks: int | None = None
    window_scaling: bool | None = None
    sack: bool | None = None
    timestamps: bool | None = None
    offered_mss_bytes: int | None = None
    pacing: str | None = None
    """What sets a pace: the name of the congestion control, or ``the socket``."""
    pacing_limit_bytes_per_s: float | None = None
    """The limit of the socket (``SO_MAX_PACING_RATE``)."""
    counters: Mapping[str, float] | None = None
    """The kernel's counters as shares: ``application``, ``receiver``, ``send_buffer``, ``network``."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By option, who did not offer it: ``the sender`` or ``the receiver`` (captures)."""
    between: PathEvidence | None = None
    """What captures at both ends show together."""
    timeouts: Timeouts | None = None
    """The sender's retransmission time-outs (captures)."""
    policer: Policer | None = None
    """What dropped the sender's segments (captures at the sender)."""
    drain: Drain | None = None
    """What arrived evenly (captures at the receiver)."""
    blur_s: float = 0.0
    """How exactly it is known when ACKs reached the sender; 0 where that is seen."""
    rtt_origin: str = ""
    """What shows the round trips, as a phrase; empty if nothing does (captures)."""
    place_known: bool = True
    """Whether it is certain where the packets were captured."""
    flaw: str | None = None
    """Why the source shows nothing of what limited the transfer, as a clause; None if it does (captures)."""
    syns: int = 0
    """How many SYNs opened the connection; 0 if that is not known (captures)."""
    opening_s: float | None = None
    """From the first of these to the packet that answered the SYN/ACK, if there was more than one."""
    unanswered_s: float = 0.0
    """How long the sender went on at the end although nothing came back any more (captures)."""
    unread_s: float = 0.0
    """How long the receiver still read after the last data what its buffer held (captures)."""
    window_before_bytes: float = 0.0
    """The largest receive window before the timeline begins."""
    siblings: int = 0
    """Connections of the same test that send in the same direction at the same time."""
    asks: int = 0
    """How often the sender's data went on only after the receiver had sent some (captures)."""
    misplaced_sacks: int = 0
    """SACK blocks of the receiver that cover what was never sent (captures)."""

    @property
    def segment_bytes(self) -> float:
        """The mean payload of a segment; 0 without any."""
        sent = self.data_bytes if self.sent_bytes is None else self.sent_bytes
        return sent / self.segments if self.segments else 0.0


def least_room(window_bytes: Floats, mss_bytes: float) -> Floats:
    """By piece: the room in a receiver's window, in bytes, below which a sender waits.

    A sender does not send less than a segment into a window, unless it is half of the largest window seen so
    far (RFC 9293, 3.8.6.2.1): a window of hardly more than one segment is not full with a small message.
    """
    # Of a window whose scale is not known, only that it is closed.
    most = np.maximum.accumulate(np.where(np.isfinite(window_bytes), window_bytes, 0.0))
    return np.where(most > 0, np.minimum(mss_bytes, most / 2), mss_bytes)


def median(values: Floats) -> float:
    """The median of what is finite; NaN without any."""
    from weirlab import _engine

    return _engine.finite_median(values)


def rate_window(lasts_s: Floats, rtt_s: float) -> float:
    """The time over which rates are computed, s: about a round trip."""
    return float(np.fmax(max(2 * median(lasts_s), SHORTEST_WINDOW_S), rtt_s))


def rates(start_s: Floats, lasts_s: Floats, amount: Floats, within_s: float) -> Floats:
    """How much ``amount`` grows per second around each piece, over ``within_s``.

    What a piece shows was acknowledged before it began.
    """
    from weirlab import _engine

    return _engine.rates(start_s, lasts_s, np.asarray(amount, dtype=np.float64), within_s / 2)


def recent_most(values: Floats, lasts_s: Floats, within_s: float) -> Floats:
    """For each piece, the greatest value of the last ``within_s``."""
    if len(values) == 0:
        return values
    usual = max(float(np.median(lasts_s)), 1e-6)
    count = int(np.clip(np.ceil(within_s / usual), 1, 256))
    padded = np.concatenate([np.full(count - 1, -np.inf), np.where(np.isfinite(values), values, -np.inf)])
    most = np.lib.stride_tricks.sliding_window_view(padded, count).max(axis=1)
    return np.where(np.isfinite(most), most, np.nan)


def weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """The value below which ``share`` of the weights lie; NaN without values."""
    from weirlab import _engine

    return _engine.weighted_quantile(values, weights, share)


def lasting(mask: Bools, lasts_s: Floats, least_s: float) -> Bools:
    """``mask``, restricted to where it is True for at least ``least_s`` in a row."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], mask, [False]]).astype(np.int8)))
    kept = np.zeros(len(mask), dtype=bool)
    for first, behind in zip(edges[::2], edges[1::2], strict=True):
        if lasts_s[first:behind].sum() >= least_s:
            kept[first:behind] = True
    return kept
