"""This process and what it started kept off the measuring CPUs while a trial lasts."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weirlab.interrupts import shielded

_PROC: Final = Path("/proc")


@contextmanager
@shielded
def aside(cpus: Collection[int], proc: Path = _PROC) -> Iterator[None]:
    """Meanwhile whatever of this process and its descendants could run anywhere runs elsewhere than on
    ``cpus``; on a machine without other CPUs everything stays as it is.

    A thread with CPUs of its own was bound on purpose: the agents inside the device, a recorder, the
    engine's own threads, which bind themselves. It keeps them.
    """
    usual = os.sched_getaffinity(0)
    others = usual - set(cpus)
    if not others or others == usual:
        yield
        return
    moved = [thread for thread in _threads(proc) if _rebind(thread, usual, others)]
    try:
        yield
    finally:
        # Numbers of threads that have ended may be somebody else's by now.
        for thread in set(moved) & set(_threads(proc)):
            _rebind(thread, others, usual)


def descendants(process: int, proc: Path = _PROC) -> list[int]:
    """``process`` and what it started, and they in turn; those alone that are still there."""
    found = [process]
    for parent in found:
        for thread in threads_of(parent, proc):
            with suppress(OSError):
                children = (proc / str(parent) / "task" / str(thread) / "children").read_text()
                found += [int(child) for child in children.split()]
    return found


def threads_of(process: int, proc: Path = _PROC) -> list[int]:
    """Its threads; none if it has ended."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(proc / str(process) / "task")]
    return []


def _threads(proc: Path) -> list[int]:
    return [thread for process in descendants(os.getpid(), proc) for thread in threads_of(process, proc)]


def _rebind(thread: int, before: set[int], after: set[int]) -> bool:
    """Give ``thread`` other CPUs if it has those of ``before``; whether it got them."""
    with suppress(OSError):
        if os.sched_getaffinity(thread) == before:
            os.sched_setaffinity(thread, after)
            return True
    return False
