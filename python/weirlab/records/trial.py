"""One trial: what it does, what the host did, what callers heard, and its summary for models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from weirlab.base.documents import SPARSE
from weirlab.base.errors import InputError
from weirlab.base.quantities import percent
from weirlab.records.result import F64, U64, DividedLoss, EngineResult, WholeTrialResult
from weirlab.traffic.places import Places, mean_position, validate
from weirlab.traffic.spec import Traffic

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class RuleSetup:
    """What the device under test is to do with the test traffic.

    ``position`` is the matching position: the 1-based place of the rule that accepts
    the test traffic; 0 means no filter rules at all. ``stateful`` puts connection
    tracking in front. If rules at several positions accept a share of the traffic
    each, ``places`` says where and how much, and ``position`` is the last of them: make
    such a setup with :meth:`mixed`.
    """

    position: int = 0
    stateful: bool = False
    places: Places = field(default=(), metadata=SPARSE)
    both_ways: bool = field(default=False, metadata=SPARSE)
    """Traffic comes from both sides, and the accepting rule matches it in either direction."""
    answered: bool = field(default=False, metadata=SPARSE)
    """Packets of known connections are accepted first, and those of answers with them."""
    networks: tuple[str, ...] = field(default=(), metadata=SPARSE)
    """What the accepting rule matches instead of test traffic, as source and as destination: one network per
    IP version."""

    def __post_init__(self) -> None:
        """Raise ``InputError`` for places that cannot be set up."""
        validate(self.places)
        if self.places and self.places[-1][0] != self.position:
            raise InputError(
                f"matching position {self.position} must be the last of the places {self.places}; "
                "RuleSetup.mixed ensures that"
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
        """Mean matching position of the packets, not counting steps."""
        return mean_position(self.places) if self.places else float(self.position)

    @property
    def accepting(self) -> tuple[int, ...]:
        """Positions of the rules that accept test traffic, ascending; empty without rules."""
        if self.places:
            return tuple(position for position, _ in self.places)
        return (self.position,) if self.position else ()


@dataclass(frozen=True)
class TrialSpec:
    """One trial: this traffic through a device with this setup.

    With ``cross_traffic`` a management session is open meanwhile: a monitoring system queries
    the device's counters and rules, which adds work for the device's CPU.
    """

    traffic: Traffic
    rules: RuleSetup = RuleSetup()
    label: str = ""
    cross_traffic: bool = False

    @property
    def mean_position(self) -> float:
        """Rules with which a packet is compared on average; with none if it belongs to a known connection,
        since a rule in front accepts it. Not counting steps."""
        flows = self.traffic.flows
        return self.rules.mean_position * (flows.new_share if flows.answered else 1.0)

    def to_json(self) -> dict[str, Any]:
        """The fields, with what a reader looks for first at the top."""
        return {
            "label": self.label,
            "rules": self.rules,
            "traffic": self.traffic,
            "cross_traffic": self.cross_traffic,
        }


ESTABLISHED: Final = "established_packets"
"""Counter of a device: packets that its rules for known connections accepted."""

REFUSED: Final = "tx_refused"
"""Counter of frames that the sending port did not take."""
TABLE_FULL: Final = "connections_dropped"
"""Counter of a device: connections refused or given up because the kernel's table of them was full."""

MET_TOLERANCE: Final = 0.5
MET_SHARE: Final = 0.01
"""How far the rules that packets met may be from what was expected: stray packets are counted, too."""
MATCHED_RATIO: Final = 0.99


@dataclass(frozen=True)
class CallTable:
    """What was heard: one row per call and direction with media, shapes (rows,).

    Ratios are 0-1; NaN means not measured (no delay if nothing arrived, no burst ratio if
    nothing was lost). ``late`` packets came after their play-out time, so the jitter buffer
    discarded them. Names that end in ``_fixed`` and ``_adaptive`` belong to that kind of
    jitter buffer; ``r_factor`` and ``mos`` are those of the better one.
    """

    call: U64
    back: npt.NDArray[np.bool_]
    """False if the sender's side talks."""
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
class RuleEncounters:
    """How many of the user's own rules packets met, by the kernel's counters, beside what Weir expected."""

    expected: float | None
    """Rules with which each packet is compared, derived from the rules; None for packets of many kinds."""
    met: float | None
    """Rules with which a packet was compared on average; None if they could not be counted."""
    matched_ratio: float | None
    """Share of the packets that met their verdict at the rule that they were to meet; None if not counted."""
    counted_in: Literal["device", "copy"]
    """Where ``met`` was counted: in the device during the trial, or with a few packets in a copy of its
    rules. ``matched_ratio`` is counted in the device if the rule has a counter there."""

    @property
    def contradiction(self) -> str:
        """What the counters say against the expectation, as a clause; empty if they do not."""
        parts = []
        if self._missed:
            assert self.matched_ratio is not None
            parts.append(f"{percent(self.matched_ratio)} of the packets met the rule that all were to meet")
        if self.met is not None and self.expected is not None:
            off = abs(self.met - self.expected)
            if off > max(MET_TOLERANCE, MET_SHARE * self.expected):
                parts.append(f"a packet met {self.met:,.1f} rules, not {self.expected:,.0f}")
        return " and ".join(parts)

    @property
    def _missed(self) -> bool:
        if self.matched_ratio is None:
            return False
        # Packets of calls are of several kinds, and go both ways.
        return self.matched_ratio == 0 if self.expected is None else self.matched_ratio < MATCHED_RATIO


@dataclass(frozen=True)
class HostSample:
    """What the host did during a trial.

    ``cpu_s`` maps a role (``sender``, ``dut``) to seconds per state (``user, nice, system,
    irq, softirq, steal, idle, iowait``) on that role's core. ``None`` if the machine
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
    """Factor by which that changed during the trial; 1 or more."""
    management_s: float | None = None
    """CPU time of the management session, which the device may have waited for; None without one."""
    inside_ns: tuple[int, ...] | None = None
    """When the device's own monitoring, which is such a session, looked around; None if not known."""


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
    """What callers heard, if calls were sent."""
    disturbed: WholeTrialResult | None = None
    """The result including left-out bins, if there are any."""
    rules_met: RuleEncounters | None = None
    """Of the user's own rules."""
    dropped_pps: float | None = None
    """Rate at which the rule dropped packets that all were to meet; None if it accepts them."""
    tables: Mapping[str, pl.DataFrame] = field(default_factory=dict)
    """Rows for this trial in a study's own tables, by table; kept together with it."""

    @property
    def valid(self) -> bool:
        return not self.invalid

    @property
    def loss(self) -> DividedLoss:
        rest, whole = self.result, self.disturbed
        if whole is None:
            return DividedLoss(sent=rest.sent, lost=rest.lost)
        lost = whole.sent - whole.received
        return DividedLoss(
            sent=whole.sent, lost=lost, disturbed_sent=whole.sent - rest.sent, disturbed_lost=lost - rest.lost
        )


@dataclass(frozen=True)
class Observation:
    """The summary of one valid trial that models are fitted to.

    ``position`` is the mean matching position, ``frame_bytes`` the mean frame size, and
    ``gap_scv`` the squared coefficient of variation of the gaps between arrivals (0:
    constant, 1: Poisson). ``packets`` were received. NaN means not measured.
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
