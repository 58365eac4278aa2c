"""What happens in a thread of its own while traffic is sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weirlab.errors import LabError
from weirlab.interrupts import interruptible, shielded


class Beside:
    """Runs one thing after another beside traffic, each to its end or until the traffic is given up."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._over = threading.Event()
        self._begun_ns = self._over_ns = 0

    def comes(self, after_ns: int) -> bool:
        """Wait until so long after the beginning of :meth:`running`; False if the traffic is over before."""
        at_ns = self._begun_ns + after_ns
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if self._over.wait(left_ns / 1e9):
                # A busy host may wake this thread late, when the traffic is over as well.
                return self._over_ns >= at_ns
        return True

    def at(self, event: Callable[[], object], at_ns: int) -> None:
        """Do ``event`` when CLOCK_MONOTONIC shows ``at_ns``; for what :meth:`running` runs.

        Raises ``LabError`` if the traffic is given up before.
        """
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if self._cancelled.wait(left_ns / 1e9):
                raise LabError("the trial was given up")
        event()

    @contextmanager
    @shielded
    def running(self, during: Callable[[], object] | None) -> Iterator[None]:
        """``during`` runs in a thread from here to its end, or until something is raised inside.

        What it raises itself is raised at the end.
        """
        if during is None:
            yield
            return
        errors: list[BaseException] = []

        def record() -> None:
            try:
                during()
            except BaseException as error:
                errors.append(error)

        self._cancelled.clear()
        self._over.clear()
        # A busy host may start the thread late.
        self._begun_ns = time.monotonic_ns()
        thread = threading.Thread(target=record, name="weir-events")
        thread.start()
        try:
            try:
                yield
            finally:
                self._over_ns = time.monotonic_ns()
                self._over.set()
            _wait_for(thread)
        except BaseException:
            self._cancelled.set()
            thread.join()
            raise
        if errors:
            raise errors[0]


@interruptible
def _wait_for(thread: threading.Thread) -> None:
    thread.join()
