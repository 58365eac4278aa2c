"""Waiting for a host that comes and goes between states (see :mod:`weirlab.store.states`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from weirlab.lab.base import TestBed
from weirlab.store import states

_LOOK_EVERY_S: Final = 0.2


class RetryBudget:
    """Time that may be spent on waiting and repeating; ``clock`` and ``sleep`` in s.

    ``run_left_s`` returns how long the run may still take, which is never exceeded.
    """

    def __init__(
        self,
        left_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], object],
        run_left_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self._left_s = left_s
        self._run_left_s = run_left_s
        self._clock = clock
        self._sleep = sleep

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the time spent inside the ``with`` block."""
        begun_s = self._clock()
        try:
            yield
        finally:
            self._left_s -= self._clock() - begun_s

    def wait_for(self, bed: TestBed, reference_ns: float, tell: Callable[[str], object]) -> bool:
        """Wait until the host is in the state of ``reference_ns``; False when the time is used up."""
        with self.spending():
            begun_s = self._clock()
            while self._clock() - begun_s < self._left_s and self._run_left_s() > 0:
                handover_ns = bed.host().handover_ns
                if handover_ns is None or states.same(handover_ns, reference_ns):
                    return True
                apart = f"{handover_ns:.0f} ns apart, not {reference_ns:.0f} ns"
                tell(f"waiting for the host: its CPUs are {apart}")
                self._sleep(_LOOK_EVERY_S)
        return False
