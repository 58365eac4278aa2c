"""Which attempts to make, in which order, and what a bed saw of each. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt

from weirlab.transfers.parallel.section import ParallelCase, ParallelSection

if TYPE_CHECKING:
    from weirlab.emulation.account import EmulationCounters
    from weirlab.emulation.spec import PathSpec
    from weirlab.transfers.psock.copying import SessionSettings

TCP: Final = "tcp"
INDEPENDENT: Final = "independent"
MPTCP: Final = "mptcp"
FAIR: Final = "earliest-fair"

BUILD_S: Final = 0.7
"""What an attempt takes besides its traffic; corrected as attempts are made."""

NAMES: Final = {
    TCP: "single TCP",
    INDEPENDENT: "independent streams",
    MPTCP: "MPTCP",
    FAIR: "earliest with --fair",
}
"""Titles of the methods that are not schedulers."""


@dataclass(frozen=True)
class ParallelPlan:
    """One attempt to make; ``repetition`` counts from 1."""

    index: int
    case: ParallelCase
    method: str
    repetition: int
    path: int = 0
    """Number of the only path, from 1; 0: all paths of the case."""

    @property
    def text(self) -> str:
        return f"{self.case.name}: {named(self.method, self.path)}, repetition {self.repetition}"

    @property
    def key(self) -> tuple[str, str, int, int]:
        """The values that identify its row: case, method, path, repetition."""
        return self.case.name, self.method, self.path, self.repetition

    @property
    def used(self) -> tuple[int, ...]:
        """Numbers of the paths that it uses, from 1."""
        return (self.path,) if self.path else tuple(range(1, len(self.case.every_path()) + 1))


def named(method: str, path: int = 0) -> str:
    """``single TCP, path 2``, ``MPTCP``, ``poll-all``."""
    name = NAMES.get(method, method)
    return f"{name}, path {path}" if path else name


def plan(asked: ParallelSection, lacking: Collection[str] = ()) -> tuple[ParallelPlan, ...]:
    """Every method but those ``lacking`` in every case.

    Round by round, so that slow changes of the host affect all alike. Within a round the methods of a case
    follow each other, in random order, so that what is compared is close in time.
    """
    rng = np.random.default_rng(asked.seed)
    cases = asked.every_case()
    found: list[ParallelPlan] = []
    for repetition in range(1, asked.repetitions + 1):
        for number in rng.permutation(len(cases)):
            case = cases[number]
            ways = [way for method in asked.methods if method not in lacking for way in _ways(case, method)]
            for place in rng.permutation(len(ways)):
                method, path = ways[place]
                found.append(ParallelPlan(len(found), case, method, repetition, path))
    return tuple(found)


def _ways(case: ParallelCase, method: str) -> Iterator[tuple[str, int]]:
    if method != TCP:
        yield method, 0
        return
    seen: list[object] = []
    for number, path in enumerate(case.every_path(), 1):
        events = [
            *(outage for outage in case.outages if outage.path == number),
            *(competitor for competitor in case.competitors if competitor.path == number),
        ]
        # Paths that are alike are measured once.
        kind = (path.words("up"), path.words("down"), events)
        if kind not in seen:
            seen.append(kind)
            yield method, number


def expected_s(planned: ParallelPlan, asked: ParallelSection) -> float:
    """Expected wall time of an undisturbed attempt."""
    warmup_s, lasts_s = timing(planned.case, asked)
    return warmup_s + lasts_s + BUILD_S


def timing(case: ParallelCase, asked: ParallelSection) -> tuple[float, float]:
    """Warm-up and recorded time of an attempt in s."""
    return (
        asked.warmup_s if case.warmup_s is None else case.warmup_s,
        asked.lasts_s if case.lasts_s is None else case.lasts_s,
    )


def estimate_s(planned: Sequence[ParallelPlan], asked: ParallelSection) -> float:
    """Expected wall time of all if none has to be repeated."""
    return sum(expected_s(each, asked) for each in planned)


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
