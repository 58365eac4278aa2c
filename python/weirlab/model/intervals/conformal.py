"""Conformal quantiles: how large a score a new trial will have at most, with a given probability."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from weirlab.model.base import F64
from weirlab.model.trials import Labels

_ROUNDING: Final = 1e-9


def upper_quantile(scores: F64, group: Labels, alpha: float) -> float:
    """The score that one trial of a new group exceeds with a probability of at most ``alpha``.

    Repetitions of a setting are off together, so not trials but groups are exchangeable: K
    groups with equal weights and one more, the new one, that may lie anywhere. The result is the
    smallest score up to which a weight of ``1 - alpha`` of K + 1 lies (Y. Lee, R. F. Barber and
    R. Willett, "Distribution-free inference with hierarchical data", 2023). With groups of one
    trial that is the usual conformal quantile, the ``ceil((1 - alpha)(K + 1))``-th smallest score.

    With fewer than ``1/alpha - 1`` groups no score reaches that far: a new group exceeds the
    largest one with probability ``1/(K + 1)`` still. The bound is then put where an exponential
    tail that begins at the median (1/2) and passes through the largest score has fallen to
    ``alpha``. Scores of delays are logarithms: for the delays themselves that is a power law,
    heavier than what queues make.

    Parameters
    ----------
    scores, group:
        Shape (n,), n >= 1.
    alpha:
        Between 0 and 1.
    """
    numbers, inverse, size = np.unique(group, return_inverse=True, return_counts=True)
    groups = len(numbers)
    order = np.argsort(scores, kind="stable")
    below = np.cumsum(1.0 / size[inverse.ravel()[order]])
    wanted = (1.0 - alpha) * (groups + 1)
    ordered = scores[order]
    if wanted <= groups + _ROUNDING:
        rank = int(np.searchsorted(below, wanted - _ROUNDING))
        return float(ordered[min(rank, len(ordered) - 1)])
    median = float(ordered[int(np.searchsorted(below, 0.5 * groups - _ROUNDING))])
    reach = math.log(1 / (2 * alpha)) / math.log((max(groups, 2) + 1) / 2)
    return median + (float(ordered[-1]) - median) * max(reach, 1.0)


def between(scores: F64, group: Labels, level: float) -> tuple[float, float]:
    """Where the score of a new trial lies with probability ``level``: each side misses half of the rest.

    The sides are separate because delays are far more often much longer than much shorter.
    """
    alpha = (1.0 - level) / 2
    return -upper_quantile(-scores, group, alpha), upper_quantile(scores, group, alpha)
