"""How much runs of one device differ, beyond what their repetitions show.

All trials of a run share the state of the host: its clock frequency, its neighbours, its memory layout.
A single run cannot tell these from the device, so the scatter has to come from several runs, of these
devices or of others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from weirlab.model.base import F64
from weirlab.model.comparing.matching import (
    Compared,
    ComparisonSetting,
    SettingDifference,
    SettingMeasurement,
    contrast,
)

Source = Literal["given", "these runs", "published runs", "simulated"]

TRIMMED: Final = 0.2
"""Share of the places at either end that the trimmed mean leaves out."""

LEAST_PLACES: Final = 5
"""Number of places from which their scatter is estimated; with fewer, repetitions have to serve."""

LEAST_SINGLES: Final = 4
"""Number of differences at single loads, two for each load, from which their scatter is estimated."""

ENOUGH_FREEDOM: Final = 10
"""Degrees of freedom from which the scatter between the runs at hand is used by itself. With fewer,
Student's quantiles are so large that several runs would prove less than one of each does."""

CONTRADICTION: Final = 0.01
"""Probability of the scatter between the runs at hand below which the assumed one is refuted."""


@dataclass(frozen=True)
class Scatter:
    """Standard deviations of logarithms from run to run of one device.

    ``run`` is common to a run, ``place`` is what single settings add to it.
    """

    run: float
    place: float
    source: Source = "published runs"


PUBLISHED: Final[Mapping[Compared, Scatter]] = {
    "rate": Scatter(0.014, 0.025),
    "mean": Scatter(0.013, 0.033),
    "p99": Scatter(0.023, 0.068),
}
"""From three packet filters, profiled twice each: bench/runs/model-20261121-1. A test recomputes them."""

LATER: Final[Mapping[Compared, Scatter]] = {
    "rate": Scatter(0.050, 0.023),
    "mean": Scatter(0.144, 0.047),
    "p99": Scatter(0.185, 0.071),
}
"""The same from one hour to another: three packet filters, profiled twice or three times within a day each,
in bench/runs/model-20261121-1 and model-20261128-1, and one profiled eight times within an hour in which the
load of the host rose from 2 to 14, in hours-20261130-1. Those eight are quick profiles, with too few trials
of each setting to show what single settings add. A test recomputes them."""

LATER_FREEDOM: Final = 15
"""Degrees of freedom of ``LATER``: the runs beyond the first of each filter and day."""

NONE: Final = Scatter(0.0, 0.0, "simulated")
"""A simulated host is always in the same state."""


@dataclass(frozen=True)
class Estimate:
    """A difference, its standard error within the runs, and the degrees of freedom of that."""

    difference: float
    stderr: float
    freedom: float
    places: int
    by_places: bool
    """Whether the standard error includes the scatter over places; otherwise only that of repetitions."""


def estimate(matches: Sequence[SettingDifference], counts: tuple[int, int] = (1, 1)) -> Estimate | None:
    """The common difference of ``matches``; ``counts`` are the runs averaged on each side.

    Over five places or more it is their trimmed mean, with the standard error of winsorised values
    (Tukey and McLaughlin, 1963). Over fewer it is that of single loads, or the plain mean with the
    variance of repetitions (Welch). None without any; the error is NaN where nothing was repeated.
    """
    if not matches:
        return None
    differences = np.array([match.difference for match in matches])
    if len(matches) >= LEAST_PLACES:
        value, stderr, freedom = trimmed_mean(differences)
        return Estimate(value, stderr, freedom, len(matches), True)
    singles = np.array([single for match in matches for single in match.singles])
    if len(singles) >= LEAST_SINGLES:
        # Every load is included twice, once as the own and once as the other run's.
        value, stderr, freedom = trimmed_mean(singles)
        return Estimate(value, stderr * math.sqrt(2), freedom / 2, len(matches), False)
    # A place with a single trial on one side says nothing about the scatter: others speak for themselves.
    repeated = [match for match in matches if not np.isnan(match.variances).any()]
    matches = repeated or matches
    n = len(matches)
    parts = [
        (variance / runs / n**2, freedom)
        for match in matches
        for variance, freedom, runs in zip(match.variances, match.freedom, counts, strict=True)
    ]
    differences = np.array([match.difference for match in matches])
    total = sum(variance for variance, _ in parts)
    if math.isnan(total):
        return Estimate(float(differences.mean()), math.nan, 0, n, False)
    spread = sum(variance**2 / freedom for variance, freedom in parts if variance)
    return Estimate(
        float(differences.mean()), math.sqrt(total), total**2 / spread if spread else math.inf, n, False
    )


def trimmed_mean(values: F64) -> tuple[float, float, int]:
    """Mean without the outer fifths, its standard error and the degrees of freedom."""
    ordered = np.sort(values)
    cut = int(TRIMMED * len(ordered))
    core = ordered[cut : len(ordered) - cut]
    winsorised = np.clip(ordered, core[0], core[-1])
    stderr = float(np.std(winsorised, ddof=1)) / ((1 - 2 * cut / len(ordered)) * math.sqrt(len(ordered)))
    return float(core.mean()), stderr, len(core) - 1


def averaged(pairs: Sequence[Sequence[SettingDifference]]) -> list[SettingDifference]:
    """Per place the mean over pairs of runs; a place counts if every pair has it."""
    by_place: dict[ComparisonSetting, list[SettingDifference]] = {}
    for matches in pairs:
        for match in matches:
            by_place.setdefault(match.place, []).append(match)
    return [
        SettingDifference(
            place,
            float(np.mean([one.difference for one in found])),
            (
                float(np.mean([one.variances[0] for one in found])),
                float(np.mean([one.variances[1] for one in found])),
            ),
            (sum(one.freedom[0] for one in found), sum(one.freedom[1] for one in found)),
            tuple(single for one in found for single in one.singles) if len(found) == 1 else (),
        )
        for place, found in by_place.items()
        if len(found) == len(pairs)
    ]


def between(
    sides: Sequence[Sequence[Mapping[ComparisonSetting, SettingMeasurement]]],
    quantity: Compared,
    *,
    same_load: bool,
) -> tuple[float, int]:
    """Variance of one run's level among runs of the same side, sampling included, and its freedom."""
    total, freedom = 0.0, 0
    for runs in sides:
        found = [
            estimate(contrast(one, other, quantity, same_load=same_load))
            for one, other in itertools.combinations(runs, 2)
        ]
        known = [each.difference for each in found if each is not None]
        if known and len(known) == len(found):
            # Over all pairs of k values, squared differences add up to k times the sum of squares.
            total += sum(value**2 for value in known) / len(runs)
            freedom += len(runs) - 1
    return (total / freedom if freedom else math.nan), freedom


def published(
    sides: Sequence[Sequence[Mapping[ComparisonSetting, SettingMeasurement]]], quantity: Compared
) -> tuple[Scatter, int]:
    """The scatter among the runs of each side, which are of one device, and its degrees of freedom.

    So :data:`PUBLISHED` and :data:`LATER` were computed.
    """
    total, freedom, spreads = 0.0, 0, []
    for runs in sides:
        for one, other in itertools.combinations(runs, 2):
            matches = contrast(one, other, quantity, same_load=False)
            found = estimate(matches)
            assert found is not None, "recorded runs have places in common"
            # Over all pairs of k values, squared differences add up to k times the sum of squares.
            total += (found.difference**2 - found.stderr**2) / len(runs)
            spreads.append(np.var([match.difference - found.difference for match in matches], ddof=1))
        freedom += len(runs) - 1
    run = math.sqrt(max(total / freedom, 0.0))
    return Scatter(run, math.sqrt(float(np.mean(spreads)) / 2)), freedom
