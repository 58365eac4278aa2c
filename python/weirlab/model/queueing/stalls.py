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

        Both have shape (n,), with all trials of a profile: those that lost packets count as well. A mean so
        small that a trial would count as without loss is none. If more than that is lost far below the
        threshold, the host loses packets at any load, and trials do not tell what the device does.
        """
        from scipy.optimize import isotonic_regression

        order = np.argsort(share, kind="stable")
        share, lost = share[order], loss_ratio[order]
        share, lost = share[share < 1.0], lost[share < 1.0]
        calm = lost[share < FAR_BELOW]
        if not lost.any() or (len(calm) and calm.mean() > NO_LOSS):
            return cls()
        starts = isotonic_regression(lost).blocks[:-1]
        least = [
            each.mean() - _ERRORS * each.std(ddof=1) / np.sqrt(len(each)) if len(each) > 1 else 0.0
            for each in np.split(lost, starts[1:])
        ]
        mean = np.maximum.accumulate(np.where(np.array(least) < NO_LOSS, 0.0, least))
        steps = np.flatnonzero(np.diff(mean, prepend=0.0) > 0)
        return cls(tuple(map(float, share[starts[steps]])), tuple(map(float, mean[steps])))

    def at(self, share: F64) -> F64:
        """Mean loss ratio at these loads; beyond the threshold that just below it."""
        return np.array([0.0, *self.loss_ratios])[np.searchsorted(self.shares, share, side="right")]
