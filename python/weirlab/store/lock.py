"""One writer per run: a lock that the kernel drops when the process that holds it ends, for any reason."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Final

from weirlab.base import files
from weirlab.base.errors import StoreError
from weirlab.store.files import telling

LOCK_FILE: Final = ".writer"

_FLAGS: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

# struct flock of 64-bit Linux: type, whence, start, len, pid.
_FLOCK: Final = "hhqqi4x"


class WriterLock:
    """Held while a run is being written.

    This is an open-file-description lock (Linux 3.15): it also excludes a second writer in the
    same process, and testing whether it is held (``F_OFD_GETLK``) does not briefly take it.
    """

    def __init__(self, run_path: Path) -> None:
        """Take the lock of the run in ``run_path``; raises ``StoreError`` if another writer holds it."""
        path = run_path / LOCK_FILE
        with telling(path, "lock"):
            self._fd: int | None = os.open(path, _FLAGS, 0o644)
        try:
            with telling(path, "lock"):
                if not stat.S_ISREG(os.fstat(self._fd).st_mode):
                    raise StoreError(f"{files.shown(path)} is not a regular file; delete it")
                if not _take(self._fd):
                    writer = os.pread(self._fd, 32, 0).decode(errors="replace").strip() or "unknown"
                    raise StoreError(
                        f"run {run_path.name} is being written by process {writer}; "
                        "wait until it ends, or stop it, then try again"
                    )
                os.pwrite(self._fd, f"{os.getpid():<31}\n".encode(), 0)
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock; may be called twice."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def is_held(run_path: Path) -> bool:
    """Whether a process is writing the run in ``run_path``."""
    try:
        with files.open_regular(run_path / LOCK_FILE) as file:
            answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _request())
            return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    except (OSError, StoreError):
        return False


def interrupt(run_path: Path) -> None:
    """Interrupt the process of this machine that writes the run in ``run_path``, with the effect of Ctrl-C.

    By SIGTERM: what a script starts in the background ignores SIGINT.

    Raises ``StoreError`` if there is none, or if it belongs to somebody else.
    """
    path = run_path / LOCK_FILE
    with telling(path, "read"), files.open_regular(path) as file:
        writer, lock = file.read(32).decode(errors="replace").strip(), os.fstat(file.fileno())
    nobody = StoreError(f"no process of this machine is writing run {run_path.name}")
    if not (writer.isdecimal() and is_held(run_path)):
        raise nobody
    try:
        # From here on, the number cannot become that of another process.
        process = os.pidfd_open(int(writer))
    except OSError:
        raise nobody from None
    try:
        if not _has_open(int(writer), lock):
            raise nobody
        signal.pidfd_send_signal(process, signal.SIGTERM)
    except PermissionError:
        raise StoreError(
            f"run {run_path.name} is being written by process {writer} of another user; stop it there"
        ) from None
    finally:
        os.close(process)


def _has_open(process: int, file: os.stat_result) -> bool:
    """Whether ``process`` has ``file`` open; raises ``PermissionError``."""
    folder = f"/proc/{process}/fd"
    for name in os.listdir(folder):
        with suppress(FileNotFoundError):
            if os.path.samestat(os.stat(f"{folder}/{name}"), file):
                return True
    return False


def _take(fd: int) -> bool:
    try:
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _request())
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


def _request() -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
