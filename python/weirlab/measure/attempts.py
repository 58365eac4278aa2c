"""Attempts at trials: which trial is next, what share of attempts is valid, how long all may take.

A setting is what its repetitions have in common. Settings with the fewest valid trials come first, among
them those that were tried least, in the order of the plan. A trial that the host spoiled goes back and rests
while others are tried, since disturbances come in bursts. A setting that fails more often than chance
explains is difficult in itself and comes last, so that it does not delay the others.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from weirlab.base.errors import LabError
from weirlab.records import TrialRecord, TrialSpec

HALF_LIFE: Final = 300
"""Attempts after which one counts half: a host that becomes quiet or busy shows within minutes."""

USUAL: Final = 0.75
"""Valid share of the attempts on a shared machine, before anything is known."""

_PRIOR: Final = 4.0
"""Number of attempts that the initial assumption is worth."""

LEAST_ATTEMPTS: Final = 3
"""At a trial, before chance can no longer explain that all failed."""

_RARE: Final = 0.01
"""An event that is less likely than this by chance has another reason."""


class ValidShare:
    """Valid share of attempts; recent ones weigh more. ``usual`` is assumed at the beginning."""

    def __init__(self, usual: float = 1.0) -> None:
        self._usual = usual
        self._tried = 0.0
        self._valid = 0.0
        self._pairs = 0.0
        self._changes = 0.0
        self._last: bool | None = None
        self.attempts = 0
        """All attempts made."""
        self.valid = 0
        """The valid ones among them."""

    def add(self, valid: bool) -> None:
        """One more attempt."""
        kept = 0.5 ** (1 / HALF_LIFE)
        self._tried = kept * self._tried + 1
        self._valid = kept * self._valid + valid
        if self._last is not None:
            self._pairs = kept * self._pairs + 1
            self._changes = kept * self._changes + (valid != self._last)
        self._last = valid
        self.attempts += 1
        self.valid += valid

    @property
    def ratio(self) -> float:
        """The share, above 0."""
        return (self._valid + _PRIOR * self._usual) / (self._tried + _PRIOR)

    def bounds(self) -> tuple[float, float]:
        """90 % interval of the share now; disturbances in bursts make it wider."""
        return self._wilson(self._valid, self._tried, 1.645)

    def most(self) -> float:
        """Upper 99 % bound of the share over all attempts."""
        return self._wilson(self.valid, self.attempts, 2.33)[1]

    def _wilson(self, valid: float, tried: float, sigmas: float) -> tuple[float, float]:
        """Wilson interval of the share. Consecutive attempts are alike if disturbances last: with a
        correlation r of neighbours, n attempts say as much as n (1 - r) / (1 + r) independent ones.
        """
        if tried == 0:
            return 0.0, 1.0
        p = valid / tried
        n = tried * self._independence(p)
        middle = (p + sigmas**2 / (2 * n)) / (1 + sigmas**2 / n)
        half = sigmas * math.sqrt(p * (1 - p) / n + sigmas**2 / (4 * n * n)) / (1 + sigmas**2 / n)
        return max(middle - half, 0.0), min(middle + half, 1.0)

    def _independence(self, p: float) -> float:
        """Independent attempts per attempt, by the changes from one to the next (a Markov chain)."""
        scatter = 2 * p * (1 - p)
        if scatter <= 0 or self._pairs == 0:
            return 1.0
        r = min(max(1 - self._changes / self._pairs / scatter, 0.0), 0.98)
        return (1 - r) / (1 + r)

    def failures_by_chance(self) -> int:
        """Failures in a row that this share explains; more are due to the trial itself."""
        p = min(max(self.ratio, 0.01), 0.9)
        return max(math.ceil(math.log(_RARE) / math.log(1 - p)), LEAST_ATTEMPTS)


def attempts_per_trial(ratio: float, most: int) -> float:
    """Expected attempts at a trial that is tried until one counts, at most ``most`` times."""
    return most if ratio <= 0 else (1 - (1 - ratio) ** most) / ratio


RATIO: Final = 1.5
"""The usual budget, relative to the time that is expected."""

LEAST_S: Final = 60.0
"""No run is given up earlier than this: a host may be busy for some seconds."""

LEAST_RATIO: Final = 0.1
"""The same, as a share of the budget."""

NEEDED_RATIO: Final = 0.5
"""Share of the settings that need a valid trial before anything can be said about a device."""

HOPELESS_RATIO: Final = 0.3
"""A run is given up only if a smaller share of attempts is valid: otherwise a longer budget helps."""


class Budget:
    """Wall time in s from now on; ``clock`` gives seconds.

    With ``gives_up`` a run may end earlier if almost nothing is valid.
    """

    def __init__(
        self,
        total_s: float,
        clock: Callable[[], float],
        *,
        gives_up: bool = True,
        begun_s: float | None = None,
    ) -> None:
        self.total_s = total_s
        self.gives_up = gives_up
        self._clock = clock
        self._begun_s = clock() if begun_s is None else begun_s

    @property
    def left_s(self) -> float:
        return self.total_s - self.spent_s

    @property
    def spent_s(self) -> float:
        return self._clock() - self._begun_s

    def part(self, ratio: float) -> Budget:
        """The first part of this budget; what it does not use remains for the rest."""
        return Budget(ratio * self.total_s, self._clock, gives_up=self.gives_up, begun_s=self._begun_s)

    def hopeless(self, share: ValidShare, settings: int, without_valid: int, attempt_s: float) -> bool:
        """Whether even a lucky rest would leave most ``settings`` without a valid trial.

        The share of valid attempts is taken at its upper 99 % bound.
        """
        known = self.spent_s >= max(LEAST_S, LEAST_RATIO * self.total_s)
        if not (self.gives_up and known and math.isfinite(self.total_s) and attempt_s > 0):
            return False
        most = share.most()
        if most >= HOPELESS_RATIO:
            return False
        to_come = most * max(self.left_s, 0.0) / attempt_s
        return settings - without_valid + to_come < NEEDED_RATIO * settings


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


def until_valid(
    name: str, most: int, attempt: Callable[[], TrialRecord], tell: Callable[..., object]
) -> TrialRecord:
    """The last attempt: the first valid one, or the last of ``most``.

    ``tell`` receives the reason why ``name`` is attempted again, and the attempt if there is one. Raises the
    last ``LabError`` if every attempt ended in one.
    """
    made: TrialRecord | None = None
    failure: LabError | None = None
    for left in reversed(range(most)):
        try:
            made = attempt()
        except LabError as error:
            failure = error
            if left:
                tell(f"{name}: again, because: {error}")
            continue
        if made.valid or not left:
            return made
        tell(f"{name}: again, because: {'; '.join(made.invalid)}", made)
    if made is None:
        assert failure is not None
        raise failure
    return made
