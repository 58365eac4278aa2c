"""Numbers of calls known beforehand, each several times, in random order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.calls.capacity.trials.keeper import CallRecorder
from weirlab.calls.capacity.trials.search import CallCapacity
from weirlab.calls.capacity.trials.setting import CallTraffic
from weirlab.lab.base import TestBed
from weirlab.measure import sequence
from weirlab.measure.calls import ROLE
from weirlab.measure.progress import OnProgress
from weirlab.measure.sequence import Part, SequenceOutcome
from weirlab.measure.terms import USUAL, TrialTerms
from weirlab.measure.trial import Hooks
from weirlab.records import TrialRecord, TrialSpec
from weirlab.store import RunWriter

SWEEP: Final = "sweep"
"""Name of the plan in its run."""


@dataclass(frozen=True)
class CallSweep:
    """Every number of calls of each position, ``repetitions`` times."""

    counts: Mapping[int, tuple[int, ...]]
    """By position."""
    repetitions: int = 7
    trial_s: float = 1.0
    warmup_s: float = 0.2
    seed: int = 1

    @property
    def order(self) -> list[tuple[int, int, int]]:
        """Run (from 1), position and number of calls of each trial.

        Each run goes through everything in an order of its own, so that a slow change of the host meets
        all numbers of calls alike.
        """
        rng = random.Random(self.seed)
        order = []
        for run in range(1, self.repetitions + 1):
            once = [(run, position, n) for position, counts in self.counts.items() for n in counts]
            rng.shuffle(once)
            order += once
        return order


def around(found: Sequence[CallCapacity], shares: Sequence[float]) -> tuple[int, ...]:
    """Numbers of calls below, at and above what the goals of a search found at one position; ascending.

    Where even the fewest were too many these count; where more cannot be made none are above. Empty where
    nothing was found.
    """
    answers = {one.calls or one.too_many: one.at_least for one in found if one.calls or one.too_many}
    known = {count: last for count, last in answers.items() if count is not None}
    if not known:
        return ()
    least, most = min(known), max(known)
    below = {max(round(share * least), 1) for share in shares if share < 1}
    above = set() if known[most] else {round(share * most) for share in shares if share > 1}
    return tuple(sorted(below | {least, most} | above))


def specs(sweep: CallSweep, setting: CallTraffic) -> list[TrialSpec]:
    """The trials of ``sweep`` in order."""
    return [
        setting.spec(
            position, count, trial_s=sweep.trial_s, warmup_s=sweep.warmup_s, label=f"{count} calls, run {run}"
        )
        for run, position, count in sweep.order
    ]


def sweep(
    bed: TestBed,
    what: CallSweep,
    setting: CallTraffic,
    writer: RunWriter,
    keeper: CallRecorder,
    on_progress: OnProgress | None = None,
    *,
    terms: TrialTerms = USUAL,
) -> SequenceOutcome:
    """Do ``what``, or what is left of it in the run; see :func:`weirlab.measure.sequence.run`."""
    order = what.order
    first = (
        sequence.kept_plan(writer, SWEEP).first_index if writer.has(SWEEP) else sequence.next_index(writer)
    )
    planned: Sequence[TrialSpec] = specs(what, setting)

    def completed(record: TrialRecord) -> TrialRecord:
        return keeper.complete(record, "sweep", order[record.index - first][0])

    return sequence.run(
        bed,
        planned,
        writer,
        Part(ROLE, SWEEP, first),
        on_progress,
        terms=terms,
        hooks=Hooks(completed=completed),
    )
