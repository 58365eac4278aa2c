"""Has the helper start processes; see :mod:`helper`."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Self

from weirlab.base import programs
from weirlab.base.errors import LabError
from weirlab.web.launching import helper, jobs
from weirlab.web.launching.helper import MOST_BYTES
from weirlab.web.launching.jobs import ProcessJob, ServiceFolders

_GONE = -9
"""Exit code of processes whose helper has gone."""


@dataclass
class RemoteProcess:
    """A process that the helper started, or is to start."""

    number: int
    channel: socket.socket
    answered: threading.Event = field(default_factory=threading.Event)
    refusal: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    code: int = 0

    def poll(self) -> int | None:
        return self.code if self.ended.is_set() else None

    def wait(self, timeout: float | None = None) -> int:
        if not self.ended.wait(timeout):
            raise subprocess.TimeoutExpired("a process of the helper", timeout or 0.0)
        return self.code

    def interrupt(self) -> None:
        self._signal("interrupt")

    def kill(self) -> None:
        self._signal("kill")

    def _signal(self, by: str) -> None:
        # A helper that is gone has nothing left to end.
        with suppress(OSError):
            self.channel.send(json.dumps({"signal": self.number, "by": by}).encode())


class RemoteLauncher:
    """Has a helper at the other end of ``channel`` start processes. No thread begins before the block.

    ``join`` is called at its end.
    """

    def __init__(self, channel: socket.socket, join: Callable[[], object]) -> None:
        self._channel, self._join = channel, join
        self._numbers = itertools.count(1)
        self._processes: dict[int, RemoteProcess] = {}
        self._lock = threading.Lock()
        self._gone = False
        self._listener = threading.Thread(target=self._listen, name="weir-helper")

    @classmethod
    def started(cls, places: ServiceFolders) -> RemoteLauncher:
        """Start a helper."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        rights = ["run"] * places.may_run + ["watch"] * places.may_watch
        command = programs.own(helper.__name__, str(places.store), ",".join(rights))
        with theirs:
            process = programs.start(
                command, stdin=theirs, stdout=subprocess.DEVNULL, env=jobs.without_secrets()
            )
        return cls(ours, process.wait)

    def __enter__(self) -> Self:
        self._listener.start()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        self._listener.join()
        self._channel.close()
        self._join()

    def start(self, job: ProcessJob, stdin: int, stdout: int) -> RemoteProcess:
        with self._lock:
            process = RemoteProcess(next(self._numbers), self._channel)
            self._processes[process.number] = process
            gone = self._gone
        request = json.dumps({"start": process.number, **jobs.document(job)}).encode()
        try:
            try:
                if gone:
                    raise BrokenPipeError
                socket.send_fds(self._channel, [request], [stdin, stdout])
            except OSError:
                raise LabError("the helper process of the service has ended; restart weir web") from None
            process.answered.wait()
            if process.refusal:
                raise LabError(f"the helper process refuses to start another: {process.refusal}")
        except BaseException:
            with self._lock:
                self._processes.pop(process.number, None)
            raise
        return process

    def _listen(self) -> None:
        with suppress(OSError):
            while text := self._channel.recv(MOST_BYTES):
                self._take(json.loads(text))
        with self._lock:
            self._gone = True
            left = [*self._processes.values()]
            self._processes.clear()
        for process in left:
            process.refusal, process.code = "it has ended", _GONE
            process.answered.set()
            process.ended.set()

    def _take(self, answer: dict[str, Any]) -> None:
        match answer:
            case {"started": number}:
                self._processes[number].answered.set()
            case {"refused": number, "message": message}:
                process = self._processes[number]
                process.refusal = message or "it says nothing"
                process.answered.set()
            case {"ended": number, "code": code}:
                with self._lock:
                    process = self._processes.pop(number)
                process.code = code
                process.ended.set()
