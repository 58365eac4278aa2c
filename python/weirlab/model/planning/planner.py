"""The planner's question: all but one of load, rules, frame size and device are given, find that one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

import numpy as np

from weirlab.base.errors import InputError
from weirlab.base.units import WIRE_OVERHEAD_BYTES
from weirlab.model.base import F64, QUANTITIES, Predictor
from weirlab.model.planning import judge as intervals
from weirlab.model.planning.judge import (
    BOUNDED,
    ROOM,
    Decision,
    Judge,
    LoadFloor,
    OperatingPoints,
    worst,
)
from weirlab.model.planning.reach import FRAMES_BYTES, POSITIONS, RATES_PPS, Reach, reach, stretches
from weirlab.model.planning.requirements import QuantityLimit

Conclusion = Literal[Decision, "not profiled"]
"""The conclusion for a device; ``not profiled``: its model would have to extrapolate."""

Find = Literal["rate", "calls", "rules", "frame", "delay", "loss", "device"]
FINDABLE: Final[tuple[Find, ...]] = get_args(Find)

_JUST_BEYOND: Final = 1e-6
"""How far beyond a reach, as a ratio, its limit is missed: more than the reach is uncertain by."""


@dataclass(frozen=True)
class OfferedLoad:
    """Offered load: packets per second, or bit/s on the wire, of which larger frames need more."""

    value: float
    unit: Literal["pps", "bps"] = "pps"

    def pps(self, frame_bytes: F64) -> F64:
        """Packets per second of frames of (mean) ``frame_bytes``."""
        if self.unit == "pps":
            return np.full_like(frame_bytes, self.value)
        return np.asarray(self.value / ((frame_bytes + WIRE_OVERHEAD_BYTES) * 8.0))


@dataclass(frozen=True)
class PlanningQuestion:
    """What is given, and what to find, which must be None; raises ``InputError`` if it is not."""

    find: Find
    limits: tuple[QuantityLimit, ...]
    load: OfferedLoad | None = None
    frame_bytes: float | None = None
    """Frame size, or the mean of a mix."""
    position: float | None = None
    """Mean matching position of the traffic."""
    certainty: float = intervals.DEFAULT
    gap_scv: float = 0.0
    extrapolate: bool = False
    call_pps: float | None = None
    """Packets per second of one call, to answer in calls."""

    @property
    def sure(self) -> bool:
        """Whether bounds decide, not the prediction alone."""
        return self.certainty > intervals.LEAST

    def __post_init__(self) -> None:
        intervals.check(self.certainty)
        if not self.limits:
            raise InputError("a plan needs something to meet: a requirement, a loss limit, or calls")
        if self.find == "calls" and self.call_pps is None:
            raise InputError("to find calls a codec is needed, e.g. --codec g711")
        given = {"rate": self.load, "rules": self.position, "frame": self.frame_bytes}
        sought = "rate" if self.find == "calls" else self.find
        missing = [name for name, value in given.items() if value is None and name != sought]
        if missing:
            raise InputError(f"to find {self.find}, also give {' and '.join(missing)}")
        if given.get(sought) is not None:
            raise InputError(f"{self.find} is what the plan is to find; do not give it as well")


@dataclass(frozen=True)
class PlanForecast:
    """What a device does at one setting."""

    rate_pps: float
    frame_bytes: float
    position: float
    predicted: dict[str, float]
    """Every quantity of ``Prediction``."""
    bounds: dict[str, float]
    """Bounds with the certainty: delays, jitter and loss stay below, the threshold above. NaN where the model
    has no interval."""
    floors: dict[str, float]
    """Bounds with the certainty above which delays, jitter and loss stay."""
    decisions: dict[str, Decision]
    """By limited quantity."""
    decision: Decision
    binding: QuantityLimit
    """The limit that is closest, or exceeded most."""
    used: float
    """Bound of that quantity relative to its limit: above 1 it is missed."""
    why_extrapolated: tuple[str, ...]
    unchecked: str = ""
    """What the bounds do not cover; empty if nothing."""

    @property
    def met(self) -> bool:
        """Whether the limits hold with the requested certainty."""
        return self.decision == "meets"

    def as_bound(self) -> PlanForecast:
        """The same if it only bounds what the device does: who misses a limit at more load may meet it."""
        decisions: dict[str, Decision] = {
            quantity: "undecided" if decision == "misses" else decision
            for quantity, decision in self.decisions.items()
        }
        return replace(self, decisions=decisions, decision=worst(decisions.values()))


@dataclass(frozen=True)
class Headroom:
    """The room left at the given load, with the same rules and frame size."""

    reach: Reach
    """Largest load that meets the limits."""
    ratio: float
    """Largest over given load; below 1 the given load is too much, NaN if no load will do."""
    left_pps: float
    foreseen_pps: float = math.nan
    """Largest load by the prediction alone; NaN if none will do."""
    lighter: PlanForecast | None = None
    """At a lighter load with a worse decision, which holds for the given one, too; None if there is none."""


@dataclass(frozen=True)
class PlanAnswer:
    """The answer for one device."""

    device: str
    find: Find
    outlook: PlanForecast | None
    """At the value found, or at the given setting; None if there is none."""
    reach: Reach | None = None
    """For rate, calls and rules."""
    calls: int | None = None
    frames: tuple[tuple[int, int], ...] = ()
    """For frame: first and last of every stretch of sizes that meet the limits."""
    headroom: Headroom | None = None
    uncertain: tuple[str, ...] = ()
    """Quantities answered by the prediction alone, since the model has no intervals for them."""
    refused: tuple[str, ...] = ()
    """Why there is no answer without extrapolating."""
    foreseen: Reach | None = None
    """For rate, calls and rules: how far the prediction alone reaches, without any certainty."""
    least_pps: float | None = None
    """The lowest profiled load, if it stands for the lower one in question, as a bound."""

    @property
    def verdict(self) -> Conclusion:
        """Whether there is a setting that meets the limits, or the given one does."""
        return "not profiled" if self.refused or self.outlook is None else self.outlook.decision

    @property
    def met(self) -> bool:
        """Whether the limits are met with the requested certainty."""
        return self.verdict == "meets"

    @property
    def score(self) -> float:
        """Score for choosing a device, higher is better; -inf if the limits are not met."""
        if not self.met:
            return -math.inf
        if self.reach is not None and self.reach.value is not None:
            return self.reach.value
        if self.find == "frame":
            return float(sum(last - first + 1 for first, last in self.frames))
        if self.find in ("delay", "loss") and self.outlook is not None:
            return -self.outlook.used
        return self.headroom.ratio if self.headroom else 0.0


def answer(
    device: str, model: Predictor, question: PlanningQuestion, *, disturbed: bool = False
) -> PlanAnswer:
    """The answer of ``model`` to ``question``; ``refused`` instead of extrapolating unless allowed.

    A load below the lowest profiled one is answered as that, which bounds it. ``disturbed``: see ``Judge``.
    """
    judge = Judge(
        model, question.limits, question.certainty, question.gap_scv, question.extrapolate, disturbed
    )
    if question.find in ("rate", "calls"):
        return _load(device, judge, question)
    floor = LoadFloor.of(model)
    bounded = judge if question.extrapolate else replace(judge, model=floor)
    if question.find == "rules":
        found = _rules(device, bounded, question)
    elif question.find == "frame":
        found = _frames(device, bounded, question)
    else:
        found = _given(device, judge, bounded, question)
    look = found.outlook
    if look is None or question.extrapolate or not floor.replaces(look.rate_pps):
        return found
    return replace(found, outlook=look.as_bound(), least_pps=floor.least_pps)


def best(answers: list[PlanAnswer]) -> PlanAnswer | None:
    """The answer of the best device; None if none meets the limits."""
    chosen = max(answers, key=lambda found: found.score, default=None)
    return chosen if chosen is not None and chosen.met else None


def _load(device: str, judge: Judge, question: PlanningQuestion) -> PlanAnswer:
    frame, position = _number(question.frame_bytes), _number(question.position)
    found, foreseen = _reaches(judge, RATES_PPS, lambda rate: OperatingPoints(rate, frame, position))
    if found.lowest is None:
        return PlanAnswer(device, question.find, None, found, refused=found.why)
    setting = OperatingPoints(found.lowest if found.value is None else found.value, frame, position)
    calls = None
    if question.call_pps is not None:
        calls = math.floor(found.value / question.call_pps) if found.value is not None else 0
    said = _told(device, judge, question, setting)
    return replace(said, reach=found, calls=calls, foreseen=foreseen)


def _rules(device: str, judge: Judge, question: PlanningQuestion) -> PlanAnswer:
    frame, rate = _number(question.frame_bytes), _given_pps(question)
    found, foreseen = _reaches(
        judge, POSITIONS, lambda rules: OperatingPoints(rate, frame, rules), whole=True
    )
    if found.lowest is None:
        return PlanAnswer(device, question.find, None, found, refused=found.why)
    setting = OperatingPoints(rate, frame, found.lowest if found.value is None else found.value)
    return replace(_told(device, judge, question, setting), reach=found, foreseen=foreseen)


def _frames(device: str, judge: Judge, question: PlanningQuestion) -> PlanAnswer:
    load, position = question.load, _number(question.position)
    assert load is not None

    def place(frame: F64) -> OperatingPoints:
        return OperatingPoints(load.pps(frame), frame, position)

    verdict = judge.at(place(FRAMES_BYTES))
    inside = ~verdict.outside | judge.extrapolate
    if not inside.any():
        return PlanAnswer(device, question.find, None, refused=tuple(judge.reasons(place(FRAMES_BYTES[:1]))))
    found = stretches(judge, FRAMES_BYTES, place)
    sizes = tuple((int(first), int(last)) for first, last in found)
    # Without a size that will do, the first profiled one shows what is missing.
    shown = found[0][0] if found else float(FRAMES_BYTES[int(np.argmax(inside))])
    frame = np.array([shown])
    setting = OperatingPoints(float(load.pps(frame)[0]), shown, position)
    return replace(_told(device, judge, question, setting), frames=sizes)


def _given(device: str, judge: Judge, bounded: Judge, question: PlanningQuestion) -> PlanAnswer:
    """The answer by ``bounded`` at the given load, and how far ``judge`` goes from the lowest load on."""
    frame, position, rate = _number(question.frame_bytes), _number(question.position), _given_pps(question)
    setting = OperatingPoints(rate, frame, position)
    why = tuple(bounded.reasons(setting))

    def place(rates: F64) -> OperatingPoints:
        return OperatingPoints(rates, frame, position)

    if why and not (question.extrapolate or _exceeded(judge, place, rate)):
        return PlanAnswer(device, question.find, None, refused=why)
    most, foreseen = _reaches(judge, RATES_PPS, place)
    value, alone = (math.nan if one.value is None else one.value for one in (most, foreseen))
    said = _told(device, bounded, question, setting)
    look = said.outlook
    assert look is not None
    lighter = None if look.decision == "misses" else _lighter_worse(judge, most, place, look)
    headroom = Headroom(most, value / rate, value - rate, alone, lighter)
    if lighter is not None:
        decisions = {name: worst((one, lighter.decisions[name])) for name, one in look.decisions.items()}
        said = replace(said, outlook=replace(look, decisions=decisions, decision=lighter.decision))
    return replace(said, headroom=headroom)


def _lighter_worse(
    judge: Judge, most: Reach, place: Callable[[F64], OperatingPoints], look: PlanForecast
) -> PlanForecast | None:
    """The outlook at the first lighter load with the worst decision, if that is worse than that on ``look``.

    The verdict on a heavier load is no better than the one there: who has room for twice the calls has
    room for the calls. Bounds that are wider at one load than at a heavier one are due to trials that the
    machine disturbed, not to the load.
    """
    if most.ended != "limit" or most.lowest is None:
        return None
    first = most.lowest if most.value is None else most.value * (1 + _JUST_BEYOND)
    if first >= look.rate_pps:
        return None
    loads = np.concatenate([[first], RATES_PPS[(first < RATES_PPS) & (look.rate_pps > RATES_PPS)]])
    found = np.max(judge.decisions_on(place(loads)), axis=0)
    if found.max() <= get_args(Decision).index(look.decision):
        return None
    return outlook(judge, place(loads[int(found.argmax())]))


def _told(device: str, judge: Judge, question: PlanningQuestion, setting: OperatingPoints) -> PlanAnswer:
    """What ``device`` does at one setting."""
    uncertain = judge.uncertain(setting)
    return PlanAnswer(device, question.find, outlook(judge, setting), uncertain=uncertain)


def outlook(judge: Judge, setting: OperatingPoints) -> PlanForecast:
    """What the judged device does at one setting."""
    verdict = judge.at(setting)
    found = verdict.prediction
    rate = np.asarray(setting.rate_pps, dtype=np.float64)
    bounds = {name: float(judge.bound(found, name, rate)) for name in BOUNDED}
    bounds["threshold_pps"] = float(intervals.at_least(found, "threshold_pps", judge.certainty))
    floors = {name: float(judge.floor(found, name, rate)) for name in BOUNDED}
    for ends in (bounds, floors) if judge.certainty > intervals.LEAST else ():
        ends.update({name: math.nan for name in ends if not intervals.known(found, name)})
    binding = judge.limits[int(verdict.binding)]
    decisions = judge.decisions(setting)
    return PlanForecast(
        rate_pps=float(rate),
        frame_bytes=float(np.asarray(setting.frame_bytes)),
        position=float(np.asarray(setting.position)),
        predicted={name: float(getattr(found, name)) for name in QUANTITIES},
        bounds=bounds,
        floors=floors,
        decisions=dict(zip((limit.quantity for limit in judge.limits), decisions, strict=True)),
        decision=worst(decisions),
        binding=binding,
        used=float(verdict.bounds[binding.quantity]) / binding.at_most,
        why_extrapolated=tuple(found.why),
        unchecked=found.unchecked,
    )


def _reaches(
    judge: Judge, grid: F64, place: Callable[[F64], OperatingPoints], *, whole: bool = False
) -> tuple[Reach, Reach]:
    """How far the limits hold with the requested certainty, and by the prediction alone."""
    foreseen = replace(judge, certainty=0.5)
    return reach(judge, grid, place, whole=whole), reach(foreseen, grid, place, whole=whole)


def _exceeded(judge: Judge, place: Callable[[F64], OperatingPoints], rate_pps: float) -> bool:
    """Whether a load is too much although it was not profiled: by the prediction, a lower one is already."""
    foreseen = reach(replace(judge, certainty=0.5), RATES_PPS, place)
    if foreseen.ended != "limit" or foreseen.lowest is None:
        return False
    return rate_pps > ROOM * (foreseen.lowest if foreseen.value is None else foreseen.value)


def _given_pps(question: PlanningQuestion) -> float:
    assert question.load is not None
    return float(question.load.pps(np.array([_number(question.frame_bytes)]))[0])


def _number(value: float | None) -> float:
    # Question has made sure that it is there.
    assert value is not None
    return value
