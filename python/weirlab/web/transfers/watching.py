"""Why connections of this host are not faster, live: a process watches them, and pages read what it says."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

from weirlab.base.errors import InputError, WeirError
from weirlab.base.quoting import quoted
from weirlab.web import failures
from weirlab.web.failures import ForbiddenError
from weirlab.web.launching.jobs import TARGET, WatchJob
from weirlab.web.launching.launcher import Launcher, Process, piped
from weirlab.web.transfers.service import BusyError

MOST: Final = 4
"""Watches at a time, each of which takes some of a CPU."""
_LOOK_S: Final = 0.2
_GRACE_S: Final = 10.0


@dataclass(eq=False)
class HostWatch:
    """A process that watches, and what it has said last."""

    process: Process
    to: BinaryIO
    source: BinaryIO
    latest: Mapping[str, Any] = field(default_factory=dict)
    over: bool = False


@dataclass
class HostWatches:
    """Watches connections of this host for pages. Callable from any thread."""

    launcher: Launcher
    allowed: bool
    _running: dict[HostWatch, threading.Thread] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, target: str) -> None:
        """Whether ``target`` can be watched now.

        Raises
        ------
        ForbiddenError, InputError, BusyError
            The service does not allow it, nothing has such a name, or too many others watch.
        """
        if not self.allowed:
            raise ForbiddenError(
                "This service may not show connections of its host. Start it with: weir web --allow-watch"
            )
        if not TARGET.fullmatch(target):
            raise InputError(
                f"{quoted(target)} names no connections: give a program (curl), a process (4711) or an end "
                "(:443, 192.0.2.1, HOST:PORT)."
            )
        self._require_room()

    def _require_room(self) -> None:
        if len(self._running) >= MOST:
            raise BusyError(f"{MOST} pages watch connections already. Close one of them, and try again.")

    async def events(self, target: str, closing: Callable[[], bool]) -> AsyncGenerator[dict[str, Any], None]:
        """What is said of ``target``, as soon as it is said, until its connections or the reader are gone."""
        try:
            watch = self._begin(target)
        except (WeirError, OSError) as error:
            # The response has begun, so that this is the last event of it.
            yield {"message": failures.explain(error).message, "over": True}
            return
        told: Mapping[str, Any] = {}
        try:
            while not closing():
                over, latest = watch.over, watch.latest
                if over or latest is not told:
                    yield {**latest, "over": over}
                    told = latest
                if over:
                    return
                await asyncio.sleep(_LOOK_S)
        finally:
            _end(watch)

    def close(self) -> None:
        """End all watches."""
        with self._lock:
            running = dict(self._running)
        for watch in running:
            _end(watch)
        for watch, thread in running.items():
            thread.join(_GRACE_S)
            watch.process.kill()
            thread.join()

    def _begin(self, target: str) -> HostWatch:
        with self._lock:
            # Others may have begun since the check.
            self._require_room()
            watch = HostWatch(*piped(self.launcher, WatchJob(target)))
            thread = self._running[watch] = threading.Thread(
                target=self._read, args=(watch,), name="weir-watch"
            )
            thread.start()
        return watch

    def _read(self, watch: HostWatch) -> None:
        with watch.source:
            for line in watch.source:
                # A process that was killed leaves half a line.
                with suppress(ValueError):
                    watch.latest = json.loads(line)
        watch.process.wait()
        watch.over = True
        with self._lock:
            del self._running[watch]


def _end(watch: HostWatch) -> None:
    """The process ends with its standard input."""
    watch.to.close()
