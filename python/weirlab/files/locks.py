"""Locks by flock(2): whoever ends, by whatever signal, gives them back."""

from __future__ import annotations

import fcntl

from weirlab.interrupts import interruptible


@interruptible
def wait_for_lock(fd: int) -> None:
    """Take the lock of ``fd`` by flock(2), for which its holder may let others wait for as long as it likes.

    Raises ``OSError`` where the file system does not lock.
    """
    fcntl.flock(fd, fcntl.LOCK_EX)
