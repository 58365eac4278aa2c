"""Searches for the highest rate of calls that the engines set up (RFC 9971)."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from weirlab.base.errors import TrialError
from weirlab.base.quantities import percent
from weirlab.measure.search import mlr
from weirlab.measure.search.goal import SearchGoal
from weirlab.numbering.lab.loading import OTHERS
from weirlab.numbering.load.rows import LoadLimitRow, LoadTrialRow, WorkRow
from weirlab.numbering.load.targets import LoadTarget
from weirlab.numbering.proof.calling import decisions
from weirlab.numbering.section import LoadSection

_NAME: Final = "set-up"
_MOST_OTHERS: Final = 0.1
"""Share of the CPUs that other work may have in a trial with too many bad calls."""


def searched(
    asked: LoadSection,
    target: LoadTarget,
    measure: Callable[[int], LoadTrialRow],
    known: Iterable[LoadTrialRow] = (),
) -> LoadLimitRow:
    """Search the highest rate for one number.

    Parameters
    ----------
    measure:
        Makes a trial at a rate, in calls/s, and stores it.
    known:
        Trials of this number that an interrupted run already has; each is used once.
    """
    waiting: defaultdict[int, list[LoadTrialRow]] = defaultdict(list)
    for row in known:
        waiting[row.rate_per_s].append(row)

    def one(_: float, load: float) -> mlr.TrialCounts:
        rate = round(load)
        row = waiting[rate].pop(0) if waiting[rate] else measure(rate)
        return mlr.TrialCounts(row.calls, min(row.bad, row.calls), row.unsent)

    goal = SearchGoal(
        _NAME,
        loss_ratio=asked.bad_share,
        trial_s=asked.trial_s,
        duration_sum_s=asked.trials * asked.trial_s,
        relative_width=asked.width,
    )
    carried = too_many = math.nan
    at_least, problem = False, ""
    try:
        (found,) = mlr.search(one, [goal], min_load=asked.lowest, max_load=asked.highest, unit="calls/s")
    except TrialError as error:
        problem = str(error)
    else:
        carried = math.nan if found.lower_pps is None else round(found.lower_pps)
        too_many = math.nan if found.upper_pps is None else round(found.upper_pps)
        at_least = found.at_least
    return _row(target, carried, too_many, at_least=at_least, problem=problem)


def beside_others(
    limit: LoadLimitRow, asked: LoadSection, trials: Iterable[LoadTrialRow], work: Iterable[WorkRow]
) -> LoadLimitRow:
    """``limit`` without what other work on the host may have caused.

    If the bad calls of the trials at its end may be due to that, the engines may carry more.
    """
    cores = {row.index: row.cpu_share for row in work if row.engine == OTHERS}
    ends = [
        (row, cores.get(row.index, 0.0) / (os.cpu_count() or 1))
        for row in trials
        if row.number == limit.number
        and row.rate_per_s == limit.too_many_per_s
        and row.bad > asked.bad_share * row.calls
    ]
    if not ends or all(share <= _MOST_OTHERS for _, share in ends):
        return limit
    if not math.isnan(limit.carried_per_s):
        return replace(limit, at_least=True)
    row, share = max(ends, key=lambda each: each[1])
    problem = (
        f"at {row.rate_per_s} calls/s, {row.bad} of {row.calls} calls failed or were slow while other work "
        f"had {percent(share)} of the CPUs (at most {percent(_MOST_OTHERS)}); let it finish first"
    )
    return replace(limit, problem=problem)


def left_out(target: LoadTarget) -> LoadLimitRow:
    """The row of a number that cannot be called many times."""
    return _row(target, math.nan, math.nan)


def _row(
    target: LoadTarget, carried: float, too_many: float, *, at_least: bool = False, problem: str = ""
) -> LoadLimitRow:
    planned = target.planned
    return LoadLimitRow(
        number=target.number,
        way=" > ".join(planned.way.engines),
        decided=decisions(planned.decisions),
        carried_per_s=carried,
        too_many_per_s=too_many,
        at_least=at_least,
        problem=problem,
        translation=target.translation,
        no_load=target.no_load,
    )
