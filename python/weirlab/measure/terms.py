"""On which terms trials are made: what spoils an attempt, how many there may be, and by which clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from weirlab.measure.attempts import Budget
from weirlab.measure.validity import CAREFUL_LIMITS, DEFAULT_LIMITS, Limits
from weirlab.store.catalogue import utc_now

MAX_ATTEMPTS: Final = 3

PATIENCE: Final = 0.4
"""Share of the planned time that may be added for a host that changes its state."""


@dataclass(frozen=True)
class Clocks:
    """Time as those see it who make trials; tests bring their own."""

    seconds: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    now: Callable[[], datetime] = utc_now


@dataclass(frozen=True)
class Terms:
    """What holds for every trial."""

    limits: Limits = CAREFUL_LIMITS
    """From where on the host has spoiled an attempt."""
    max_attempts: int | None = MAX_ATTEMPTS
    """At a trial; None: as many as chance explains, where a ``budget`` ends them."""
    budget: Budget | None = None
    """Wall time for all trials together."""
    patience: float = PATIENCE
    """At most for so much of the planned time a host is waited for that changes its state."""
    clocks: Clocks = Clocks()

    @property
    def attempts(self) -> int:
        """At a trial, where nothing else would end one that fails again and again."""
        return MAX_ATTEMPTS if self.max_attempts is None else self.max_attempts


USUAL: Final = Terms()
"""For trials that a model learns from."""

SINGLE: Final = Terms(DEFAULT_LIMITS)
"""For a trial that stands alone."""
