"""One point of a sweep in Weir's own simulator, or in ns-3."""

from __future__ import annotations

import csv
import io
import math
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event
from typing import Any, Protocol

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability
from weirlab.base.files import Inputs
from weirlab.base.quoting import shortened
from weirlab.devices.simulation.section import WARMUP, SimulationScenario, SweepPoint
from weirlab.jobs.simulated import queueing_model
from weirlab.lab.sim import Axis, SimDevice, SimLab, SimulatedModel
from weirlab.model.process import BehaviourGrid
from weirlab.model.queueing import QueueingModel
from weirlab.records import RuleSetup
from weirlab.simulators import write_module
from weirlab.traffic.sizes import Constant
from weirlab.traffic.spec import Rate, Traffic

_POLL_S = 0.2


@dataclass(frozen=True)
class PointResult:
    """What happened to the packets of a point; NaN where none came through."""

    loss_ratio: float
    delay_mean_ns: float
    delay_p50_ns: float
    delay_p99_ns: float


class PointSimulator(Protocol):
    """Simulates points, several at once in threads."""

    @property
    def device(self) -> str:
        """Its name."""

    @property
    def model(self) -> QueueingModel | None:
        """Its model, to predict from."""

    def run(self, point: SweepPoint) -> PointResult:
        """Simulate ``point``."""

    def stop(self) -> None:
        """Let the simulations that run now end early."""


@contextmanager
def simulator(asked: SimulationScenario, inputs: Inputs) -> Iterator[PointSimulator]:
    """The simulator that ``asked`` names.

    Raises
    ------
    InputError, ModelError
        The model cannot be used.
    MissingCapability
        ns-3, a compiler or make is missing.
    """
    path, kind = asked.lab.model, asked.simulation.simulator
    if path is None:
        yield WeirSimulator(SimDevice(**asked.lab.device.model_dump()))
        return
    device, model = queueing_model(path, inputs)
    if kind == "weir":
        yield WeirSimulator(SimDevice(**asked.lab.device.model_dump()), device.name, model)
        return
    with TemporaryDirectory(prefix="weir-ns3-") as folder:
        module = Path(folder) / "module"
        write_module(device, "ns3", module)
        done = programs.run(["make", "-C", str(module), "weir-example"], capture_output=True, text=True)
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if "error" in line.lower()] or [done.stderr]
            raise MissingCapability(
                f"the module for ns-3 cannot be built ({shortened(lines[0].strip(), 200)}); install what it "
                "needs: apt install libns3-dev g++ make"
            )
        yield Ns3Simulator(module, device.name, model)


class WeirSimulator:
    """The simulated lab; the engine lets other threads run meanwhile."""

    def __init__(
        self, device: SimDevice, name: str = "simulated", model: QueueingModel | None = None
    ) -> None:
        self.device, self.model = name, model
        self._device = device

        @cache
        def behaviour(positions: Axis, frames: Axis) -> Mapping[str, Any]:
            assert model is not None
            return BehaviourGrid.of(model, positions, frames).plain()

        self._simulated = None if model is None else SimulatedModel(name, behaviour)

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

    def __init__(self, module: Path, device: str, model: QueueingModel) -> None:
        self.device, self.model = device, model
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
