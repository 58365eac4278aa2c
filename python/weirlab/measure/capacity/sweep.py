"""Fixed numbers of calls, each several times, in random order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from weirlab.lab.base import TestBed
from weirlab.measure import sequence
from weirlab.measure.calls import ROLE
from weirlab.measure.capacity.keeper import Keeper
from weirlab.measure.capacity.setting import Setting
from weirlab.measure.progress import OnProgress
from weirlab.measure.sequence import MAX_ATTEMPTS, Outcome
from weirlab.records import TrialSpec
from weirlab.store import RunWriter

SWEEP: Final = "sweep"
"""Name of the plan in its run."""


@dataclass(frozen=True)
class Sweep:
    """Every number of calls at every position, ``repetitions`` times."""

    counts: tuple[int, ...]
    positions: tuple[int, ...]
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
            once = [(run, position, count) for position in self.positions for count in self.counts]
            rng.shuffle(once)
            order += once
        return order


def specs(sweep: Sweep, setting: Setting) -> list[TrialSpec]:
    """The trials of ``sweep`` in order."""
    return [
        setting.spec(
            position, count, trial_s=sweep.trial_s, warmup_s=sweep.warmup_s, label=f"{count} calls, run {run}"
        )
        for run, position, count in sweep.order
    ]


def sweep(
    bed: TestBed,
    what: Sweep,
    setting: Setting,
    writer: RunWriter,
    keeper: Keeper,
    on_progress: OnProgress | None = None,
    *,
    max_attempts: int = MAX_ATTEMPTS,
    **how: Any,
) -> Outcome:
    """Do ``what``, or what is left of it in the run; see :func:`weirlab.measure.sequence.run`."""
    order = what.order
    first = (
        sequence.kept_plan(writer, SWEEP).first_index if writer.has(SWEEP) else sequence.next_index(writer)
    )
    planned: Sequence[TrialSpec] = specs(what, setting)
    return sequence.run(
        bed,
        planned,
        writer,
        on_progress,
        role=ROLE,
        plan_name=SWEEP,
        first_index=first,
        max_attempts=max_attempts,
        completed=lambda record: keeper.complete(record, "sweep", order[record.index - first][0]),
        **how,
    )
