"""Starts the processes of jobs."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Protocol

from weirlab.base import programs
from weirlab.web.launching.jobs import ProcessJob, ServiceFolders

Start = Callable[[ProcessJob, int, int], programs.Program[Any]]
"""Starts the process of a job with these standard streams."""


class Process(Protocol):
    """A process that was started. Every method may be called from any thread."""

    def poll(self) -> int | None:
        """Its exit code, -9 for signal 9; None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, as soon as it has ended; raises ``subprocess.TimeoutExpired``."""

    def interrupt(self) -> None:
        """As by Ctrl-C."""

    def kill(self) -> None:
        """End it at once."""


class Launcher(Protocol):
    """Starts processes."""

    def start(self, job: ProcessJob, stdin: int, stdout: int) -> Process:
        """Start the process of a job with these standard streams, which the caller closes.

        Raises ``LabError`` if it cannot be started.
        """


@dataclass(frozen=True)
class OwnProcess:
    """A child of this process."""

    program: programs.Program[Any]

    def poll(self) -> int | None:
        return self.program.poll()

    def wait(self, timeout: float | None = None) -> int:
        return self.program.wait(timeout)

    def interrupt(self) -> None:
        self.program.send_signal(signal.SIGINT)

    def kill(self) -> None:
        self.program.kill()


@dataclass(frozen=True)
class DirectLauncher:
    """Starts processes with the rights of this one."""

    program: Start

    @classmethod
    def of(cls, places: ServiceFolders) -> DirectLauncher:
        return cls(partial(program, places, os.geteuid()))

    def start(self, job: ProcessJob, stdin: int, stdout: int) -> OwnProcess:
        return OwnProcess(self.program(job, stdin, stdout))


def program(
    places: ServiceFolders, user: int, job: ProcessJob, stdin: int, stdout: int
) -> programs.Program[Any]:
    """Start the process of a job for a service that runs as ``user``; ``ValueError`` if it may not be."""
    return programs.start(
        job.command(places, user),
        env=job.environment(places),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
    )


def piped(launcher: Launcher, job: ProcessJob) -> tuple[Process, BinaryIO, BinaryIO]:
    """Start the process of a job; returns it, its standard input and its standard output."""
    fds = list[int]()
    try:
        fds += os.pipe()
        fds += os.pipe()
        input_, to, from_, output = fds
        process = launcher.start(job, input_, output)
    except BaseException:
        for fd in fds:
            with suppress(OSError):
                os.close(fd)
        raise
    os.close(input_)
    os.close(output)
    return process, open(to, "wb", buffering=0), open(from_, "rb")
