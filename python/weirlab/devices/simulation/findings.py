"""What the points of a sweep show, and the columns of the study's table. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from weirlab.base.documents import plain
from weirlab.base.quantities import count, duration, percent, plural, rate, rules
from weirlab.base.tables import Table
from weirlab.devices.simulation.section import SimulationSection
from weirlab.studies.contract import Measure

if TYPE_CHECKING:
    from weirlab.base.errors import WeirError
    from weirlab.store import Run


SIMULATIONS: Final = "simulations"


@dataclass(frozen=True)
class SimulationRow:
    """One simulation of a steady load, and what the model predicts for it. Null: no packet came through."""

    number: int
    """Number of the combination, from 0."""
    repetition: int
    """Number of the repetition, from 0."""
    rules: int
    """Matching position."""
    rate_pps: float
    """Offered load."""
    frame_bytes: int
    """Frame size, FCS included."""
    loss_ratio: float
    """Share of the counted packets that were lost."""
    delay_mean_ns: float
    """Mean delay."""
    delay_p50_ns: float
    """Median delay."""
    delay_p99_ns: float
    """99th percentile of the delay."""
    predicted_threshold_pps: float
    """Load from which on the model predicts loss for want of time; null without a model."""
    predicted_mean_ns: float
    """Mean delay that the model predicts; null without a model."""
    predicted_p99_ns: float
    """99th percentile that the model predicts; null without a model."""
    predicted_loss_ratio: float
    """Loss that the model predicts; null without a model."""
    wall_s: float
    """Time that the simulation took."""


MOST_SHOWN: Final = 50
"""Rows of a table; all are in the run's table."""


@dataclass(frozen=True)
class SimulationFindings:
    """Every point of a run."""

    asked: SimulationSection
    rows: tuple[SimulationRow, ...]

    @cached_property
    def combinations(self) -> Sequence[SimulationRow]:
        """A row per combination: medians over its repetitions."""
        groups: dict[int, list[SimulationRow]] = {}
        for row in self.rows:
            groups.setdefault(row.number, []).append(row)
        return [_median(rows) for rows in groups.values()]

    @property
    def sentence(self) -> str:
        """How many points, and how far from the model."""
        simulator = {"weir": "Weir's simulator", "ns3": "ns-3"}[self.asked.simulator]
        said = f"{plural(len(self.rows), 'simulation')} in {simulator}"
        gaps = [
            abs(row.delay_mean_ns / row.predicted_mean_ns - 1)
            for row in self.combinations
            if math.isfinite(row.predicted_mean_ns) and math.isfinite(row.delay_mean_ns)
        ]
        near = (
            f"; mean delays differ from the model's by {percent(median(gaps))} in the median" if gaps else ""
        )
        return f"{said}{near}."

    @property
    def tables(self) -> tuple[Table, ...]:
        """One row for each combination, the first of them if there are many."""
        shown = self.combinations[:MOST_SHOWN]
        columns = ("Rules", "Frame", "Load", "Lost", "Mean delay", "Median", "p99", "Threshold")
        rows = [
            (
                count(row.rules),
                f"{row.frame_bytes} B",
                rate(row.rate_pps),
                percent(row.loss_ratio),
                *(duration(value) for value in (row.delay_mean_ns, row.delay_p50_ns, row.delay_p99_ns)),
                rate(row.predicted_threshold_pps),
            )
            for row in shown
        ]
        more = len(self.combinations) - len(shown)
        caption = "Simulated" + (
            f", and {count(more)} more: weir ask 'select * from simulations'" if more else ""
        )
        return (Table(caption, columns, rows, spare=("Median", "Threshold")),)

    @property
    def measures(self) -> list[Measure]:
        """Loss, median and p99 delay of each combination, to rank devices by."""
        found = []
        for row in self.combinations:
            where = f"{rules(row.rules)}, {row.frame_bytes} B, {rate(row.rate_pps)}"
            found.append(Measure(f"loss, {where}", row.loss_ratio, "ratio", "less"))
            if math.isfinite(row.delay_mean_ns):
                found.append(Measure(f"median delay, {where}", row.delay_p50_ns, "ns", "less"))
                found.append(Measure(f"p99 delay, {where}", row.delay_p99_ns, "ns", "less"))
        return found

    def document(self) -> dict[str, Any]:
        return {"simulator": self.asked.simulator, "simulations": [plain(vars(row)) for row in self.rows]}

    def problem(self, run: Run) -> WeirError | None:
        """Nothing can spoil it."""
        return None


def _median(rows: Sequence[SimulationRow]) -> SimulationRow:
    values = {
        name: type(getattr(rows[0], name))(median(getattr(row, name) for row in rows))
        for name in SimulationRow.__dataclass_fields__
    }
    return SimulationRow(**values)
