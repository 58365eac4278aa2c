"""Conformal quantiles: the score that a new trial will not exceed with a given probability."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from weirlab.model.base import F64
from weirlab.model.trials import Labels

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
