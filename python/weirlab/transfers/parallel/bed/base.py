"""What a bed carries out, and what it saw of it. Times are in s from the start of the recorded part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from weirlab.emulation.account import EmulationCounters
    from weirlab.emulation.spec import PathSpec
    from weirlab.transfers.parallel.section import ParallelSection
    from weirlab.transfers.psock.copying import SessionSettings

F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PathPair:
    """Both directions of a path; ``up`` goes from the sender to the receiver."""

    up: PathSpec
    down: PathSpec

    @property
    def rtt_ns(self) -> int:
        """Of an empty path."""
        return self.up.delay_ns + self.down.delay_ns


@dataclass(frozen=True)
class PathSpan:
    """A time on the path with that number, from 1."""

    path: int
    from_s: float
    to_s: float


@dataclass(frozen=True)
class ParallelAttempt:
    """An attempt: what is sent how over which paths, and what happens meanwhile."""

    method: str
    paths: Mapping[int, PathPair]
    """Those that the method uses, by their numbers, from 1."""
    congestion: str
    """Congestion control of every connection."""
    streams: int
    """Over each path."""
    how: SessionSettings
    """How a session is carried."""
    warmup_s: float
    lasts_s: float
    every_s: float
    slack_s: float = 0.0
    """How late emulated paths may send frames."""
    buffer_bytes: int | None = None
    """``SO_SNDBUF`` and ``SO_RCVBUF`` of every connection; None: the system's."""
    outages: tuple[PathSpan, ...] = ()
    competitors: tuple[PathSpan, ...] = ()

    def edges_s(self) -> F64:
        """Ends of the bins of throughput over time, the first before the warm-up."""
        before = int(np.ceil(self.warmup_s / self.every_s - 1e-9))
        behind = int(np.ceil(self.lasts_s / self.every_s - 1e-9))
        edges = np.arange(-before, behind + 1) * self.every_s
        return np.asarray(np.clip(edges, -self.warmup_s, self.lasts_s), np.float64)


@dataclass(frozen=True)
class PathObservation:
    """What a method had of one path."""

    account: EmulationCounters
    """Of the emulated path, the competitor's frames included."""
    received: F64
    """Bytes that had arrived in order at each of the course's edges, by the receiver's kernel."""
    connections: int
    retransmissions: int | None
    """Segments; None where nothing was seen."""


@dataclass(frozen=True)
class AttemptObservation:
    """What an attempt was like. Arrays have a value for each of :meth:`Course.edges_s`."""

    read: F64
    """Bytes that the receiving application had read, in order."""
    reads_s: F64
    """When it read; shape (reads,)."""
    paths: Mapping[int, PathObservation]
    competitors: tuple[F64, ...]
    """Bytes that each competitor's receiver had read, as ``read``."""
    since_1970_ns: int
    """Start of the recorded part."""
    cpu_s: float
    """What this process took of CPUs for the whole attempt, the emulated paths left out."""
    waited_s: float
    """How long its threads were ready and had no CPU, all together."""
    total_bytes: int
    """Read in the whole attempt, the warm-up included."""
    reorder_peak_bytes: int | None = None
    """Most data that waited for earlier data; None where nobody tells."""
    resent_bytes: int | None = None
    """Sent again over another stream."""
    failure: str = ""
    """Why the transfer ended before its time."""
    notes: tuple[str, ...] = field(default=())


class ParallelBed(Protocol):
    """Where attempts are made."""

    @property
    def lab(self) -> str:
        """Kind of lab."""

    @property
    def lacking(self) -> Mapping[str, str]:
        """Methods that cannot be tried here, and why."""

    def carry(self, course: ParallelAttempt) -> AttemptObservation:
        """Make an attempt.

        Raises
        ------
        LabError
            The paths or the connections could not be made.
        """


OpenBed = Callable[["ParallelSection"], AbstractContextManager[ParallelBed]]
"""Opens the bed for a comparison."""
