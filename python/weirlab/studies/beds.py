"""The test bed with one device under test, shared by several studies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from weirlab.base.interrupts import shielded
from weirlab.jobs import testbeds
from weirlab.jobs.calibrations import CalibrationOutcome, calibrate, in_force
from weirlab.jobs.progress import SilentProgress
from weirlab.jobs.work import Work
from weirlab.lab.base import TestBed
from weirlab.scenario import CalibrationSection, Dut, Lab
from weirlab.studies.contract import Ground
from weirlab.traffic.calls.spec import Calls
from weirlab.traffic.sizes import SizeMix
from weirlab.traffic.spec import Flows


@dataclass(frozen=True)
class DeviceGround(Ground[TestBed]):
    """A device in its bed, and the calibration that was measured beforehand, if any."""

    calibrated: CalibrationOutcome | None = None


@contextmanager
@shielded
def opened(
    work: Work,
    lab: Lab,
    dut: Dut,
    plan: CalibrationSection | None,
    *,
    flows: Flows = testbeds.USUAL_FLOWS,
    calls: Calls | None = None,
    sizes: Iterable[SizeMix] = (),
) -> Iterator[DeviceGround]:
    """Open the bed of ``dut``; a new run in a real lab is calibrated first by ``plan``."""
    calibrated = None
    if plan is not None and work.begun is None and testbeds.choose(lab, dut, SilentProgress()) == "netns":
        calibrated = calibrate(work.store, lab, plan, work.progress, command=work.command)
    with testbeds.open_bed(lab, dut, work.progress, calls or flows, sizes, work.inputs) as bed:
        testbeds.tell_if_busy(bed.lab, work.progress)
        yield DeviceGround(bed, testbeds.facts(bed), in_force(work.store, bed), calibrated)
