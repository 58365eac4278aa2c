"""How long measurements are kept: until they are too old, or until all together are too large.

A removed measurement leaves its state behind, so that its data ID still says what happened to it. Runs of
the store stay. Ages are counted by :class:`ElapsedTime`, so that no clock that jumps removes anything.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from weirlab.base.errors import WeirError
from weirlab.base.quantities import plural
from weirlab.trace.quantities import size
from weirlab.web.measurements.elapsed import ElapsedTime
from weirlab.web.measurements.measurement import OVER, Measurement, Measurements
from weirlab.web.measurements.space import Space
from weirlab.web.settings import WebSettings

_EVERY_S: Final = 60.0
_DAY_S: Final = 86_400.0
_MOST_REMOVED: Final = 10_000
"""Most removed measurements whose data IDs still say so: those that were created last."""


def limits_sentence(settings: WebSettings) -> str:
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

    settings: WebSettings
    measurements: Measurements
    space: Space
    elapsed: ElapsedTime
    forget: Callable[[Measurement], object] = lambda one: None
    """Called for what was removed, so that nothing still refers to it."""
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    """For the message about what was removed."""
    removed: int = 0
    _closing: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __post_init__(self) -> None:
        self.space.remove = lambda one: self._remove(one, _room(self.settings.most_kept_bytes))

    def begin(self) -> None:
        """Sweep now, and periodically from here on."""
        self.sweep()
        self._thread = threading.Thread(target=self._work, name="weir-retention")
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()
            with suppress(WeirError, OSError):
                self.elapsed.save()

    def sweep(self) -> None:
        """Remove what is beyond the limits now, oldest first."""
        now_s, days = self.elapsed.now_s(), self.settings.most_days
        gone = []
        for one in self.measurements.all():
            # One that is damaged or gone must not keep the others from being removed.
            with suppress(WeirError, OSError):
                one.save()
                state = one.state
                if state.stage == "removed":
                    # A child process may have been writing while it was removed.
                    one.empty()
                    gone.append(one)
                    continue
                born_s = state.born_s
                if born_s is None or born_s > now_s:
                    # From an earlier version of Weir, or the elapsed time was lost: its age begins now.
                    born_s = now_s
                    one.change(born_s=now_s)
                old = days and state.stage in OVER and now_s - born_s > days * _DAY_S
                if old and not self.space.is_busy(one):
                    self._remove(one, f"data is kept for {plural(days, 'day')} here")
                    self.space.forget(one)
                else:
                    self.space.note(one)
        for one in gone[:-_MOST_REMOVED]:
            self.measurements.discard(one)
        self.space.enforce()

    def _remove(self, one: Measurement, why: str) -> None:
        one.remove(f"This data was removed on {self.now():%Y-%m-%d}: {why}.")
        self.forget(one)
        self.removed += 1

    def _work(self) -> None:
        while not self._closing.wait(_EVERY_S):
            # A damaged one, or a failing disk: the others get their turn in the next sweep.
            with suppress(WeirError, OSError):
                self.sweep()
            with suppress(WeirError, OSError):
                self.elapsed.save()


def _room(most: int) -> str:
    return f"newer data needed the space, and at most {size(most)} is kept here in all"
