"""Locks by flock(2), which the kernel releases when their holder ends, by whatever signal."""

from __future__ import annotations

import fcntl

from weirlab.base.interrupts import interruptible


@interruptible
def wait_for_lock(fd: int) -> None:
    """Take the lock of ``fd`` by flock(2), waiting for its holder without a limit.

    Raises ``OSError`` if the file system does not support locks.
    """
    fcntl.flock(fd, fcntl.LOCK_EX)
