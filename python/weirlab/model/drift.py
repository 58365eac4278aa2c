"""Whether the host changed while a profile was measured, or between the profile and its verification.

Repetitions of a setting are spread over the whole run. The logarithm of what a trial measured is fitted
as setting plus part of the run plus scatter, the parts having equal numbers of trials. An F test says
whether the parts differ (two-way analysis of variance; H. Scheffé, The Analysis of Variance, 1959).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

import numpy as np
from scipy.special import fdtrc, stdtrit

from weirlab.model import regimes
from weirlab.model.base import F64, Bool, Model
from weirlab.model.comparing.matching import Compared, contrast, digest
from weirlab.model.comparing.scatter import estimate
from weirlab.model.score import deviations
from weirlab.model.trials import Labels, TrialTable
from weirlab.records import Observation

STARTED: Final = "started_at"
"""Key of ``Observation.extra`` with the time at which a trial began, ISO 8601."""

Quantity = Literal["forwarding rate", "mean delay"]

_PARTS: Final = 8
_LEAST: Final = 10
"""Trials per part, at least."""
_PROVEN: Final = 1e-3
"""Probability of such a difference without drift: thousands of runs are made, and each is judged twice."""


@dataclass(frozen=True)
class Drift:
    """How much a quantity moved during a run, at unchanged settings."""

    quantity: Quantity
    span: float
    """Logarithm of the largest over the smallest part."""
    std: float
    """Standard deviation of the parts' logarithms, without what scatter adds to it."""
    p: float
    """Probability of such differences without drift."""

    @property
    def proven(self) -> bool:
        return self.p < _PROVEN


def drifts(observations: Sequence[Observation]) -> tuple[Drift, ...]:
    """How the forwarding rate in overload and the mean delay below it moved, if the trials can tell."""
    trials = TrialTable.of(observation for observation in observations if STARTED in observation.extra)
    if not len(trials):
        return ()
    when = np.array([datetime.fromisoformat(str(o.extra[STARTED])).timestamp() for o in trials.observations])
    table, regime = trials.table, regimes.sort(trials.table)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (
            # Whatever the load beyond it, the threshold is the same.
            _drift("forwarding rate", np.log(table.forwarding_pps), when, trials.place, regime.overload),
            _drift("mean delay", np.log(table.delay_mean_ns), when, trials.cell, regime.below),
        )
    return tuple(each for each in found if each is not None)


def _drift(quantity: Quantity, value: F64, when: F64, cell: Labels, mask: Bool) -> Drift | None:
    rows = np.flatnonzero(mask & np.isfinite(value))
    _, cell, size = np.unique(cell[rows], return_inverse=True, return_counts=True)
    repeated = size[cell.ravel()] > 1
    rows, cell = rows[repeated], cell.ravel()[repeated]
    parts = min(_PARTS, len(rows) // _LEAST)
    if parts < 2:
        return None
    order = np.argsort(when[rows], kind="stable")
    part = np.empty(len(rows), dtype=np.intp)
    part[order] = np.arange(len(rows)) * parts // len(rows)
    columns = (part[:, None] == np.arange(1, parts)).astype(np.float64)
    # Deviations from each setting's mean take the settings out of the fit.
    y, x = _centred(value[rows][:, None], cell)[:, 0], _centred(columns, cell)
    freedom = len(rows) - len(np.unique(cell)) - (parts - 1)
    if freedom < 1 or np.linalg.matrix_rank(x) < parts - 1:
        return None
    effect, *_ = np.linalg.lstsq(x, y, rcond=None)
    left = float(((y - x @ effect) ** 2).sum())
    explained = float((y**2).sum()) - left
    scatter = left / freedom
    if scatter <= 0:
        return None
    level = np.concatenate([[0.0], effect])
    # The variance of an effect relative to the mean of all parts.
    centre = np.eye(parts)[:, 1:] - 1 / parts
    noise = scatter * float(np.trace(centre @ np.linalg.inv(x.T @ x) @ centre.T)) / (parts - 1)
    return Drift(
        quantity,
        float(level.max() - level.min()),
        float(np.sqrt(max(np.var(level, ddof=1) - noise, 0.0))),
        float(fdtrc(parts - 1, freedom, explained / (parts - 1) / scatter)),
    )


def _centred(values: F64, cell: Labels) -> F64:
    """Columns less their means in each cell."""
    _, inverse, size = np.unique(cell, return_inverse=True, return_counts=True)
    sums = np.zeros((len(size), values.shape[1]))
    np.add.at(sums, inverse.ravel(), values)
    return np.asarray(values - (sums / size[:, None])[inverse.ravel()])


LEVEL: Final = 0.95

_SHOWN: Final[Mapping[str, Compared]] = {"threshold": "rate", "delay_mean_below": "mean"}
"""Quantities of a model's errors, and what shows how the host moves them."""


@dataclass(frozen=True)
class Shift:
    """How profiled settings differ when they are measured again, in one quantity; ratios less one."""

    quantity: str
    """As in :mod:`weirlab.model.score`."""
    change: float
    low: float
    """Bounds of the interval that contains the true change in 95 % of the cases."""
    high: float
    places: int
    """Profiled positions measured again."""
    error_percent: Mapping[str, float]
    """Mean absolute error of each model on single held-out trials."""
    without_percent: Mapping[str, float]
    """The same with every prediction changed as the profiled settings have."""

    @property
    def proven(self) -> bool:
        """Whether the host has changed."""
        return self.low > 0 or self.high < 0


def shifts(
    profile: Sequence[Observation],
    again: Sequence[Observation],
    models: Mapping[str, Model],
    held_out: Sequence[Observation],
) -> tuple[Shift, ...]:
    """What ``again``, trials of profiled settings measured beside ``held_out``, say about the host.

    Quantities that cannot be told are left out.
    """
    before, after = (digest(each, same_load=False) for each in (profile, again))
    errors = deviations(models, held_out)
    found = []
    for quantity, compared in _SHOWN.items():
        matches = contrast(before, after, compared, same_load=False)
        told = estimate(matches)
        own = [error for error in errors if (error.quantity, error.extrapolated) == (quantity, False)]
        judged = {each.model: each for each in own if each.model in models}
        if told is None or not judged or not math.isfinite(told.stderr):
            continue
        half = float(stdtrit(max(told.freedom, 1.0), 0.5 + LEVEL / 2)) * told.stderr
        moved = math.exp(told.difference)
        found.append(
            Shift(
                quantity,
                moved - 1,
                math.exp(told.difference - half) - 1,
                math.exp(told.difference + half) - 1,
                told.places,
                {name: float(100 * np.mean(np.abs(each.relative))) for name, each in judged.items()},
                {
                    name: float(100 * np.mean(np.abs(moved * each.predicted / each.measured - 1)))
                    for name, each in judged.items()
                },
            )
        )
    return tuple(found)
