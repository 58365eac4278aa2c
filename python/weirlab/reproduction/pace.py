"""How long a reproduction takes: what its studies expect, corrected by how long they really took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weirlab.base.quantities import plural, rounded_clock
from weirlab.jobs.progress import Left, Progress
from weirlab.scenario.document import Document
from weirlab.scenario.model import Root
from weirlab.studies import scenarios
from weirlab.studies.registry import studies

_TRUST_S: Final = 60.0
"""Measured time from which experience counts more than the studies' own expectation."""


def root_of(scenario: Mapping[str, Any], place: str, name: str) -> Root:
    """The checked scenario of an experiment, without a report of its own."""
    return scenarios.check(Document(place, {"name": name, "report": None, **scenario}))


@dataclass(frozen=True)
class ReproductionTime:
    """What scenarios take, if no trial has to be repeated."""

    known_s: float
    unknown: int
    """Scenarios that take as long as they need, such as the transfer of a given size."""

    @property
    def text(self) -> str:
        """In a phrase."""
        more = f", and {plural(self.unknown, 'measurement')} of unknown length" if self.unknown else ""
        return f"about {rounded_clock(self.known_s)}{more}"

    @property
    def cell(self) -> str:
        """In a table."""
        return f"{'≥ ' if self.unknown else ''}{rounded_clock(self.known_s)}"


class ReproductionPace:
    """The time that is left of a reproduction.

    ``planned`` has places and scenarios, in order; scenarios that are equal are measured once.
    """

    def __init__(self, planned: Iterable[tuple[str, Mapping[str, Any]]]) -> None:
        self._expected: dict[str, float | None] = {}
        seen: list[Mapping[str, Any]] = []
        for place, scenario in planned:
            if scenario not in seen:
                seen.append(scenario)
                root = root_of(scenario, place, place)
                self._expected[place] = studies()[root.KEY].expected_s(root)
        self._took_s = self._foreseen_s = 0.0

    @property
    def whole(self) -> ReproductionTime:
        """Before anything is measured."""
        known = [seconds for seconds in self._expected.values() if seconds is not None]
        return ReproductionTime(sum(known), len(self._expected) - len(known))

    def learn(self, place: str, took_s: float) -> None:
        """The scenario of ``place`` is measured; it took this long."""
        if (seconds := self._expected.pop(place, None)) is not None:
            self._foreseen_s += seconds
            self._took_s += took_s

    def skip(self, place: str) -> None:
        """The scenario of ``place`` was measured in an earlier session."""
        self._expected.pop(place, None)

    @property
    def factor(self) -> float:
        """By how much longer scenarios take than expected."""
        return (self._took_s + _TRUST_S) / (self._foreseen_s + _TRUST_S)

    def step_s(self, place: str) -> float | None:
        """Of one scenario; None if that is not known."""
        seconds = self._expected.get(place)
        return None if seconds is None else self.factor * seconds

    def left(self, besides: str = "") -> ReproductionTime:
        """Of all scenarios that are not measured, ``besides`` one place."""
        rest = [seconds for place, seconds in self._expected.items() if place != besides]
        known = [self.factor * seconds for seconds in rest if seconds is not None]
        return ReproductionTime(sum(known), len(rest) - len(known))


class WholeProgress:
    """Passes the progress of one scenario on, with the time left of the whole reproduction.

    ``step_s`` is what this scenario should take, in s, ``rest_s`` the scenarios behind it.
    """

    def __init__(self, progress: Progress, which: str, step_s: float | None, rest_s: float) -> None:
        self._progress, self._which = progress, which
        self._step_s, self._rest_s = step_s, rest_s

    def stage(self, title: str) -> None:
        self._progress.stage(title)

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        text = ", ".join(filter(None, (what, self._which)))
        self._progress.advance(done, total, text, self._whole(done, total, left_s))

    def note(self, message: str) -> None:
        self._progress.note(message)

    def _whole(self, done: int, total: int, left_s: Left | None) -> Left | None:
        if isinstance(left_s, tuple):
            soonest_s, latest_s = left_s
            return soonest_s + self._rest_s, latest_s + self._rest_s
        if left_s is None and self._step_s is not None:
            left_s = self._step_s * (1 - done / max(total, 1))
        return None if left_s is None else left_s + self._rest_s
