"""What a search is to find, and what it found (terms of RFC 9971)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from weirlab.base.errors import InputError


@dataclass(frozen=True)
class SearchGoal:
    """A search goal (RFC 9971): which trials count as good, and how many decide about a load.

    A trial is *good* when its loss ratio is at most ``loss_ratio``. A load is a *lower
    bound* when at most ``exceed_ratio`` of ``duration_sum_s`` seconds of trials were bad,
    and an *upper bound* when more were. The search ends when the two are ``relative_width``
    apart.

    The defaults are those that FD.io uses (half of 21 trials may be bad, width 0.5 %) with
    shorter and fewer trials: a short trial has a fair chance to go undisturbed. RFC 2544
    asks for one trial of 60 s without any loss: ``Goal(trial_s=60, duration_sum_s=60,
    exceed_ratio=0)``.
    """

    name: str = "NDR"
    loss_ratio: float = 0.0
    trial_s: float = 0.2
    """Recorded time of one trial."""
    duration_sum_s: float = 2.2
    """Sum of the trials' recorded times that settles a load for sure; fewer trials suffice if they agree."""
    exceed_ratio: float = 0.5
    relative_width: float = 0.005
    """Distance of the bounds as a share of the upper one."""

    def __post_init__(self) -> None:
        """Raise ``InputError`` naming the value that no goal can have."""
        for name in ("loss_ratio", "exceed_ratio"):
            value = getattr(self, name)
            if not 0 <= value < 1:
                raise InputError(f"goal {self.name}: {_spoken(name)} {value:g} must be from 0 to below 1")
        if not 0 < self.relative_width < 1:
            raise InputError(f"goal {self.name}: width {self.relative_width:g} must be between 0 and 1")
        if not (math.isfinite(self.trial_s) and self.trial_s > 0):
            raise InputError(f"goal {self.name}: a trial of {self.trial_s:g} s; it must be longer than 0 s")
        if not (math.isfinite(self.duration_sum_s) and self.duration_sum_s >= self.trial_s):
            raise InputError(
                f"goal {self.name}: a sum of durations of {self.duration_sum_s:g} s; "
                f"it must be at least that of one trial ({self.trial_s:g} s)"
            )

    @property
    def trials(self) -> int:
        """Trials that settle a load for sure."""
        return math.ceil(self.duration_sum_s / self.trial_s - 1e-9)


NDR: Final = SearchGoal()
"""Non-drop rate: no loss."""

PDR: Final = SearchGoal("PDR", 0.005)
"""Partial drop rate: at most 0.5 % lost."""


@dataclass(frozen=True)
class GoalResult:
    """The result for one goal in one setting of the device; loads in packets/s.

    Without a ``lower_pps`` even the lowest load was too much; without an ``upper_pps`` the
    highest load was not too much.
    """

    goal: SearchGoal
    conditional_throughput_pps: float | None
    """Forwarding rate at the relevant lower bound: the load less the loss that the goal let pass."""
    lower_pps: float | None
    """Relevant lower bound: the highest load that still meets the goal."""
    upper_pps: float | None
    """Relevant upper bound: the lowest load that does not."""
    loss_ratio: float | None
    """Loss at the relevant lower bound, at the quantile of its trials that the exceed ratio names."""
    at_least: bool = False
    """The sender or the user's limit allowed no higher load: the device may carry more."""


def _spoken(name: str) -> str:
    return name.replace("_", " ")
