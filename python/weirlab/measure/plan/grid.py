"""The description of what a profile measures."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from weirlab.base.documents import SPARSE
from weirlab.base.errors import InputError
from weirlab.traffic.load import LOAD_SHARES
from weirlab.traffic.places import Places
from weirlab.traffic.places import validate as validate_places
from weirlab.traffic.sizes import Constant, SizeMix, validate
from weirlab.traffic.spec import Arrivals, Flows


@dataclass(frozen=True)
class Extras:
    """What a profile measures besides its grid, with the first of its frame sizes.

    Loads are those of the grid nearest to ``load_shares``, so that each trial that is to be
    compared has a counterpart in the grid.
    """

    position: int | None = None
    """Where connection tracking, cross traffic and the rate step are measured; None: the middle one of
    the grid's positions."""
    stateful: bool = False
    """Also measure with connection tracking."""
    cross_traffic: bool = False
    """Also measure with a management session on the device."""
    mixed: tuple[Places, ...] = ()
    """Traffic that matches at several positions at once."""
    arrivals: tuple[Arrivals, ...] = ()
    """Other arrivals than the grid's, at all of its positions."""
    rate_step: tuple[float, float] | None = None
    """Loads before and after a step in mid-trial, as shares of the threshold."""
    position_step: tuple[int, int] | None = None
    """Matching positions before and after a step in mid-trial."""
    load_shares: tuple[float, ...] = (0.08, 0.44, 0.65, 0.82, 0.95, 1.2)
    step_s: float = 0.4
    """Recorded part of a trial with a step, which comes in the middle."""
    cross_traffic_s: float = 0.3
    """Shortest recorded part of a trial with cross traffic: the session acts every 0.1 s."""

    def __post_init__(self) -> None:
        """Raise ``InputError`` for what cannot be measured."""
        for places in self.mixed:
            validate_places(places)
        if not self.load_shares:
            raise InputError("extra trials need at least one load share")
        if self.rate_step is not None and min(self.rate_step) <= 0:
            raise InputError(f"rate step {self.rate_step}: both load shares must be above 0")
        if self.position_step is not None:
            before, after = self.position_step
            if min(before, after) < 1 or before == after:
                raise InputError(f"position step {before} to {after}: give two different positions from 1 up")

    @property
    def compared(self) -> bool:
        """Are there trials to be compared with their counterparts? Other arrivals are modelled instead."""
        return self.stateful or self.cross_traffic or bool(self.mixed)


NO_EXTRAS: Final = Extras()


ONE_FLOW: Final = Flows()


def variants(flows: Flows, new_shares: tuple[float, ...]) -> tuple[Flows, ...]:
    """``flows`` with each share of new packets; themselves if none is given."""
    return tuple(replace(flows, new_share=share) for share in new_shares) or (flows,)


@dataclass(frozen=True)
class Profile:
    """What to measure: a grid of positions, sizes and loads, and extras besides it.

    :func:`quick` takes less than four minutes; see :func:`estimate_s`.

    Trials are short on purpose: on a shared machine a short one has a fair chance to be left
    undisturbed, and a disturbed one is soon repeated.
    """

    positions: tuple[int, ...] = (0, 50, 100, 150, 200, 280, 400, 600, 800, 1000)
    """Matching positions; 0 means no rules at all."""
    sizes: tuple[SizeMix, ...] = (Constant(64), Constant(512), Constant(1518))
    load_shares: tuple[float, ...] = LOAD_SHARES
    """Offered loads relative to the forwarding rate that scouting found for position and size."""
    load_stride: int = 1
    """Each position and size takes only every n-th of the loads below 1, and its neighbours take the
    others. One position says much about the next, so that more loads are covered in all."""
    repetitions: int = 3
    trial_s: float = 0.1
    warmup_s: float = 0.03
    scout_s: float = 0.1
    scout_warmup_s: float = 0.03
    stateful: bool = False
    flows: Flows = ONE_FLOW
    arrivals: Arrivals = "constant"
    paced_limit_pps: float = 1.8e6
    """Loads beyond what the sender can pace are sent as fast as possible instead."""
    seed: int = 1
    cross_traffic: bool = False
    """Hold a management session with the device in every trial."""
    extras: Extras = NO_EXTRAS
    new_shares: tuple[float, ...] = field(default=(), metadata=SPARSE)
    """Of answered flows: shares of new packets to go through, at one position; empty: that of ``flows``."""

    @property
    def variants(self) -> tuple[Flows, ...]:
        """The flows of its trials."""
        return variants(self.flows, self.new_shares)

    def __post_init__(self) -> None:
        for name in ("positions", "sizes", "load_shares"):
            if not getattr(self, name):
                raise InputError(
                    f"a profile without {name.replace('_', ' ')} measures nothing; give at least one"
                )
        if len(self.new_shares) > 1 and (len(self.positions) > 1 or self.positions == (0,)):
            raise InputError("several shares of new flows need one rule count above 0, e.g. --rules 1000")
        if min(self.positions) < 0:
            raise InputError(f"matching position {min(self.positions)}: it must be 0 (no rules) or higher")
        if min(self.load_shares) <= 0:
            raise InputError(f"load share {min(self.load_shares):g}: it must be above 0")
        if min(self.repetitions, self.load_stride) < 1:
            raise InputError(
                f"{self.repetitions} repetitions, every {self.load_stride}-th load: at least 1 is needed"
            )
        below = sum(share < 1 for share in self.load_shares)
        if self.load_stride > max(below, 1):
            raise InputError(
                f"every {self.load_stride}-th of {below} loads below 1 leaves places without any; "
                "lower load_stride or give more load_shares"
            )
        for mix in self.sizes:
            validate(mix)


def quick(**changes: Any) -> Profile:
    """A profile of less than four minutes, with ``changes`` to its fields."""
    settings: dict[str, Any] = {
        "sizes": (Constant(64), Constant(1518)),
        "positions": (0, 50, 100, 400, 1000),
        "load_shares": (0.02, 0.15, 0.4, 0.65, 0.85, 0.95, 1.1, 1.4),
        "trial_s": 0.1,
        "warmup_s": 0.03,
        "scout_s": 0.1,
        "extras": Extras(arrivals=("constant", "poisson"), load_shares=(0.4, 0.85)),
    }
    return Profile(**{**settings, **changes})
