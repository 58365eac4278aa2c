"""One point of a sweep in Weir's own simulator, or in ns-3."""

from __future__ import annotations

import csv
import io
import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from threading import Event
from typing import Any, Final, Protocol, Self

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability
from weirlab.base.files import Inputs, scratch_folder
from weirlab.base.quoting import shortened
from weirlab.devices.simulation.section import WARMUP, SimulationScenario, SimulatorChoice, SweepPoint
from weirlab.jobs.simulated import queueing_model
from weirlab.lab.sim import Axis, SimDevice, SimLab, SimulatedModel
from weirlab.model.io import DeviceModels, from_document, to_document
from weirlab.model.process import BehaviourGrid
from weirlab.model.queueing import QueueingModel
from weirlab.records import RuleSetup
from weirlab.simulators import write_module
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

_POLL_S: Final = 0.2


@dataclass(frozen=True)
class PointResult:
    """What happened to the packets of a point; NaN where none came through."""

    loss_ratio: float
    delay_mean_ns: float
    delay_p50_ns: float
    delay_p99_ns: float


class PointSimulator(Protocol):
    """Simulates points, several at once in threads if need be."""

    def run(self, point: SweepPoint) -> PointResult:
        """Simulate ``point``."""

    def stop(self) -> None:
        """Let the simulations that run now end early."""


@dataclass(frozen=True)
class SweepDevice:
    """The device of a sweep, and what simulates it, in values that can be sent to a worker."""

    simulated: SimDevice
    simulator: SimulatorChoice
    models: str = ""
    """The text of a model file with the measured device alone; empty for Weir's built-in device."""

    @classmethod
    def of(cls, asked: SimulationScenario, inputs: Inputs) -> Self:
        """The device that ``asked`` names; ``InputError`` or ``ModelError`` if its model cannot be used."""
        simulated, kind = SimDevice(**asked.lab.device.model_dump()), asked.simulation.simulator
        if asked.lab.model is None:
            return cls(simulated, kind)
        device, _ = queueing_model(asked.lab.model, inputs)
        return cls(simulated, kind, json.dumps(to_document([device]), allow_nan=False))

    @property
    def fitted(self) -> DeviceModels | None:
        """The measured device."""
        return _fitted(self.models) if self.models else None

    @property
    def name(self) -> str:
        return "simulated" if self.fitted is None else self.fitted.name

    @property
    def model(self) -> QueueingModel | None:
        """Its model, to predict from."""
        model = None if self.fitted is None else self.fitted.models[QueueingModel.name]
        assert model is None or isinstance(model, QueueingModel)
        return model


@lru_cache(maxsize=1)
def _fitted(models: str) -> DeviceModels:
    return from_document(json.loads(models), "the model")[0]


@contextmanager
def simulator(device: SweepDevice) -> Iterator[PointSimulator]:
    """What simulates ``device``; raises ``MissingCapability`` if ns-3, a compiler or make is missing."""
    if device.fitted is None or device.simulator == "weir":
        yield WeirSimulator(device)
        return
    with scratch_folder("weir-ns3-") as folder:
        module = folder / "module"
        write_module(device.fitted, "ns3", module)
        done = programs.run(["make", "-C", str(module), "weir-example"], capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line.lower()] or [done.stderr]
            raise MissingCapability(
                f"the module for ns-3 cannot be built ({shortened(lines[0].strip(), 200)}); install what it "
                "needs: apt install libns3-dev g++ make"
            )
        yield Ns3Simulator(module)


class WeirSimulator:
    """The simulated lab; the engine lets other threads run meanwhile."""

    def __init__(self, device: SweepDevice) -> None:
        self._device, model = device.simulated, device.model

        @cache
        def behaviour(positions: Axis, frames: Axis) -> Mapping[str, Any]:
            assert model is not None
            return BehaviourGrid.of(model, positions, frames).plain()

        self._simulated = None if model is None else SimulatedModel(device.name, behaviour)

    def run(self, point: SweepPoint) -> PointResult:
        lab = SimLab(self._device, self._simulated)
        lab.set_rules(RuleSetup(point.rules))
        warmup_s = WARMUP * point.seconds
        traffic = Traffic(
            Rate(point.rate_pps),
            Constant(point.frame_bytes),
            warmup_s=warmup_s,
            duration_s=point.seconds - warmup_s,
            seed=point.seed,
        )
        found = lab.run(traffic)
        if not found.received:
            return PointResult(1.0, math.nan, math.nan, math.nan)
        p50, p99 = (found.histogram.quantile_ns(share) for share in (0.5, 0.99))
        return PointResult(found.lost / found.sent, found.delay_mean_ns, p50, p99)

    def stop(self) -> None:
        """A simulation takes less than a second."""


class Ns3Simulator:
    """The example of the module for ns-3, a process for each point."""

    def __init__(self, module: Path) -> None:
        self._module, self._stopped = module, Event()

    def run(self, point: SweepPoint) -> PointResult:
        words = {
            "Position": point.rules,
            "FrameBytes": point.frame_bytes,
            "Rate": repr(point.rate_pps),
            "Seconds": repr(point.seconds),
            "Seed": point.seed,
        }
        command = [str(self._module / "weir-example"), *(f"--{name}={word}" for name, word in words.items())]
        pipe = subprocess.PIPE
        with programs.start(command, cwd=self._module, stdout=pipe, stderr=pipe, text=True) as process:
            while True:
                try:
                    shown, told = process.communicate(timeout=_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    if self._stopped.is_set():
                        process.kill()
        if process.returncode:
            raise LabError(f"ns-3 ended with {process.returncode}: {shortened(told.strip(), 200)}")
        (row,) = csv.DictReader(io.StringIO(shown))
        delays = (1e3 * float(row[f"delay_{name}_us"]) for name in ("mean", "p50", "p99"))
        return PointResult(float(row["loss_ratio"]), *delays)

    def stop(self) -> None:
        self._stopped.set()
