"""Ctrl-C, SIGTERM and SIGHUP as a request to end in good order, not as an exception anywhere."""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any, Final, Self

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stop:
    """A request to end, by signal while inside ``with``, or by :meth:`request` from anywhere.

    Ctrl-C is the normal end of a recording: nothing is cut short. Further signals change nothing.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._before: dict[int, Any] = {}
        self.requested = False

    def request(self) -> None:
        """Request the end."""
        self.requested = True
        with suppress(OSError):
            os.write(self._write, b"x")

    def wait(self, descriptors: Sequence[int], timeout_s: float) -> None:
        """Wait until a request, until one of ``descriptors`` can be read, or for ``timeout_s``."""
        if not self.requested:
            select.select([self._read, *descriptors], [], [], max(timeout_s, 0.0))

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._caught)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        for fd in (self._read, self._write):
            os.close(fd)

    def _caught(self, number: int, frame: FrameType | None) -> None:
        self.request()
