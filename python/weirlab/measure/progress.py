"""How far a sequence of trials has come and how long the rest will take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from weirlab.records import TrialRecord, TrialSpec

OVERHEAD_S: Final = 0.2
"""What a trial takes beside its traffic (rules, arming, stragglers), until experience corrects it."""


@dataclass(frozen=True)
class Progress:
    """``done`` of ``total`` trials are over; ``last`` is the newest attempt, if any."""

    done: int
    total: int
    elapsed_s: float
    left_s: float
    last: TrialRecord | None
    text: str


OnProgress = Callable[[Progress], object]


def trial_s(spec: TrialSpec) -> float:
    """Expected wall time in s of one undisturbed trial."""
    return spec.traffic.warmup_s + spec.traffic.duration_s + OVERHEAD_S


def estimate_s(specs: Iterable[TrialSpec]) -> float:
    """Expected wall time in s of all ``specs`` when none has to be repeated."""
    return sum(trial_s(spec) for spec in specs)


def left_s(expected_left_s: float, expected_done_s: float, elapsed_s: float) -> float:
    """Time left in s: what was expected, corrected by how expectations have done so far."""
    pace = elapsed_s / expected_done_s if expected_done_s > 0 else 1.0
    return expected_left_s * pace


class Meter:
    """Counts trials and tells ``on_progress``; ``clock`` gives seconds, as ``time.monotonic``."""

    def __init__(
        self, expected_s: Iterable[float], clock: Callable[[], float], told: OnProgress | None
    ) -> None:
        self._expected_s = list(expected_s)
        self._clock = clock
        self._told = told
        self._start_s = clock()
        self._done = 0
        self._measured_s = 0.0

    def replace_rest(self, expected_s: Iterable[float]) -> None:
        """Expect these trials from here on."""
        self._expected_s[self._done :] = expected_s

    def skip(self) -> None:
        """The next trial was done in an earlier session."""
        self._done += 1

    def tell(self, text: str, last: TrialRecord | None = None) -> None:
        """Report without counting."""
        if self._told is not None:
            elapsed_s = self._clock() - self._start_s
            rest_s = sum(self._expected_s[self._done :])
            left = left_s(rest_s, self._measured_s, elapsed_s)
            self._told(Progress(self._done, len(self._expected_s), elapsed_s, left, last, text))

    def count(self, text: str, last: TrialRecord) -> None:
        """The next trial is over, with ``last`` as its last attempt."""
        if self._done < len(self._expected_s):
            self._measured_s += self._expected_s[self._done]
        self._done += 1
        self.tell(text, last)
