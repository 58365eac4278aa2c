"""From a scenario to a kept run: all points, as many at once as there are CPUs."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.base.interrupts import shielded
from weirlab.base.quantities import plural
from weirlab.devices.simulation.findings import SimulationFindings
from weirlab.devices.simulation.rows import SIMULATIONS, SimulationRow
from weirlab.devices.simulation.section import SimulationScenario, SweepPoint
from weirlab.devices.simulation.simulators import PointSimulator, simulator
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import Progress
from weirlab.jobs.work import Work
from weirlab.model.queueing import QueueingModel
from weirlab.store.frames import frame_of
from weirlab.studies.contract import Ground

if TYPE_CHECKING:
    from weirlab.store import Run, RunWriter

JOBS: Final = "WEIR_JOBS"
"""The environment variable that sets how many points are simulated at once."""
_KEEP_S: Final = 5.0
"""Time after which the points so far are stored."""
_POLL_S: Final = 0.2

Predicted = tuple[float, float, float, float]
"""Threshold, mean, p99 and loss."""


@contextmanager
def opened(asked: SimulationScenario, work: Work) -> Iterator[Ground[PointSimulator]]:
    """The simulator, and what the manifest records about it."""
    with simulator(asked, work.inputs) as made:
        facts = {"lab": "sim", "dut": made.device, "backend": asked.simulation.simulator}
        yield Ground(made, facts)


def jobs() -> int:
    """How many points are simulated at once: ``WEIR_JOBS``, or the CPUs that this process may use."""
    text = os.environ.get(JOBS, "")
    return max(int(text), 1) if text.isdecimal() else len(os.sched_getaffinity(0))


def measured(
    made: PointSimulator, asked: SimulationScenario, writer: RunWriter, progress: Progress
) -> SimulationFindings:
    """Simulate the points that the run does not have yet. Their results do not depend on their order."""
    rows = list(stored(writer.run).rows)
    points = asked.points()
    predictions = _predicted(made.model, points)
    have = {(row.number, row.repetition) for row in rows}
    left = [point for point in points if (point.number, point.repetition) not in have]
    progress.stage(f"simulating {plural(len(points), 'point')} of {made.device}, run {writer.run_id}")
    kept_at = time.monotonic()
    # Few are handed over at once: an interruption then waits for no others.
    pool, waiting, rest = ThreadPoolExecutor(jobs()), set[Future[SimulationRow]](), iter(left)
    try:
        while True:
            while len(waiting) < 2 * jobs() and (point := next(rest, None)) is not None:
                waiting.add(pool.submit(_row, made, point, predictions[point.number]))
            if not waiting:
                break
            done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
            rows += [future.result() for future in done]
            progress.advance(len(rows), len(points))
            if time.monotonic() - kept_at > _KEEP_S:
                _keep(writer, rows)
                kept_at = time.monotonic()
    finally:
        made.stop()
        pool.shutdown(cancel_futures=True)
        _keep(writer, rows)
    return SimulationFindings(asked.simulation, tuple(_sorted(rows)))


@shielded
def _keep(writer: RunWriter, rows: Sequence[SimulationRow]) -> None:
    writer.finished_beside, writer.items = len(rows), "simulation"
    writer.put_table(SIMULATIONS, frame_of(SimulationRow, _sorted(rows)))


def _sorted(rows: Sequence[SimulationRow]) -> list[SimulationRow]:
    return sorted(rows, key=lambda row: (row.number, row.repetition))


def _row(made: PointSimulator, point: SweepPoint, predicted: Predicted) -> SimulationRow:
    began = time.monotonic()
    found = made.run(point)
    return SimulationRow(
        point.number,
        point.repetition,
        point.rules,
        point.rate_pps,
        point.frame_bytes,
        found.loss_ratio,
        found.delay_mean_ns,
        found.delay_p50_ns,
        found.delay_p99_ns,
        *predicted,
        time.monotonic() - began,
    )


def _predicted(model: QueueingModel | None, points: Sequence[SweepPoint]) -> dict[int, Predicted]:
    """By number of the combination; NaN without a model."""
    if model is None:
        return {point.number: (math.nan,) * 4 for point in points}
    first = {point.number: point for point in points}
    columns = ((point.rate_pps, point.frame_bytes, point.rules) for point in first.values())
    rates, frames, rules = (np.array(column, dtype=float) for column in zip(*columns, strict=True))
    found = model.predict(rates, frames, rules)
    values = (found.threshold_pps, found.delay_mean_ns, found.delay_p99_ns, found.loss_ratio)
    return dict(zip(first, zip(*(column.tolist() for column in values), strict=True), strict=True))


def stored(run: Run) -> SimulationFindings:
    """What a run shows, finished or not."""
    asked = scenario_of(run, SimulationScenario)
    return SimulationFindings(asked.simulation, tuple(run.rows(SimulationRow, SIMULATIONS)))
