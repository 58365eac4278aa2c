"""How long the trials of a run may take, and when to give up."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from weirlab.measure.attempts.share import ValidShare

RATIO: Final = 1.5
"""The usual budget, relative to the time that is expected."""

LEAST_S: Final = 60.0
"""No run is given up earlier than this: a host may be busy for some seconds."""

LEAST_RATIO: Final = 0.1
"""The same, as a share of the budget."""

NEEDED_RATIO: Final = 0.5
"""Share of the settings that need a valid trial before anything can be said about a device."""

HOPELESS_RATIO: Final = 0.3
"""A run is given up only if a smaller share of attempts is valid: otherwise a longer budget helps."""


class Budget:
    """Wall time in s from now on; ``clock`` gives seconds.

    With ``gives_up`` a run may end earlier if almost nothing is valid.
    """

    def __init__(
        self,
        total_s: float,
        clock: Callable[[], float],
        *,
        gives_up: bool = True,
        begun_s: float | None = None,
    ) -> None:
        self.total_s = total_s
        self.gives_up = gives_up
        self._clock = clock
        self._begun_s = clock() if begun_s is None else begun_s

    @property
    def left_s(self) -> float:
        return self.total_s - self.spent_s

    @property
    def spent_s(self) -> float:
        return self._clock() - self._begun_s

    def part(self, ratio: float) -> Budget:
        """The first part of this budget; what it does not use remains for the rest."""
        return Budget(ratio * self.total_s, self._clock, gives_up=self.gives_up, begun_s=self._begun_s)

    def hopeless(self, share: ValidShare, settings: int, without_valid: int, attempt_s: float) -> bool:
        """Whether even a lucky rest would leave most ``settings`` without a valid trial.

        The share of valid attempts is taken at its upper 99 % bound.
        """
        known = self.spent_s >= max(LEAST_S, LEAST_RATIO * self.total_s)
        if not (self.gives_up and known and math.isfinite(self.total_s) and attempt_s > 0):
            return False
        most = share.most()
        if most >= HOPELESS_RATIO:
            return False
        to_come = most * max(self.left_s, 0.0) / attempt_s
        return settings - without_valid + to_come < NEEDED_RATIO * settings
