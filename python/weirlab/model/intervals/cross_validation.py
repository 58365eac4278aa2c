"""Calibration by cross-validation: refit without some trials; conformal quantiles of how far off they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from weirlab.base.errors import ModelError
from weirlab.base.units import NS_PER_S
from weirlab.model import regimes
from weirlab.model.base import DELAYS, F64, LEVELS, QUANTITIES, Bool, Model, ObservationTable, Prediction
from weirlab.model.intervals.calibration import (
    LEAST_POSITIONS,
    REGIMES,
    DelayRange,
    IntervalCalibration,
    ScoreLimits,
    band_of,
    regime_of,
    score,
    surely_below,
)
from weirlab.model.intervals.losses import lost_below
from weirlab.model.trials import Labels, TrialTable
from weirlab.records import Observation

_ROUNDING: Final = 1e-9


def upper_quantile(scores: F64, group: Labels, alpha: float) -> float:
    """The score that one trial of a new group exceeds with the probability ``alpha``.

    Errors of repetitions may be correlated, so groups are exchangeable and have equal weight. The
    result is the smallest score up to which a weight of ``1 - alpha`` of n + 1 lies. One of them is
    the new trial, which may lie anywhere; n is the number of independent trials that the scores are
    worth (:func:`independent`). With groups of one trial, or of trials with equal errors, this is
    the conformal quantile, the ``ceil((1 - alpha)(K + 1))``-th smallest of K scores (Y. Lee, R. F. Barber
    and R. Willett, "Distribution-free inference with hierarchical data", 2023).

    With fewer than ``1/alpha - 1`` independent trials no score reaches that far: a new trial still
    exceeds the largest one with probability ``1/(n + 1)``. The bound is then where an exponential
    tail that begins at the median (1/2) and passes through the largest score has fallen to
    ``alpha``. Scores of delays are logarithms, so for the delays themselves that is a power law,
    heavier than the tail of a queue.

    Parameters
    ----------
    scores, group:
        Shape (n,), n >= 1.
    alpha:
        Between 0 and 1.
    """
    _, inverse, size = np.unique(group, return_inverse=True, return_counts=True)
    inverse = inverse.ravel()
    groups, n = len(size), independent(scores, inverse, size)
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(1.0 / size[inverse[order]]) / groups
    wanted = (1.0 - alpha) * (n + 1) / n
    ordered = scores[order]
    if wanted <= 1.0 + _ROUNDING:
        rank = int(np.searchsorted(below, wanted - _ROUNDING))
        return float(ordered[min(rank, len(ordered) - 1)])
    median = float(ordered[int(np.searchsorted(below, 0.5 - _ROUNDING))])
    reach = math.log(1 / (2 * alpha)) / math.log((max(n, 2.0) + 1) / 2)
    return median + (float(ordered[-1]) - median) * max(reach, 1.0)


def independent(scores: F64, inverse: Labels, size: Labels) -> float:
    """How many independent trials say as much as these: from the number of groups to that of trials.

    The variance of group means is ``(1 + (m - 1) r) / m`` of that of trials, m being the trials of a group
    and r the correlation within it (the design effect of L. Kish, Survey Sampling, 1965). It is the
    correlation of ranks, by analysis of variance, so that a few outliers decide nothing.

    Parameters
    ----------
    scores, inverse:
        Shape (n,); the number of each trial's group, from 0.
    size:
        Trials per group, shape (K,).
    """
    n, groups = len(scores), len(size)
    if groups in (1, n):
        return float(groups)
    ranks = _ranks(scores)
    means = np.bincount(inverse, ranks) / size
    within = float(((ranks - means[inverse]) ** 2).sum()) / (n - groups)
    among = float((size * (means - ranks.mean()) ** 2).sum()) / (groups - 1)
    typical = (n - float((size**2).sum()) / n) / (groups - 1)
    total = among + (typical - 1) * within
    alike = min(max((among - within) / total, 0.0), 1.0) if total > 0 else 1.0
    return groups / float(np.mean((1 + (size - 1) * alike) / size))


def _ranks(values: F64) -> F64:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, place, alike = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(alike) - (alike - 1) / 2)[place.ravel()])


def between(scores: F64, group: Labels, level: float) -> tuple[float, float]:
    """The interval of a new trial's score with probability ``level``; each side misses half of the rest.

    The sides are separate because delays are much longer far more often than much shorter.
    """
    alpha = (1.0 - level) / 2
    return -upper_quantile(-scores, group, alpha), upper_quantile(scores, group, alpha)


LEAST_CELLS: Final = 8
"""A regime with fewer settings and loads is calibrated with all regimes together."""

TIMES: Final = (*DELAYS, "jitter_ns")
"""Quantities bounded by what a profile has seen."""


class ModelClass(Protocol):
    """A class of models; ``like`` is one of them, or None."""

    def fit(self, observations: Iterable[Observation], like: Any = None) -> Model: ...


def calibrate(
    kind: ModelClass, observations: Iterable[Observation], like: Model | None = None
) -> IntervalCalibration:
    """Learn from a profile how far single trials are from what ``kind`` predicts without them.

    Every trial is predicted by models that have not seen its position, or its load at this
    setting (:func:`folds`). The scores' conformal quantiles
    (:mod:`weirlab.model.intervals.cross_validation`) are taken separately for loads below, near and beyond
    the threshold, the groups being the repetitions of one setting and load. A fold that leaves
    too little to fit is skipped; the calibration of a profile too small for any fold is empty.
    ``like`` is the model fitted to the whole profile, if there is one; it makes refits quicker.
    """
    trials = TrialTable.of(observations)
    table = trials.table
    overload = regimes.sort(table).overload
    predicted = [
        (np.flatnonzero(out), found)
        for out in folds(trials)
        if (found := _without(kind, trials, out, like)) is not None
    ]
    if not predicted:
        return IntervalCalibration({})
    places = np.unique(table.position)
    # One row per trial and fold that left it out.
    row = np.concatenate([rows for rows, _ in predicted])
    regime = np.concatenate([regime_of(table.rate_pps[r], found.threshold_pps) for r, found in predicted])
    scaled = set.intersection(*(set(found.spread) for _, found in predicted))
    limits = {}
    for quantity in QUANTITIES:
        measured = _measured(trials, quantity, overload)
        scores = [
            score(
                quantity,
                measured[rows],
                getattr(found, quantity),
                found.spread[quantity] if quantity in scaled else None,
            )
            for rows, found in predicted
        ]
        # Every overload shows the threshold equally well, however far beyond it is.
        parts = None if quantity == "threshold_pps" else regime
        units = trials.place if quantity == "threshold_pps" else trials.cell
        limits[quantity] = _limits(np.concatenate(scores), parts, units[row], quantity in scaled)
    return IntervalCalibration(
        {quantity: found for quantity, found in limits.items() if found is not None},
        {quantity: seen for quantity in TIMES if (seen := _seen(table, quantity)) is not None},
        host_loss=_host_loss(trials, predicted, limits["threshold_pps"]),
        few_positions=tuple(map(float, places)) if len(places) < LEAST_POSITIONS else (),
        sizes=tuple(map(float, np.unique(np.round(table.frame_bytes, 1)))),
        lost=lost_below(table, (like or kind.fit(trials.observations)).threshold_pps),
    )


def _host_loss(
    trials: TrialTable, predicted: Sequence[tuple[Labels, Prediction]], threshold: ScoreLimits | None
) -> dict[int, float]:
    """By level: how much more than predicted a trial surely below the threshold loses at most."""
    table = trials.table
    found: dict[int, float] = {}
    for level in sorted(LEVELS):
        rows, scores = [], []
        for row, prediction in predicted:
            band = None if threshold is None else band_of("threshold_pps", prediction, threshold, level)
            sure = table.rate_pps[row] <= surely_below(prediction.threshold_pps, band)
            rows.append(row[sure])
            scores.append((table.loss_ratio[row] - prediction.loss_ratio)[sure])
        chosen, lost = np.concatenate(rows), np.concatenate(scores)
        if len(chosen):
            alpha = (1 - level / 100) / 2
            found[level] = max(upper_quantile(lost, trials.cell[chosen], alpha), 0.0, *found.values())
    return found


def _seen(table: ObservationTable, quantity: str) -> DelayRange | None:
    """The extremes of a delay, or of jitter, over all trials; None if it was never measured."""
    measured = getattr(table, quantity)
    known = np.isfinite(measured)
    if not known.any():
        return None
    held = measured * table.forwarding_pps / NS_PER_S if quantity in DELAYS else np.zeros_like(measured)
    return DelayRange(float(measured[known].min()), float(measured[known].max()), float(held[known].max()))


def _measured(trials: TrialTable, quantity: str, overload: Bool) -> F64:
    """What each trial says about ``quantity``: NaN if nothing."""
    if quantity == "threshold_pps":
        return np.where(overload, trials.table.forwarding_pps, np.nan)
    return np.asarray(getattr(trials.table, quantity))


def _without(kind: ModelClass, trials: TrialTable, out: Bool, like: Model | None) -> Prediction | None:
    """What a model fitted to the other trials predicts for those in ``out``; None if it cannot be fitted."""
    kept = (o for o, left_out in zip(trials.observations, out, strict=True) if not left_out)
    try:
        model = kind.fit(kept, like)
    except ModelError:
        return None
    rows = trials.table.where(out)
    return model.predict(rows.rate_pps, rows.frame_bytes, rows.position, rows.gap_scv)


def _limits(scores: F64, regime: Labels | None, cell: Labels, scaled: bool) -> ScoreLimits | None:
    """Quantiles per regime, or the same for each without ``regime``; None without enough scores."""
    known = np.isfinite(scores)
    if len(np.unique(cell[known])) < LEAST_CELLS:
        return None
    low: dict[int, tuple[float, ...]] = dict.fromkeys(LEVELS, ())
    high: dict[int, tuple[float, ...]] = dict.fromkeys(LEVELS, ())
    cells: tuple[int, ...] = ()
    for number in range(len(REGIMES)):
        chosen = known if regime is None else known & (regime == number)
        if len(np.unique(cell[chosen])) < LEAST_CELLS:
            chosen = known
        cells += (len(np.unique(cell[chosen])),)
        for level in LEVELS:
            least, most = between(scores[chosen], cell[chosen], level / 100)
            low[level] += (min(least, 0.0),)
            high[level] += (max(most, 0.0),)
    return ScoreLimits(low, high, cells, scaled)


POSITION_FOLDS: Final = 4
LOAD_FOLDS: Final = 3


def folds(trials: TrialTable) -> list[Bool]:
    """Which trials to leave out together, so that those left out imitate settings never profiled.

    Masks of shape (n,): six of them for a profile of five positions, at most seven.

    Half of them leave out whole positions, with all their sizes and loads, but never an end,
    where a model would have to extrapolate. A new position lies closer to profiled ones than
    these do, so on their own they would be too severe. The others leave out every n-th load of
    the same positions with all its repetitions, so that they leave out each of these trials once.
    If a profile has few positions, they cover the loads of all, so that enough trials are judged.
    """
    position = trials.table.position
    distinct = np.unique(position)
    inner = distinct[1:-1] if len(distinct) >= LEAST_POSITIONS else distinct[:0]
    inside = np.isin(position, inner if len(inner) >= POSITION_FOLDS else distinct)
    # Neighbours get into different folds: cells are numbered by place, then load.
    masks = [np.isin(position, inner[i::POSITION_FOLDS]) for i in range(POSITION_FOLDS)]
    masks += [inside & (trials.cell % LOAD_FOLDS == i) for i in range(LOAD_FOLDS)]
    return [mask for mask in masks if mask.any()]
