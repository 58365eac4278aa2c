"""How plans judge each requirement: the limits that are kept, and the quantities that are found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quantities import count
from weirlab.base.quoting import quoted
from weirlab.model.planning.judge import Decision
from weirlab.model.planning.planner import Find, PlanAnswer
from weirlab.model.planning.reach import Reach
from weirlab.model.planning.requirements import LIMITED, NO_LOSS, QuantityLimit, Requirement
from weirlab.requirements import LOSS, Demand, DemandCase, DemandJudgement, Quantity, Unit, Verdict, judge
from weirlab.rules import Walk

MOST_RATE: Final = Quantity("rate", "load", "rate", ("load",))
MOST_CALLS: Final = Quantity("calls", "number of calls", "count")
MOST_RULES: Final = Quantity("rules", "number of rules", "count")

SOUGHT: Final = (MOST_RATE, MOST_CALLS, MOST_RULES)
"""What can be required of the answer, which is the most that keeps the limits."""

KNOWN: Final = (*LIMITED, *SOUGHT)

_OF: Final = {field: quantity for quantity, field in LIMITED.items()}


def check(demands: Sequence[Demand], find: Find, *, calls: bool, ruleset: bool) -> None:
    """Raise ``InputError`` for a requirement on something that this plan does not find.

    ``calls``: whether the load is one of calls. ``ruleset``: whether rules are given; then the rules per
    packet are known.
    """
    of_load = (MOST_RATE, MOST_CALLS) if calls else (MOST_RATE,)
    found = {"rules": (MOST_RULES,), "frame": ()}.get(find, of_load)
    if ruleset and MOST_RULES not in found:
        found = (*found, MOST_RULES)
    for demand in demands:
        if demand.quantity in SOUGHT and demand.quantity not in found:
            known = ", ".join(each.name for each in (*LIMITED, *found))
            raise InputError(
                f"requirement {quoted(demand.text)}: this plan finds {find}, not {demand.quantity.name}; "
                f"accepted are {known}"
            )


def check_without_models(demands: Sequence[Demand], requirements: Sequence[Requirement]) -> None:
    """Raise ``InputError`` for a requirement that rules alone cannot be judged by."""
    texts = [quoted(demand.text) for demand in demands if demand.quantity is not MOST_RULES]
    texts += [requirement.name for requirement in requirements if requirement.name != GIVEN]
    if texts:
        raise InputError(
            f"requirement {', '.join(texts)} needs a model: name a model file or a run; of rules alone, only "
            f"{MOST_RULES.name} can be required"
        )


def rules_met(rules: Walk) -> DemandCase:
    """The mean number of rules that a packet is compared with."""
    note = f"rules per packet, of {count(rules.packets)} packets"
    return DemandCase(rules.mean_position, note=note)


def judged(
    demands: Sequence[Demand],
    requirements: Sequence[Requirement],
    answer: PlanAnswer,
    call_pps: float | None = None,
) -> tuple[DemandJudgement, ...]:
    """Every demand on the device that answers best, and every limit that follows from calls or classes."""
    limits: dict[str, float] = {}
    for limit in (each for requirement in requirements for each in requirement.limits):
        limits[limit.quantity] = min(limit.at_most, limits.get(limit.quantity, math.inf))
    found = [
        judge(demand, [_reached(demand, answer, call_pps)])
        if demand.quantity in SOUGHT
        else _limit(demand, "", answer, limits)
        for demand in demands
    ]
    derived = [
        _limit(*_demand(limit, limit.source if i else requirement.derivation or limit.source), answer, limits)
        for requirement in requirements
        if requirement.name != GIVEN
        for i, limit in enumerate(requirement.limits)
    ]
    return (*found, *derived)


GIVEN: Final = "given"
"""Name of the requirement that is made of ``--require``."""


def _demand(limit: QuantityLimit, source: str) -> tuple[Demand, str]:
    unit: Unit = "ratio" if limit.quantity == "loss_ratio" else "ns"
    return Demand(limit.text, _OF[limit.quantity], "<=", limit.at_most, unit), source


TOO_CLOSE: Final = "too close to the limit: a tenth more load may miss it"

VERDICTS: Final[dict[Decision, Verdict]] = {"meets": "met", "undecided": "undecided", "misses": "not met"}


def _limit(demand: Demand, source: str, answer: PlanAnswer, limits: Mapping[str, float]) -> DemandJudgement:
    """The judgement on one limit; ``limits`` has the strictest one by quantity, which decided the plan."""
    look = answer.outlook
    if look is None:
        case = DemandCase.unknown("; ".join(answer.refused) or "no setting was found", answer.device)
        return DemandJudgement(demand, "undecided", case, 1, 0)
    field = LIMITED[demand.quantity]
    predicted = look.predicted[field]
    floor, bound = look.floors[field], look.bounds[field]
    at_most = max(demand.value, NO_LOSS) if demand.quantity is LOSS else demand.value
    if at_most == limits[field]:
        verdict = VERDICTS[look.decisions[field]]
    else:
        verdict = "met" if bound <= at_most else "not met" if floor > at_most else "undecided"
    why = "the trials of the profile scatter too much: profile again with more repetitions"
    low, high = (floor, bound) if math.isfinite(floor + bound) else (-math.inf, math.inf)
    if verdict == "not met" and predicted <= at_most:
        lighter = answer.headroom is not None and answer.headroom.lighter is not None
        near = "a lighter load misses it" if lighter else TOO_CLOSE
        source = f"{source}; {near}" if source else near
    case = DemandCase(predicted, min(predicted, low), max(predicted, high), answer.device, source, why)
    return DemandJudgement(demand, verdict, case, 1, int(verdict == "not met"))


def _reached(demand: Demand, answer: PlanAnswer, call_pps: float | None) -> DemandCase:
    """From the most that is sure to the most that is predicted; unbounded where the profile ends."""
    reach = answer.headroom.reach if answer.headroom is not None else answer.reach
    look = answer.outlook
    if answer.refused or reach is None or look is None:
        return DemandCase.unknown("; ".join(answer.refused) or "nothing was found", answer.device)
    sure = reach.value or 0.0
    foreseen = max(_most(reach), _most(answer.foreseen or reach))
    why = (
        "the profile does not reach that far: profile higher loads or more rules"
        if math.isinf(foreseen)
        else "the trials of the profile scatter too much: profile again with more repetitions"
    )
    if demand.quantity is MOST_CALLS and call_pps is not None:
        sure //= call_pps
        foreseen = foreseen if math.isinf(foreseen) else max(sure, foreseen // call_pps)
    return DemandCase(sure, sure, foreseen, answer.device, why=why, frame_bytes=look.frame_bytes)


def _most(reach: Reach) -> float:
    """The largest value that may do; infinite where the profile ends before the limits do."""
    if reach.ended != "limit":
        return math.inf
    return (reach.lowest or 0.0) if reach.value is None else reach.value
