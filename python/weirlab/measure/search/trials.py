"""Trials that each depend on the last: carried out, judged, repeated and kept one by one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from weirlab.base.interrupts import interruptible
from weirlab.lab.base import TestBed
from weirlab.measure.progress import OnProgress, ProgressMeter, trial_s
from weirlab.measure.sequence import again, describe_spec
from weirlab.measure.terms import TrialTerms
from weirlab.measure.trial import FailedTrial, Hooks, TrialEntry, run_trial
from weirlab.measure.validity import ValidityLimits
from weirlab.records import RuleSetup, TrialRecord, TrialSpec
from weirlab.store import RunWriter

PAUSES_S: Final = (0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Pauses after spoiled attempts, of which the last one repeats: other work on the host comes in bursts of
seconds, longer than a few attempts in a row take."""

MAX_ATTEMPTS: Final = 10
"""A search cannot leave a trial out, so it is worth more attempts than a trial of a profile."""

TERMS: Final = TrialTerms(max_attempts=MAX_ATTEMPTS)


class SearchTrialRunner:
    """Carries out one trial after the other in ``bed`` and keeps each attempt in ``writer``'s run.

    ``elapsed_s`` and ``done`` count what has been measured so far. If the run also has other trials,
    ``first`` gives the first index and the role of these. ``completed`` returns each attempt in the form
    in which it is kept.
    """

    def __init__(
        self,
        bed: TestBed,
        writer: RunWriter,
        on_progress: OnProgress | None = None,
        *,
        terms: TrialTerms = TERMS,
        first: TrialEntry | None = None,
        completed: Callable[[TrialRecord], TrialRecord] | None = None,
    ) -> None:
        self._bed = bed
        self._writer = writer
        self._terms = terms
        self._first = first or TrialEntry(writer.run_id, role="search")
        self._completed = completed
        self._clock = terms.clocks.seconds
        self._meter = ProgressMeter((), self._clock, on_progress)
        self._begun_s = self._clock()
        self._rules: RuleSetup | None = None
        self._ahead_s: list[float] = []
        self.done = 0

    @property
    def limits(self) -> ValidityLimits:
        """The limits beyond which the host has spoiled an attempt."""
        return self._terms.limits

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._begun_s

    def expect(self, ahead_s: Iterable[float]) -> None:
        """Expect trials with these wall times in s; an estimate for the progress."""
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
        # If setting the rules fails half-way, the device's rules are unknown.
        self._rules = None if set_rules else self._rules
        index, self.done = self._first.index + self.done, self.done + 1
        attempts: list[TrialRecord] = []

        def keep(record: TrialRecord) -> None:
            self._writer.add(record)
            attempts.append(record)
            self._pause(attempts)

        try:
            records = run_trial(
                self._bed,
                spec,
                replace(self._first, index=index),
                terms=self._terms,
                hooks=Hooks(
                    on_attempt=lambda _, last: self._meter.tell(again(spec, last)) if last else None,
                    on_record=keep,
                    completed=self._completed,
                ),
                set_rules=set_rules,
                require_valid=True,
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
        over = last.valid or len(attempts) == self._terms.attempts
        if over or last.result.received == 0 or senders_limit(attempts, self.limits):
            return
        pause_s = PAUSES_S[min(len(attempts), len(PAUSES_S)) - 1]
        if pause_s > 0:
            self._meter.tell(f"waiting for a quieter host: {describe_spec(last.spec)}")
            self._terms.clocks.sleep(pause_s)


SENDER_SPREAD: Final = 0.05
"""Attempts at a load beyond the sender's reach achieve the same within this share."""


def senders_limit(records: Sequence[TrialRecord], limits: ValidityLimits) -> bool:
    """Whether the load itself was too high for the sender in all of these attempts.

    It then sends at about the same rate each time. The rate of a sender that the host keeps
    from running varies, and says nothing about the load.
    """
    if not all(_fell_short(record, limits) for record in records):
        return False
    achieved = [record.result.achieved_pps for record in records]
    return min(achieved) >= (1 - SENDER_SPREAD) * max(achieved) > 0


def _fell_short(record: TrialRecord, limits: ValidityLimits) -> bool:
    if not math.isfinite(record.offered_pps):
        return False
    asked = record.offered_pps * record.result.record_s
    return unsent(record) > limits.pacing_ratio * asked


def unsent(record: TrialRecord) -> int:
    """Frames by which the sender is behind: not sent, or sent late at the end."""
    result = record.result
    asked = record.offered_pps * result.record_s
    return max(0, round(asked - result.sent), round(record.offered_pps * result.slipped_ns / 1e9))
