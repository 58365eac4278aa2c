"""What sender and receiver counted in one trial."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.traffic.plan import CallFlows

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

Backend = Literal["xdp", "af_packet", "sim", "tcp"]

BACKLOG_SHARE: Final = 0.01
"""A backlog that takes a smaller share of the recorded time cannot be told from scatter."""
LOW: Final = 0.01
"""Quantile of the delays before a queue grew."""


@dataclass(frozen=True)
class FlowTable:
    """Per-flow results; every array has one element per flow, in flow order.

    ``delay_min_ns``, ``delay_mean_ns``, ``delay_max_ns``, ``jitter_ns`` (RFC 3550) and
    ``longest_gap_ns`` are NaN if nothing, or too little, was received.
    ``reordered`` counts in the sense of RFC 4737.
    """

    sent: U64
    received: U64
    lost: U64
    duplicated: U64
    reordered: U64
    delay_min_ns: F64
    delay_mean_ns: F64
    delay_max_ns: F64
    jitter_ns: F64
    longest_gap_ns: F64


@dataclass(frozen=True)
class PacketLog:
    """Every probe that departed in the recorded window and arrived, copies included.

    One row per arrival, shapes (arrivals,), in order of arrival within each direction. Times are
    CLOCK_MONOTONIC ns. ``seq`` counts within the flow from 0, warm-up included; ``first_seq``,
    one element per flow, is the first recorded one, so that the recorded packets of flow ``f``
    are ``first_seq[f] .. first_seq[f] + FlowTable.sent[f] - 1``. ``missed`` arrivals found no
    room in the log: if it is not 0, the log is incomplete and says nothing about loss.
    """

    flow: npt.NDArray[np.uint32]
    seq: npt.NDArray[np.uint32]
    sent_ns: U64
    arrival_ns: U64
    first_seq: U64
    call_flows: CallFlows
    missed: int = 0


@dataclass(frozen=True)
class Series:
    """Time series in bins of equal width, binned by departure time from the start of recording."""

    bin_ns: int
    sent: U64
    received: U64
    delay_mean_ns: F64
    delay_max_ns: F64


@dataclass(frozen=True)
class SchedulerCounters:
    """The scheduler's counters as the sender read them: at its first packet, at the first one of every
    bin, and at the end; shapes (bins + 2,) or (bins + 2, threads).

    ``at_ns`` is 0 if no packet departed, and nothing else is known then. ``sender_stolen_ns`` and
    ``device_stolen_ns`` are what the hypervisor had taken from their CPUs, the latter up to
    ``device_clock_ns`` by the scheduler's clock; ``ran_ns`` and ``waited_ns`` are how long each thread of
    the device had had its CPU, and waited for it. Source: ``bpf/look.h``.
    """

    at_ns: U64
    sender_stolen_ns: U64
    device_stolen_ns: U64
    device_clock_ns: U64
    ran_ns: U64
    waited_ns: U64


@dataclass(frozen=True)
class BinDetails:
    """Further values of each bin of the series, so that some bins can be left out; shapes (bins,).

    ``delay_sum_ns`` and ``delay_min_ns`` are of its packets, the latter 0 without any; ``ipdv_sum_ns`` sums
    ``ipdv_count`` differences of RFC 3550 between them and the packets before them in their flows;
    ``late_max_ns`` is the sender's. The sender glanced ``glances`` times at the device's CPU, and ``others``
    times found work there that is not the device's. The histogram of bin ``i`` lies between ``end[i - 1]``
    and ``end[i]`` of ``lower_ns``, ``upper_ns`` and ``count``, shapes (filled buckets,).
    """

    delay_sum_ns: U64
    delay_min_ns: U64
    ipdv_sum_ns: U64
    ipdv_count: U64
    late_max_ns: U64
    glances: U64
    others: U64
    lower_ns: U64
    upper_ns: U64
    count: U64
    end: U64
    looks: SchedulerCounters | None
    """None if the host could not be observed."""


@dataclass(frozen=True)
class Histogram:
    """Delay histogram: bucket ``i`` counts ``lower_ns[i] <= delay < upper_ns[i]``; empty buckets left out.

    Buckets are at most 1 % wide (exact below 128 ns) up to beyond 10 s.
    """

    lower_ns: U64
    upper_ns: U64
    count: U64

    def within(self, least_ns: float, greatest_ns: float) -> Histogram:
        """The same counts, the outermost buckets bounded by the least and the greatest delay that they count,
        whole numbers of ns: no quantile lies beyond them by more than 1 ns. NaN if nothing arrived."""
        lower_ns, upper_ns = self.lower_ns.copy(), self.upper_ns.copy()
        if len(self.count) and not math.isnan(least_ns + greatest_ns):
            # The last bucket of all also counts everything longer.
            lower_ns[0], upper_ns[-1] = max(int(lower_ns[0]), int(least_ns)), int(greatest_ns) + 1
        return replace(self, lower_ns=lower_ns, upper_ns=upper_ns)

    def quantile_ns(self, q: float) -> float:
        """Delay in ns at quantile ``q`` (0-1), interpolated inside its bucket; NaN when empty."""
        total = float(self.count.sum())
        if total == 0:
            return float("nan")
        cumulative = np.cumsum(self.count, dtype=np.float64)
        target = q * total
        i = min(int(np.searchsorted(cumulative, target, side="left")), len(cumulative) - 1)
        before = float(cumulative[i]) - float(self.count[i])
        share = (target - before) / float(self.count[i])
        low, high = float(self.lower_ns[i]), float(self.upper_ns[i])
        return low + min(max(share, 0.0), 1.0) * (high - low)

    @property
    def deviation_ns(self) -> float:
        """Standard deviation of the delays, each taken for the middle of its bucket; NaN when empty."""
        total = float(self.count.sum())
        if total == 0:
            return float("nan")
        middle = (self.lower_ns.astype(np.float64) + self.upper_ns.astype(np.float64)) / 2
        mean = float(np.average(middle, weights=self.count))
        return math.sqrt(float(np.average((middle - mean) ** 2, weights=self.count)))


@dataclass(frozen=True)
class BinSpan:
    """Whole bins, from the start of recording, and why they do not count."""

    begin_ns: int
    end_ns: int
    why: str


@dataclass(frozen=True)
class WholeTrialResult:
    """The result of a trial with the bins that were left out."""

    sent: int
    received: int
    delay_mean_ns: float
    delay_p99_ns: float

    @property
    def loss_ratio(self) -> float:
        return (self.sent - self.received) / self.sent if self.sent else float("nan")


@dataclass(frozen=True, kw_only=True)
class DividedLoss:
    """Packets lost, in all and in the bins that the host disturbed; None where the host was not looked at.

    That the host lost those is not proven: a device in overload loses packets there, too.
    """

    sent: int
    lost: int
    disturbed_sent: int | None = 0
    disturbed_lost: int | None = 0

    @property
    def ratio(self) -> float:
        return self.lost / self.sent if self.sent else math.nan

    @property
    def disturbed_share(self) -> float:
        """Share of the lost packets that departed in disturbed bins; NaN where not known or none was lost."""
        if self.disturbed_lost is None or not self.lost:
            return math.nan
        return self.disturbed_lost / self.lost

    @property
    def rest_ratio(self) -> float:
        """Loss ratio in the other bins; NaN where not known, or there are none."""
        if self.disturbed_lost is None or self.disturbed_sent is None or self.sent <= self.disturbed_sent:
            return math.nan
        return (self.lost - self.disturbed_lost) / (self.sent - self.disturbed_sent)


@dataclass(frozen=True)
class AnswerResult:
    """Answers to test packets, which the device carries back; recorded ones, unless it says otherwise."""

    sent: int
    received: int
    delay_min_ns: float
    delay_mean_ns: float
    delay_max_ns: float
    histogram: Histogram
    open_flows: int
    """Known flows of which an answer came back, at any time."""
    known_flows: int
    """Those that share the load with new ones; 0 if all packets open flows."""
    established_sent: int
    """Packets of the whole trial, in both directions, that connection tracking has to find in a known
    connection, if none of them is lost."""

    @property
    def delay_p99_ns(self) -> float | None:
        return self.histogram.quantile_ns(0.99) if self.received else None


@dataclass(frozen=True)
class EngineResult:
    """What sender and receiver counted in the recorded part of one trial.

    Times are CLOCK_MONOTONIC ns; ``sent`` and everything below it refer to packets that
    departed between ``record_start_ns`` and ``record_end_ns``. ``slipped_ns`` is how far
    the sender was behind its schedule at the end (after a stall it sends slightly faster
    for a while instead of in a burst). ``stray`` counts frames at the
    receiver that are not probes of this trial, ``receiver_dropped`` those that its socket
    had no room for.
    """

    backend: Backend
    xdp_mode: str
    record_start_ns: int
    record_end_ns: int
    sent: int
    sent_warmup: int
    first_departure_ns: int
    last_departure_ns: int
    late_mean_ns: float
    late_max_ns: int
    slipped_ns: int
    received: int
    lost: int
    duplicated: int
    reordered: int
    stray: int
    delay_min_ns: float
    delay_mean_ns: float
    delay_max_ns: float
    jitter_ns: float
    """Mean over all packets of |D| of RFC 3550: what the RFC's smoothed J converges to."""
    longest_gap_ns: float
    last_arrival_ns: int
    first_arrival_ns: int
    histogram: Histogram
    series: Series
    flows: FlowTable
    receiver_dropped: int = 0
    moved: int = 0
    """Packets in another receive queue than the one before them in their flow."""
    arrived: int = 0
    """All probes that arrived; ``received`` are those that departed in the recorded window."""
    packets: PacketLog | None = None
    """Only if calls were sent."""
    windows: BinDetails | None = None
    answers: AnswerResult | None = None
    """Only if flows were answered."""
    left_out: tuple[BinSpan, ...] = ()
    """Bins that the host disturbed and that count only in ``series`` and ``flows``: ``sent``,
    ``received``, delays and jitter are those of the others. ``duplicated``, ``reordered``, ``stray`` and
    ``longest_gap_ns`` cannot be divided and are those of the whole trial."""

    @property
    def left_out_s(self) -> float:
        return sum(span.end_ns - span.begin_ns for span in self.left_out) / 1e9

    @property
    def left_out_ratio(self) -> float:
        """Share of the recorded window."""
        return self.left_out_s * 1e9 / (self.record_end_ns - self.record_start_ns)

    @property
    def record_s(self) -> float:
        """Length of the recorded window, less what was left out."""
        return (self.record_end_ns - self.record_start_ns) / 1e9 - self.left_out_s

    @property
    def achieved_pps(self) -> float:
        """Packets that departed in the recorded window over ``record_s``."""
        return self.sent / self.record_s if self.record_s else float("nan")

    @property
    def forwarding_pps(self) -> float:
        """Packets that arrived, over the time in which the device worked on them.

        Those are the packets sent in the recorded window, over ``record_s``. If the device went on sending
        a backlog, they are all packets of the trial, from its first departure, warm-up included, to the last
        arrival. A device that accepts packets ahead of its work has begun with the recorded ones before it
        sends any of them, and sends faster when there is nothing left to accept: over its output alone, it
        would seem faster than the load that it can carry.
        """
        if not self.record_s:
            return float("nan")
        share = self._backlog_share
        if not share:
            return self.received / self.record_s
        if self.left_out:
            return self.received / self.record_s / (1.0 + share)
        window_ns = self.record_end_ns - self.record_start_ns
        begun_ns = window_ns * (1.0 + self.sent_warmup / self.sent)
        last_ns = self.histogram.quantile_ns(LOW) + share * window_ns
        return self.arrived * 1e9 / (begun_ns + last_ns)

    @property
    def _backlog_share(self) -> float:
        """By how much arrivals lasted longer than departures, as a share of the window.

        0 if only the last packets were late: a stall delays only those. While a queue grows, all delays
        grow, in the end by twice the distance between the lowest values and the median.
        """
        window_ns = self.record_end_ns - self.record_start_ns
        longer_ns = self.last_arrival_ns - self.first_arrival_ns - window_ns
        low_ns, median_ns = (self.histogram.quantile_ns(q) for q in (LOW, 0.5))
        share = min(longer_ns, 2 * (median_ns - low_ns)) / window_ns
        return share if share > BACKLOG_SHARE else 0.0

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent if self.sent else float("nan")


def counts_alone(
    backend: Backend, sent: Sequence[int], received: Sequence[int], first_ns: int, last_ns: int
) -> EngineResult:
    """The result of a trial that counts packets, by flow, between two times; nothing is known of delays."""
    nothing, unknown = np.empty(0, np.uint64), np.full(len(sent), np.nan)
    zeros = np.zeros(len(sent), np.uint64)
    per_flow = {field.name: unknown for field in fields(FlowTable)}
    per_flow |= {"duplicated": zeros, "reordered": zeros}
    per_flow["sent"] = np.array(sent, np.uint64)
    per_flow["received"] = np.array(received, np.uint64)
    per_flow["lost"] = per_flow["sent"] - per_flow["received"]
    nan = float("nan")
    return EngineResult(
        backend=backend,
        xdp_mode="",
        record_start_ns=first_ns,
        record_end_ns=last_ns,
        sent=sum(sent),
        sent_warmup=0,
        first_departure_ns=first_ns,
        last_departure_ns=last_ns,
        late_mean_ns=nan,
        late_max_ns=0,
        slipped_ns=0,
        received=sum(received),
        lost=sum(sent) - sum(received),
        duplicated=0,
        reordered=0,
        stray=0,
        delay_min_ns=nan,
        delay_mean_ns=nan,
        delay_max_ns=nan,
        jitter_ns=nan,
        longest_gap_ns=nan,
        last_arrival_ns=last_ns,
        first_arrival_ns=first_ns,
        histogram=Histogram(nothing, nothing, nothing),
        series=Series(1, nothing, nothing, np.empty(0), np.empty(0)),
        flows=FlowTable(**per_flow),
        arrived=sum(received),
    )
