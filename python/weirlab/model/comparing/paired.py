"""Trials of two devices in pairs, one right after the other: what the host does meets both alike. Pure.

The host of a virtual machine may change its speed within seconds. Profiles that follow each other scatter by
a tenth then, while the ratio of two trials within half a second keeps its median within half a percent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from scipy.special import ndtri
from scipy.stats import binom

from weirlab.model.base import F64
from weirlab.model.comparing.matching import QUANTITIES, Compared, ComparisonSetting, SettingDifference
from weirlab.model.comparing.scatter import NONE, PUBLISHED, Scatter
from weirlab.model.comparing.verdicts import ComparisonFinding, ComparisonTerms, Level, detectable, finding


@dataclass(frozen=True)
class Power:
    """How small a change of one quantity profiles can find, and how well they prove that there is none."""

    quantity: Compared
    detectable: float
    """Relative change that is found with the probability :data:`~weirlab.model.comparing.verdicts.POWER`."""
    provable: float
    """Relative change beyond which an unchanged device is excluded with that probability."""

    @property
    def title(self) -> str:
        return QUANTITIES[self.quantity]


def power(settings: int, runs: int, terms: ComparisonTerms) -> tuple[Power, ...]:
    """The power of ``runs`` profiles of each of two devices, with ``settings`` each.

    The scatter from run to run is what ``terms`` give, or that of published runs. Trials are taken to be
    so many that their own scatter does not count.
    """
    found = []
    compared: tuple[Compared, ...] = ("rate", "mean", "p99")
    for quantity in compared:
        scatter = _scatter(quantity, terms)
        stderr = math.sqrt(2 / runs * (scatter.run**2 + scatter.place**2 / settings))
        found.append(Power(quantity, *detectable(quantity, stderr, terms)))
    return tuple(found)


def _scatter(quantity: Compared, terms: ComparisonTerms) -> Scatter:
    if quantity in terms.given:
        return Scatter(terms.given[quantity], 0.0, "given")
    return NONE if terms.simulated else PUBLISHED[quantity]


LEAST_PAIRS: Final = 6
"""Pairs from which the median has an interval."""

BEDS: Final[Mapping[Compared, float]] = {"rate": 0.005, "mean": 0.02, "p99": 0.03, "loss": 0.0}
"""Standard deviation between two beds of one device that more pairs do not reduce: their memory lies
elsewhere."""

SPREAD: Final[Mapping[Compared, float]] = {"rate": 0.06, "mean": 0.15, "p99": 0.3, "loss": 0.001}
"""Of the difference of a pair: its median's standard error times the root of the number of pairs."""

TOO_FEW: Final = "too few pairs of trials were valid"

MARGINS: Final[Mapping[Compared, float]] = {"rate": 0.05, "mean": 0.1, "p99": 0.25, "loss": 0.002}
"""As :data:`~weirlab.model.comparing.verdicts.MARGINS`, which pairs of trials can narrow."""

Differences = Mapping[ComparisonSetting, Mapping[Compared, F64]]
"""Per setting and quantity, the difference of each pair of valid trials: of logarithms, of loss plain."""


def compare_pairs(settings: Differences, terms: ComparisonTerms) -> list[ComparisonFinding]:
    """A finding for each quantity: the mean over settings of the median difference of pairs."""
    quantities = [quantity for quantity in QUANTITIES if any(quantity in of for of in settings.values())]
    return [
        finding(quantity, _level(quantity, settings, terms), terms, len(quantities))
        for quantity in quantities
    ]


def _level(quantity: Compared, settings: Differences, terms: ComparisonTerms) -> Level:
    known = {place: of[quantity] for place, of in settings.items() if quantity in of}
    fewest = min(len(values) for values in known.values())
    medians = {place: float(np.median(values)) for place, values in known.items() if len(values)}
    value = float(np.mean(list(medians.values()))) if medians else math.nan
    if fewest < LEAST_PAIRS:
        return Level(value, math.nan, math.inf, len(known), math.nan, "repetitions", math.nan, TOO_FEW)
    within = sum(median_stderr(values) ** 2 for values in known.values()) / len(known) ** 2
    beds = 0.0 if terms.simulated else BEDS[quantity]
    spread = math.sqrt(within * fewest)
    return Level(
        value,
        math.sqrt(within + beds**2),
        sum(len(values) for values in known.values()) - len(known),
        len(known),
        math.nan if quantity == "loss" else spread,
        "repetitions",
        # More pairs divide this; what differs between beds they do not.
        within * fewest / 2,
        matches=tuple(SettingDifference(place, median) for place, median in medians.items()),
    )


def median_stderr(values: F64) -> float:
    """Standard error of the median, from two order statistics (Price and Bonett, 2001)."""
    ordered, n = np.sort(values), len(values)
    rank = max(1, round((n + 1) / 2 - math.sqrt(n)))
    level = 1 - 2 * float(binom.cdf(rank - 1, n, 0.5))
    return float(ordered[n - rank] - ordered[rank - 1]) / (2 * float(ndtri(0.5 + level / 2)))


def power_of_pairs(settings: int, pairs: int, terms: ComparisonTerms) -> tuple[Power, ...]:
    """What so many pairs of trials can find at so many settings, on a host as in the measurements kept."""
    compared: tuple[Compared, ...] = ("rate", "mean", "p99")
    return tuple(
        Power(
            quantity,
            *detectable(
                quantity, math.hypot(SPREAD[quantity] / math.sqrt(pairs * settings), BEDS[quantity]), terms
            ),
        )
        for quantity in compared
    )
