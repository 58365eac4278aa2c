"""Why a device meets limits, misses them, or is undecided, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from weirlab.cli.quantities import count, duration, percent, rate, significant, words
from weirlab.model.planning.judge import ROOM

if TYPE_CHECKING:
    from collections.abc import Mapping

    from weirlab.model.planning.planner import PlanAnswer, PlanForecast, PlanningQuestion
    from weirlab.model.planning.reach import Reach
    from weirlab.model.planning.requirements import QuantityLimit

FURTHER: Final = 1.05
"""Factor by which the prediction alone reaches further before that is worth a word."""

FAR: Final = 2.0
"""Multiple of a limit from which on the multiple is told."""

_NOISE: Final = "noise of the machine that measured decides, not the load"


def because(one: PlanAnswer, question: PlanningQuestion) -> str:
    """What limits a device, what it misses, or what leaves it undecided."""
    if one.refused:
        return "; ".join(one.refused)
    reach = one.headroom.reach if one.headroom else one.reach
    if one.verdict == "undecided":
        return unsure(one, question) + ("" if reach is None else _beyond(one, reach, question))
    if one.find == "frame":
        return "" if one.outlook is None or one.outlook.met else f"{one.outlook.binding.label} too high"
    if reach is None:
        return ""
    beyond = _beyond(one, reach, question)
    look = one.outlook
    if reach.ended != "limit" or reach.value is not None or look is None:
        return f"{end_of(reach)}{beyond}"
    if one.headroom is None:
        return f"even the lowest profiled value misses: {missing(look, question)}{beyond}"
    at_lower = one.headroom.lighter
    if at_lower is not None and reach.lowest is not None and at_lower.rate_pps > reach.lowest:
        fewer = amount(one, at_lower.rate_pps, question)
        return f"a lighter load misses already: at {fewer}, {missing(at_lower, question)}{beyond}"
    if at_lower is not None:
        return f"even the lowest profiled load misses: {missing(at_lower, question)}{beyond}"
    return f"{missing(look, question)}; even the lowest profiled load misses{beyond}"


def _beyond(one: PlanAnswer, reach: Reach, question: PlanningQuestion) -> str:
    """How much further the prediction alone reaches; if no load will do, what passes without loss."""
    foreseen = one.headroom.foreseen_pps if one.headroom else one.foreseen.value if one.foreseen else None
    if foreseen is not None and foreseen > FURTHER * (reach.value or 0.0):
        return f" ({amount(one, foreseen, question)} by the prediction alone)"
    if reach.value is None and one.outlook is not None and one.find != "rules":
        return f" ({amount(one, one.outlook.predicted['threshold_pps'], question)} without loss)"
    return ""


def end_of(reach: Reach) -> str:
    """What ends a reach."""
    if reach.ended == "limit" and reach.binding is not None:
        if reach.value is None:
            return f"even the lowest profiled value misses: {reach.binding.text}"
        return f"beyond: {limit_missed(reach.binding)}"
    if reach.ended == "profile":
        return f"not profiled beyond: {'; '.join(reach.why)}"
    return "larger values were not tried"


def limit_missed(limit: QuantityLimit) -> str:
    """``p99 delay above 1 ms``."""
    if limit.quantity == "loss_ratio":
        return "packets are lost" if limit.text == "no loss" else f"loss above {percent(limit.at_most)}"
    return f"{limit.label} above {duration(limit.at_most)}"


def missing(look: PlanForecast, question: PlanningQuestion) -> str:
    """Which limits are missed, and by how much: those that decide, else all that the prediction misses.

    Those that it is only too close to are told by their bounds.
    """
    exceeded = [each for each in question.limits if look.predicted[each.quantity] > each.at_most]
    close = [each for each in question.limits if look.decisions[each.quantity] == "misses"]
    parts = []
    for limit in close or exceeded or [look.binding]:
        foreseen = limit in exceeded
        values = look.predicted if foreseen else look.bounds
        value = values[limit.quantity]
        if not math.isfinite(value):
            parts.append(f"{limit.label} is not known")
            continue
        times = value / limit.at_most
        far = f"{significant(times, 2)} × its limit of {_limit(limit)}"
        above = far if times >= FAR else f"above {_limit(limit)}"
        shown = f"predicted at {_shown(limit, values)}" if foreseen else f"up to {_shown(limit, values)}"
        notes = [above] if limit.text != "no loss" else []
        notes += [interval(look, limit.quantity, question.certainty)] if foreseen and question.sure else []
        if close and not foreseen:
            predicted = _shown(limit, look.predicted)
            threshold = look.predicted["threshold_pps"]
            if limit.quantity != "loss_ratio":
                at = "too close to the limit"
            elif look.rate_pps * ROOM >= threshold:
                at = f"within a tenth of the threshold, {rate(threshold)}"
            else:
                at = "a tenth more load loses packets"
            notes.append(f"predicted at {predicted}, but {at}")
        parts.append(f"{limit.label} {shown}" + (f" ({'; '.join(notes)})" if notes else ""))
    return words(parts)


def interval(look: PlanForecast, quantity: str, certainty: float) -> str:
    """``1.30 ms to 1.08 s in 90 % of trials``, as ``weir predict`` shows it."""
    ends = look.floors[quantity], look.bounds[quantity]
    if not all(map(math.isfinite, ends)):
        return "cannot tell how far off"
    show = percent if quantity == "loss_ratio" else duration
    low, high = map(show, ends)
    return f"{low} to {high} in {200 * certainty - 100:.4g} % of trials"


def distance(look: PlanForecast, question: PlanningQuestion) -> tuple[float, float]:
    """How far a device is from its limits: by the prediction, then by the bounds."""
    return max(look.predicted[each.quantity] / each.at_most for each in question.limits), look.used


def unsure(one: PlanAnswer, question: PlanningQuestion) -> str:
    """Of an undecided answer: which bounds miss their limits although the predictions do not."""
    look = one.outlook
    assert look is not None
    if one.least_pps is not None:
        least = amount(one, one.least_pps, question)
        return f"only loads from {least} on were profiled; there, {missing(look, question)}"
    if one.headroom is not None and (lighter := one.headroom.lighter) is not None:
        fewer = amount(one, lighter.rate_pps, question)
        unsure_there = _unsure_at(lighter, question)
        return f"sure enough at this load, but not at a lighter one: at {fewer}, {unsure_there}; {_NOISE}"
    misses = _unsure_at(look, question)
    return (
        f"{misses}; it is no surer at the lowest profiled load: {_NOISE}" if unsure_when_idle(one) else misses
    )


def _unsure_at(look: PlanForecast, question: PlanningQuestion) -> str:
    """Every limit that lies between the bounds, beside the prediction."""
    parts = []
    for limit in question.limits:
        if look.decisions[limit.quantity] != "undecided":
            continue
        sides = ("below", "above") if look.predicted[limit.quantity] <= limit.at_most else ("above", "below")
        bound = _shown(limit, look.bounds if sides[0] == "below" else look.floors)
        parts.append(
            f"{limit.label} is predicted at {_shown(limit, look.predicted)}, but "
            f"{question.certainty * 100:g} % of trials are only sure to stay {sides[0]} {bound}, which is "
            f"{sides[1]} {_limit(limit)}"
        )
    return words(parts)


def unsure_when_idle(one: PlanAnswer) -> bool:
    """Whether a device is undecided even at the lowest profiled load: then the load is not the reason."""
    reach = one.headroom.reach if one.headroom else one.reach
    by_load = one.verdict == "undecided" and one.find != "rules"
    return by_load and reach is not None and reach.value is None


def _limit(limit: QuantityLimit) -> str:
    return "0" if limit.text == "no loss" else _shown(limit, {limit.quantity: limit.at_most})


def amount(one: PlanAnswer, value: float, question: PlanningQuestion) -> str:
    """``value`` of what is sought: rules, calls, or a load."""
    if one.find == "rules":
        return f"{count(value)} rules"
    if question.call_pps is not None:
        return f"{count(value // question.call_pps)} calls"
    return rate(value)


def _shown(limit: QuantityLimit, values: Mapping[str, float]) -> str:
    value = values[limit.quantity]
    return percent(value) if limit.quantity == "loss_ratio" else duration(value)
