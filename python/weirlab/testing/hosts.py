"""Hosts that disturb a test bed: endless scripts for the :class:`~weirlab.testing.FakeBed`."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Final

from weirlab.testing.bed import TrialDisturbance

STOLEN: Final = TrialDisturbance(steal_s={"dut": 0.2})
"""A trial that the host spoils."""


def disturbed(share: float, seed: int = 1) -> Iterator[TrialDisturbance | None]:
    """Spoil this share of the trials, independently of each other."""
    draw = random.Random(seed)
    while True:
        yield STOLEN if draw.random() < share else None


def bursts(clock: Callable[[], float], quiet_s: float, busy_s: float) -> Iterator[TrialDisturbance | None]:
    """Alternate between a quiet and a busy host by the ``clock``; trials while it is busy do not count."""
    while True:
        yield STOLEN if clock() % (quiet_s + busy_s) >= quiet_s else None
