"""What trials, searches, calls and captures measured, as the cases that requirements are judged by."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import stdtrit

from weirlab.requirements import (
    GAP,
    JITTER,
    LOSS,
    MAX,
    MEAN,
    MIN,
    MOS,
    P50,
    P90,
    P99,
    P999,
    RATE,
    Case,
    Demand,
    Judgement,
    Quantity,
    judge,
)
from weirlab.traffic.sizes import mean_bytes

if TYPE_CHECKING:
    from weirlab.jobs.calls import CallsOutcome
    from weirlab.jobs.quality import QualityOutcome
    from weirlab.jobs.searches import SearchOutcome
    from weirlab.jobs.trials import TrialOutcome
    from weirlab.measure.search import Goal
    from weirlab.records import F64, EngineResult, TrialRecord

CERTAINTY: Final = 0.95
"""Of the interval that repetitions give for their mean."""

_TAKEN: Final[dict[Quantity, Callable[[EngineResult], float]]] = {
    LOSS: lambda result: result.loss_ratio,
    MEAN: lambda result: result.delay_mean_ns,
    P50: lambda result: result.histogram.quantile_ns(0.5),
    P90: lambda result: result.histogram.quantile_ns(0.9),
    P99: lambda result: result.histogram.quantile_ns(0.99),
    P999: lambda result: result.histogram.quantile_ns(0.999),
    MIN: lambda result: result.delay_min_ns,
    MAX: lambda result: result.delay_max_ns,
    JITTER: lambda result: result.jitter_ns,
    RATE: lambda result: result.forwarding_pps,
}

MEDIAN_MOS: Final = Quantity("mos-median", "median MOS", "score")
HEARD: Final = (MOS, MEDIAN_MOS, GAP)
"""Of every caller or stream; the median is over all of them."""

TRIAL: Final = tuple(_TAKEN)
CALLS: Final = (*HEARD, *TRIAL)
CAPTURE: Final = (*HEARD, LOSS, JITTER)


def search_quantities(goals: Sequence[Goal]) -> tuple[Quantity, ...]:
    """The throughput at each goal's loss: ``ndr``, ``pdr``, ``throughput@1%``."""
    return tuple(_throughput(goal) for goal in goals)


def _throughput(goal: Goal) -> Quantity:
    name = f"throughput@{goal.loss_ratio * 100:g}%"
    if goal.loss_ratio == 0:
        return Quantity("ndr", "NDR", "rate", ("throughput", name))
    if goal.name == "PDR":
        return Quantity("pdr", "PDR", "rate", (name,))
    return Quantity(name, f"throughput at {goal.loss_ratio * 100:g} % loss", "rate")


def of_trial(demands: Sequence[Demand], outcome: TrialOutcome) -> tuple[Judgement, ...]:
    """Judged by the trial, or by the mean of its repetitions and that mean's interval."""
    return tuple(judge(demand, [_trial_case(demand.quantity, outcome.repetitions)]) for demand in demands)


def of_search(demands: Sequence[Demand], outcome: SearchOutcome) -> tuple[Judgement, ...]:
    """Judged by the bounds that were found; a requirement must be met in every setting."""
    judged = []
    for demand in demands:
        cases = [_search_case(demand.quantity, outcome, i) for i in range(len(outcome.points))]
        judged.append(judge(demand, cases))
    return tuple(judged)


def of_calls(demands: Sequence[Demand], outcome: CallsOutcome) -> tuple[Judgement, ...]:
    """Judged by all packets for what a trial has, and by every caller for what is heard."""
    record = outcome.record
    if not record.valid:
        return tuple(judge(demand, [_trial_case(demand.quantity, (record,))]) for demand in demands)
    table = outcome.table
    callers = [
        f"call {call} {'back' if back else 'forward'}"
        for call, back in zip(table.call, table.back, strict=True)
    ]
    heard = {MOS: table.mos, GAP: table.longest_gap_ns}
    judged = []
    for demand in demands:
        quantity = demand.quantity
        if quantity in _TAKEN:
            cases = [_trial_case(quantity, (record,))]
        elif quantity == MEDIAN_MOS:
            cases = [_median(table.mos, "callers")]
        else:
            cases = _each(heard[quantity], callers, "too little arrived to tell")
        judged.append(judge(demand, cases))
    return tuple(judged)


def of_capture(demands: Sequence[Demand], outcome: QualityOutcome) -> tuple[Judgement, ...]:
    """Judged by every stream."""
    measured = outcome.table.streams
    heard = {
        MOS: outcome.mos,
        LOSS: outcome.loss_ratio,
        JITTER: measured.jitter_ns,
        GAP: measured.longest_gap_ns,
    }
    streams = [f"stream {stream.number}" for stream in outcome.streams]
    unknown = "the capture does not tell; --codec names unknown codecs"
    return tuple(
        judge(
            demand,
            [_median(outcome.mos, "streams")]
            if demand.quantity == MEDIAN_MOS
            else _each(heard[demand.quantity], streams, unknown),
        )
        for demand in demands
    )


def _trial_case(quantity: Quantity, records: Sequence[TrialRecord]) -> Case:
    """The one trial as it is, or the mean over several with its interval; invalid ones do not count."""
    valid = [record for record in records if record.valid]
    if not valid:
        reasons = "; ".join(records[-1].invalid)
        return Case.unknown(f"the host spoiled it ({reasons}): repeat it on a quieter machine")
    sent = sum(record.result.sent for record in valid)
    values = np.array([_TAKEN[quantity](record.result) for record in valid])
    if np.isnan(values).any():
        return Case.unknown("too little arrived: send more packets (--rate, --duration)")
    frame_bytes = mean_bytes(valid[0].spec.traffic.sizes)
    of = f"of {sent:,} packets"
    if quantity == LOSS:
        of = f"{sum(record.result.lost for record in valid):,} {of}"
    if len(records) == 1:
        return Case(float(values[0]), note=of, frame_bytes=frame_bytes)
    of += f" in {len(valid)} of {len(records)} repetitions"
    mean = float(values.mean())
    if len(valid) == 1:
        why = "one repetition alone has no interval: repeat on a quieter machine"
        return Case(mean, -math.inf, math.inf, note=of, why=why, frame_bytes=frame_bytes)
    quantile = float(stdtrit(len(valid) - 1, (1 + CERTAINTY) / 2))
    half = quantile * float(values.std(ddof=1)) / math.sqrt(len(valid))
    why = "the repetitions are too far apart: more of them (--repetitions), or longer ones (--duration)"
    return Case(mean, max(mean - half, 0.0), mean + half, note=of, why=why, frame_bytes=frame_bytes)


def _search_case(quantity: Quantity, outcome: SearchOutcome, number: int) -> Case:
    point = outcome.points[number]
    where = point.setting.text
    found = next((each for each in point.found if _throughput(each.goal) == quantity), None)
    if found is None:
        return Case.unknown(f"{point.problem or 'nothing was found'}: search again", where)
    # Without a lower bound even the lowest load was too much, without an upper one the highest was not.
    carries = found.conditional_throughput_pps
    low = 0.0 if carries is None else carries
    high = math.inf if found.upper_pps is None or found.at_least else found.upper_pps
    why = (
        "no higher load could be offered"
        if math.isinf(high)
        else "the bounds of the search lie on both sides: narrower ones (--width)"
    )
    return Case(low, low, high, where, why=why, frame_bytes=mean_bytes(point.setting.sizes))


def _each(values: F64, where: Sequence[str], unknown: str) -> list[Case]:
    return [
        Case.unknown(unknown, place) if math.isnan(value) else Case(float(value), where=place)
        for value, place in zip(values, where, strict=True)
    ]


def _median(values: F64, what: str) -> Case:
    known = values[~np.isnan(values)]
    if not len(known):
        return Case.unknown(f"none of the {what} has a MOS")
    return Case(float(np.median(known)), note=f"over {len(known):,} {what}")
