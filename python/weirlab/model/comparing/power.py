"""What a comparison can find, before it is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

from weirlab.model.comparing.matching import QUANTITIES, Compared
from weirlab.model.comparing.scatter import NONE, PUBLISHED, Scatter
from weirlab.model.comparing.verdicts import EQUIVALENCE, POWER, ComparisonTerms


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
        sure = float(ndtri(1 - (1 - terms.certainty) / 2 / len(QUANTITIES)) + ndtri(POWER))
        equal = float(ndtri(1 - EQUIVALENCE) + ndtri((1 + POWER) / 2))
        # A change that is proved to be within the margin counts as none.
        beyond = math.log1p(terms.margins[quantity]) - float(ndtri(1 - EQUIVALENCE) - ndtri(POWER)) * stderr
        found.append(Power(quantity, math.expm1(max(sure * stderr, beyond)), math.expm1(equal * stderr)))
    return tuple(found)


def _scatter(quantity: Compared, terms: ComparisonTerms) -> Scatter:
    if quantity in terms.given:
        return Scatter(terms.given[quantity], 0.0, "given")
    return NONE if terms.simulated else PUBLISHED[quantity]
