"""What a scenario about parallel sockets may say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field

from weirlab.base.quantities import bit_rate, plural
from weirlab.emulation.spec import MOST_SLACK_S
from weirlab.links.emulator.section import PathSection, Size, Words, traces
from weirlab.scenario.conflicts import Conflict
from weirlab.scenario.document import Location
from weirlab.scenario.model import Root, Section
from weirlab.scenario.values import (
    Attempts,
    MayBeEmpty,
    NotEmpty,
    NotNegative,
    Repetitions,
    Seconds,
    Seed,
    WarmUp,
    no_repeats,
    readable,
)

MethodName = Literal[
    "tcp", "independent", "mptcp", "round-robin", "poll-all", "ecf", "blest", "earliest", "earliest-fair"
]  # fmt: skip

MOST_PATHS: Final = 8
"""The kernel joins no more subflows to a connection of multipath TCP (``MPTCP_PM_ADDR_MAX``)."""

PathNumber = Annotated[int, Field(strict=True, ge=1, le=MOST_PATHS)]
Share = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
RateRatio = Annotated[float, Field(ge=0.001, le=1000, allow_inf_nan=False)]
Buffers = Annotated[float, Field(ge=0.1, le=100, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=60)]


def _rate(text: str) -> object:
    from weirlab.emulation.spec import read_rate_bps

    return read_rate_bps(text, "the rate")


BitRate = Annotated[str, Field(max_length=40), readable(_rate)]


class CasePath(PathSection):
    """One path, or several identical ones."""

    copies: Annotated[int, Field(strict=True, ge=1, le=MOST_PATHS)] = 1
    """Number of such paths."""


class PathOutage(Section):
    """A path that carries nothing for a while: every frame on it is lost."""

    path: PathNumber
    """Number of the path, from 1."""
    from_s: NotNegative
    """From the start of the recorded time, in s."""
    lasts_s: Seconds
    """How long, in s."""

    def overlaps(self, other: PathOutage) -> bool:
        """Whether both last at the same time."""
        return self.from_s < other.from_s + other.lasts_s and other.from_s < self.from_s + self.lasts_s


class Competitor(Section):
    """A competing TCP stream on one of the paths."""

    path: PathNumber
    """Number of the path, from 1."""
    from_s: NotNegative = 0.0
    """From the start of the recorded time, in s."""
    lasts_s: Seconds | None = None
    """How long, in s; left out: to the end."""


class ParallelCase(Section):
    """One set of paths, and what happens on them."""

    name: Name
    """Name of the case in results."""
    paths: Annotated[tuple[CasePath, ...], Field(min_length=1, max_length=MOST_PATHS)]
    outages: Annotated[tuple[PathOutage, ...], MayBeEmpty] = ()
    competitors: Annotated[tuple[Competitor, ...], Field(max_length=MOST_PATHS)] = ()
    buffers: Buffers | None = None
    """Left out: as in the section."""
    warmup_s: WarmUp | None = None
    """Time of traffic before recording, in s; left out: as in the section."""
    lasts_s: Seconds | None = None
    """Recorded time, in s; left out: as in the section."""

    def every_path(self) -> list[CasePath]:
        """The paths with their copies, in order."""
        return [path for path in self.paths for _ in range(path.copies)]


class Split(Section):
    """Two paths that share one rate; each share, or each ratio, is a case."""

    rate: BitRate = "100Mbps"
    """Rate of both paths together."""
    shares: Annotated[tuple[Share, ...], NotEmpty, AfterValidator(no_repeats)] = (0.1, 0.3, 0.5)
    """The first path's share of the rate."""
    ratios: Annotated[tuple[RateRatio, ...], MayBeEmpty, AfterValidator(no_repeats)] = ()
    """The first path's rate as a multiple of the second's, in place of ``shares``."""
    both: Words = {"delay": "5ms", "queue": "30ms"}
    """Other options of both paths, in the words of ``weir link``."""

    def files(self) -> Iterator[Location]:
        yield from super().files()
        yield from traces(self.both, "both")

    def every_share(self) -> tuple[float, ...]:
        """The first path's share in each case."""
        return tuple(ratio / (1 + ratio) for ratio in self.ratios) or self.shares


class ParallelSection(Section):
    """Cases, and the methods that are compared in each."""

    split: Split | None = None
    cases: Annotated[tuple[ParallelCase, ...], MayBeEmpty] = ()
    methods: Annotated[tuple[MethodName, ...], NotEmpty, AfterValidator(no_repeats)] = (
        "tcp", "independent", "mptcp", "round-robin", "poll-all", "ecf", "blest", "earliest",
    )  # fmt: skip
    """``tcp``: a single stream over each path by itself; ``independent``: streams over all paths at once that
    are independent of each other, the reference; ``mptcp``: the kernel's multipath TCP; the others are
    schedulers of ``weir psock``; ``earliest-fair``: ``earliest`` with ``--fair``."""
    streams: Annotated[int, Field(strict=True, ge=1, le=8)] = 1
    """Streams over each path, of a session and of independent streams."""
    memory: Size = "4MiB"
    """Buffer of a session at each end."""
    block: Size = "32KiB"
    """Size of a session's blocks."""
    unsent: Size = "64KiB"
    """Most unsent bytes that a stream of a session may hold."""
    congestion: Annotated[str, Field(min_length=1, max_length=15)] = "cubic"
    """Congestion control of every stream."""
    buffers: Buffers | None = None
    """Socket buffers of every connection, as a multiple of rate times round trip of the fastest path that its
    method uses; left out: the system's, which grow."""
    warmup_s: WarmUp = 0.5
    """Time of traffic before recording, in s."""
    lasts_s: Seconds = 2.0
    """Recorded time of an attempt, in s."""
    every_s: Annotated[float, Field(ge=0.01, le=60, allow_inf_nan=False)] = 0.1
    """Period of throughput over time, in s."""
    repetitions: Repetitions = 3
    """Valid attempts of each method in each case."""
    max_attempts: Attempts = 4
    """Maximum tries of an attempt that the host spoils."""
    late_ms: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 2.0
    """An attempt does not count if the emulated paths delayed 1 % of the frames by more than this, in ms,
    beyond the delay set."""
    slack_ms: Annotated[float, Field(ge=0, le=MOST_SLACK_S * 1e3, allow_inf_nan=False)] = 0.2
    """How late the emulated paths may send frames, in ms. They sleep in the meantime, which leaves more of
    the CPU to senders and receivers."""
    seed: Seed = 1
    """Seed of the order of attempts."""

    def every_case(self) -> list[ParallelCase]:
        """Those of ``split`` first."""
        return (
            [*(_of(self.split, share) for share in self.split.every_share()), *self.cases]
            if self.split
            else [*self.cases]
        )


def share_of(split: Split, name: str) -> float | None:
    """The first path's share in the case ``name`` of ``split``; None for another case."""
    return next((share for share in split.every_share() if _named(split, share) == name), None)


def _of(split: Split, share: float) -> ParallelCase:
    rates = _rates_bps(split, share)
    paths = tuple(CasePath(both={**split.both, "rate": f"{rate}bps"}) for rate in rates)
    return ParallelCase(name=_named(split, share), paths=paths)


def _rates_bps(split: Split, share: float) -> tuple[int, int]:
    from weirlab.emulation.spec import read_rate_bps

    total = read_rate_bps(split.rate, "the rate")
    first = round(total * share)
    return first, total - first


def _named(split: Split, share: float) -> str:
    return " + ".join(map(bit_rate, _rates_bps(split, share)))


class ParallelScenario(Root, title="Weir scenario: parallel sockets"):
    """A scenario about several TCP streams as one."""

    KEY = "parallel"

    parallel: ParallelSection

    def trials(self) -> Iterator[tuple[tuple[int | str, ...], int]]:
        what = self.parallel
        alone = MOST_PATHS * ("tcp" in what.methods)
        methods = len(what.methods) + alone
        cases = len(what.cases) + (len(what.split.every_share()) if what.split else 0)
        yield ("parallel",), cases * methods * what.repetitions

    def conflicts(self) -> Iterator[Conflict]:
        what = self.parallel
        if what.split is None and not what.cases:
            yield ("parallel",), "give 'split', 'cases' or both"
        if what.split is not None:
            for word in what.split.both.keys() & {"rate", "trace"}:
                yield ("parallel", "split", "both", word), "the rates follow from 'rate' and 'shares'"
                return
            # A stored scenario has the usual shares, too.
            if what.split.ratios and what.split.shares != Split().shares:
                yield ("parallel", "split", "ratios"), "give either 'shares' or 'ratios'"
            yield from _conflicts_of_split(what.split)
        names: list[str] = []
        for number, case in enumerate(what.every_case()):
            own = number - (len(what.split.every_share()) if what.split else 0)
            if case.name in names:
                yield ("parallel", "cases", max(own, 0), "name"), "another case is called so"
            names.append(case.name)
            if own >= 0:
                yield from _conflicts_of_case(what, case, ("parallel", "cases", own))

    def beside(self, folder: Path) -> Self:
        cases = tuple(
            case.model_copy(update={"paths": tuple(path.beside(folder) for path in case.paths)})
            for case in self.parallel.cases
        )
        section = self.parallel.model_copy(update={"cases": cases})
        return self.model_copy(update={"parallel": section})


def _conflicts_of_split(split: Split) -> Iterator[Conflict]:
    for share in split.every_share():
        for path in _of(split, share).paths:
            for _, why in path.conflicts():
                yield ("parallel", "split", "both"), why
                return


def _conflicts_of_case(
    what: ParallelSection, case: ParallelCase, place: tuple[Any, ...]
) -> Iterator[Conflict]:
    paths = len(case.every_path())
    if paths > MOST_PATHS:
        yield (*place, "paths"), f"{paths} paths: at most {MOST_PATHS} are possible"
    for number, path in enumerate(case.paths):
        wrong = [*path.conflicts()]
        for side, why in wrong:
            yield (*place, "paths", number, side), why
        sized = what.buffers is not None or case.buffers is not None
        if sized and not wrong and path.read("up").rate_bps is None:
            yield (*place, "paths", number), "'buffers' needs paths with a rate"
    lasts_s = case.lasts_s or what.lasts_s
    events: list[tuple[str, int, PathOutage | Competitor]] = [
        *(("outages", number, each) for number, each in enumerate(case.outages)),
        *(("competitors", number, each) for number, each in enumerate(case.competitors)),
    ]
    for key, number, event in events:
        if event.path > paths:
            yield (*place, key, number, "path"), f"the case has {plural(paths, 'path')}"
        if event.from_s + (event.lasts_s or 0.0) > lasts_s or event.from_s >= lasts_s:
            yield (*place, key, number), f"it ends after the recorded time, which lasts {lasts_s:g} s"
    for number, each in enumerate(case.outages):
        if any(each.path == other.path and each.overlaps(other) for other in case.outages[:number]):
            yield (*place, "outages", number), "it overlaps another outage of the same path: make them one"
