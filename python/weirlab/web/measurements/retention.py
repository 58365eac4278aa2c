"""How long measurements are kept: until they are too old, or until all together are too large.

A removed measurement leaves its state behind, so that its data ID still says what happened to it. Runs of
the store stay. Ages are counted by :class:`ElapsedTime`, so that no clock that jumps removes anything.

Time is counted by ``CLOCK_BOOTTIME``, which nobody can set, and which goes on while the machine is suspended
and while no service runs. What passes while the machine is off, or while another machine has the store, does
not count: only the clock could tell it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from weirlab.base.documents import typed
from weirlab.base.errors import StoreError, WeirError
from weirlab.base.quantities import plural
from weirlab.store.files import load_json, write_json
from weirlab.trace.quantities import size
from weirlab.web.measurements.measurement import OVER, Measurement, Measurements
from weirlab.web.measurements.space import Space
from weirlab.web.settings import WebSettings

FILE: Final = "elapsed.json"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_MOST_BYTES: Final = 10_000


@dataclass(frozen=True)
class ClockReading:
    """What is stored: times in s, and which boot of the machine ``boot_s`` belongs to."""

    boot_id: str
    boot_s: float
    elapsed_s: float


def boot_id() -> str:
    """The ID of this boot of the machine; empty if the kernel does not tell it."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def boot_s() -> float:
    """Seconds since the machine was started, suspended or not."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class ElapsedTime:
    """Seconds that services of the store with ``folder`` have seen pass; 0 when the first one began."""

    def __init__(self, folder: Path, boot: str | None = None, clock: Callable[[], float] = boot_s) -> None:
        self._path = folder / FILE
        self._boot = boot_id() if boot is None else boot
        self._clock = clock
        self._began_s = clock()
        self._before_s = self._from(self._began_s)

    def now_s(self) -> float:
        """Seconds until now; they never become fewer."""
        return self._before_s + max(self._clock() - self._began_s, 0.0)

    def save(self) -> None:
        """Keep it for the next service; raises ``StoreError``."""
        write_json(self._path, asdict(ClockReading(self._boot, self._clock(), self.now_s())))

    def _from(self, now_s: float) -> float:
        """What earlier services have seen, and what has passed since then if this is the same boot."""
        with suppress(StoreError, ValueError):
            kept = typed(ClockReading, load_json(self._path, "delete it", limit=_MOST_BYTES))
            if not (math.isfinite(kept.elapsed_s) and math.isfinite(kept.boot_s)):
                return 0.0
            same = kept.boot_id == self._boot != ""
            return max(kept.elapsed_s, 0.0) + (max(now_s - kept.boot_s, 0.0) if same else 0.0)
        return 0.0


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
