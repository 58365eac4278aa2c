"""Fits the models to the profile of one run, and scores them on its held-out trials."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import numpy as np

from weirlab.model import ErrorRow, Model, QueueingModel, compare, fit_all
from weirlab.model.score import REPEATABILITY
from weirlab.records import Observation

T = TypeVar("T")

COVERAGE_OF = ("threshold", "delay_mean_below", "delay_p99_below", "delay_mean_overload")
"""Quantities whose coverage counts: those with a target, except loss. Below the threshold loss is zero, as
predicted, and in overload it follows from the threshold."""

MANY = 10_000
"""Predictions at once."""


@dataclass(frozen=True)
class Speed:
    """Times in s: a fit of the queueing model, of all models with intervals, one prediction, and many."""

    fit_s: float
    fit_all_s: float
    predict_s: float
    predict_many_s: float


@dataclass(frozen=True)
class Score:
    """The score of one model for one quantity on the held-out trials, each by itself.

    ``error`` is the mean absolute error in percent of the measured value; for loss in
    percentage points. ``coverage_percent`` is by level of the interval.
    """

    model: str
    quantity: str
    n: int
    error: float
    coverage_percent: dict[int, float]
    false_alarms: int | None

    @classmethod
    def of(cls, row: ErrorRow) -> Score:
        error = row.absolute.mean_absolute if row.relative is None else row.mape_percent
        return cls(row.model, row.quantity, row.n, error, row.coverage_percent, row.false_alarms)


@dataclass(frozen=True)
class RunScores:
    """The scores of one run."""

    name: str
    device: str
    seed: int
    profile_trials: int
    held_out_trials: int
    scores: list[Score]
    rows: list[ErrorRow]
    """Everything that ``weirlab.model.score`` reports, for the raw data."""
    speed: Speed
    parameters: dict[str, float]
    """Parameters of the queueing model."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def score_run(name: str, device: str, seed: int, trials: Mapping[str, Sequence[Observation]]) -> RunScores:
    """Fit and score; raises ``ModelError`` if there are too few trials."""
    profile, held_out = trials["profile"], trials["verify"]
    models, fit_all_s = timed(lambda: fit_all(profile))
    rows = compare(models, held_out)
    scores = [Score.of(row) for row in rows if row.per == "trial" and not row.extrapolated]
    queueing = models[QueueingModel.name]
    assert isinstance(queueing, QueueingModel)
    speed = speed_of(profile, queueing, fit_all_s)
    parameters = {each.name: each.value for each in queueing.parameters()}
    return RunScores(name, device, seed, len(profile), len(held_out), scores, rows, speed, parameters)


def speed_of(profile: Sequence[Observation], model: Model, fit_all_s: float) -> Speed:
    """How long the queueing model takes; ``model`` is the one with intervals, used for predictions."""
    _, fit_s = timed(lambda: QueueingModel.fit(profile))
    middle = float(np.median([each.rate_pps for each in profile]))
    frame = float(np.median([each.frame_bytes for each in profile]))
    position = max(each.position for each in profile) / 2
    rates = np.linspace(0.1, 1.5, MANY) * middle
    one = statistics.median(timed(lambda: model.predict(middle, frame, position))[1] for _ in range(21))
    many = statistics.median(timed(lambda: model.predict(rates, frame, position))[1] for _ in range(5))
    return Speed(fit_s, fit_all_s, one, many)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result of ``work`` and how many seconds it took."""
    begun_s = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begun_s


def medians(runs: Sequence[RunScores]) -> dict[tuple[str, str], Score]:
    """Medians over ``runs`` by model and quantity; false alarms and trials are summed."""
    found: dict[tuple[str, str], list[Score]] = {}
    for run in runs:
        for each in run.scores:
            found.setdefault((each.model, each.quantity), []).append(each)
    return {key: _median(own) for key, own in found.items()}


def coverage(
    runs: Sequence[RunScores],
    level: int,
    model: str = QueueingModel.name,
    quantities: Sequence[str] = COVERAGE_OF,
) -> float:
    """Percent of the held-out values of all runs and ``quantities`` within their interval."""
    known = [
        each
        for run in runs
        for each in run.scores
        if each.model == model and each.quantity in quantities and level in each.coverage_percent
    ]
    n = sum(each.n for each in known)
    return sum(each.n * each.coverage_percent[level] for each in known) / n if n else math.nan


def repeatability(scores: Mapping[tuple[str, str], Score], quantity: str) -> float:
    """How much repetitions differ, in the unit of the errors; NaN if there were none."""
    found = scores.get((REPEATABILITY, quantity))
    return found.error if found else math.nan


def _median(scores: Sequence[Score]) -> Score:
    levels = scores[0].coverage_percent
    alarms = [each.false_alarms for each in scores if each.false_alarms is not None]
    return Score(
        scores[0].model,
        scores[0].quantity,
        sum(each.n for each in scores),
        statistics.median(each.error for each in scores),
        {
            level: statistics.median(each.coverage_percent.get(level, math.nan) for each in scores)
            for level in levels
        },
        sum(alarms) if alarms else None,
    )
