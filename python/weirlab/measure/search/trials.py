"""Trials that follow from each other: carried out, judged, repeated and kept one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from weirlab.interrupts import interruptible
from weirlab.lab.base import TestBed
from weirlab.measure.progress import Meter, OnProgress, trial_s
from weirlab.measure.search.sender import senders_limit
from weirlab.measure.sequence import again, describe_spec
from weirlab.measure.trial import FailedTrial, Role, run_trial, utc_now
from weirlab.measure.validity import CAREFUL_LIMITS, Limits
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import RunWriter

PAUSES_S: Final = (0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Waited after each spoiled attempt, and the last one again and again: other work on the host comes in
bursts of seconds, longer than a few attempts in a row take."""

MAX_ATTEMPTS: Final = 10
"""A search cannot leave a trial out: it is worth more attempts than one of a profile."""


class Trials:
    """Carries out one trial after the other in ``bed`` and keeps each attempt in ``writer``'s run.

    ``elapsed_s`` and ``done`` count what has been measured so far. In a run with other trials, too,
    the first has the index ``first_index``. ``completed`` gives each attempt back as it is to be kept.
    """

    def __init__(
        self,
        bed: TestBed,
        writer: RunWriter,
        on_progress: OnProgress | None = None,
        *,
        limits: Limits = CAREFUL_LIMITS,
        max_attempts: int = MAX_ATTEMPTS,
        first_index: int = 0,
        role: Role = "search",
        completed: Callable[[TrialRecord], TrialRecord] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.limits = limits
        self._bed = bed
        self._writer = writer
        self._max_attempts = max_attempts
        self._first_index = first_index
        self._role: Role = role
        self._completed = completed
        self._clock = clock
        self._sleep = sleep
        self._now = now
        self._meter = Meter((), clock, on_progress)
        self._begun_s = clock()
        self._rules: RuleSetup | None = None
        self._ahead_s: list[float] = []
        self.done = 0

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._begun_s

    def expect(self, ahead_s: Iterable[float]) -> None:
        """These trials, with their wall times in s, are thought to come; an estimate for the progress."""
        self._ahead_s = list(ahead_s)

    def run(self, spec: TrialSpec) -> TrialRecord:
        """Carry out ``spec`` until an attempt is valid, and return that one.

        Raises
        ------
        FailedTrial
            No attempt was valid, or the device forwards nothing.
        LabError
            The device refuses the rules.
        """
        this_s, *later_s = self._ahead_s or [trial_s(spec)]
        self._meter.replace_rest([this_s, *later_s])
        self._meter.tell(describe_spec(spec))
        set_rules = spec.rules != self._rules
        # Half-set rules are no known rules.
        self._rules = None if set_rules else self._rules
        index, self.done = self._first_index + self.done, self.done + 1
        attempts: list[TrialRecord] = []

        def keep(record: TrialRecord) -> None:
            self._writer.add(record)
            attempts.append(record)
            self._pause(attempts)

        try:
            records = run_trial(
                self._bed,
                spec,
                run_id=self._writer.run_id,
                index=index,
                role=self._role,
                limits=self.limits,
                max_attempts=self._max_attempts,
                set_rules=set_rules,
                require_valid=True,
                on_attempt=lambda _, last: self._meter.tell(again(spec, last)) if last else None,
                on_record=keep,
                completed=self._completed,
                now=self._now,
            )
        except FailedTrial:
            self._rules = spec.rules
            raise
        self._rules = spec.rules
        self._ahead_s = later_s
        self._meter.count(describe_spec(spec), records[-1])
        return records[-1]

    @interruptible
    def _pause(self, attempts: Sequence[TrialRecord]) -> None:
        """Give the host time to finish what spoiled the last attempt, unless that was the load itself."""
        last = attempts[-1]
        over = last.valid or len(attempts) == self._max_attempts
        if over or last.result.received == 0 or senders_limit(attempts, self.limits):
            return
        pause_s = PAUSES_S[min(len(attempts), len(PAUSES_S)) - 1]
        if pause_s > 0:
            self._meter.tell(f"waiting for a quieter host: {describe_spec(last.spec)}")
            self._sleep(pause_s)
