"""The points of a sweep, simulated in threads of this process or by the workers of a cluster."""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from weirlab.base.errors import LabError, WeirError
from weirlab.devices.simulation.section import SweepPoint
from weirlab.devices.simulation.simulators import PointResult, PointSimulator, SweepDevice, simulator
from weirlab.jobs import cluster, worker
from weirlab.jobs.cluster import Cluster, ClusterAddress
from weirlab.jobs.work import Work
from weirlab.store.manifest import versions

JOBS: Final = "WEIR_JOBS"
"""The environment variable that sets how many points are simulated at once."""
_POLL_S: Final = 0.2
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

    @classmethod
    def of(cls, made: PointSimulator, point: SweepPoint) -> SimulatedPoint:
        """Simulate ``point``."""
        began = time.monotonic()
        return cls(point, made.run(point), time.monotonic() - began)


class PointCarrier(Protocol):
    """Has points simulated."""

    @property
    def device(self) -> SweepDevice:
        """The device of all points."""

    def results(self, points: Sequence[SweepPoint]) -> Generator[Sequence[SimulatedPoint]]:
        """Simulate ``points``, in any order; what is new several times a second, which may be nothing."""


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

    def results(self, points: Sequence[SweepPoint]) -> Generator[Sequence[SimulatedPoint]]:
        # Few are handed over at once: an interruption then waits for no others.
        pool, waiting, rest = ThreadPoolExecutor(jobs()), set[Future[SimulatedPoint]](), iter(points)
        try:
            while True:
                while len(waiting) < 2 * jobs() and (point := next(rest, None)) is not None:
                    waiting.add(pool.submit(SimulatedPoint.of, self._made, point))
                if not waiting:
                    return
                done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                yield [future.result() for future in done]
        finally:
            self._made.stop()
            pool.shutdown(cancel_futures=True)


class WorkerCarrier:
    """Lets workers of a cluster simulate; see :class:`PointCarrier`."""

    def __init__(self, device: SweepDevice, workers: Cluster) -> None:
        self.device, self._cluster = device, workers

    def results(self, points: Sequence[SweepPoint]) -> Generator[Sequence[SimulatedPoint]]:
        """See :class:`PointCarrier`; raises ``WeirError`` as a worker does, or if workers die over points."""
        size = _BATCH if self.device.simulator == "weir" else 1
        batches = {begin: points[begin : begin + size] for begin in range(0, len(points), size)}
        waiting = deque(batches)
        while batches:
            while waiting and self._cluster.room > 0:
                key = waiting.popleft()
                self._cluster.submit(key, _simulated, versions()["weirlab"], self.device, batches[key])
            found, error = list[SimulatedPoint](), None
            for done in self._cluster.results():
                del batches[done.key]
                error = error or done.error
                found += done.value or ()
            yield found
            if error is not None:
                raise error if isinstance(error, WeirError) else LabError(cluster.failure(error))


def _simulated(version: str, device: SweepDevice, points: Sequence[SweepPoint]) -> list[SimulatedPoint]:
    """Simulate ``points`` on this worker."""
    worker.require_version(version)
    try:
        if device not in _opened:
            _opening.close()
            _opened.clear()
            _opened[device] = _opening.enter_context(simulator(device))
            atexit.register(_opening.close)
        return [SimulatedPoint.of(_opened[device], point) for point in points]
    except WeirError as error:
        raise type(error)(f"on the worker {worker.STATE.name}: {error}") from error
