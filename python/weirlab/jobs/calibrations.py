"""Calibration of the test bed, and which calibration is in force."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from weirlab.base.documents import plain
from weirlab.base.errors import InputError
from weirlab.jobs import testbeds
from weirlab.jobs.progress import Progress, kept, passed_on
from weirlab.jobs.testbeds import choose
from weirlab.lab.base import TestBed
from weirlab.measure import calibrate as measuring
from weirlab.measure.calibrate import Calibration
from weirlab.scenario import NO_DEVICE, CalibrationSection, Dut, Lab
from weirlab.store import Store
from weirlab.traffic.load import parse_rate


@dataclass(frozen=True)
class CalibrationOutcome:
    """A calibration, kept in the store as a separate run."""

    calibration: Calibration

    def document(self) -> dict[str, Any]:
        """For ``--json``: the summary at the top level, and one entry of ``points`` per load."""
        content = plain(self.calibration)
        summary = content.pop("summary")
        return {"kind": "calibration", "run_id": self.calibration.id, **summary, **content}


def calibrate(
    store: Store, lab: Lab, plan: CalibrationSection, progress: Progress, *, command: str = ""
) -> CalibrationOutcome:
    """Measure what the tool itself adds, over a cable without a device.

    Raises
    ------
    InputError, MissingCapability
        The simulated lab has no cable.
    """
    if lab.kind == "sim":
        raise InputError("the simulated lab has no cable to calibrate against; use --lab netns as root")
    choose(lab, Dut(name=NO_DEVICE), progress)
    rates = [parse_rate(text) for text in plan.rates]
    with testbeds.open_cable(lab) as bed:
        scenario = {
            "name": "calibration",
            "lab": lab.model_dump(mode="json"),
            "calibrate": plan.model_dump(mode="json"),
        }
        facts = testbeds.facts(bed, command)
        progress.stage("calibrating over a plain cable")
        with kept(lambda: store.create("calibrate", scenario, facts)) as writer:
            calibration = measuring.calibrate(
                bed,
                writer,
                passed_on(progress),
                plan=measuring.CalibrationPlan(rates, repetitions=plan.repetitions, trial_s=plan.trial_s),
            )
    return CalibrationOutcome(calibration)


def in_force(store: Store, bed: TestBed) -> Calibration | None:
    """The newest calibration for this host, kernel, lab and back end; None for the simulated lab."""
    if bed.lab == "sim":
        return None
    between = tuple(map(str, testbeds.facts(bed).get("between", ())))
    return measuring.current(store, lab=bed.lab, backend=bed.backend, between=between)
