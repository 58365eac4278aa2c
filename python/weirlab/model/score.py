"""How far a model is off, on trials that it has not seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weirlab.errors import ModelError
from weirlab.model import regimes as regime
from weirlab.model.base import F64, Bool, Model, Table
from weirlab.records import Observation

_SAME_LOAD = 0.02


@dataclass(frozen=True)
class ErrorRow:
    """A model's errors in one quantity over ``n`` settings and loads (medians of their repetitions).

    ``mape_percent`` is the mean absolute error relative to the measured value; ``mean``,
    ``std`` and ``max`` (the largest in size, with its sign) are of predicted minus measured
    in ``unit``. NaN where a value has no meaning.
    """

    model: str
    quantity: str
    unit: str
    n: int
    mape_percent: float
    mean: float
    std: float
    max: float


def compare(model: Model, observations: Iterable[Observation]) -> list[ErrorRow]:
    """Errors of ``model`` per quantity; quantities without a trial are left out.

    Repetitions of one setting and load count as one trial of their medians: a stall of the
    host hits one of them, and no model of a device can foresee it.

    - ``threshold``: per position and size, against the median forwarding rate in overload;
    - ``delay_mean_below`` and ``delay_p99_below``: trials without loss up to 90 % of the
      measured (where not measured, the predicted) threshold;
    - ``delay_mean_near``: trials without loss above that, where the delay is about to jump;
    - ``delay_p50_overload``; ``delay_mean_all``;
    - ``loss``: all trials, in percentage points.
    """
    table = _medians(Table.of(observations))
    if not len(table):
        raise ModelError(
            f"no valid trials to compare the {model.name} model with: run weir verify, or look at why the "
            "trials are invalid (weir show)"
        )
    regimes = regime.sort(table)
    found = model.predict(table.rate_pps, table.frame_bytes, table.position)
    measured = regimes.threshold_pps(table)
    known = np.isfinite(measured)
    position = np.array([s.position for s in regimes.settings])
    frame = np.array([s.frame_bytes for s in regimes.settings])
    expected = model.threshold_pps(position, frame)
    limit = found.threshold_pps.copy()
    for setting, pps in zip(regimes.settings, measured, strict=True):
        if np.isfinite(pps):
            limit[setting.rows] = pps
    low = regimes.below & (table.rate_pps <= regime.NEAR * limit)
    near = regimes.below & ~low
    rows = [_row(model.name, "threshold", "pps", expected[known], measured[known])]

    def of(quantity: str, name: str, mask: Bool) -> None:
        predicted, actual = getattr(found, name), getattr(table, name)
        if name == "loss_ratio":
            rows.append(_row(model.name, quantity, "%-points", 100 * predicted[mask], 100 * actual[mask]))
        else:
            rows.append(_row(model.name, quantity, "ns", predicted[mask], actual[mask]))

    of("delay_mean_below", "delay_mean_ns", low)
    of("delay_p99_below", "delay_p99_ns", low)
    of("delay_mean_near", "delay_mean_ns", near)
    of("delay_p50_overload", "delay_p50_ns", regimes.overload)
    of("delay_mean_all", "delay_mean_ns", np.ones(len(table), dtype=np.bool_))
    of("loss", "loss_ratio", np.ones(len(table), dtype=np.bool_))
    return [row for row in rows if row.n]


def _medians(table: Table) -> Table:
    """One row per position, size and load; achieved loads within 2 % are repetitions of one."""
    if not len(table):
        return table
    order = np.lexsort((table.rate_pps, table.frame_bytes, table.position))
    rows = table.where(order)
    new = np.ones(len(rows), dtype=np.bool_)
    new[1:] = (
        (np.diff(rows.position) != 0)
        | (np.abs(np.diff(rows.frame_bytes)) > 0.05)
        | (np.diff(np.log(rows.rate_pps)) > _SAME_LOAD)
    )
    groups = np.split(np.arange(len(rows)), np.flatnonzero(new)[1:])
    columns = (getattr(rows, name) for name in Table.__dataclass_fields__)
    return Table(*(np.array([np.median(column[group]) for group in groups]) for column in columns))


def _row(model: str, quantity: str, unit: str, predicted: F64, measured: F64) -> ErrorRow:
    if not len(measured):
        return ErrorRow(model, quantity, unit, 0, *[float("nan")] * 4)
    error = predicted - measured
    relative = unit != "%-points"
    return ErrorRow(
        model=model,
        quantity=quantity,
        unit=unit,
        n=len(measured),
        mape_percent=float(100 * np.mean(np.abs(error) / measured)) if relative else float("nan"),
        mean=float(error.mean()),
        std=float(error.std(ddof=1)) if len(error) > 1 else float("nan"),
        max=float(error[np.argmax(np.abs(error))]),
    )
