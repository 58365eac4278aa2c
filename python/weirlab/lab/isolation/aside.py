"""Keeps this process and its descendants off the measuring CPUs during a trial."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from weirlab.base.interrupts import shielded

_PROC: Final = Path("/proc")


@contextmanager
@shielded
def aside(cpus: Collection[int], proc: Path = _PROC) -> Iterator[None]:
    """Keep threads of this process and its descendants off ``cpus`` unless they are bound; on a machine
    without other CPUs, nothing changes.

    A thread with a different affinity was bound on purpose: the agents inside the device, a recorder, or
    the engine's threads, which bind themselves. It keeps its CPUs.
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
        # The IDs of threads that have ended may have been reused.
        for thread in set(moved) & set(_threads(proc)):
            _rebind(thread, others, usual)


def descendants(process: int, proc: Path = _PROC) -> list[int]:
    """``process`` and all its descendants that still exist."""
    found = [process]
    for parent in found:
        for thread in threads_of(parent, proc):
            with suppress(OSError):
                children = (proc / str(parent) / "task" / str(thread) / "children").read_text()
                found += [int(child) for child in children.split()]
    return found


def threads_of(process: int, proc: Path = _PROC) -> list[int]:
    """The threads of a process; none if it has ended."""
    with suppress(OSError):
        return [int(name) for name in os.listdir(proc / str(process) / "task")]
    return []


def _threads(proc: Path) -> list[int]:
    return [thread for process in descendants(os.getpid(), proc) for thread in threads_of(process, proc)]


def _rebind(thread: int, before: set[int], after: set[int]) -> bool:
    """Give ``thread`` the CPUs ``after`` if it has those of ``before``; returns whether it got them."""
    with suppress(OSError):
        if os.sched_getaffinity(thread) == before:
            os.sched_setaffinity(thread, after)
            return True
    return False
