"""What is lost below the threshold: a device, or its host, stalls now and then, and its queue overflows.

The usual trial loses nothing there, but those that meet a stall lose much, and long calls meet the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from weirlab.model.base import F64
from weirlab.model.intervals.calibration import FAR_BELOW
from weirlab.model.regimes import NO_LOSS

_ERRORS: Final = 1.0
"""Standard errors taken from a mean: of a stall that a single trial met, nothing is left."""

_ONE_LOAD: Final = 0.01
"""Loads within this share of the threshold are repetitions of one: their order says nothing."""


@dataclass(frozen=True)
class StallLoss:
    """Mean loss of trials by load relative to the threshold: a step at each of ``shares``, ascending."""

    shares: tuple[float, ...] = ()
    loss_ratios: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise ``ValueError`` if a step has no loss."""
        if len(self.shares) != len(self.loss_ratios):
            raise ValueError("shares and losses of stalls differ in number")

    def __bool__(self) -> bool:
        """Whether anything is lost."""
        return bool(self.shares)

    @classmethod
    def fit(cls, share: F64, loss_ratio: F64) -> Self:
        """The monotone mean (isotonic regression) of trials at loads below the threshold, less its error.

        Both have shape (n,), with all trials of a profile that had its most even gaps: those that lost
        packets count as well, but bursts of random gaps overflow a queue without a stall. A mean so small
        that a trial would count as without loss is none. If more than that is lost far below the threshold,
        the host loses packets at any load, and trials do not tell what the device does.
        """
        from scipy.optimize import isotonic_regression

        below = share < 1.0
        share, lost = share[below], loss_ratio[below]
        calm = lost[share < FAR_BELOW]
        if not lost.any() or (len(calm) and calm.mean() > NO_LOSS):
            return cls()
        _, load, trials = np.unique(np.floor(share / _ONE_LOAD), return_inverse=True, return_counts=True)
        blocks = isotonic_regression(np.bincount(load, lost) / trials, weights=trials).blocks
        block = np.searchsorted(blocks, load, side="right") - 1
        pooled = [lost[block == each] for each in range(len(blocks) - 1)]
        starts = np.array([share[block == each].min() for each in range(len(pooled))])
        least = [
            each.mean() - _ERRORS * each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else 0.0
            for each in pooled
        ]
        mean = np.maximum.accumulate(np.where(np.array(least) < NO_LOSS, 0.0, least))
        steps = np.flatnonzero(np.diff(mean, prepend=0.0) > 0)
        return cls(tuple(map(float, starts[steps])), tuple(map(float, mean[steps])))

    def at(self, share: F64) -> F64:
        """Mean loss ratio at these loads; beyond the threshold that just below it."""
        return np.array([0.0, *self.loss_ratios])[np.searchsorted(self.shares, share, side="right")]
