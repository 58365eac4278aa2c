"""Restores the CPU affinity of kernel threads.

Up to Linux 6.18 at least, the kernel gives all its threads that may be bound the CPUs that remain when a
partition is made, and all CPUs when it is gone (``cpuset_update_tasks_cpumask`` in
kernel/cgroup/cpuset.c). Threads bound with ``sched_setaffinity`` get their CPUs back; those that the kernel
bound itself, as it does for interrupts, do not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from weirlab.lab.isolation.groups import PROC

Bound = tuple[int, int, tuple[int, ...]]
"""ID of a thread, its start time (IDs are reused), and its CPUs."""

# Flags of the kernel's sched.h, in the ninth field of /proc/PID/stat.
_PF_KTHREAD: Final = 0x0020_0000
_PF_NO_SETAFFINITY: Final = 0x0400_0000


def bound_threads(everything: frozenset[int], proc: Path = PROC) -> list[Bound]:
    """The kernel threads that may be bound and are bound to fewer CPUs than ``everything``."""
    return [
        kernel_thread for kernel_thread in _kernel_threads(proc) if not everything <= set(kernel_thread[2])
    ]


def bind_again(threads: Iterable[Bound], proc: Path = PROC) -> None:
    """Give ``threads`` their CPUs back, as far as these are available to them; some may have ended."""
    now = {number: (started, cpus) for number, started, cpus in _kernel_threads(proc)}
    for number, started, cpus in threads:
        found = now.get(number)
        if found is not None and found[0] == started and found[1] != tuple(cpus):
            with suppress(OSError):
                os.sched_setaffinity(number, cpus)


def _kernel_threads(proc: Path) -> Iterator[Bound]:
    for name in os.listdir(proc):
        if not name.isdecimal():
            continue
        # The thread may end meanwhile.
        with suppress(OSError):
            fields = (proc / name / "stat").read_text().rpartition(")")[2].split()
            if int(fields[6]) & (_PF_KTHREAD | _PF_NO_SETAFFINITY) == _PF_KTHREAD:
                yield int(name), int(fields[19]), tuple(sorted(os.sched_getaffinity(int(name))))
