"""Searches the most calls that endpoints carry, by the search of RFC 9971."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Final

from weirlab.base.errors import TrialError
from weirlab.calls.ipsec.endpoints.plan import ArmName, Beside, CallLimitSection
from weirlab.calls.ipsec.endpoints.rows import EndpointAttemptRow, EndpointLimitRow
from weirlab.measure.search import mlr
from weirlab.measure.search.goal import SearchGoal

_NAME: Final = "calls"


def searched(
    limit: CallLimitSection,
    arm: ArmName,
    beside: Beside,
    measure: Callable[[int], EndpointAttemptRow],
    known: Iterable[EndpointAttemptRow] = (),
) -> EndpointLimitRow:
    """Search one kind of endpoints.

    Parameters
    ----------
    measure:
        Makes a trial with so many calls, and keeps it.
    known:
        Trials that an interrupted run has already; each serves once.
    """
    waiting: defaultdict[int, list[EndpointAttemptRow]] = defaultdict(list)
    for row in known:
        waiting[row.calls].append(row)

    def one(_: float, load: float) -> mlr.TrialCounts:
        # Loads of the search are real numbers.
        calls = max(math.floor(load + 1e-9), 1)
        row = waiting[calls].pop(0) if waiting[calls] else measure(calls)
        return mlr.TrialCounts(row.packets, min(row.bad, row.packets))

    goal = SearchGoal(
        _NAME,
        loss_ratio=limit.bad_share,
        trial_s=limit.trial_s,
        duration_sum_s=limit.trials * limit.trial_s,
        relative_width=limit.width,
    )
    carried = too_many = math.nan
    at_least, problem = False, ""
    if limit.most_calls == 1:
        try:
            row = waiting[1].pop(0) if waiting[1] else measure(1)
        except TrialError as error:
            return EndpointLimitRow(arm, beside, math.nan, math.nan, False, str(error))
        good = row.bad <= limit.bad_share * row.packets
        return EndpointLimitRow(arm, beside, 1.0 if good else math.nan, math.nan if good else 1.0, good, "")
    try:
        (found,) = mlr.search(one, [goal], min_load=1.0, max_load=float(limit.most_calls), unit="calls")
    except TrialError as error:
        problem = str(error)
    else:
        carried = math.nan if found.lower_pps is None else math.floor(found.lower_pps + 1e-9)
        too_many = math.nan if found.upper_pps is None else math.floor(found.upper_pps + 1e-9)
        at_least = found.at_least
    return EndpointLimitRow(arm, beside, carried, too_many, at_least, problem)
