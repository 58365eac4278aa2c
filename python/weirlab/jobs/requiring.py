"""Turns results of trials into the cases by which requirements are judged; shared parts for other cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from weirlab.base.quantities import duration, percent
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
    Demand,
    DemandCase,
    DemandJudgement,
    Quantity,
    judge,
)
from weirlab.traffic.sizes import mean_bytes

if TYPE_CHECKING:
    from weirlab.jobs.trials import TrialOutcome
    from weirlab.records import F64, EngineResult, TrialRecord

CERTAINTY: Final = 0.95
"""Confidence level of the interval for the mean of repetitions."""

TAKEN: Final[dict[Quantity, Callable[[EngineResult], float]]] = {
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
"""Quantities of each caller or stream; the median is over all of them."""

TRIAL: Final = tuple(TAKEN)


def of_trial(demands: Sequence[Demand], outcome: TrialOutcome) -> tuple[DemandJudgement, ...]:
    """Judge ``demands`` by the trial, or by the mean of its repetitions and the interval of that mean."""
    return tuple(judge(demand, [trial_case(demand.quantity, outcome.repetitions)]) for demand in demands)


def trial_case(quantity: Quantity, records: Sequence[TrialRecord]) -> DemandCase:
    """The value of a single trial, or the mean over several with its interval; invalid ones do not count."""
    valid = [record for record in records if record.valid]
    if not valid:
        reasons = "; ".join(records[-1].invalid)
        return DemandCase.unknown(f"the host spoiled it ({reasons}): repeat it on a quieter machine")
    sent = sum(record.result.sent for record in valid)
    values = np.array([TAKEN[quantity](record.result) for record in valid])
    if np.isnan(values).any():
        return DemandCase.unknown("too little arrived: send more packets (--rate, --duration)")
    frame_bytes = mean_bytes(valid[0].spec.traffic.sizes)
    of = f"of {sent:,} packets"
    if quantity == LOSS:
        of = f"{sum(record.result.lost for record in valid):,} {of}"
    if len(records) == 1:
        of += _left_out(quantity, records[0])
        return DemandCase(float(values[0]), note=of, frame_bytes=frame_bytes)
    of += f" in {len(valid)} of {len(records)} repetitions"
    mean = float(values.mean())
    if len(valid) == 1:
        why = "one repetition alone has no interval: repeat on a quieter machine"
        return DemandCase(mean, -math.inf, math.inf, note=of, why=why, frame_bytes=frame_bytes)
    # Only repetitions need this, and importing it takes longer than many trials.
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(valid) - 1, (1 + CERTAINTY) / 2))
    half = quantile * float(values.std(ddof=1)) / math.sqrt(len(valid))
    why = "the repetitions are too far apart: more of them (--repetitions), or longer ones (--duration)"
    return DemandCase(mean, max(mean - half, 0.0), mean + half, note=of, why=why, frame_bytes=frame_bytes)


def _left_out(quantity: Quantity, record: TrialRecord) -> str:
    """What does not count because the host disturbed it; empty if nothing."""
    if record.disturbed is None:
        return ""
    whole = {LOSS: percent(record.disturbed.loss_ratio), P99: duration(record.disturbed.delay_p99_ns)}
    with_it = f" (with it {whole[quantity]})" if quantity in whole else ""
    return f", without {percent(record.result.left_out_ratio)} of the time, which the host disturbed{with_it}"


def each(values: F64, where: Sequence[str], unknown: str) -> list[DemandCase]:
    return [
        DemandCase.unknown(unknown, place) if math.isnan(value) else DemandCase(float(value), where=place)
        for value, place in zip(values, where, strict=True)
    ]


def median(values: F64, what: str) -> DemandCase:
    known = values[~np.isnan(values)]
    if not len(known):
        return DemandCase.unknown(f"none of the {what} has a MOS")
    return DemandCase(float(np.median(known)), note=f"over {len(known):,} {what}")
