"""The share of attempts that the host leaves undisturbed, learned while measuring."""

from __future__ import annotations

import math
from typing import Final

HALF_LIFE: Final = 300
"""Attempts after which one counts half: a host that becomes quiet or busy shows within minutes."""

USUAL: Final = 0.75
"""Valid share of the attempts on a shared machine, before anything is known."""

_PRIOR: Final = 4.0
"""Number of attempts that the initial assumption is worth."""

LEAST_ATTEMPTS: Final = 3
"""At a trial, before chance can no longer explain that all failed."""

_RARE: Final = 0.01
"""An event that is less likely than this by chance has another reason."""


class ValidShare:
    """Valid share of attempts; recent ones weigh more. ``usual`` is assumed at the beginning."""

    def __init__(self, usual: float = 1.0) -> None:
        self._usual = usual
        self._tried = 0.0
        self._valid = 0.0
        self._pairs = 0.0
        self._changes = 0.0
        self._last: bool | None = None
        self.attempts = 0
        """All attempts made."""
        self.valid = 0
        """The valid ones among them."""

    def add(self, valid: bool) -> None:
        """One more attempt."""
        kept = 0.5 ** (1 / HALF_LIFE)
        self._tried = kept * self._tried + 1
        self._valid = kept * self._valid + valid
        if self._last is not None:
            self._pairs = kept * self._pairs + 1
            self._changes = kept * self._changes + (valid != self._last)
        self._last = valid
        self.attempts += 1
        self.valid += valid

    @property
    def ratio(self) -> float:
        """The share, above 0."""
        return (self._valid + _PRIOR * self._usual) / (self._tried + _PRIOR)

    def bounds(self) -> tuple[float, float]:
        """90 % interval of the share now; disturbances in bursts make it wider."""
        return self._wilson(self._valid, self._tried, 1.645)

    def most(self) -> float:
        """Upper 99 % bound of the share over all attempts."""
        return self._wilson(self.valid, self.attempts, 2.33)[1]

    def _wilson(self, valid: float, tried: float, sigmas: float) -> tuple[float, float]:
        """Wilson interval of the share. Consecutive attempts are alike if disturbances last: with a
        correlation r of neighbours, n attempts say as much as n (1 - r) / (1 + r) independent ones.
        """
        if tried == 0:
            return 0.0, 1.0
        p = valid / tried
        n = tried * self._independence(p)
        middle = (p + sigmas**2 / (2 * n)) / (1 + sigmas**2 / n)
        half = sigmas * math.sqrt(p * (1 - p) / n + sigmas**2 / (4 * n * n)) / (1 + sigmas**2 / n)
        return max(middle - half, 0.0), min(middle + half, 1.0)

    def _independence(self, p: float) -> float:
        """Independent attempts per attempt, by the changes from one to the next (a Markov chain)."""
        scatter = 2 * p * (1 - p)
        if scatter <= 0 or self._pairs == 0:
            return 1.0
        r = min(max(1 - self._changes / self._pairs / scatter, 0.0), 0.98)
        return (1 - r) / (1 + r)

    def failures_by_chance(self) -> int:
        """Failures in a row that this share explains; more are due to the trial itself."""
        p = min(max(self.ratio, 0.01), 0.9)
        return max(math.ceil(math.log(_RARE) / math.log(1 - p)), LEAST_ATTEMPTS)


def attempts_per_trial(ratio: float, most: int) -> float:
    """Expected attempts at a trial that is tried until one counts, at most ``most`` times."""
    return most if ratio <= 0 else (1 - (1 - ratio) ** most) / ratio
