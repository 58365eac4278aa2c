"""How far a sequence of trials has come and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.measure.attempts import HALF_LIFE, Budget, ValidShare, attempts_per_trial
from weirlab.records import TrialRecord, TrialSpec

OVERHEAD_S: Final = 0.2
"""Time that a trial takes besides its traffic (rules, arming, stragglers), until experience corrects it."""


@dataclass(frozen=True)
class TrialProgress:
    """``done`` of ``total`` trials are over; ``last`` is the newest attempt, if any.

    The rest takes ``left_s``, with 90 % certainty from ``soonest_s`` to ``latest_s``.
    """

    done: int
    total: int
    elapsed_s: float
    left_s: float
    last: TrialRecord | None
    text: str
    soonest_s: float
    latest_s: float


OnProgress = Callable[[TrialProgress], object]


def trial_s(spec: TrialSpec) -> float:
    """Expected wall time in s of one undisturbed trial."""
    return spec.traffic.warmup_s + spec.traffic.duration_s + OVERHEAD_S


def estimate_s(specs: Iterable[TrialSpec]) -> float:
    """Expected wall time in s of all ``specs`` if none has to be repeated."""
    return sum(trial_s(spec) for spec in specs)


class AttemptPace:
    """Wall time of attempts, learned from those made; recent ones weigh more.

    An attempt takes as long as its traffic plus an overhead. If it takes less, as on a simulated device,
    it takes a share of the traffic's time.
    """

    def __init__(self) -> None:
        self._attempts = 0.0
        self._traffic_s = 0.0
        self._took_s = 0.0

    def learn(self, expected_s: float, attempts: int, took_s: float) -> None:
        """Record that ``attempts`` attempts at a trial of ``expected_s`` took ``took_s`` in all."""
        kept = 0.5 ** (attempts / HALF_LIFE)
        self._attempts = kept * self._attempts + attempts
        self._traffic_s = kept * self._traffic_s + attempts * _traffic_s(expected_s, 1)
        self._took_s = kept * self._took_s + took_s

    def attempts_s(self, attempts: float, expected_s: float) -> float:
        """Wall time in s of ``attempts`` that were expected to take ``expected_s`` together."""
        if self._attempts == 0:
            return expected_s
        traffic_s = _traffic_s(expected_s, attempts)
        if self._took_s < self._traffic_s:
            return traffic_s * self._took_s / self._traffic_s
        return traffic_s + attempts * (self._took_s - self._traffic_s) / self._attempts


def _traffic_s(expected_s: float, attempts: float) -> float:
    return max(expected_s - attempts * OVERHEAD_S, 0.0)


class ProgressMeter:
    """Counts trials and reports to ``told``; ``clock`` gives seconds, as ``time.monotonic`` does.

    The time left is estimated from the time that an attempt takes and the ``share`` of attempts that count.
    It never exceeds what is left of the ``budget``.
    """

    def __init__(
        self,
        expected_s: Iterable[float],
        clock: Callable[[], float],
        told: OnProgress | None,
        *,
        share: ValidShare | None = None,
        budget: Budget | None = None,
        max_attempts: int | None = None,
    ) -> None:
        self.share = share or ValidShare()
        self.pace = AttemptPace()
        self._budget = budget
        self._max_attempts = max_attempts
        self._rest_s: list[float] = []
        self._rest_sum_s = 0.0
        self.replace_rest(expected_s)
        self._clock = clock
        self._told = told
        self._start_s = self._mark_s = clock()
        self._done = 0
        self._learned = False

    def replace_rest(self, expected_s: Iterable[float]) -> None:
        """Expect these trials from here on."""
        self._rest_s = list(expected_s)
        self._rest_sum_s = sum(self._rest_s)

    def expect_more(self, expected_s: Iterable[float]) -> None:
        """Expect these trials, too, such as those that are repeated."""
        self.replace_rest([*self._rest_s, *expected_s])

    def skip(self) -> None:
        """Count the next trial as done in an earlier session."""
        self._done += 1
        if self._rest_s:
            self._rest_sum_s -= self._rest_s.pop(0)

    def tell(self, text: str, last: TrialRecord | None = None) -> None:
        """Report without counting."""
        if self._told is None:
            return
        soonest_s, left_s, latest_s = self._left_s()
        elapsed_s = self._clock() - self._start_s
        total = self._done + len(self._rest_s)
        self._told(TrialProgress(self._done, total, elapsed_s, left_s, last, text, soonest_s, latest_s))

    def learn(self, expected_s: float, attempts: Sequence[bool]) -> None:
        """Record attempts, valid or not, at a trial of ``expected_s``, which took the time since the last."""
        now_s = self._clock()
        self.pace.learn(expected_s, len(attempts), now_s - self._mark_s)
        self._mark_s = now_s
        self._learned = True
        for valid in attempts:
            self.share.add(valid)

    def count(self, text: str, last: TrialRecord, expected_s: float | None = None) -> None:
        """Count a trial of ``expected_s`` (the next one if None) as over, with ``last`` as its last attempt.

        Without a call of :meth:`learn` since the trial before, all the time counts as one attempt.
        """
        if self._rest_s:
            place = self._rest_s.index(expected_s) if expected_s in self._rest_s else 0
            expected_s = self._rest_s.pop(place)
            self._rest_sum_s -= expected_s
            if not self._learned:
                self.learn(expected_s, [True])
        self._learned = False
        self._done += 1
        self.tell(text, last)

    def rest_s(self) -> float:
        """Time left in s, whatever the budget."""
        return self._work_s(self.share.ratio)

    def _left_s(self) -> tuple[float, float, float]:
        low, high = self.share.bounds()
        most_s = self._budget.left_s if self._budget is not None else float("inf")
        found = [self._work_s(max(high, self.share.ratio)), self.rest_s(), self._work_s(low)]
        soonest, left, latest = (max(min(seconds, most_s), 0.0) for seconds in found)
        return soonest, left, max(left, latest)

    def _work_s(self, ratio: float) -> float:
        """Time in s for the rest if this share of attempts counts."""
        most = self._max_attempts or self.share.failures_by_chance()
        # Rounding may leave the sum of no trials a little off 0.
        rest_s = self.pace.attempts_s(len(self._rest_s), self._rest_sum_s) if self._rest_s else 0.0
        return attempts_per_trial(ratio, most) * rest_s
