"""Median and range of what several attempts measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of the attempts in which something was measured."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float | None]) -> Spread:
        known = [float(value) for value in values if value is not None and math.isfinite(value)]
        if not known:
            return cls(math.nan, math.nan, math.nan)
        return cls(float(np.median(known)), min(known), max(known))

    @property
    def known(self) -> bool:
        return not math.isnan(self.median)

    def over(self, reference: float) -> Spread:
        """The same as shares of ``reference``."""
        if not reference > 0:
            return Spread(math.nan, math.nan, math.nan)
        return Spread(self.median / reference, self.low / reference, self.high / reference)

    def text(self, shown: Callable[[float], str]) -> str:
        """``94.8 Mbit/s (94.7 to 94.9)``; the median alone if the others look the same."""
        middle, low, high = map(shown, (self.median, self.low, self.high))
        if low == high:
            return middle
        units = {each.partition(" ")[2] for each in (middle, low, high)}
        if len(units) == 1 and (unit := units.pop()):
            low, high = low.removesuffix(f" {unit}"), high.removesuffix(f" {unit}")
        return f"{middle} ({low} to {high})"
