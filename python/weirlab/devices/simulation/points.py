"""The points of a sweep in Weir's own simulator or in ns-3, in threads of this process or by workers."""

from __future__ import annotations

import atexit
import csv
import io
import json
import math
import os
import subprocess
import time
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from threading import Event
from typing import Any, Final, Protocol, Self

from weirlab.base import programs
from weirlab.base.errors import LabError, MissingCapability, WeirError
from weirlab.base.files import Inputs, scratch_folder
from weirlab.base.quantities import plural, rate, rules
from weirlab.base.quoting import shortened
from weirlab.devices.simulation.section import WARMUP, SimulationScenario, SimulatorChoice, SweepPoint
from weirlab.jobs import cluster, worker
from weirlab.jobs.cluster import Cluster, ClusterAddress
from weirlab.jobs.simulated import queueing_model
from weirlab.jobs.status import WorkerStatus, this_machine
from weirlab.jobs.work import Work
from weirlab.lab.sim import Axis, SimDevice, SimLab, SimulatedModel
from weirlab.model.io import DeviceModels, from_document, to_document
from weirlab.model.process import BehaviourGrid
from weirlab.model.queueing import QueueingModel
from weirlab.records import RuleSetup
from weirlab.simulators import write_module
from weirlab.store.manifest import versions
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


JOBS: Final = "WEIR_JOBS"
"""The environment variable that sets how many points are simulated at once."""
_BATCH: Final = 8
"""Points that a worker gets at once: Weir's own simulator needs little longer for one than Dask."""

_opened = dict[SweepDevice, PointSimulator]()
_opening = ExitStack()
"""What a worker simulates with, kept for the next points: ns-3's module takes long to build."""


@dataclass(frozen=True)
class SimulatedPoint:
    """A point, what happened to its packets, and how long the simulation took."""

    point: SweepPoint
    result: PointResult
    wall_s: float
    worker: str
    """The name of the machine, or of the worker."""

    @classmethod
    def of(cls, made: PointSimulator, point: SweepPoint, worker: str) -> SimulatedPoint:
        """Simulate ``point`` on this ``worker``."""
        began = time.monotonic()
        return cls(point, made.run(point), time.monotonic() - began, worker)


class PointCarrier(Protocol):
    """Has points simulated."""

    @property
    def device(self) -> SweepDevice:
        """The device of all points."""

    @property
    def underway(self) -> int:
        """How many points were begun, or sent to a worker, and have no result."""

    def workers(self) -> tuple[WorkerStatus, ...]:
        """What each of those that simulate does, without what the sweep has of it."""

    def results(self, points: Sequence[SweepPoint], run_id: str) -> Generator[Sequence[SimulatedPoint]]:
        """Simulate ``points`` of a run, in any order; what is new several times a second, maybe nothing."""


@contextmanager
def carrier(device: SweepDevice, address: ClusterAddress | None, work: Work) -> Iterator[PointCarrier]:
    """Simulates here, or on the cluster at ``address``.

    Raises
    ------
    MissingCapability
        ns-3, a compiler or make is missing.
    LabError
        No scheduler answers.
    """
    if address is None:
        with simulator(device) as made:
            yield ThreadCarrier(device, made)
    else:
        with Cluster(address, worker.ANALYSIS, work.progress.note) as workers:
            yield WorkerCarrier(device, workers)


def jobs() -> int:
    """How many points are simulated at once: ``WEIR_JOBS``, or the CPUs that this process may use."""
    text = os.environ.get(JOBS, "")
    return max(int(text), 1) if text.isdecimal() else len(os.sched_getaffinity(0))


class ThreadCarrier:
    """Simulates in this process; see :class:`PointCarrier`."""

    def __init__(self, device: SweepDevice, made: PointSimulator) -> None:
        self.device, self._made = device, made
        self.underway = 0
        self._status = this_machine()

    def workers(self) -> tuple[WorkerStatus, ...]:
        """See :class:`PointCarrier`."""
        doing = f"{plural(jobs(), 'simulation')} at once" if self.underway else ""
        return (replace(self._status, doing=doing, seen_s=time.time()),)

    def results(self, points: Sequence[SweepPoint], run_id: str) -> Generator[Sequence[SimulatedPoint]]:
        """See :class:`PointCarrier`."""
        self._status = replace(self._status, run_id=run_id, since_s=time.time())
        # Few are handed over at once: an interruption then waits for no others.
        pool, waiting, rest = ThreadPoolExecutor(jobs()), set[Future[SimulatedPoint]](), iter(points)
        try:
            while True:
                while len(waiting) < 2 * jobs() and (point := next(rest, None)) is not None:
                    waiting.add(pool.submit(SimulatedPoint.of, self._made, point, self._status.name))
                if not waiting:
                    return
                done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                self.underway = len(waiting)
                yield [future.result() for future in done]
        finally:
            self._made.stop()
            pool.shutdown(cancel_futures=True)


class WorkerCarrier:
    """Lets workers of a cluster simulate; see :class:`PointCarrier`."""

    def __init__(self, device: SweepDevice, workers: Cluster) -> None:
        self.device, self._cluster = device, workers
        self.underway = 0

    def workers(self) -> tuple[WorkerStatus, ...]:
        """See :class:`PointCarrier`."""
        return self._cluster.statuses()

    def results(self, points: Sequence[SweepPoint], run_id: str) -> Generator[Sequence[SimulatedPoint]]:
        """See :class:`PointCarrier`; raises ``WeirError`` as a worker does, or if workers die over points."""
        size = _BATCH if self.device.simulator == "weir" else 1
        batches = {begin: points[begin : begin + size] for begin in range(0, len(points), size)}
        waiting = deque(batches)
        while batches:
            while waiting and self._cluster.room > 0:
                key = waiting.popleft()
                self.underway += len(batches[key])
                arguments = (versions()["weirlab"], self.device, batches[key], run_id)
                self._cluster.submit(key, _simulated, *arguments)
            found, error = list[SimulatedPoint](), None
            for done in self._cluster.results():
                self.underway -= len(batches.pop(done.key))
                error = error or done.error
                found += done.value or ()
            yield found
            if error is not None:
                raise error if isinstance(error, WeirError) else LabError(cluster.failure(error))


def _simulated(
    version: str, device: SweepDevice, points: Sequence[SweepPoint], run_id: str
) -> list[SimulatedPoint]:
    """Simulate ``points`` of the run on this worker."""
    worker.require_version(version)
    try:
        if device not in _opened:
            _opening.close()
            _opened.clear()
            _opened[device] = _opening.enter_context(simulator(device))
            atexit.register(_opening.close)
        found = list[SimulatedPoint]()
        first = points[0]
        place = f"from {rules(first.rules)}, {first.frame_bytes} B, {rate(first.rate_pps)}"
        with worker.busy(run_id, place) as progress:
            for point in points:
                progress.advance(len(found), len(points))
                found.append(SimulatedPoint.of(_opened[device], point, worker.STATE.name))
        return found
    except WeirError as error:
        raise type(error)(f"on the worker {worker.STATE.name}: {error}") from error
