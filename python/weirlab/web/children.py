"""Child processes for work that takes long or reads foreign bytes: few at a time, within limits.

A child reads one line of JSON, its request, from standard input, and writes one JSON document, its answer, to
standard output. Standard input stays open as long as the service lives: a child ends when its service has
gone.
"""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from queue import PriorityQueue
from typing import Any, BinaryIO, Final

from weirlab.base.errors import DiskFull, WeirError
from weirlab.base.quantities import plural
from weirlab.web.launching.jobs import ProcessJob
from weirlab.web.launching.launcher import Launcher, Process, piped

NO_MEMORY: Final = (
    "It needed more memory than is allowed here. The operator can allow more with --max-memory."
)
_LOOK_S: Final = 0.05
_LAST: Final = 9
"""Priority of the request to end."""


class ChildFailure(WeirError):
    """A child could not fulfil its request, or had to be ended."""


class Children:
    """Threads, each of which runs one child process at a time, which ``launcher`` starts."""

    def __init__(self, number: int, launcher: Launcher) -> None:
        self._launcher = launcher
        self._waiting: PriorityQueue[tuple[int, int, Callable[[], Any], Future[Any]]] = PriorityQueue()
        self._count = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._threads = [threading.Thread(target=self._work, name=f"weir-child-{n}") for n in range(number)]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """The number of jobs that have not begun."""
        return self._waiting.qsize()

    def submit(self, work: Callable[[], Any], *, urgent: bool = False) -> Future[Any]:
        """Let one of the threads call ``work``; ``urgent`` work, which a user waits for, comes first."""
        return self._put(0 if urgent else 1, work)

    def ask(
        self,
        job: ProcessJob,
        request: Mapping[str, Any],
        *,
        most_s: float,
        unwanted: Callable[[], bool] = lambda: False,
    ) -> Any:
        """Start the process of ``job``, hand it ``request``, and return its answer.

        Raises
        ------
        ChildFailure
            It refuses, exceeds a limit, becomes ``unwanted``, or the service ends.
        DiskFull
            It cannot write what it makes.
        """
        if self._closing.is_set():
            raise ServiceShutdown("The service ends.")
        process, target, source = piped(self._launcher, job)
        answer: list[bytes] = []
        reader = threading.Thread(target=lambda: answer.append(source.read()))
        try:
            reader.start()
            with suppress(OSError):
                write_line(target, request)
            self._watch(process, time.monotonic() + most_s, most_s, unwanted)
        finally:
            if process.poll() is None:
                process.kill()
            code = process.wait()
            target.close()
            reader.join()
            source.close()
        return _answer(code, answer[0] if answer else b"")

    def close(self) -> None:
        """End the running children, and start no more. Their requests can be repeated."""
        self._closing.set()
        for _ in self._threads:
            self._put(_LAST, lambda: None)
        for thread in self._threads:
            thread.join()

    def _put(self, priority: int, work: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            # First come, first served.
            self._count += 1
            self._waiting.put((priority, self._count, work, future))
        return future

    def _watch(self, process: Process, until_s: float, most_s: float, unwanted: Callable[[], bool]) -> None:
        while process.poll() is None:
            if self._closing.is_set():
                raise ServiceShutdown("The service ends.")
            if unwanted():
                raise ChildFailure("It was stopped.")
            if time.monotonic() > until_s:
                raise ChildFailure(
                    f"It took longer than {plural(round(most_s), 'second')}, which is the limit here."
                )
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)

    def _work(self) -> None:
        while True:
            priority, _, work, future = self._waiting.get()
            if priority == _LAST:
                return
            if self._closing.is_set():
                future.cancel()
                continue
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)


def write_line(target: BinaryIO, value: object) -> None:
    """Write ``value`` as a line of JSON; raises ``OSError``."""
    left = memoryview(json.dumps(value).encode() + b"\n")
    while left:
        left = left[target.write(left) :]


class ServiceShutdown(ChildFailure):
    """The service ended first; the work will be done when the service runs again."""


def _answer(code: int, text: bytes) -> Any:
    with suppress(ValueError):
        answer = json.loads(text)
        if isinstance(answer, dict) and isinstance(failure := answer.get("error"), dict):
            message = str(failure.get("message", "It failed."))
            raise DiskFull(message) if failure.get("kind") == DiskFull.__name__ else ChildFailure(message)
        if code == 0:
            return answer
    if code == -signal.SIGXCPU:
        raise ChildFailure("It took more processor time than is allowed here.")
    if code in (-signal.SIGABRT, -signal.SIGKILL, -signal.SIGSEGV):
        raise ChildFailure(NO_MEMORY)
    raise ChildFailure(f"The process that read it ended without an answer (exit code {code}).")
