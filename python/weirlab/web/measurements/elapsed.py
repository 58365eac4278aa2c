"""Time that services on this machine have seen pass. Setting the clock does not change it.

It is counted by ``CLOCK_BOOTTIME``, which nobody can set, and which goes on while the machine is suspended
and while no service runs. What passes while the machine is off, or while another machine has the store, does
not count: only the clock could tell it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from weirlab.base.documents import typed
from weirlab.base.errors import StoreError
from weirlab.store.files import load_json, write_json

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
