"""One trial with what the host did and what callers heard, and its summary for models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt

from weirlab.base.quantities import percent
from weirlab.records.result import F64, U64, EngineResult, WholeTrialResult
from weirlab.records.spec import TrialSpec

if TYPE_CHECKING:
    import polars as pl


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
