"""Errors of models on trials that they have not seen, beside the scatter of the trials themselves.

Definitions
-----------
These are frozen, so that numbers of different versions can be compared.

An error is predicted minus measured; a relative one is divided by the measured value (for
jitter by 10 ns at least, the least that time stamps can resolve). Trials are *below* the threshold
if they are not in overload (:func:`weirlab.model.regimes.sort`) and their load is at most 90 % of
the threshold, *near* it if they are not in overload either but their load is higher. The threshold
is the measured one: the median forwarding rate of all trials in overload at the same position,
frame size and kind of traffic; if none was in overload, the prediction of the first model.

==========================  ===================================================================
``threshold``               forwarding rate of trials in overload
``delay_mean_below``, and   delays of trials below the threshold; ``p50``, ``p90``, ``p99`` and
so on                       ``p999`` are quantiles over the packets of one trial
``delay_mean_near``,        delays of trials near the threshold, where they are about to jump
``delay_p99_near``
``delay_mean_overload``,    delays of trials in overload
``delay_p50_overload``
``delay_mean_all``          mean delay of all trials
``jitter``                  mean jitter of all trials
``loss``                    loss ratio of all trials, in percentage points; ``false_alarms`` counts
                            those that lost nothing where 0.01 % or more was predicted
==========================  ===================================================================

Rows *per trial* compare with every single trial. Rows *per setting* compare with the medians of
the repetitions of one setting and load (for the threshold: of all overload at one setting), which
have little of the measurement's noise left.

The *repeatability* is what a perfect memory would achieve: each trial is "predicted" by the median
of the other repetitions of its setting and load (for the threshold: of the other trials in
overload at its setting). A model that is no worse than this cannot be told from a perfect one
by single trials. Trials without another repetition do not count there.

The 95 % confidence interval of the mean error is a t interval whose standard error adds up the
errors of each setting first, because the errors of repetitions are correlated (cluster-robust;
for one trial per setting the usual one).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from scipy.special import stdtrit

from weirlab.base.documents import Measured
from weirlab.base.errors import ModelError
from weirlab.model import regimes as regime
from weirlab.model.base import DELAYS, F64, Band, Bool, Prediction, Predictor
from weirlab.model.trials import Labels, TrialTable, members
from weirlab.records import Observation

REPEATABILITY: Final = "repeatability"
"""In place of a model's name: the other repetitions of the same setting."""

FALSE_ALARM: Final = 1e-4
"""Predicted loss ratio from which a trial without any loss counts as a false alarm."""

_LEAST_JITTER_NS: Final = 10.0
_CONFIDENCE: Final = 0.95

_QUANTITIES: Final = (
    ("threshold", "threshold_pps", "overload"),
    *((f"{name.removesuffix('_ns')}_below", name, "below") for name in DELAYS),
    ("delay_mean_near", "delay_mean_ns", "near"),
    ("delay_p99_near", "delay_p99_ns", "near"),
    ("delay_mean_overload", "delay_mean_ns", "overload"),
    ("delay_p50_overload", "delay_p50_ns", "overload"),
    ("delay_mean_all", "delay_mean_ns", "all"),
    ("jitter", "jitter_ns", "all"),
    ("loss", "loss_ratio", "all"),
)
"""Name, field of ``Prediction`` and trials of every quantity that is scored."""


@dataclass(frozen=True)
class Statistics:
    """Statistics of errors, in one unit. NaN if there are too few of them."""

    mean_absolute: Measured
    mean: Measured
    mean_low: Measured
    """Lower end of the 95 % confidence interval of ``mean``."""
    mean_high: Measured
    std: Measured
    max: Measured
    """The error of largest magnitude, with its sign."""


@dataclass(frozen=True)
class ErrorRow:
    """The errors of one model in one quantity; see the module's definitions.

    JSON (``weir verify --json``) has the same names, with NaN as null.
    """

    model: str
    """A model's name, or ``repeatability``."""
    quantity: str
    unit: str
    """Of ``absolute``: ``pps``, ``ns`` or ``%-points``."""
    per: Literal["trial", "setting"]
    extrapolated: bool
    """Whether these are the trials outside the profiled range, which are scored separately."""
    n: int
    """Number of errors."""
    settings: int
    """Number of different settings and loads (for the threshold: settings) among them."""
    absolute: Statistics
    relative: Statistics | None
    """In percent of the measured value; None for loss, which may be 0."""
    coverage_percent: dict[int, float] = field(default_factory=dict)
    """By level in percent: the percentage of trials that the model's intervals enclosed."""
    false_alarms: int | None = None
    """For loss only."""

    @property
    def of_measurement(self) -> bool:
        """Whether this is the repeatability, not a model's row."""
        return self.model == REPEATABILITY

    @property
    def mape_percent(self) -> float:
        """Mean absolute relative error in percent; NaN for loss."""
        return self.relative.mean_absolute if self.relative else math.nan


@dataclass(frozen=True)
class Deviations:
    """One model's predictions of one quantity beside what was measured; arrays of shape (n,), n >= 1."""

    model: str
    quantity: str
    unit: str
    extrapolated: bool
    predicted: F64
    measured: F64
    group: Labels
    """Trials that share a number are repetitions of one setting and load."""
    bands: dict[int, Band] = field(default_factory=dict)

    @property
    def relative(self) -> F64:
        """Errors as ratios to the measured value; for loss NaN."""
        if self.unit == "%-points":
            return np.full(len(self.measured), np.nan)
        least = _LEAST_JITTER_NS if self.quantity == "jitter" else 0.0
        return np.asarray((self.predicted - self.measured) / np.maximum(self.measured, least))

    def of_settings(self) -> Deviations:
        """The same for medians of the repetitions, without bands: those are for single trials."""
        rows = members(self.group)
        return Deviations(
            self.model,
            self.quantity,
            self.unit,
            self.extrapolated,
            np.array([np.median(self.predicted[r]) for r in rows]),
            np.array([np.median(self.measured[r]) for r in rows]),
            np.arange(len(rows)),
        )


def compare(models: Mapping[str, Predictor], observations: Iterable[Observation]) -> list[ErrorRow]:
    """Errors per quantity of every model and of the repeatability, on the same trials.

    Rows are ordered by quantity: rows per trial of every model and of the repeatability, then rows
    per setting of every model; profiled settings before extrapolated ones. Quantities without a
    trial are left out. Raises ``ModelError`` if there is no trial at all.
    """
    found = deviations(models, observations)
    keys = dict.fromkeys((d.extrapolated, d.quantity) for d in found)
    rows = []
    for key in keys:
        own = [d for d in found if (d.extrapolated, d.quantity) == key]
        rows += [_row(d, "trial") for d in own]
        rows += [_row(d.of_settings(), "setting") for d in own if d.model != REPEATABILITY]
    return rows


def deviations(models: Mapping[str, Predictor], observations: Iterable[Observation]) -> list[Deviations]:
    """What :func:`compare` summarises, trial by trial."""
    trials = TrialTable.of(observations)
    table = trials.table
    if not len(trials) or not models:
        raise ModelError(
            f"no valid trials to compare the {' and '.join(models)} model with: run weir verify, or find out "
            "why the trials are invalid (weir show)"
        )
    predictions = {
        name: model.predict(table.rate_pps, table.frame_bytes, table.position, table.gap_scv)
        for name, model in models.items()
    }
    masks = _regimes(trials, next(iter(predictions.values())))
    outside = np.any([p.extrapolated for p in predictions.values()], axis=0)
    found = []
    for extrapolated in (False, True):
        for quantity, name, where in _QUANTITIES:
            factor, unit = {"threshold_pps": (1.0, "pps"), "loss_ratio": (100.0, "%-points")}.get(
                name, (1.0, "ns")
            )
            measured = table.forwarding_pps if name == "threshold_pps" else getattr(table, name)
            group = trials.place if name == "threshold_pps" else trials.cell
            mask = masks[where] & (outside == extrapolated) & np.isfinite(measured)
            others = _others(measured, group, mask)
            told = {model: getattr(p, name) for model, p in predictions.items()} | {REPEATABILITY: others}
            for model, values in told.items():
                rows = np.flatnonzero(mask & np.isfinite(values))
                bands = predictions[model].intervals.get(name, {}) if model in predictions else {}
                if len(rows):
                    found.append(
                        Deviations(
                            model,
                            quantity,
                            unit,
                            extrapolated,
                            factor * values[rows],
                            factor * measured[rows],
                            group[rows],
                            {
                                level: Band(factor * band.low[rows], factor * band.high[rows])
                                for level, band in bands.items()
                            },
                        )
                    )
    return found


def _regimes(trials: TrialTable, first: Prediction) -> dict[str, Bool]:
    """Which trials a quantity is about."""
    table = trials.table
    regimes = regime.sort(table)
    limit = first.threshold_pps.copy()
    for rows in members(trials.place):
        over = rows[regimes.overload[rows]]
        if len(over):
            limit[rows] = np.median(table.forwarding_pps[over])
    below = regimes.below & (table.rate_pps <= regime.NEAR * limit)
    return {
        "all": np.ones(len(trials), dtype=np.bool_),
        "below": below,
        "near": regimes.below & ~below,
        "overload": regimes.overload,
    }


def _others(measured: F64, group: Labels, mask: Bool) -> F64:
    """Per trial the median of the other trials of its group within ``mask``; NaN without any."""
    found = np.full(len(measured), np.nan)
    for rows in members(np.where(mask, group, -1)):
        if mask[rows[0]] and len(rows) > 1:
            for i, row in enumerate(rows):
                found[row] = np.median(measured[np.delete(rows, i)])
    return found


def _row(found: Deviations, per: Literal["trial", "setting"]) -> ErrorRow:
    error = found.predicted - found.measured
    in_loss = found.quantity == "loss"
    alarms = (found.measured == 0) & (found.predicted >= 100 * FALSE_ALARM)
    return ErrorRow(
        model=found.model,
        quantity=found.quantity,
        unit=found.unit,
        per=per,
        extrapolated=found.extrapolated,
        n=len(error),
        settings=len(np.unique(found.group)),
        absolute=statistics(error, found.group),
        relative=None if in_loss else statistics(100 * found.relative, found.group),
        coverage_percent={
            level: float(100 * np.mean((band.low <= found.measured) & (found.measured <= band.high)))
            for level, band in found.bands.items()
        },
        false_alarms=int(alarms.sum()) if in_loss else None,
    )


def statistics(error: F64, group: Labels) -> Statistics:
    """Statistics of errors with shape (n,), n >= 1; errors of one ``group`` are not independent."""
    n, mean = len(error), float(error.mean())
    clusters = [float((error[rows] - mean).sum()) for rows in members(group)]
    half = math.nan
    if len(clusters) > 1:
        count = len(clusters)
        stderr = math.sqrt(count / (count - 1) * sum(c * c for c in clusters)) / n
        half = float(stdtrit(count - 1, 0.5 + _CONFIDENCE / 2)) * stderr
    return Statistics(
        mean_absolute=float(np.abs(error).mean()),
        mean=mean,
        mean_low=mean - half,
        mean_high=mean + half,
        std=float(error.std(ddof=1)) if n > 1 else math.nan,
        max=float(error[np.argmax(np.abs(error))]),
    )
