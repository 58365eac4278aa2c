"""Which attempts to make, and in which order. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.transfers.parallel.section import ParallelCase, ParallelSection

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
