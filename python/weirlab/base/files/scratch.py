"""Temporary folders that do not outlive their process for long, even if it is killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from weirlab.base.files.refusals import telling
from weirlab.base.interrupts import shielded


@contextmanager
@shielded
def scratch_folder(prefix: str) -> Iterator[Path]:
    """A temporary folder, removed at the end; first, those with this ``prefix`` of killed processes are.

    A process locks its folder, and the kernel releases the lock however it ends. Raises ``StoreError`` if no
    folder can be made.
    """
    parent = Path(tempfile.gettempdir())
    for path in parent.glob(f"{prefix}*"):
        _remove_stale(path)
    with telling(parent, "write to"):
        path, fd = _locked(prefix)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)


def _locked(prefix: str) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix))
        with suppress(FileNotFoundError):
            fd = _opened(path)
            with suppress(OSError):
                # Some network file systems have no locks; then nothing is removed there either.
                fcntl.flock(fd, fcntl.LOCK_EX)
            if path.exists():
                return path, fd
            # Another process took it for that of a killed one before it was locked.
            os.close(fd)


def _remove_stale(path: Path) -> None:
    with suppress(OSError):
        fd = _opened(path)
        try:
            if os.fstat(fd).st_uid == os.geteuid():
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(fd)


def _opened(path: Path) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
