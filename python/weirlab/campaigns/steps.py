"""One step of a campaign, here or on a test bed of a cluster; it counts once its record is written.

A step is measured in a store of its own. The runs of a campaign are in the folder ``steps`` of its own run,
which is a store. A record of each step is beside them. A run without one does not count: the process was
killed before it could write that.
"""

from __future__ import annotations

import io
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

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
from weirlab.base.files import HOST_FILES, Inputs, scratch_folder
from weirlab.base.storage import run_ids
from weirlab.campaigns.section import CampaignScenario, CampaignStep
from weirlab.jobs import cluster, worker
from weirlab.jobs.calibrations import calibrate
from weirlab.jobs.cluster import Cluster
from weirlab.jobs.progress import Left, SilentProgress
from weirlab.jobs.status import WorkerStatus
from weirlab.jobs.work import Work
from weirlab.measure.calibrate import Calibration
from weirlab.scenario import CalibrationSection, Lab
from weirlab.scenario.load import from_plain
from weirlab.store import Run, Store
from weirlab.store.files import load_json, telling, write_json
from weirlab.store.manifest import host, versions
from weirlab.studies.contract import Measure
from weirlab.studies.registry import studies, study_of
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


LEAST_LEASE_S: Final = 600.0
LEASE_RATIO: Final = 4.0
"""A step may take so many times as long as expected."""

MOST_FALSE_LOSS: Final = 1e-3
MOST_PACING_ERROR: Final = 0.1
"""Limits of a calibration beyond which a test bed measures nothing."""

_FAULTS_BEFORE_CHECK: Final = 2
_faults = 0
"""Steps in a row that this worker could not measure."""


@dataclass(frozen=True)
class CarriedStep:
    """What a worker sends back."""

    record: StepRecord
    run: bytes = b""
    """The folder of the run as a tar archive; empty without one."""
    quarantine: str = ""
    """Why this test bed measures nothing any more, in which case the step was not tried."""


def bed_problem(calibration: Calibration) -> str:
    """Why results of a bed with this ``calibration`` would be worthless; empty if they are not."""
    if not calibration.sent:
        return "no trial over a plain cable was valid"
    if calibration.false_loss_ratio > MOST_FALSE_LOSS:
        return f"{calibration.false_loss_ratio:.2%} of the packets are lost over a plain cable"
    if calibration.pacing_error_ratio > MOST_PACING_ERROR:
        return f"the load differs from the wanted one by {calibration.pacing_error_ratio:.0%}"
    return ""


def check_bed(lab: Lab) -> str:
    """Calibrate the bed of this machine; why it measures nothing useful, or empty."""
    plan = CalibrationSection(rates=("10kpps", "100kpps"), repetitions=3)
    with scratch_folder("weir-bed-") as folder:
        try:
            return bed_problem(calibrate(Store(folder), lab, plan, SilentProgress()).calibration)
        except WeirError as error:
            return told(error)


def carry_out(
    version_there: str, content: dict[str, Any], step: CampaignStep, lease_s: float, run_id: str = ""
) -> CarriedStep:
    """Measure ``step`` of the campaign ``content``, whose run is ``run_id``, on this worker.

    Its folder is removed again.
    """
    global _faults
    record = StepRecord(step.number, host=worker.STATE.name)
    if version_there != versions()["weirlab"]:
        why = f"it has Weir {versions()['weirlab']}, and the campaign {version_there}"
        worker.retire(why)
        return CarriedStep(record, quarantine=why)
    asked = from_plain(content, "the campaign", CampaignScenario)
    with scratch_folder("weir-step-") as folder:
        scratch = folder / "step"
        try:
            lab = getattr(asked.root(step, HOST_FILES), "lab", None)
            if _faults >= _FAULTS_BEFORE_CHECK and isinstance(lab, Lab) and lab.kind != "sim":
                if why := check_bed(lab):
                    worker.retire(why)
                    return CarriedStep(record, quarantine=why)
                _faults = 0
            with worker.busy(run_id, step.place, lease_s) as progress, worker.lease(lease_s):
                found = measure(asked, step, scratch, progress, HOST_FILES)
        except WeirError as error:
            return CarriedStep(replace(record, problem=told(error)))
        found = replace(found, host=worker.STATE.name)
        _faults = _faults + 1 if found.problem else 0
        return CarriedStep(found, _packed(scratch / found.run_id) if found.run_id else b"")


def _packed(run: Path) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz", compresslevel=1) as archive:
        archive.add(run, run.name)
    return content.getvalue()


class ClusterCarrier:
    """Has steps measured by test beds; see ``StepCarrier``."""

    def __init__(self, asked: CampaignScenario, steps: StepStore, work: Work, workers: Cluster) -> None:
        self._asked, self._steps, self._work = asked, steps, work
        self._content = asked.model_dump(mode="json")
        self._known: dict[int, CampaignStep] = {}
        self._cluster = workers

    @property
    def room(self) -> int:
        return self._cluster.room

    def workers(self) -> tuple[WorkerStatus, ...]:
        return self._cluster.statuses()

    def submit(self, step: CampaignStep, attempt: int) -> None:
        self._known[step.number] = step
        root = self._asked.root(step, self._work.inputs)
        expected_s = studies()[root.KEY].expected_s(root) or 0.0
        lease_s = max(LEASE_RATIO * expected_s, LEAST_LEASE_S)
        arguments = (versions()["weirlab"], self._content, step, lease_s, self._steps.campaign)
        self._cluster.submit(step.number, carry_out, *arguments)

    def results(self) -> Iterator[StepRecord]:
        for done in self._cluster.results():
            if done.error is not None:
                yield StepRecord(done.key, problem=cluster.failure(done.error))
                continue
            carried: CarriedStep = done.value
            if carried.quarantine:
                self._cluster.note_quarantine(carried.record.host, carried.quarantine)
                self.submit(self._known[done.key], 1)
                continue
            if carried.run:
                self._unpack(done.key, carried)
            yield carried.record

    def _unpack(self, number: int, carried: CarriedStep) -> None:
        folder = self._steps.scratch(number)
        try:
            with tarfile.open(fileobj=io.BytesIO(carried.run)) as archive:
                archive.extractall(folder, filter="data")
        except OSError as error:
            raise StoreError(f"{folder}: a run from {carried.record.host} cannot be kept: {error}") from error
