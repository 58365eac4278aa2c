"""The points of a sweep, simulated in threads of this process or by the workers of a cluster."""

from __future__ import annotations

import atexit
import os
import time
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Final, Protocol

from weirlab.base.errors import LabError, WeirError
from weirlab.base.quantities import plural, rate, rules
from weirlab.devices.simulation.section import SweepPoint
from weirlab.devices.simulation.simulators import PointResult, PointSimulator, SweepDevice, simulator
from weirlab.jobs import cluster, worker
from weirlab.jobs.cluster import Cluster, ClusterAddress
from weirlab.jobs.status import WorkerStatus, this_machine
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
