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
ALIKE: Final = 0.02
"""A device is as good as the best if the 95 % interval of their difference is within this share of it."""

RankVerdict = Literal["best", "as good", "worse", "cannot tell", "alone"]
"""``as good``: it differs from the best by at most :data:`ALIKE`; ``cannot tell``: neither that nor a
difference is proved; ``alone``: there is nothing to compare it with."""


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


@dataclass(frozen=True)
class Standing:
    """In how many comparisons with others a device stands where."""

    best: int
    """It is the best, or as good."""
    worse: int
    undecided: int


def standings(rows: Sequence[RankRow]) -> Mapping[str, Standing]:
    """By device, those that are best most often first."""
    best, worse, undecided = Counter[str](), Counter[str](), Counter[str]()
    for _, group in groupby(rows, lambda row: (row.scenario, row.setting, row.measure)):
        members = list(group)
        if len(members) < 2:
            continue
        # Where one of the others may be as good, the first may be first by chance.
        open_to_doubt = any(row.verdict == "cannot tell" for row in members)
        for row in members:
            doubted = row.verdict == "cannot tell" or (row.verdict == "best" and open_to_doubt)
            (worse if row.verdict == "worse" else undecided if doubted else best)[row.device] += 1
    names = sorted({row.device for row in rows}, key=lambda name: (-best[name], worse[name], name))
    return {name: Standing(best[name], worse[name], undecided[name]) for name in names}


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
        if (0, place) in differ:
            verdicts.append("worse")
        else:
            margin = math.log1p(ALIKE) if positive else ALIKE * abs(float(np.mean(scaled[0])))
            alike = _farthest(scaled[0], scaled[place]) <= margin
            verdicts.append("as good" if alike else "cannot tell")
    return verdicts


def _risk(one: np.ndarray, other: np.ndarray) -> float:
    """Two-sided p value of Welch's test; NaN without repetitions."""
    apart, error, freedom = _difference(one, other)
    if error == 0:
        return 1.0 if apart == 0 else 0.0
    return 2 * float(stdtr(freedom, -apart / error))


def _farthest(one: np.ndarray, other: np.ndarray) -> float:
    """The end of the 95 % interval of the difference that is farther from 0; NaN without repetitions."""
    apart, error, freedom = _difference(one, other)
    return apart + (float(stdtrit(freedom, 0.975)) * error if error else 0.0)


def _difference(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """How far apart the means are, the standard error of that, and Welch's degrees of freedom; NaN without
    repetitions."""
    if min(len(one), len(other)) < 2:
        return math.nan, math.nan, math.nan
    parts = [(float(np.var(side, ddof=1)) / len(side), len(side) - 1) for side in (one, other)]
    total = sum(variance for variance, _ in parts)
    freedom = total**2 / sum(variance**2 / degrees for variance, degrees in parts) if total else math.inf
    return abs(float(one.mean() - other.mean())), math.sqrt(total), freedom


def _half(values: Sequence[float]) -> float:
    """Half the width of the 95 % interval of the mean, by Student's t."""
    n = len(values)
    return float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else math.nan
