"""What happened to the frames on an emulated link, and whether the emulator kept up."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.base.errors import LabError, WeirError
from weirlab.base.quantities import bit_rate, duration
from weirlab.records import Histogram

COUNTED = (
    "arrived", "arrived_bytes", "departed", "departed_bytes", "lost", "dropped_full", "dropped_early",
    "duplicated", "held_back", "held", "queued", "sent", "sent_bytes", "not_received", "too_long",
    "no_memory", "refused", "unfinished",
)  # fmt: skip
"""What the engine counts in each direction, by the field names of ``Direction``."""

LATE_NS: Final = 1_000_000
"""A frame that leaves later than this after its time was not handled as configured."""
RATE_TOLERANCE: Final = 0.02
_RATE_NS: Final = 100_000_000
"""Frames must have waited for this long in all before their rate is judged."""


@dataclass(frozen=True)
class Direction:
    """Frames that arrived on ``source`` and should leave through ``target``."""

    source: str
    target: str
    rate_bps: float | None
    """Configured rate; None without a constant rate."""
    arrived: int
    arrived_bytes: int
    departed: int
    departed_bytes: int
    lost: int
    """Lost as configured."""
    dropped_full: int
    """The emulated queue had no room."""
    dropped_early: int
    """By RED or CoDel."""
    duplicated: int
    held_back: int
    """Reordered."""
    held: int
    """Still on the link, in its queue or under way."""
    queued: int
    """Those of ``held`` that are in the queue."""
    sent: int
    """Handed to the kernel."""
    sent_bytes: int
    not_received: int
    """Arrived faster than the emulator could take them."""
    too_long: int
    """Longer than the interface's MTU: segments that a sender left to its hardware."""
    no_memory: int
    refused: int
    """The interface did not take them."""
    refused_reason: str
    unfinished: int
    """Forwarded, but without the checksum that the sender left to its hardware."""
    late: Histogram
    """How much later than due frames were handed to the kernel; behind a device, also how much sooner."""
    late_max_ns: int
    paced_bits: int
    paced_ns: int
    paced_bursts: int = 0

    @property
    def gone(self) -> int:
        """Frames lost or dropped as configured."""
        return self.lost + self.dropped_full + self.dropped_early

    @property
    def not_kept(self) -> int:
        """Frames that the emulator itself lost."""
        return self.not_received + self.too_long + self.no_memory + self.refused

    @property
    def adds_up(self) -> bool:
        """Whether every frame that arrived or was duplicated is accounted for exactly once."""
        ends = self.sent + self.refused + self.lost + self.dropped_full + self.dropped_early + self.held
        return self.arrived + self.duplicated == ends

    def late_ns(self, q: float) -> float:
        """Quantile ``q`` of the frames' lateness; NaN if none were sent."""
        return self.late.quantile_ns(q)

    @property
    def carried_bps(self) -> float:
        """Bit rate while frames waited, from the times at which they left; NaN if none had to wait."""
        return self.paced_bits * 1e9 / self.paced_ns if self.paced_ns else math.nan

    @property
    def rate_error(self) -> float:
        """Relative deviation of ``carried_bps`` from the configured rate; NaN if unknown."""
        return self.carried_bps / self.rate_bps - 1 if self.rate_bps else math.nan

    @property
    def rate_doubt(self) -> float:
        """How much of ``rate_error`` lateness at the ends of bursts explains."""
        return self.paced_bursts * self.late_ns(0.99) / self.paced_ns if self.paced_ns else 0.0

    def document(self) -> dict[str, Any]:
        """The direction for JSON."""
        return {
            "from": self.source,
            "to": self.target,
            **{name: getattr(self, name) for name in COUNTED},
            "not_kept": self.not_kept,
            "refused_reason": self.refused_reason,
            "adds_up": self.adds_up,
            "rate_bps": self.rate_bps,
            "carried_bps": self.carried_bps,
            "rate_error": self.rate_error,
            "late_p50_ns": self.late_ns(0.5),
            "late_p99_ns": self.late_ns(0.99),
            "late_p999_ns": self.late_ns(0.999),
            "late_max_ns": self.late_max_ns,
            "late": self.late,
        }


@dataclass(frozen=True)
class EmulationCounters:
    """Both directions at one moment."""

    up: Direction
    down: Direction
    elapsed_s: float
    cpu_s: float
    """CPU time of the emulator, including the kernel's work for it."""
    real_time_refused: str
    """Why the emulator had no real-time priority although it should; empty if it had, or did not need it."""
    ended: bool
    failure: str
    """Why the link ended early; empty if it did not."""

    @property
    def directions(self) -> tuple[Direction, Direction]:
        """Up first."""
        return self.up, self.down

    @property
    def not_kept(self) -> int:
        """Frames that the emulator itself lost."""
        return self.up.not_kept + self.down.not_kept


def read_account(
    raw: Mapping[str, Any], ends: Sequence[str], rates_bps: Sequence[float | None]
) -> EmulationCounters:
    """Read the engine's ``Emulator`` account, for a link between ``ends`` configured for ``rates_bps``."""
    up, down = (
        Direction(
            source=source,
            target=target,
            rate_bps=rate_bps,
            **{name: found[name] for name in COUNTED},
            refused_reason=found["refused_reason"],
            late=Histogram(**found["late"]).within(0, found["late_max_ns"]),
            late_max_ns=found["late_max_ns"],
            paced_bits=found["paced_bits"],
            paced_ns=found["paced_ns"],
            paced_bursts=found["paced_bursts"],
        )
        for found, source, target, rate_bps in zip(
            raw["directions"], ends, reversed(ends), rates_bps, strict=True
        )
    )
    return EmulationCounters(
        up,
        down,
        raw["elapsed_ns"] / 1e9,
        raw["cpu_ns"] / 1e9,
        raw["real_time_refused"],
        raw["ended"],
        raw["failure"],
    )


def complaints(account: EmulationCounters, slack_s: float = 0.0) -> list[str]:
    """Where the emulator fell short, in sentences; empty if it kept up.

    ``slack_s`` is how late frames were allowed to leave.
    """
    return [
        sentence
        for way in account.directions
        for sentence in (*_losses(way), *_timing(way, LATE_NS + slack_s * 1e9))
    ]


def losses(account: EmulationCounters) -> list[str]:
    """Frames that the emulator lost or damaged, in sentences; for callers that judge times and rates."""
    return [sentence for way in account.directions for sentence in _losses(way)]


def _losses(way: Direction) -> Iterator[str]:
    where = f"{way.source} to {way.target}: "
    for count, what in (
        (way.not_received, "arrived faster than this host took them"),
        (way.no_memory, "found no memory: use less delay, a lower rate or fewer frames"),
        (
            way.too_long,
            f"were longer than the MTU of {way.source}: switch segmentation offload off at the senders "
            "(ethtool -K IF tso off gso off)",
        ),
        (way.refused, f"were not taken ({way.refused_reason})"),
    ):
        if count:
            yield f"{where}{count:,} frames were lost by the emulator: they {what}"
    if way.unfinished:
        yield (
            f"{where}{way.unfinished:,} frames came without their checksum: switch checksum offload off "
            "at the senders (ethtool -K IF tx off), or receivers will drop them"
        )
    if not way.adds_up:
        yield f"{where}the counters do not add up: this is a bug in Weir"


def _timing(way: Direction, most_late_ns: float) -> Iterator[str]:
    where = f"{way.source} to {way.target}: "
    late_ns = way.late_ns(0.99)
    if late_ns > most_late_ns:
        yield (
            f"{where}1 % of the frames left {duration(late_ns)} or more after their time (at most "
            f"{duration(way.late_max_ns)}): this host was too busy; end other work, or use --busy, --cpu"
        )
    if way.paced_ns >= _RATE_NS and abs(way.rate_error) > RATE_TOLERANCE + way.rate_doubt:
        yield f"{where}the rate was {bit_rate(way.carried_bps)} instead of {bit_rate(way.rate_bps or 0)}"


def problem(account: EmulationCounters) -> WeirError | None:
    """The error with which the link ended early; None if it did not."""
    return LabError(f"the link ended: {account.failure}") if account.failure else None
