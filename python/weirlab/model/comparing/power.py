"""What a comparison can find, before it is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weirlab.model.comparing.matching import QUANTITIES, Compared
from weirlab.model.comparing.scatter import NONE, PUBLISHED, Scatter
from weirlab.model.comparing.verdicts import ComparisonTerms, detectable


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
