"""Chooses numbers, and searches for the highest rate of calls that the engines set up (RFC 9971).

SIPp counts the calls in its statistics file.
"""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weirlab.base.errors import InputError, TrialError
from weirlab.base.quantities import percent, words
from weirlab.measure.search import mlr
from weirlab.measure.search.goal import SearchGoal
from weirlab.numbering.lab.loading import OTHERS
from weirlab.numbering.load.findings import LoadLimitRow, LoadTrialRow, WorkRow
from weirlab.numbering.proof.calling import decisions
from weirlab.numbering.proof.ways import ProofCall
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.wording import PROTOCOLS
from weirlab.numbering.section import LoadSection

EDGES_MS: Final = (
    1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 250, 300, 400, 500, 750,
    1000, 1500, 2000, 3000, 5000, 10_000,
)  # fmt: skip
"""Upper ends of the classes of set-up times."""

_CLASS: Final = "ResponseTimeRepartition1_"
_LATE: Final = 0.02
"""Share of the calls by which a caller may be late, as the rows are a second apart."""


def edges(limit_ms: int) -> list[int]:
    """Upper ends of the classes, the limit among them."""
    return sorted({*EDGES_MS, limit_ms})


@dataclass(frozen=True)
class SippCounts:
    """The counts of a caller in a trial."""

    calls: int
    unsent: int
    failed: int
    slow: int
    retransmissions: int
    classes: Mapping[int, int]
    """Calls by the upper end of their set-up time, in ms."""
    longer: int
    """Calls above all classes."""

    def percentile_ms(self, share: float) -> float:
        """The upper end of the class in which a quantile lies; NaN above all classes, and for no calls."""
        total = sum(self.classes.values()) + self.longer
        passed = 0
        for edge in sorted(self.classes):
            passed += self.classes[edge]
            if total and passed >= share * total:
                return float(edge)
        return math.nan


def counted(text: str, rate_per_s: float, calls: int, limit_ms: int) -> SippCounts:
    """The last row of a statistics file, and how late the caller was.

    Parameters
    ----------
    text:
        What ``-trace_stat`` writes: names and rows, separated by semicolons.
    calls:
        How many were to be started.

    Raises
    ------
    ValueError
        There is no row.
    """
    names, *rows = [line.split(";") for line in text.splitlines() if line.strip()]
    if not rows:
        raise ValueError("SIPp's statistics have no rows")
    listed = [dict(zip(names, row, strict=False)) for row in rows]
    last = listed[-1]
    classes = {
        int(name.removeprefix(f"{_CLASS}<")): int(value)
        for name, value in last.items()
        if name.startswith(f"{_CLASS}<") and value
    }
    longer = sum(int(value) for name, value in last.items() if name.startswith(f"{_CLASS}>") and value)
    begun = int(last["OutgoingCall(C)"])
    return SippCounts(
        calls=begun,
        unsent=max(calls - begun, _late(listed, rate_per_s, calls)),
        failed=int(last["FailedCall(C)"]),
        slow=sum(count for edge, count in classes.items() if edge > limit_ms) + longer,
        retransmissions=int(last["Retransmissions(C)"]),
        classes=classes,
        longer=longer,
    )


def _late(rows: Sequence[Mapping[str, str]], rate_per_s: float, calls: int) -> int:
    """Calls by which the caller was behind its rate while it still had calls to start."""
    behind = 0.0
    for row in rows:
        begun, elapsed_s = int(row["OutgoingCall(C)"]), _epoch(row["CurrentTime"]) - _epoch(row["StartTime"])
        if begun < calls:
            behind = max(behind, min(elapsed_s * rate_per_s, calls) - begun)
    # SIPp starts calls in bursts: it is on time within one call and a tenth of a second of its rate.
    return round(behind) if behind > max(_LATE * calls, 1 + rate_per_s / 10) else 0


def _epoch(text: str) -> float:
    """The Unix time in s, the last field of a time stamp of SIPp."""
    return float(text.split("\t")[-1].split()[-1])


_FIRST: Final = ("route", "tree")


@dataclass(frozen=True)
class LoadTarget:
    """A number to call."""

    planned: ProofCall
    translation: str
    """The translation by gateways on the way: ``SIP to H.323 to SIP``; empty without a gateway."""
    no_load: str
    """Why it cannot be called many times; empty if it can."""

    @property
    def number(self) -> str:
        return self.planned.test.number


def chosen(network: PlanNetwork, calls: Sequence[ProofCall]) -> tuple[LoadTarget, ...]:
    """The first number that a route decides, the first that a tree decides, and one for each translation.

    A translation that no call can load is represented by its first number, with the reason.

    Raises
    ------
    InputError
        No endpoint of the lab answers, or no number can be called many times.
    """
    targets = [_target(network, call) for call in calls if call.answered and not call.impossible]
    if not targets:
        raise InputError(f"{network.book.name}: no endpoint of the lab answers any of its test numbers")
    reasons = dict.fromkeys(each.no_load for each in targets)
    if "" not in reasons:
        why = words([*reasons], most=3)
        raise InputError(f"{network.book.name}: none of its test numbers can be called many times: {why}")
    found: dict[str, LoadTarget] = {}
    for target in targets:
        if target.no_load and not target.translation:
            continue
        by = "route" if target.planned.way.decided_by in (None, "static") else "tree"
        known = found.setdefault(target.translation or by, target)
        if known.no_load and not target.no_load:
            found[target.translation or by] = target
    # The sort keeps the plan's order among translations.
    order = {key: rank for rank, key in enumerate(_FIRST)}
    return tuple(found[key] for key in sorted(found, key=lambda key: order.get(key, len(order))))


def named(network: PlanNetwork, calls: Sequence[ProofCall], number: str) -> LoadTarget:
    """The target with this number.

    Raises
    ------
    InputError
        It is not a test number, or cannot be called many times.
    """
    call = next((call for call in calls if call.test.number == number), None)
    if call is None:
        known = words([call.test.number for call in calls if call.answered], most=8)
        raise InputError(f"{network.book.name}: {number} is not one of its test numbers; choose from {known}")
    target = _target(network, call)
    why = call.impossible or ("" if call.answered else f"its answer is {call.answer}") or target.no_load
    if why:
        raise InputError(f"{network.book.name}: {number} cannot be called many times: {why}")
    return target


def _target(network: PlanNetwork, call: ProofCall) -> LoadTarget:
    return LoadTarget(call, _translation(network, call), _no_load(network, call))


def _translation(network: PlanNetwork, call: ProofCall) -> str:
    """The protocols between which gateways translate, or pass calls on."""
    legs = [step for step in call.way.steps if step.what == "leg"]
    onward = [step for step in legs[1:] if network.plan.engines[step.engine].kind == "gateway"]
    return " to ".join(PROTOCOLS[step.facts["protocol"]] for step in (legs[0], *onward)) if onward else ""


def _no_load(network: PlanNetwork, call: ProofCall) -> str:
    for name in (call.caller, call.way.end.engine):
        speaks = network.plan.engines[name].speaks
        if "sip" in speaks:
            continue
        if "mgcp" in speaks:
            return f"{name} is an MGCP line, which carries one call at a time"
        return f"{name} is an H.323 telephone; only SIP endpoints carry many calls at once"
    return ""


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
