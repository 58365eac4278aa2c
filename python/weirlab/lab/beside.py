"""Actions that run in a separate thread while traffic is sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weirlab.base.errors import LabError
from weirlab.base.interrupts import interruptible, shielded


class TrafficActionRunner:
    """Runs one action at a time during traffic, each to its end or until the traffic is aborted."""

    def __init__(self) -> None:
        self._cancelled = threading.Event()
        self._over = threading.Event()
        self._begun_ns = self._over_ns = 0

    def comes(self, after_ns: int) -> bool:
        """Wait until ``after_ns`` after the start of :meth:`running`; False if the traffic ends first."""
        at_ns = self._begun_ns + after_ns
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if self._over.wait(left_ns / 1e9):
                # A busy host may wake this thread late, when the traffic is already over.
                return self._over_ns >= at_ns
        return True

    def at(self, event: Callable[[], object], at_ns: int) -> None:
        """Run ``event`` when CLOCK_MONOTONIC reaches ``at_ns``; for use by the function in :meth:`running`.

        Raises ``LabError`` if the traffic is aborted before that.
        """
        while (left_ns := at_ns - time.monotonic_ns()) > 0:
            if self._cancelled.wait(left_ns / 1e9):
                raise LabError("the trial was aborted")
        event()

    @contextmanager
    @shielded
    def running(self, during: Callable[[], object] | None) -> Iterator[None]:
        """Run ``during`` in a thread, to its end or until the context raises.

        Whatever ``during`` raises is raised when the context ends.
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
