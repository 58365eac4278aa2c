"""Checks large plans as a whole, in the background: the latest state, one at a time."""

from __future__ import annotations

import threading

from weirlab.numbering.managing.state import PlanState


class Checker:
    """Checks states in a thread, which ends when there is nothing left to check."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: PlanState | None = None
        self._works = False

    def check(self, state: PlanState) -> None:
        """Check ``state`` soon, instead of waiting states."""
        with self._lock:
            self._next = state
            if self._works:
                return
            self._works = True
        threading.Thread(target=self._work, name="weir-voice-checks", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                state, self._next = self._next, None
                if state is None:
                    self._works = False
                    return
            state.complete()
