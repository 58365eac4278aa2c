"""What an adaptive profile may measure, and where it begins."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from weirlab.base.errors import InputError
from weirlab.measure.plan.grid import NO_EXTRAS, Profile
from weirlab.measure.plan.loads import SENDER_RESERVE, load_or_max
from weirlab.measure.profile import FAST_RULES_S, expected
from weirlab.measure.scouting import ScoutResult, scout_specs
from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.sizes import SizeMix, mean_bytes
from weirlab.traffic.spec import Traffic

F64 = npt.NDArray[np.float64]

POSITIONS: Final = 13
"""Matching positions in geometric steps over the range, besides those that the profile names."""

SEED_SHARES: Final = (0.05, 0.5, 0.9, 1.2)
"""The first loads: near idle, the middle, where waiting sets in, overload."""

REFERENCE_SHARES: Final = (0.05, 0.2, 0.4, 0.6, 0.75, 0.88, 1.2)
"""Loads at which the uncertainty is evaluated. None near the threshold, where the delay jumps."""

GRID: Final = Profile()

EXTRAS: Final = ("stateful", "cross_traffic", "mixed", "arrivals", "rate_step", "position_step")
"""Extras that a grid may have and an adaptive profile may not."""

MIN_TARGET: Final = 0.001


@dataclass(frozen=True)
class Candidate:
    """What distinguishes a trial from others; ``load_share`` is relative to the threshold."""

    position: int
    sizes: SizeMix
    load_share: float

    @property
    def frame_bytes(self) -> float:
        return mean_bytes(self.sizes)


@dataclass(frozen=True)
class Candidates:
    """Settings as columns of equal length; a size mix is represented by its mean size."""

    position: F64
    frame_bytes: F64
    load_share: F64

    @classmethod
    def of(cls, settings: Iterable[Candidate]) -> Candidates:
        rows = [(setting.position, setting.frame_bytes, setting.load_share) for setting in settings]
        return cls(*np.asarray(rows, dtype=np.float64).reshape(-1, 3).T)

    def __len__(self) -> int:
        return len(self.position)


@dataclass(frozen=True)
class AdaptivePlan:
    """A profile that chooses its trials while it measures, where the model knows least.

    ``grid`` is the profile whose accuracy is the target: its positions give the range, its
    loads and sizes the choice.
    """

    grid: Profile = GRID
    budget_trials: int | None = None
    """Trials at most, scouting included; None: half as many as the grid has."""
    target_ratio: float = 0.05
    """Measuring ends when the standard deviation is below this at 95 % of the settings."""
    batch_trials: int = 8
    """Trials between two fits, at least; a fifth of the trials made so far if that is more."""

    def __post_init__(self) -> None:
        if len(set(self.grid.positions)) < 2:
            raise InputError(
                "an adaptive profile chooses positions within a range: give two matching positions or more"
            )
        asked = [name for name in EXTRAS if getattr(self.grid.extras, name)]
        if asked:
            raise InputError(
                f"an adaptive profile measures nothing besides the grid; leave out {', '.join(asked)}, or "
                "'adaptive'"
            )
        if not (math.isfinite(self.target_ratio) and self.target_ratio >= MIN_TARGET):
            raise InputError(f"target {self.target_ratio:g}: give a ratio of {MIN_TARGET:g} or more, or 5%")
        if self.batch_trials < 1:
            raise InputError(f"batches of {self.batch_trials} trials: at least one is needed")
        least = self.seed_trials
        if self.budget < least:
            raise InputError(
                f"a budget of {self.budget} trials is used up before anything can be chosen: {least} trials "
                "come first, to find the device's range; give more, or measure fewer sizes"
            )

    @property
    def grid_trials(self) -> int:
        """Trials of the grid, scouting included."""
        return len(expected(replace(self.grid, extras=NO_EXTRAS)))

    @property
    def seed_trials(self) -> int:
        """Trials that are fixed beforehand."""
        return len(scout_specs(self.scouted)) + len(first(self))

    @property
    def budget(self) -> int:
        """Trials at most."""
        return self.grid_trials // 2 if self.budget_trials is None else self.budget_trials

    @property
    def scouted(self) -> Profile:
        """The profile to scout: the ends of the range."""
        ends = (min(self.grid.positions), max(self.grid.positions))
        return replace(self.grid, positions=ends)


def positions(adaptive: AdaptivePlan) -> tuple[int, ...]:
    """Positions to choose from: those of the grid, and geometric steps between the outermost."""
    low, high = min(adaptive.grid.positions), max(adaptive.grid.positions)
    steps = np.exp(np.linspace(math.log1p(low), math.log1p(high), POSITIONS)) - 1
    return tuple(sorted({*adaptive.grid.positions, *(round(step) for step in steps)}))


def candidates(adaptive: AdaptivePlan) -> list[Candidate]:
    """All settings that may be measured."""
    grid = adaptive.grid
    return [
        Candidate(position, mix, share)
        for position in positions(adaptive)
        for mix in grid.sizes
        for share in grid.load_shares
    ]


def reference(adaptive: AdaptivePlan) -> Candidates:
    """Settings at which the model has to be sure: positions evenly over the range and over its steps."""
    low, high = min(adaptive.grid.positions), max(adaptive.grid.positions)
    places = sorted({*positions(adaptive), *(round(n) for n in np.linspace(low, high, 9))})
    return Candidates.of(
        Candidate(position, mix, share)
        for position in places
        for mix in adaptive.grid.sizes
        for share in REFERENCE_SHARES
    )


def first(adaptive: AdaptivePlan) -> list[Candidate]:
    """The settings measured after scouting: all sizes at both ends of the range, one size in the middle."""
    places = positions(adaptive)
    low, high = places[0], places[-1]
    middle = places[len(places) // 2]
    grid = adaptive.grid
    offered = np.array(grid.load_shares)
    shares = sorted({grid.load_shares[int(np.argmin(np.abs(offered - near)))] for near in SEED_SHARES})
    places_and_sizes = [(position, mix) for position in (low, high) for mix in grid.sizes]
    if low < middle < high:
        places_and_sizes.append((middle, grid.sizes[0]))
    return [Candidate(position, mix, share) for position, mix in places_and_sizes for share in shares]


def specs(
    adaptive: AdaptivePlan, chosen: Sequence[tuple[Candidate, float]], scouting: ScoutResult, first_index: int
) -> list[TrialSpec]:
    """The trials for settings and the thresholds (pps) that their loads refer to, shuffled.

    If setting rules is slow (``FAST_RULES_S``), the trials of one position stay together.
    ``first_index`` keeps the random numbers of different batches apart.
    """
    grid = adaptive.grid
    sender_pps = max((point.sender_pps for point in scouting.points), default=math.inf)
    limit_pps = min(grid.paced_limit_pps, SENDER_RESERVE * sender_pps)
    made = []
    for number, (setting, threshold_pps) in enumerate(chosen, first_index):
        ((rate, label),) = load_or_max((setting.load_share,), threshold_pps, limit_pps).items()
        traffic = Traffic(
            rate,
            setting.sizes,
            grid.flows,
            grid.arrivals,
            warmup_s=grid.warmup_s,
            duration_s=grid.trial_s,
            seed=grid.seed + number,
        )
        rules = RuleSetup(setting.position, grid.stateful)
        made.append(TrialSpec(traffic, rules, label, grid.cross_traffic))
    order = random.Random(grid.seed + first_index)
    order.shuffle(made)
    if scouting.set_rules_s >= FAST_RULES_S:
        places = sorted({spec.rules.position for spec in made})
        order.shuffle(places)
        made.sort(key=lambda spec: places.index(spec.rules.position))
    return made
