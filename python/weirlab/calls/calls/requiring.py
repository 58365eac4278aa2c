"""What callers heard, as the cases that requirements are judged by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from weirlab.jobs.requiring import HEARD, MEDIAN_MOS, TAKEN, TRIAL, each, median, trial_case
from weirlab.requirements import GAP, MOS, Demand, DemandJudgement, judge

if TYPE_CHECKING:
    from weirlab.calls.calls.study import CallsOutcome


CALLS: Final = (*HEARD, *TRIAL)


def of_calls(demands: Sequence[Demand], outcome: CallsOutcome) -> tuple[DemandJudgement, ...]:
    """Judge quantities of the trial by all packets, and quantities that are heard by every caller."""
    record = outcome.record
    if not record.valid:
        return tuple(judge(demand, [trial_case(demand.quantity, (record,))]) for demand in demands)
    table = outcome.table
    callers = [
        f"call {call} {'back' if back else 'forward'}"
        for call, back in zip(table.call, table.back, strict=True)
    ]
    heard = {MOS: table.mos, GAP: table.longest_gap_ns}
    judged = []
    for demand in demands:
        quantity = demand.quantity
        if quantity in TAKEN:
            cases = [trial_case(quantity, (record,))]
        elif quantity == MEDIAN_MOS:
            cases = [median(table.mos, "callers")]
        else:
            cases = each(heard[quantity], callers, "too little arrived to tell")
        judged.append(judge(demand, cases))
    return tuple(judged)
