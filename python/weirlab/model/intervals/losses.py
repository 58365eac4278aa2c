"""What trials lose below the threshold: models are not fitted to it, but their intervals contain it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from weirlab.model import regimes
from weirlab.model.base import F64, ObservationTable

_SAME: Final = 0.5
"""Positions and sizes in bytes that differ by no more are the same."""


@dataclass(frozen=True)
class LossBelow:
    """What trials of one profiled setting lost at loads where the device is not overloaded."""

    position: float
    frame_bytes: float
    shares: tuple[float, ...] = ()
    """Loads relative to the threshold at which more was lost than at any lighter one, ascending."""
    loss_ratios: tuple[float, ...] = ()
    """The largest loss up to each of these loads."""

    def most(self, share: F64) -> F64:
        """The largest loss up to these loads."""
        return np.array([0.0, *self.loss_ratios])[np.searchsorted(self.shares, share, side="right")]


def most_lost(lost: Sequence[LossBelow], share: F64, frame_bytes: F64, position: F64) -> F64:
    """The largest loss at the profiled settings around these, up to these shares of the threshold."""
    most = np.zeros(share.shape)
    around = [
        _around(np.unique([getattr(one, name) for one in lost]), asked)
        for name, asked in (("position", position), ("frame_bytes", frame_bytes))
    ]
    for one in lost:
        ends = zip((one.position, one.frame_bytes), around, strict=True)
        near = np.logical_and.reduce([(low == own) | (high == own) for own, (low, high) in ends])
        most = np.where(near, np.maximum(most, one.most(share)), most)
    return most


def lost_below(table: ObservationTable, threshold_pps: Callable[[F64, F64], F64]) -> tuple[LossBelow, ...]:
    """By setting, the losses of trials that are not in overload, whether models are fitted to them or not."""
    sorted_out = regimes.sort(table)
    found = []
    for setting in sorted_out.settings:
        rows = setting.rows[~sorted_out.overload[setting.rows]]
        shares = table.rate_pps[rows] / threshold_pps(table.position[rows], table.frame_bytes[rows])
        order = np.argsort(shares, kind="stable")
        shares, most = shares[order], np.maximum.accumulate(table.loss_ratio[rows][order])
        more = np.flatnonzero(np.diff(most, prepend=0.0) > 0)
        found.append(
            LossBelow(
                setting.position,
                setting.frame_bytes,
                tuple(map(float, shares[more])),
                tuple(map(float, most[more])),
            )
        )
    return tuple(found) if any(one.shares for one in found) else ()


def _around(known: F64, asked: F64) -> tuple[F64, F64]:
    """Which of the ``known`` values, ascending, are just below and above; twice the same one at an end."""
    last = len(known) - 1
    above = np.clip(np.searchsorted(known, asked - _SAME), 0, last)
    below = np.clip(np.searchsorted(known, asked + _SAME, side="right") - 1, 0, last)
    return known[below], known[above]
