"""How long measurements are kept: until they are too old, or until all together are too large.

A removed measurement leaves its state behind, so that its data ID still says what happened to it. Runs of
the store stay.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from weirlab.errors import WeirError
from weirlab.quantities import plural
from weirlab.trace.quantities import size
from weirlab.web.measurements import Measurement, Measurements
from weirlab.web.settings import Settings

_EVERY_S: Final = 60.0
_OVER: Final = ("ready", "failed", "stopped")
"""Stages of measurements that are not in progress."""


def told(settings: Settings) -> str:
    """The limits in a sentence."""
    age = f"for {plural(settings.most_days, 'day')}" if settings.most_days else ""
    room = f"up to {size(settings.most_kept_bytes)} in all, the oldest removed first"
    match bool(settings.most_days), bool(settings.most_kept_bytes):
        case False, False:
            return "Data is kept until it is deleted on the host."
        case True, False:
            return f"Data is kept {age}."
        case False, True:
            return f"Data is kept {room}."
        case _:
            return f"Data is kept {age}, and {room}."


@dataclass
class Retention:
    """Removes what is beyond the limits of ``settings``, in its own thread."""

    settings: Settings
    measurements: Measurements
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    forget: Callable[[Measurement], object] = lambda one: None
    """Called for what was removed, so that nothing still refers to it."""
    removed: int = 0
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def begin(self) -> None:
        """Start the periodic sweep, if there is a limit."""
        if self.settings.most_days or self.settings.most_kept_bytes:
            self._thread = threading.Thread(target=self._work, name="weir-retention")
            self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def sweep(self) -> None:
        """Remove what is beyond the limits now, oldest first."""
        kept: list[tuple[Measurement, int]] = []
        total = 0
        for one in self.measurements.all():
            state = one.state
            if state.stage == "removed":
                # A child process may have been writing while it was removed.
                one.empty()
                continue
            total += (held := one.held_bytes())
            if state.stage in _OVER:
                kept.append((one, held))
        days, most = self.settings.most_days, self.settings.most_kept_bytes
        for one, held in kept:
            old = days and self.now() - datetime.fromisoformat(one.state.created) > timedelta(days=days)
            if not old and not (most and total > most):
                continue
            why = f"data is kept for {plural(days, 'day')} here" if old else _room(most)
            # One that is damaged or gone must not keep the others from being removed.
            with suppress(WeirError, OSError):
                if one.state.stage not in _OVER:
                    continue
                one.remove(f"This data was removed on {self.now():%Y-%m-%d}: {why}.")
                self.forget(one)
                total -= held
                self.removed += 1

    def _work(self) -> None:
        while True:
            # A damaged one, or a failing disk: the others get their turn in the next sweep.
            with suppress(WeirError, OSError):
                self.sweep()
            if self._closing.wait(_EVERY_S):
                return


def _room(most: int) -> str:
    return f"newer data needed the space, and at most {size(most)} is kept here in all"
