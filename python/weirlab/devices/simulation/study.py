"""From a scenario to a kept run."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.base.interrupts import shielded
from weirlab.base.quantities import plural
from weirlab.devices.simulation.findings import SIMULATIONS, SimulationFindings, SimulationRow
from weirlab.devices.simulation.points import PointCarrier, SimulatedPoint, SweepDevice, carrier
from weirlab.devices.simulation.section import SimulationScenario, SweepPoint
from weirlab.jobs.inventory import scenario_of
from weirlab.jobs.progress import Progress
from weirlab.jobs.status import StatusKeeper, WorkStatus, rest_s
from weirlab.jobs.work import Work
from weirlab.model.queueing import QueueingModel
from weirlab.store.frames import frame_of
from weirlab.studies.contract import Ground

if TYPE_CHECKING:
    from weirlab.jobs.cluster import ClusterAddress
    from weirlab.store import Run, RunWriter

ITEM: Final = "simulation"
"""What a point is called."""
_KEEP_S: Final = 5.0
"""Time after which the points so far are stored."""

Predicted = tuple[float, float, float, float]
"""Threshold, mean, p99 and loss."""


@contextmanager
def opened(
    asked: SimulationScenario, work: Work, address: ClusterAddress | None
) -> Iterator[Ground[PointCarrier]]:
    """What simulates, here or on the cluster at ``address``, and what the manifest records about it.

    Raises
    ------
    InputError, ModelError
        The model cannot be used.
    MissingCapability, LabError
        See :func:`carrier`.
    """
    device = SweepDevice.of(asked, work.inputs)
    with carrier(device, address, work) as made:
        yield Ground(made, {"lab": "sim", "dut": device.name, "backend": device.simulator})


def measured(
    made: PointCarrier, asked: SimulationScenario, writer: RunWriter, progress: Progress
) -> SimulationFindings:
    """Simulate the points that the run does not have yet. Their results do not depend on their order."""
    rows = list(stored(writer.run).rows)
    points = asked.points()
    predictions = _predicted(made.device.model, points)
    have = {(row.number, row.repetition) for row in rows}
    left = [point for point in points if (point.number, point.repetition) not in have]
    progress.stage(f"simulating {plural(len(points), 'point')} of {made.device.name}, run {writer.run_id}")
    begun_s = kept_at = time.monotonic()
    before, by_worker = len(rows), Counter[str]()

    def status() -> WorkStatus:
        waiting = len(points) - len(rows) - made.underway
        told = tuple(replace(one, steps=by_worker[one.name]) for one in made.workers())
        rest = rest_s(begun_s, len(rows) - before, len(points) - len(rows))
        return WorkStatus(time.time(), len(rows), 0, made.underway, waiting, rest, told, ITEM)

    keeper = StatusKeeper(writer, status)
    try:
        with closing(made.results(left, writer.run_id)) as results:
            for found in results:
                rows += [_row(one, predictions[one.point.number]) for one in found]
                by_worker.update(one.worker for one in found)
                progress.advance(len(rows), len(points))
                keeper.keep()
                if time.monotonic() - kept_at > _KEEP_S:
                    _keep(writer, rows)
                    kept_at = time.monotonic()
    finally:
        _keep(writer, rows)
    return SimulationFindings(asked.simulation, tuple(_sorted(rows)))


@shielded
def _keep(writer: RunWriter, rows: Sequence[SimulationRow]) -> None:
    writer.finished_beside, writer.items = len(rows), ITEM
    writer.put_table(SIMULATIONS, frame_of(SimulationRow, _sorted(rows)))


def _sorted(rows: Sequence[SimulationRow]) -> list[SimulationRow]:
    return sorted(rows, key=lambda row: (row.number, row.repetition))


def _row(found: SimulatedPoint, predicted: Predicted) -> SimulationRow:
    point, result = found.point, found.result
    return SimulationRow(
        point.number,
        point.repetition,
        point.rules,
        point.rate_pps,
        point.frame_bytes,
        result.loss_ratio,
        result.delay_mean_ns,
        result.delay_p50_ns,
        result.delay_p99_ns,
        *predicted,
        found.wall_s,
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
