"""One step of a campaign: it is measured in a store of its own, and counts once its record is written.

The runs of a campaign are in the folder ``steps`` of its own run, which is a store. A record of each step
is beside them. A run without one does not count: the process was killed before it could write that.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from weirlab.base.documents import Measured, typed
from weirlab.base.errors import (
    LabError,
    MissingCapability,
    ModelError,
    StoreError,
    TrialError,
    Undecided,
    WeirError,
)
from weirlab.base.files import Inputs
from weirlab.base.storage import run_ids
from weirlab.campaigns.section import CampaignScenario, CampaignStep
from weirlab.jobs.progress import Left, SilentProgress
from weirlab.store import Run, Store
from weirlab.store.files import load_json, telling, write_json
from weirlab.store.manifest import host
from weirlab.studies.contract import Measure
from weirlab.studies.registry import study_of
from weirlab.studies.runner import resume_scenario, run_scenario

FOLDER: Final = "steps"
"""Folder of a campaign's run with the runs of its steps."""

FAULTS: Final = (MissingCapability, LabError, TrialError, ModelError, Undecided)
"""Errors of one step, after which the others go on."""


@dataclass(frozen=True)
class StepRecord:
    """What became of a step."""

    number: int
    run_id: str = ""
    """Empty if it has no run that counts."""
    problem: str = ""
    """Why not."""
    host: str = ""
    """The machine that measured it, or its test bed's name."""
    attempts: int = 1
    elapsed_s: Measured = 0.0
    """Of the last attempt, in s."""
    trials: int = 0
    """Attempts at trials in its run."""
    simulated: bool = False
    """Whether its device was simulated."""
    measures: tuple[Measure, ...] = field(default_factory=tuple)

    @property
    def counts(self) -> bool:
        """Whether the step need not be tried again."""
        return not self.problem


class StepNotes(SilentProgress):
    """Passes on what the user should know about a step, each sentence once, and the number of its trials."""

    def __init__(self, tell: Callable[[str], object], advance: Callable[[int, int], object]) -> None:
        self._tell, self._advance = tell, advance
        self._known: set[str] = set()

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        self._advance(done, total)

    def note(self, message: str) -> None:
        if message not in self._known:
            self._known.add(message)
            self._tell(message)


def measure(
    scenario: CampaignScenario, step: CampaignStep, scratch: Path, notes: SilentProgress, inputs: Inputs
) -> StepRecord:
    """Measure ``step`` as the only run of a store in ``scratch``; errors of :data:`FAULTS` are in the record.

    A run that was interrupted there goes on, unless its device is simulated: then it would be another one.
    """
    begun = time.monotonic()
    store = Store(scratch)
    record = StepRecord(step.number, host=host())
    try:
        root = scenario.root(step, inputs)
        known = [one for one in store.runs() if one.status == "interrupted" and not one.simulated]
        if known:
            outcome = resume_scenario(store, known[0].run_id, notes, inputs=inputs)
        else:
            if scratch.exists():
                shutil.rmtree(scratch)
            outcome = run_scenario(store, root, notes, inputs=inputs)
        if (problem := outcome.problem()) is not None:
            raise problem
        run = outcome.run
        measures = tuple(study_of(run).measures(run))
        trials = run.manifest.trials or 0
        record = replace(record, run_id=run.run_id, simulated=run.simulated, trials=trials, measures=measures)
    except FAULTS as error:
        record = replace(record, problem=told(error))
    return replace(record, elapsed_s=time.monotonic() - begun)


def told(error: WeirError) -> str:
    """``error`` for a record, which is never empty."""
    return str(error) or type(error).__name__


class StepStore:
    """The runs and records of a campaign's steps, in the folder of its run."""

    def __init__(self, run: Run) -> None:
        self.campaign = run.run_id
        self.path = run.path / FOLDER

    def scratch(self, number: int) -> Path:
        """The folder in which a step is measured."""
        return self.path / f".{number}"

    def keep(self, record: StepRecord) -> None:
        """Keep the run of ``record`` from its scratch folder, and then the record, which makes it count."""
        scratch = self.scratch(record.number)
        with telling(self.path, "keep a step"):
            scratch.mkdir(exist_ok=True)
            if record.run_id:
                os.rename(scratch / record.run_id, self.path / record.run_id)
            # Written in a small folder: every write looks for what killed processes left beside it.
            written = scratch / "record.json"
            write_json(written, record)
            os.rename(written, self.path / f"{record.number:06}.json")
        if record.counts:
            shutil.rmtree(scratch, ignore_errors=True)

    def records(self) -> dict[int, StepRecord]:
        """The records by step."""
        return {record.number: record for record in self._records()}

    def _records(self) -> Iterator[StepRecord]:
        if not self.path.is_dir():
            return
        with telling(self.path, "read"):
            names = [entry.name for entry in os.scandir(self.path) if entry.name.endswith(".json")]
        for name in names:
            path = self.path / name
            remedy = "delete it: the step is then measured again"
            try:
                yield typed(StepRecord, load_json(path, remedy))
            except ValueError as error:
                raise StoreError(f"{path} is damaged ({error}); {remedy}") from error

    def prepare(self) -> None:
        """Make the folder, and remove runs that never counted."""
        with telling(self.path, "make the folder"):
            self.path.mkdir(exist_ok=True)
        known = {record.run_id for record in self._records()}
        for name in run_ids(self.path):
            if name not in known:
                shutil.rmtree(self.path / name, ignore_errors=True)
