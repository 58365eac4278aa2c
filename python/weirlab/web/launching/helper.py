"""The process that keeps the rights which the service gives up: it starts processes of jobs, no others.

Standard input is a socket of datagrams. Requests, each a JSON document:

``{"start": 1, "kind": ..., "about": {...}}`` with two descriptors
    Starts the process of a job with these as its standard input and output. The answer is ``{"started": 1}``
    or ``{"refused": 1, "message": ...}``; when the process has ended, ``{"ended": 1, "code": 0}``.
``{"signal": 1, "by": "interrupt" | "kill"}``
    Sends a signal to it, if it still runs.

It ends with the service: at the end of the socket, when the processes have ended, as their input has.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from weirlab.base import programs
from weirlab.base.errors import WeirError
from weirlab.web.launching import jobs
from weirlab.web.launching.jobs import ServiceFolders
from weirlab.web.launching.launcher import program

MOST_BYTES: Final = 1 << 14
"""Of a message."""
MOST_PROCESSES: Final = 128
_STREAMS: Final = 2
_SIGNALS: Final = {"interrupt": signal.SIGINT, "kill": signal.SIGKILL}


class Helper:
    """Answers requests from ``channel``, the other end of which the process ``service`` has."""

    def __init__(self, channel: socket.socket, places: ServiceFolders, service: int) -> None:
        self._channel = channel
        self._places = places
        self._service = service
        self._processes: dict[int, programs.Program[Any]] = {}
        self._threads: set[threading.Thread] = set()
        self._lock = threading.Lock()

    def serve(self) -> None:
        """Answer requests until the service has gone, and wait for the processes to end."""
        while True:
            text, fds, flags, _ = socket.recv_fds(
                self._channel, MOST_BYTES, _STREAMS, socket.MSG_CMSG_CLOEXEC
            )
            try:
                if not text:
                    break
                if not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                    self._answer(text, fds)
            finally:
                for fd in fds:
                    os.close(fd)
        with self._lock:
            threads = [*self._threads]
        for thread in threads:
            thread.join()

    def _answer(self, text: bytes, fds: list[int]) -> None:
        try:
            request = json.loads(text)
            number = request["start"] if "start" in request else request["signal"]
        except (ValueError, TypeError, KeyError):
            return
        if type(number) is not int:
            return
        if "start" in request:
            try:
                self._start(number, jobs.job(request.get("kind"), request.get("about")), fds)
            except (ValueError, OSError, WeirError) as error:
                self._tell({"refused": number, "message": str(error)})
        elif (by := _SIGNALS.get(str(request.get("by")))) is not None:
            with self._lock:
                process = self._processes.get(number)
            if process is not None:
                process.send_signal(by)

    def _start(self, number: int, job: jobs.ProcessJob, fds: list[int]) -> None:
        if len(fds) != _STREAMS:
            raise ValueError("a process needs two streams")
        with self._lock:
            if number in self._processes or len(self._processes) >= MOST_PROCESSES:
                raise ValueError("too many processes")
            # The kernel says who the service is now.
            user = os.stat(f"/proc/{self._service}").st_uid
            process = program(self._places, user, job, *fds)
            self._processes[number] = process
            thread = threading.Thread(target=self._wait, args=(number, process))
            self._threads.add(thread)
        self._tell({"started": number})
        thread.start()

    def _wait(self, number: int, process: programs.Program[Any]) -> None:
        code = process.wait()
        with self._lock:
            del self._processes[number]
            self._threads.discard(threading.current_thread())
        self._tell({"ended": number, "code": code})

    def _tell(self, answer: dict[str, Any]) -> None:
        # A service that is gone does not listen.
        with suppress(OSError):
            self._channel.send(json.dumps(answer).encode()[:MOST_BYTES])


def main(store: str, rights: str) -> None:
    """Serve the process that started this one; ``rights``: of ``run`` and ``watch``, with a comma between."""
    # It ends with the service, which gets these signals, too. Programs do not inherit handlers.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    service = os.getppid()
    with socket.socket(fileno=os.dup(0)) as channel:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.close(null)
        may = rights.split(",")
        Helper(channel, ServiceFolders(Path(store), "run" in may, "watch" in may), service).serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
