"""Which trial is next: every setting once before any twice, difficult ones last.

A setting is what its repetitions have in common. Settings with the fewest valid trials come first, among
them those that were tried least, in the order of the plan. A trial that the host spoiled goes back and rests
while others are tried, since disturbances come in bursts. A setting that fails more often than chance
explains is difficult in itself and comes last, so that it does not delay the others.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from weirlab.measure.attempts.share import ValidShare
from weirlab.records import TrialSpec

VISIT: Final = 2
"""Attempts in a row: one, and one retry."""

REST: Final = 10
"""Number of other trials before a spoiled one is tried again."""


def setting_of(spec: TrialSpec) -> TrialSpec:
    """``spec`` without what differs between repetitions."""
    return replace(spec, label="", traffic=replace(spec.traffic, seed=0))


@dataclass
class _QueueSetting:
    todo: deque[int] = field(default_factory=deque)
    """Places in the plan of the trials left."""
    valid: int = 0
    failures: int = 0
    """In a row."""
    visits: int = 0
    """To the trial in front."""
    tried: int = 0
    """Attempts at the trial in front."""
    seconds: float = 0.0


class TrialQueue:
    """The trials of a plan that are left, and their order.

    Parameters
    ----------
    specs:
        The plan.
    done:
        Places in the plan of the trials that have a valid attempt.
    seconds:
        Expected time in s of an attempt.
    max_attempts:
        At each trial; None: as many as chance explains.
    """

    def __init__(
        self,
        specs: Sequence[TrialSpec],
        done: Collection[int],
        share: ValidShare,
        seconds: Callable[[TrialSpec], float],
        max_attempts: int | None = None,
    ) -> None:
        self._share = share
        self._max_attempts = max_attempts
        self._settings: list[_QueueSetting] = []
        self._of: list[int] = []
        known: dict[TrialSpec, int] = {}
        for place, spec in enumerate(specs):
            number = known.setdefault(setting_of(spec), len(known))
            if number == len(self._settings):
                self._settings.append(_QueueSetting(seconds=seconds(spec)))
            self._of.append(number)
            if place in done:
                self._settings[number].valid += 1
            else:
                self._settings[number].todo.append(place)
        self._heap: list[tuple[bool, int, int, float, int]] = []
        self._resting: deque[tuple[int, int]] = deque()
        self._taken = 0
        self._scarce = False
        self._rebuild(number for number, each in enumerate(self._settings) if each.todo)

    @property
    def settings(self) -> int:
        return len(self._settings)

    @property
    def without_valid(self) -> int:
        """Settings without a valid trial."""
        return sum(setting.valid == 0 for setting in self._settings)

    def next(self, *, scarce: bool = False) -> int | None:
        """Place in the plan of the next trial; None when all are over. If ``scarce``, short ones come first.

        Report its result to :meth:`over`.
        """
        if scarce != self._scarce:
            self._scarce = scarce
            self._rebuild([self._of[place] for *_, place in self._heap])
        while self._resting and (self._resting[0][0] <= self._taken or not self._heap):
            self._push(self._resting.popleft()[1])
        if not self._heap:
            return None
        self._taken += 1
        return heapq.heappop(self._heap)[-1]

    def attempts_left(self, place: int) -> int:
        """Attempts that may be made now at this trial."""
        setting = self._settings[self._of[place]]
        return max(min(VISIT, self._most() - setting.tried), 1)

    def over(self, place: int, failed: int, valid: bool) -> bool:
        """Record the result of a trial: how many attempts ``failed``, and whether one is ``valid``.

        Returns whether the trial is finished: valid, or given up.
        """
        number = self._of[place]
        setting = self._settings[number]
        setting.failures += failed
        setting.tried += failed
        setting.visits += 1
        if valid:
            setting.valid += 1
            setting.failures = 0
        ended = valid or setting.tried >= self._most()
        if ended:
            setting.todo.popleft()
            setting.visits = setting.tried = 0
        if not setting.todo:
            return ended
        if valid:
            self._push(number)
        else:
            self._resting.append((self._taken + REST, number))
        return ended

    def _most(self) -> int:
        return self._max_attempts or self._share.failures_by_chance()

    def _push(self, number: int) -> None:
        setting = self._settings[number]
        hard = setting.failures > self._share.failures_by_chance()
        seconds = setting.seconds if self._scarce else 0.0
        heapq.heappush(self._heap, (hard, setting.valid, setting.visits, seconds, setting.todo[0]))

    def _rebuild(self, numbers: Iterable[int]) -> None:
        self._heap = []
        for number in numbers:
            self._push(number)
