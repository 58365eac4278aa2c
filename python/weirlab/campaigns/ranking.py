"""Which devices differ: each is compared with the best of its scenario, setting and measure. Pure.

Each repetition of a step is one value, so that what differs from run to run is in the comparison. Welch's
test is done on logarithms where all values are positive. Which device is best is chosen after measuring, so
Holm's method keeps the risk of a false difference between any two devices of a comparison at :data:`RISK`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Final, Literal

import numpy as np
from scipy.special import stdtr, stdtrit

RISK: Final = 0.05

RankVerdict = Literal["best", "as good", "worse", "cannot tell", "alone"]
"""``as good``: no difference from the best is proved; ``cannot tell``: it was not repeated; ``alone``: there
is nothing to compare it with."""


@dataclass(frozen=True)
class MeasureRow:
    """One number of one step."""

    step: int
    """Number of the step."""
    scenario: str
    """Name of the scenario in the campaign."""
    device: str
    """Name of the device; empty if the campaign lists none."""
    setting: str
    """Settings of the further dimensions, separated by commas."""
    repetition: int
    """Counts from 0."""
    measure: str
    """What was found, and where."""
    value: float
    """In ``unit``."""
    unit: str
    """``pps``, ``ns``, ``bps``, or ``ratio``."""
    better: str
    """``more`` or ``less``."""


@dataclass(frozen=True)
class RankRow:
    """A device, or a setting if there are no devices, in one comparison."""

    scenario: str
    setting: str
    measure: str
    unit: str
    device: str
    rank: int
    """From 1, by the mean."""
    n: int
    """Repetitions with a value."""
    mean: float
    low: float
    high: float
    """Ends of the 95 % interval of the mean; NaN for one repetition."""
    ratio: float
    """The mean over that of the best; NaN if that is 0."""
    verdict: RankVerdict


def rank(rows: Sequence[MeasureRow], *, by_device: bool) -> list[RankRow]:
    """The devices of each comparison, best first; the settings where ``by_device`` is false."""

    def comparison(row: MeasureRow) -> tuple[str, str, str]:
        return row.scenario, row.setting if by_device else "", row.measure

    found: list[RankRow] = []
    places = {place: number for number, place in enumerate(dict.fromkeys(map(comparison, rows)))}
    for (scenario, setting, measure), group in groupby(
        sorted(rows, key=lambda row: places[comparison(row)]), comparison
    ):
        members = [row for row in group if math.isfinite(row.value)]
        values: dict[str, list[float]] = {}
        for row in sorted(members, key=lambda row: row.step):
            values.setdefault(row.device if by_device else row.setting, []).append(row.value)
        if not values:
            continue
        sign = -1 if members[0].better == "more" else 1
        ordered = sorted(values, key=lambda name: sign * float(np.mean(values[name])))
        best = float(np.mean(values[ordered[0]]))
        verdicts = _verdicts([values[name] for name in ordered])
        for number, (name, verdict) in enumerate(zip(ordered, verdicts, strict=True), 1):
            mean, half = float(np.mean(values[name])), _half(values[name])
            found.append(
                RankRow(
                    scenario,
                    setting,
                    measure,
                    members[0].unit,
                    name,
                    number,
                    len(values[name]),
                    mean,
                    mean - half,
                    mean + half,
                    mean / best if best else math.nan,
                    verdict,
                )
            )
    return found


def firsts(rows: Sequence[RankRow]) -> Mapping[str, tuple[int, int]]:
    """By device, in how many comparisons it is first, and in how many of them every other one is worse."""
    first, alone = Counter[str](), Counter[str]()
    for _, group in groupby(rows, lambda row: (row.scenario, row.setting, row.measure)):
        leader, *others = group
        if others:
            first[leader.device] += 1
            alone[leader.device] += all(row.verdict == "worse" for row in others)
    names = sorted({row.device for row in rows}, key=lambda name: (-first[name], -alone[name], name))
    return {name: (first[name], alone[name]) for name in names}


def _verdicts(groups: Sequence[Sequence[float]]) -> list[RankVerdict]:
    """The verdict on each of ``groups``, of which the first is the best."""
    if len(groups) == 1:
        return ["alone"]
    positive = all(value > 0 for group in groups for value in group)
    scaled = [np.log(group) if positive else np.asarray(group, dtype=float) for group in groups]
    risks = {
        (one, other): _risk(scaled[one], scaled[other]) for one, other in combinations(range(len(scaled)), 2)
    }
    known = sorted((risk, pair) for pair, risk in risks.items() if not math.isnan(risk))
    differ = set()
    for tried, (risk, pair) in enumerate(known):
        if risk > RISK / (len(known) - tried):
            break
        differ.add(pair)
    verdicts: list[RankVerdict] = ["best"]
    for place in range(1, len(groups)):
        pair = (0, place)
        verdicts.append(
            "cannot tell" if math.isnan(risks[pair]) else "worse" if pair in differ else "as good"
        )
    return verdicts


def _risk(one: np.ndarray, other: np.ndarray) -> float:
    """Two-sided p value of Welch's test; NaN without repetitions."""
    if min(len(one), len(other)) < 2:
        return math.nan
    parts = [(float(np.var(side, ddof=1)) / len(side), len(side) - 1) for side in (one, other)]
    total = sum(variance for variance, _ in parts)
    apart = abs(float(one.mean() - other.mean()))
    if total == 0:
        return 1.0 if apart == 0 else 0.0
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in parts)
    return 2 * float(stdtr(freedom, -apart / math.sqrt(total)))


def _half(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of the mean, by Student's t."""
    n = len(values)
    return float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
