"""How the host has changed between a profile and its verification, and its share of a model's error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import stdtrit

from weirlab.model.base import Model
from weirlab.model.comparing.matching import Compared, contrast, digest
from weirlab.model.comparing.scatter import estimate
from weirlab.model.score import deviations
from weirlab.records import Observation

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
