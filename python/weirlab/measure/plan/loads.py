"""Loads relative to a threshold, and trials besides a profile's grid, each but one value like one of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from weirlab.measure.plan.grid import Extras, Profile
from weirlab.measure.scouting import MAX_RATE, ScoutPoint, ScoutResult, fastest
from weirlab.records import RuleSetup, TrialSpec
from weirlab.traffic.spec import LoadStep, Rate, Traffic

SENDER_RESERVE: Final = 0.95
"""Share of its highest rate that the sender can pace."""


def load_or_max(
    shares: Iterable[float], threshold_pps: float, limit_pps: float, highest: Rate = MAX_RATE
) -> dict[Rate, str]:
    """Loads at ``shares`` of ``threshold_pps``, with their labels.

    What exceeds ``limit_pps`` becomes ``highest``, at most once.
    """
    rates: dict[Rate, str] = {}
    for share in shares:
        pps = rounded(share * threshold_pps)
        paced = pps <= limit_pps
        rates.setdefault(Rate(pps) if paced else highest, f"load {share:g}" if paced else "load max")
    return rates


def load_share(label: str) -> float:
    """The share of a label of :func:`load_or_max`; infinite for the highest load, NaN for other labels."""
    kind, _, share = label.partition(" ")
    if kind != "load":
        return math.nan
    return math.inf if share == "max" else float(share)


def rounded(pps: float) -> float:
    """Four digits are enough for a load and still readable."""
    return float(f"{pps:.4g}")


def nearest(wanted: Iterable[float], there: Iterable[float]) -> tuple[float, ...]:
    """For each of ``wanted`` the nearest of ``there``, ascending and each once."""
    known = tuple(there)
    return tuple(sorted({min(known, key=lambda value: abs(value - share)) for share in wanted}))


def threshold_pps(points: Iterable[ScoutPoint], position: float) -> float:
    """Forwarding rate in overload at any position, from ``points`` of one frame size.

    The time per packet is taken as linear between two scouted positions and beyond them; it
    only places loads. A ``position`` that was scouted has the scouted rate.
    """
    known = sorted((point.position, 1 / point.forwarding_pps) for point in points)
    for n, service_s in known:
        if n == position:
            return 1 / service_s
    if len(known) == 1:
        return 1 / known[0][1]
    after = next((i for i, (n, _) in enumerate(known) if n > position), len(known) - 1)
    (n1, s1), (n2, s2) = known[max(after - 1, 0)], known[max(after, 1)]
    slope = max((s2 - s1) / (n2 - n1), 0.0)
    return 1 / max(s2 + (position - n2) * slope, min(s1, s2) / 2)


STEP_LOAD: Final = 0.5
"""Load of a trial with a position step, as a share of the lower one of the two thresholds: below both,
so that the step alone makes the difference."""


def extra_specs(profile: Profile, scouting: ScoutResult, repetition: int) -> list[TrialSpec]:
    """The trials besides the grid of ``profile`` in one of its repetitions."""
    if profile.new_shares:
        return []
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
    points: list[ScoutPoint]
    repetition: int

    def at(self, rules: RuleSetup, label: str) -> list[TrialSpec]:
        """Trials at the extra loads with ``rules``."""
        profile = self.profile
        shares = nearest(profile.extras.load_shares, profile.load_shares)
        threshold = threshold_pps(self.points, rules.mean_position)
        rates = load_or_max(shares, threshold, self.limit_pps, fastest(profile.flows))
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
    def stepped(rate: Rate, step: LoadStep, rules: RuleSetup, label: str) -> TrialSpec:
        traffic = replace(grid.traffic(rate), steps=(step,), duration_s=extras.step_s)
        return TrialSpec(traffic, rules, label)

    at_s = extras.step_s / 2
    if extras.rate_step is not None:
        threshold = threshold_pps(grid.points, plain.position)
        limit_pps = grid.limit_pps
        before, after = (Rate(rounded(min(share * threshold, limit_pps))) for share in extras.rate_step)
        yield stepped(before, LoadStep(at_s, after), plain, "rate step")
    if extras.position_step is not None:
        first, then = extras.position_step
        lower = min(threshold_pps(grid.points, n) for n in extras.position_step)
        places = tuple(sorted(((first, 1.0), (then, 0.0))))
        rules = RuleSetup.mixed(places, plain.stateful)
        load = Rate(rounded(min(STEP_LOAD * lower, grid.limit_pps)))
        yield stepped(load, LoadStep(at_s, None, then), rules, "position step")
