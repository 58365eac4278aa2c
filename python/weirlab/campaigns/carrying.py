"""Steps measured by the test beds of a cluster: what is sent to a worker, and what comes back."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from weirlab.base.errors import StoreError, WeirError
from weirlab.base.files import HOST_FILES, scratch_folder
from weirlab.campaigns.section import CampaignScenario, CampaignStep
from weirlab.campaigns.steps import StepRecord, StepStore, measure, told
from weirlab.jobs import cluster, worker
from weirlab.jobs.calibrations import calibrate
from weirlab.jobs.cluster import Cluster
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.status import WorkerStatus
from weirlab.jobs.work import Work
from weirlab.measure.calibrate import Calibration
from weirlab.scenario import CalibrationSection, Lab
from weirlab.scenario.load import from_plain
from weirlab.store import Store
from weirlab.store.manifest import versions
from weirlab.studies.registry import studies

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
