"""Trials beside a profile's grid, each next to the same load in the grid but for one difference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from weirlab.errors import InputError
from weirlab.measure.plan.loads import SENDER_RESERVE, load_or_max, nearest, rounded, threshold_pps
from weirlab.measure.scouting import Scouted, Scouting
from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.places import Places, validate
from weirlab.traffic.spec import Arrivals, Rate, Step, Traffic

if TYPE_CHECKING:
    from weirlab.measure.profile import Profile

STEP_LOAD: Final = 0.5
"""Load of a trial with a position step, as a share of the lower one of the two thresholds: below both,
so that the step alone makes the difference."""


@dataclass(frozen=True)
class Extras:
    """What a profile measures beside its grid, with the first of its frame sizes.

    Loads are those of the grid nearest to ``load_shares``, so that each trial that is to be
    compared has a counterpart in the grid.
    """

    position: int | None = None
    """Where connection tracking, cross traffic and the rate step are measured; None: the middle one of
    the grid's positions."""
    stateful: bool = False
    """With connection tracking, too."""
    cross_traffic: bool = False
    """With a management session on the device, too."""
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
    """Least recorded part of a trial with cross traffic: the session has something to do every 0.1 s."""

    def __post_init__(self) -> None:
        """Raises ``InputError`` for what cannot be measured."""
        for places in self.mixed:
            validate(places)
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

    def to_json(self) -> dict[str, Any]:
        """JSON values; :meth:`from_json` is the inverse."""
        return dict(vars(self))

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Extras:
        """Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what :meth:`to_json` cannot have made."""
        rate_step, position_step = value["rate_step"], value["position_step"]
        return cls(
            **{
                **value,
                "mixed": tuple(tuple((int(n), float(share)) for n, share in p) for p in value["mixed"]),
                "arrivals": tuple(value["arrivals"]),
                "load_shares": tuple(value["load_shares"]),
                "rate_step": None if rate_step is None else tuple(rate_step),
                "position_step": None if position_step is None else tuple(position_step),
            }
        )


NO_EXTRAS: Final = Extras()


def extra_specs(profile: Profile, scouting: Scouting, repetition: int) -> list[TrialSpec]:
    """The trials beside the grid of ``profile`` in one of its repetitions."""
    extras, mix = profile.extras, profile.sizes[0]
    points = [point for point in scouting.points if point.sizes == mix]
    grid = _Grid(profile, points, repetition)
    middle = sorted(profile.positions)[len(profile.positions) // 2]
    plain = RuleSetup(middle if extras.position is None else extras.position, profile.stateful)
    specs: list[TrialSpec] = []
    if extras.stateful and not profile.stateful:
        specs += grid.at(replace(plain, stateful=True), "stateful")
    if extras.cross_traffic and not profile.cross_traffic:
        for spec in grid.at(plain, "cross traffic"):
            duration_s = max(spec.traffic.duration_s, extras.cross_traffic_s)
            traffic = replace(spec.traffic, duration_s=duration_s)
            specs.append(replace(spec, cross_traffic=True, traffic=traffic))
    for places in extras.mixed:
        specs += grid.at(RuleSetup.mixed(places, profile.stateful), "mixed positions")
    for arrivals in extras.arrivals:
        if arrivals != profile.arrivals:
            for position in profile.positions:
                found = grid.at(RuleSetup(position, profile.stateful), arrivals)
                specs += [replace(spec, traffic=replace(spec.traffic, arrivals=arrivals)) for spec in found]
    return [*specs, *_steps(grid, extras, plain)]


@dataclass(frozen=True)
class _Grid:
    """Traffic and loads as in the grid, for one frame size and repetition."""

    profile: Profile
    points: list[Scouted]
    repetition: int

    def at(self, rules: RuleSetup, label: str) -> list[TrialSpec]:
        """Trials at the extra loads with ``rules``."""
        profile = self.profile
        shares = nearest(profile.extras.load_shares, profile.load_shares)
        threshold = threshold_pps(self.points, rules.mean_position)
        rates = load_or_max(shares, threshold, self.limit_pps)
        return [TrialSpec(self.traffic(rate), rules, f"{load}, {label}") for rate, load in rates.items()]

    @property
    def limit_pps(self) -> float:
        """Load that the sender can pace."""
        best = max(point.sender_pps for point in self.points)
        return min(self.profile.paced_limit_pps, SENDER_RESERVE * best)

    def traffic(self, rate: Rate) -> Traffic:
        profile = self.profile
        return Traffic(
            rate,
            profile.sizes[0],
            profile.flows,
            profile.arrivals,
            warmup_s=profile.warmup_s,
            duration_s=profile.trial_s,
            seed=profile.seed + self.repetition,
        )


def _steps(grid: _Grid, extras: Extras, plain: RuleSetup) -> Iterator[TrialSpec]:
    def stepped(rate: Rate, step: Step, rules: RuleSetup, label: str) -> TrialSpec:
        traffic = replace(grid.traffic(rate), steps=(step,), duration_s=extras.step_s)
        return TrialSpec(traffic, rules, label)

    at_s = extras.step_s / 2
    if extras.rate_step is not None:
        threshold = threshold_pps(grid.points, plain.position)
        limit_pps = grid.limit_pps
        before, after = (Rate(rounded(min(share * threshold, limit_pps))) for share in extras.rate_step)
        yield stepped(before, Step(at_s, after), plain, "rate step")
    if extras.position_step is not None:
        first, then = extras.position_step
        lower = min(threshold_pps(grid.points, n) for n in extras.position_step)
        places = tuple(sorted(((first, 1.0), (then, 0.0))))
        rules = RuleSetup.mixed(places, plain.stateful)
        load = Rate(rounded(min(STEP_LOAD * lower, grid.limit_pps)))
        yield stepped(load, Step(at_s, None, then), rules, "position step")
