"""The plain values that travel from the test bed to the report.

Data moves in one direction: a :class:`TrialSpec` says what to do, a test bed answers
with an :class:`EngineResult`, a trial wraps it with what the host did as a
:class:`TrialRecord`; the store keeps records, models read them as
:class:`Observation`. Nothing here does I/O. Units are in the names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from weirlab.documents import SPARSE
from weirlab.errors import InputError
from weirlab.traffic.places import Places, mean_position, validate
from weirlab.traffic.plan import CallFlows
from weirlab.traffic.spec import Traffic

if TYPE_CHECKING:
    import polars as pl

U64 = npt.NDArray[np.uint64]
F64 = npt.NDArray[np.float64]

SLOWEST_UNPACED_PPS: Final = 500_000
"""The XDP sender is faster than this when told to send as fast as possible, unless something holds it
up, such as memory that the host has yet to back."""

SIMULATION: Final = "sim"
"""Name of the lab in which nothing is measured, since its device is simulated."""

Backend = Literal["xdp", "af_packet", "sim", "tcp"]

_DEVICES: Final = {"ruleset": "your ruleset", "none": "the plain cable", "simulated": "the simulated device"}


def device_in_words(dut: str, *, first: bool = False) -> str:
    """What sentences call the device recorded as ``dut``; ``first`` where the sentence begins with it."""
    said = _DEVICES.get(dut, dut)
    return said[:1].upper() + said[1:] if first and dut in _DEVICES else said


@dataclass(frozen=True)
class RuleSetup:
    """What the device under test is to do with the test traffic.

    ``position`` is the matching position: the 1-based place of the rule that accepts
    the test traffic; 0 means no filter rules at all. ``stateful`` puts connection
    tracking in front. Where rules at several positions accept a share of the traffic
    each, ``places`` says where and how much, and ``position`` is the last of them: make
    such a setup with :meth:`mixed`.
    """

    position: int = 0
    stateful: bool = False
    places: Places = field(default=(), metadata=SPARSE)
    both_ways: bool = field(default=False, metadata=SPARSE)
    """Traffic comes from both sides, and the accepting rule matches it in either direction."""

    def __post_init__(self) -> None:
        """Raises ``InputError`` for places that cannot be set up."""
        validate(self.places)
        if self.places and self.places[-1][0] != self.position:
            raise InputError(
                f"matching position {self.position} must be the last of the places {self.places}; "
                "RuleSetup.mixed sees to it"
            )
        if self.places and self.both_ways:
            raise InputError(
                "traffic of both sides cannot match at several positions: the rules tell the positions apart "
                "by destinations behind the device; choose one position, or one direction"
            )

    @classmethod
    def mixed(cls, places: Places, stateful: bool = False) -> Self:
        """Rules at several positions that accept a share of the traffic each."""
        validate(places)
        return cls(places[-1][0] if places else 0, stateful, places)

    @property
    def mean_position(self) -> float:
        """Mean matching position of the packets, steps left aside."""
        return mean_position(self.places) if self.places else float(self.position)

    @property
    def accepting(self) -> tuple[int, ...]:
        """Positions of the rules that accept test traffic, ascending; empty without rules."""
        if self.places:
            return tuple(position for position, _ in self.places)
        return (self.position,) if self.position else ()


@dataclass(frozen=True)
class TrialSpec:
    """One trial: this traffic through a device that is set up like this.

    With ``cross_traffic`` a management session is open meanwhile: a monitoring system that
    asks the device for its counters and rules, and whose work the device's CPU does as well.
    """

    traffic: Traffic
    rules: RuleSetup = RuleSetup()
    label: str = ""
    cross_traffic: bool = False

    def to_json(self) -> dict[str, Any]:
        """What a reader looks for first stands first."""
        return {
            "label": self.label,
            "rules": self.rules,
            "traffic": self.traffic,
            "cross_traffic": self.cross_traffic,
        }


@dataclass(frozen=True)
class FlowTable:
    """Per-flow results; every array has one element per flow, in flow order.

    ``delay_min_ns``, ``delay_mean_ns``, ``delay_max_ns``, ``jitter_ns`` (RFC 3550) and
    ``longest_gap_ns`` are NaN where nothing, or too little, was received.
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
    """Every probe that arrived, copies included, if it departed in the recorded window.

    One row per arrival, shapes (arrivals,), in order of arrival within each direction. Times are
    CLOCK_MONOTONIC ns. ``seq`` counts within the flow from 0, warm-up included; ``first_seq``,
    one element per flow, is the first recorded one, so that the recorded packets of flow ``f``
    are ``first_seq[f] .. first_seq[f] + FlowTable.sent[f] - 1``. ``missed`` arrivals found no
    room in the log: where it is not 0 the log is incomplete and says nothing about loss.
    """

    flow: npt.NDArray[np.uint32]
    seq: npt.NDArray[np.uint32]
    sent_ns: U64
    arrival_ns: U64
    first_seq: U64
    call_flows: CallFlows
    missed: int = 0


@dataclass(frozen=True)
class CallTable:
    """What was heard: one row per call and direction with media, shapes (rows,).

    Ratios are 0-1; NaN where it was not measured (no delay where nothing arrived, no burst ratio
    where nothing was lost). ``late`` packets came after their time to be played out, so the
    jitter buffer threw them away. Everything that ends in ``_fixed`` and ``_adaptive`` belongs to
    that kind of jitter buffer; ``r_factor`` and ``mos`` are those of the better one.
    """

    call: U64
    back: npt.NDArray[np.bool_]
    """False: the sender's side talks."""
    call_class: npt.NDArray[np.int64]
    """Index into ``Calls.classes``."""
    sent: U64
    received: U64
    lost: U64
    duplicated: U64
    reordered: U64
    loss_runs: U64
    """Unbroken runs of lost packets."""
    longest_run: U64
    burst_ratio: F64
    """BurstR of ITU-T G.107: mean length of a loss run over what random loss would give."""
    delay_min_ns: F64
    delay_mean_ns: F64
    delay_p50_ns: F64
    delay_p95_ns: F64
    delay_p99_ns: F64
    delay_max_ns: F64
    jitter_ns: F64
    """Mean over the packets of the RFC 3550 estimate."""
    jitter_max_ns: F64
    longest_gap_ns: F64
    """Longest time between arrivals."""
    late_fixed: U64
    playout_fixed_ns: F64
    """From speaking to hearing: packet, network, jitter buffer."""
    mos_fixed: F64
    late_adaptive: U64
    playout_adaptive_ns: F64
    mos_adaptive: F64
    r_factor: F64
    mos: F64

    def __len__(self) -> int:
        return len(self.call)


@dataclass(frozen=True)
class Series:
    """Time series in bins of equal width, binned by departure time from the start of recording."""

    bin_ns: int
    sent: U64
    received: U64
    delay_mean_ns: F64
    delay_max_ns: F64


@dataclass(frozen=True)
class Looks:
    """What the scheduler had counted when the sender looked: at its first packet, at the first one of
    every bin, and at the end; shapes (bins + 2,) or (bins + 2, threads).

    ``at_ns`` is 0 where no packet departed, and nothing else is known then. ``sender_stolen_ns`` and
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
class Windows:
    """What each bin of the series has besides, so that some of them can be left out; shapes (bins,).

    ``delay_sum_ns`` and ``delay_min_ns`` are of its packets, the latter 0 without any; ``ipdv_sum_ns`` sums
    ``ipdv_count`` differences of RFC 3550 between them and the packets before them in their flows;
    ``late_max_ns`` is the sender's. The histogram of bin ``i`` lies between ``end[i - 1]`` and ``end[i]``
    of ``lower_ns``, ``upper_ns`` and ``count``, shapes (filled buckets,).
    """

    delay_sum_ns: U64
    delay_min_ns: U64
    ipdv_sum_ns: U64
    ipdv_count: U64
    late_max_ns: U64
    lower_ns: U64
    upper_ns: U64
    count: U64
    end: U64
    looks: Looks | None
    """None where nobody could look."""


@dataclass(frozen=True)
class Histogram:
    """Delay histogram: bucket ``i`` counts ``lower_ns[i] <= delay < upper_ns[i]``; empty buckets left out.

    Buckets are at most 1 % wide (exact below 128 ns) up to beyond 10 s.
    """

    lower_ns: U64
    upper_ns: U64
    count: U64

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


@dataclass(frozen=True)
class Span:
    """Whole bins, from the start of recording, and why they do not count."""

    begin_ns: int
    end_ns: int
    why: str


@dataclass(frozen=True)
class Disturbed:
    """What a trial would say with the bins that were left out."""

    sent: int
    received: int
    delay_mean_ns: float
    delay_p99_ns: float

    @property
    def loss_ratio(self) -> float:
        return (self.sent - self.received) / self.sent if self.sent else float("nan")


@dataclass(frozen=True)
class EngineResult:
    """What sender and receiver counted in the recorded part of one trial.

    Times are CLOCK_MONOTONIC ns; ``sent`` and everything below it refer to packets that
    departed between ``record_start_ns`` and ``record_end_ns``. ``slipped_ns`` is how far
    the sender was behind its schedule at the end (after a stall it sends slightly faster
    for a while instead of a burst that nobody asked for). ``stray`` counts frames at the
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
    arrived: int = 0
    """Probes that arrived in all; ``received`` are those that departed while it was recorded."""
    packets: PacketLog | None = None
    """Only where calls were sent."""
    windows: Windows | None = None
    left_out: tuple[Span, ...] = ()
    """Bins that the host disturbed and that count nowhere but in ``series`` and ``flows``: ``sent``,
    ``received``, delays and jitter are of the others. ``duplicated``, ``reordered``, ``stray`` and
    ``longest_gap_ns`` cannot be divided and are those of the whole trial."""

    @property
    def left_out_s(self) -> float:
        return sum(span.end_ns - span.begin_ns for span in self.left_out) / 1e9

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
        """Forwarding rate: packets sent in the recorded window that arrived, over ``record_s``."""
        return self.received / self.record_s if self.record_s else float("nan")

    @property
    def loss_ratio(self) -> float:
        return self.lost / self.sent if self.sent else float("nan")


@dataclass(frozen=True)
class HostSample:
    """What the host did during a trial.

    ``cpu_s`` maps a role (``sender``, ``dut``) to seconds per state (``user, nice, system,
    irq, softirq, steal, idle, iowait``) on that role's core. ``None`` where the machine
    does not expose a value.
    """

    wall_s: float
    cpu_s: dict[str, dict[str, float]]
    frequency_mhz: float | None = None
    temperature_c: float | None = None
    memory_used_bytes: int | None = None
    softnet_dropped: int = 0
    softnet_squeezed: int = 0
    dut_wait_s: float | None = None
    """Time that the device was ready to run while something else had its CPU."""
    handover_ns: float | None = None
    """Time for a cache line to pass from the sender's CPU to the device's and back."""
    handover_change: float = 1.0
    """By which factor that changed during the trial; 1 or more."""
    management_s: float | None = None
    """CPU time of the management session, which the device may have waited for; None without one."""


@dataclass(frozen=True)
class TrialRecord:
    """One trial as kept in the store. ``invalid`` holds the reasons; empty means valid."""

    trial_id: str
    run_id: str
    index: int
    attempt: int
    started_at: str
    spec: TrialSpec
    lab: str
    dut: str
    offered_pps: float
    """Nominal offered load, averaged over the recorded window."""
    result: EngineResult
    host: HostSample
    dut_counters: dict[str, int] = field(default_factory=dict)
    invalid: tuple[str, ...] = ()
    role: Literal["profile", "verify", "single", "calibrate", "search", "calls"] = "single"
    calls: CallTable | None = None
    """What callers heard, where calls were sent."""
    disturbed: Disturbed | None = None
    """Where bins were left out: the result with them."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Rows that a study's own tables have of this trial, by table; kept together with it."""

    @property
    def valid(self) -> bool:
        return not self.invalid


@dataclass(frozen=True)
class Observation:
    """What a model sees of one valid trial.

    ``position`` is the mean matching position, ``frame_bytes`` the mean frame size, and
    ``gap_scv`` the squared coefficient of variation of the gaps between arrivals (0:
    constant, 1: Poisson). ``packets`` were received. NaN stands for what was not measured.
    """

    rate_pps: float
    frame_bytes: float
    position: float
    forwarding_pps: float
    loss_ratio: float
    delay_mean_ns: float
    delay_p50_ns: float
    delay_p90_ns: float
    delay_p99_ns: float
    jitter_ns: float
    extra: dict[str, Any] = field(default_factory=dict)
    delay_p999_ns: float = float("nan")
    gap_scv: float = 0.0
    stateful: bool = False
    cross_traffic: bool = False
    packets: int = 0
