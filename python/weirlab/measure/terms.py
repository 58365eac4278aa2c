"""The terms of trials: what spoils an attempt, how many attempts there may be, and the clocks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from weirlab.measure.attempts import Budget
from weirlab.measure.validity import CAREFUL_LIMITS, DEFAULT_LIMITS, ValidityLimits
from weirlab.store.catalogue import utc_now

MAX_ATTEMPTS: Final = 3

PATIENCE: Final = 0.4
"""Share of the planned time that may be added for a host that changes its state."""


@dataclass(frozen=True)
class TrialClocks:
    """The clocks that trials use; tests bring their own."""

    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], datetime] = utc_now


@dataclass(frozen=True)
class TrialTerms:
    """The rules that hold for every trial of a plan."""

    limits: ValidityLimits = CAREFUL_LIMITS
    """What the host may do before an attempt is spoiled."""
    max_attempts: int | None = MAX_ATTEMPTS
    """Per trial. None: as many as chance explains, until the ``budget`` is used up."""
    budget: Budget | None = None
    """Wall time for all trials together."""
    patience: float = PATIENCE
    """Share of the planned time that may be spent waiting for a host that changes its state."""
    clocks: TrialClocks = TrialClocks()

    @property
    def attempts(self) -> int:
        """Attempts per trial if no budget ends them."""
        return MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts


USUAL: Final = TrialTerms()
"""For trials that models are fitted to."""

SINGLE: Final = TrialTerms(DEFAULT_LIMITS)
"""For a trial by itself."""
