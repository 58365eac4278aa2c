"""Kernel threads that do an interface's receive work, and the CPU they run on."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from weirlab.base.errors import MissingCapability
from weirlab.lab.isolation import partition

_PROC: Final = Path("/proc")


def threads(interface_name: str, proc: Path = _PROC) -> set[int]:
    """Process IDs of the kernel threads ``napi/<interface>-<number>`` of the whole machine."""
    return _called(f"napi/{interface_name}-", proc)


def backlog_thread(cpu: int, proc: Path = _PROC) -> set[int]:
    """Process ID of the kernel thread that continues what interrupts leave undone on ``cpu``."""
    return _called(f"ksoftirqd/{cpu}\n", proc)


def waiting(proc: Path = _PROC) -> bool:
    """Whether a kernel thread that receives packets, on any CPU, has work and is not done."""
    return any(_runnable(thread, proc) for name in ("napi/", "ksoftirqd/") for thread in _called(name, proc))


def _runnable(thread: int, proc: Path) -> bool:
    try:
        stat = (proc / str(thread) / "stat").read_text()
    except OSError:
        return False
    # The name, in parentheses, may hold anything.
    return stat.rpartition(")")[2].split()[0] == "R"


def _called(beginning: str, proc: Path) -> set[int]:
    """Processes whose name, including the final newline, begins with this."""
    found: set[int] = set()
    for entry in os.listdir(proc):
        # A process may end meanwhile.
        with suppress(OSError):
            if entry.isdecimal() and (proc / entry / "comm").read_text().startswith(beginning):
                found.add(int(entry))
    return found


def pin(interface_name: str, before: set[int], cpu: int) -> int:
    """Bind the one thread of ``interface_name`` that was not there ``before`` to ``cpu``.

    Returns its process ID.
    The name alone is not enough, because every lab's interfaces are called the same.
    Raises ``MissingCapability`` if the thread cannot be seen or bound.
    """
    new = threads(interface_name) - before
    if len(new) != 1:
        raise MissingCapability(
            f"the kernel thread that receives for {interface_name} was not found: {len(new)} new ones named "
            f"napi/{interface_name}-*; in a container, share the host's PID namespace (--pid=host)"
        )
    (thread,) = new
    try:
        partition.bind(thread, cpu)
        os.setpriority(os.PRIO_PROCESS, thread, -20)
    except OSError as error:
        raise MissingCapability(
            f"the kernel thread that receives for {interface_name} cannot be bound to CPU {cpu}: "
            f"{error.strerror}; run as root with CAP_SYS_NICE"
        ) from error
    return thread
