"""Starts the recorder's process and reads its reports without ever waiting for it."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, Final, Protocol

from weirlab.base import programs
from weirlab.link.settings import RecorderSettings

_READ_BYTES: Final = 1 << 16


@dataclass(frozen=True)
class FrameSource:
    """Where the recorder's frames come from: the tap's ring, or an interface."""

    ring_fds: tuple[int, ...] = ()
    interface: str | None = None
    netns: str | None = None


class Child(Protocol):
    """A recorder's process."""

    @property
    def pid(self) -> int: ...

    def descriptors(self) -> Sequence[int]:
        """Descriptors that become readable when it has reported something, or died."""

    def hear(self) -> list[dict[str, Any]]:
        """Its messages since the last call, without waiting."""

    def ended(self) -> int | None:
        """None while it runs; else how it ended, as ``subprocess.Popen.returncode``."""

    def ask_to_finish(self) -> None:
        """Tell it to write what is left and end; continues it if it was stopped."""

    def kill(self) -> None:
        """End it at once."""

    def last_words(self) -> str:
        """The last line it wrote to standard error, once it has ended."""

    def close(self) -> None:
        """Close its pipes, once it has ended."""


class RecorderProcess:
    """The program of :mod:`weirlab.link.recording.child`.

    It runs in its own session: a signal to this process's group does not reach it, and one that reaches it
    does not reach the bridge. It inherits the ring's descriptors and nothing that belongs to the bridge.
    Raises ``OSError`` if the host has no process or descriptor left for it.
    """

    def __init__(self, recording: RecorderSettings, path: Path, source: FrameSource, comment: str) -> None:
        order = {
            "recording": {**asdict(recording), "path": str(recording.path)},
            "path": str(path),
            "ring_fds": list(source.ring_fds),
            "interface": source.interface,
            "netns": source.netns,
            "comment": comment,
        }
        self._program: programs.Program[bytes] = programs.start(
            programs.own("weirlab.link.recording.child", json.dumps(order)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=source.ring_fds,
            start_new_session=True,
        )
        self._said = b""
        self._errors = b""
        self._life = -1
        try:
            for stream in (self._program.stdout, self._program.stderr):
                os.set_blocking(_pipe(stream).fileno(), False)
            self._life = os.pidfd_open(self._program.pid)
        except OSError:
            # Nothing could read its reports.
            self.kill()
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Its process ID."""
        return self._program.pid

    def descriptors(self) -> Sequence[int]:
        """Its standard output and its pidfd."""
        return (_pipe(self._program.stdout).fileno(), self._life)

    def hear(self) -> list[dict[str, Any]]:
        """Whole lines only; a line that its death cut off is dropped."""
        self._errors = (self._errors + _drain(_pipe(self._program.stderr)))[-_READ_BYTES:]
        self._said += _drain(_pipe(self._program.stdout))
        *lines, self._said = self._said.split(b"\n")
        messages: list[dict[str, Any]] = []
        for line in lines:
            # Anything else printed on standard output is not a message.
            with suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    messages.append(message)
        return messages

    def ended(self) -> int | None:
        """How it ended, if it has."""
        return self._program.poll()

    def ask_to_finish(self) -> None:
        """Close its standard input, which tells it to end."""
        with suppress(OSError):
            _pipe(self._program.stdin).close()
        # A stopped process (SIGSTOP) would never finish.
        if self.ended() is None and _is_stopped(self.pid):
            self._program.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Send SIGKILL and wait for the process, which takes the kernel little time."""
        self._program.kill()
        self._program.wait()

    def last_words(self) -> str:
        """The last line on standard error: of a failed interpreter, the exception."""
        self.hear()
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def close(self) -> None:
        """May be called twice."""
        for stream in (self._program.stdin, self._program.stdout, self._program.stderr):
            with suppress(OSError):
                _pipe(stream).close()
        life, self._life = self._life, -1
        if life >= 0:
            os.close(life)


def wait_for(descriptors: Sequence[int], timeout_s: float) -> None:
    """Wait until one of ``descriptors`` can be read, or the time is over."""
    select.select(descriptors, [], [], max(timeout_s, 0.0))


def _drain(stream: IO[bytes]) -> bytes:
    taken = b""
    if stream.closed:
        return taken
    while chunk := _read(stream.fileno()):
        taken += chunk
    return taken


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return b""


def _is_stopped(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in ("T", "t")


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    """``stream``, which exists because the program was started with pipes."""
    assert stream is not None
    return stream
