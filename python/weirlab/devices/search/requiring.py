"""What searches found, as the cases that requirements are judged by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from weirlab.requirements import Demand, DemandCase, DemandJudgement, Quantity, judge

if TYPE_CHECKING:
    from weirlab.devices.search.study import SearchOutcome
    from weirlab.measure.search.goal import SearchGoal


def search_quantities(goals: Sequence[SearchGoal]) -> tuple[Quantity, ...]:
    """The throughput at each goal's loss: ``ndr``, ``pdr``, ``throughput@1%``."""
    return tuple(_throughput(goal) for goal in goals)


def _throughput(goal: SearchGoal) -> Quantity:
    name = f"throughput@{goal.loss_ratio * 100:g}%"
    if goal.loss_ratio == 0:
        return Quantity("ndr", "NDR", "rate", ("throughput", name))
    if goal.name == "PDR":
        return Quantity("pdr", "PDR", "rate", (name,))
    return Quantity(name, f"throughput at {goal.loss_ratio * 100:g} % loss", "rate")


def of_search(demands: Sequence[Demand], outcome: SearchOutcome) -> tuple[DemandJudgement, ...]:
    """Judge ``demands`` by the bounds that were found; a requirement must be met in every setting."""
    judged = []
    for demand in demands:
        cases = [_search_case(demand.quantity, outcome, i) for i in range(len(outcome.points))]
        judged.append(judge(demand, cases))
    return tuple(judged)


def _search_case(quantity: Quantity, outcome: SearchOutcome, number: int) -> DemandCase:
    point = outcome.points[number]
    where = point.setting.text
    found = next((each for each in point.found if _throughput(each.goal) == quantity), None)
    if found is None:
        return DemandCase.unknown(f"{point.problem or 'nothing was found'}: search again", where)
    # Without a lower bound even the lowest load was too much, without an upper one the highest was not.
    carries = found.conditional_throughput_pps
    low = 0.0 if carries is None else carries
    high = math.inf if found.upper_pps is None or found.at_least else found.upper_pps
    why = (
        "no higher load could be offered"
        if math.isinf(high)
        else "the bounds of the search lie on both sides of it: narrow them with --width"
    )
    return DemandCase(low, low, high, where, why=why, frame_bytes=point.setting.frame_bytes)
