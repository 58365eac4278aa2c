"""Which thread runs, and how long: kernel threads for receive work, real-time priority, time slices."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from weirlab.base.errors import MissingCapability
from weirlab.lab.cores import threads_of
from weirlab.lab.isolation import partition
from weirlab.lab.linux import syscalls
from weirlab.lab.linux.namespace import in_thread

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


_CAP_SYS_NICE: Final = 23
_FAIR_SERVER_S: Final = 0.9
"""``FAIR_SERVER`` of the engine's ``priority.rs``."""
_SHARE_OF_LIMIT: Final = 0.95
"""``SHARE_OF_LIMIT`` there."""


def attempt() -> None:
    """Try real-time priority for a moment, in a separate thread; raises ``OSError``."""

    def become() -> None:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(os.sched_get_priority_min(os.SCHED_FIFO)))

    in_thread(become)


def longest_s(proc: Path = _PROC) -> float:
    """Longest trial in s with real-time priority under the kernel's limits; 0 if none can have it."""
    try:
        limit_us = int((proc / "sys/kernel/sched_rt_runtime_us").read_text())
    except (OSError, ValueError):
        return _FAIR_SERVER_S
    return _FAIR_SERVER_S if limit_us < 0 else min(_FAIR_SERVER_S, limit_us / 1e6 * _SHARE_OF_LIMIT)


def why_refused(proc: Path = _PROC) -> tuple[str, str]:
    """The likely reason of a refusal, and what to do about it; the reason is empty if unknown."""
    if not syscalls.effective_capabilities(proc) >> _CAP_SYS_NICE & 1:
        return (
            "this process lacks CAP_SYS_NICE",
            "run as root, or give it CAP_SYS_NICE; in a container: --cap-add SYS_NICE",
        )
    mounts = [line.split() for line in (proc / "self/mounts").read_text().splitlines()]
    homes = [line.split(":", 2) for line in (proc / "self/cgroup").read_text().splitlines()]
    for _, mount, kind, options, *_ in mounts:
        if kind != "cgroup" or "cpu" not in options.split(","):
            continue
        home = next((group for _, names, group in homes if "cpu" in names.split(",")), "/")
        path = Path(mount) / home.strip("/") / "cpu.rt_runtime_us"
        try:
            budget_us = int(path.read_text())
        except (OSError, ValueError):
            continue
        if budget_us == 0:
            return (
                f"the control group {home} has no budget for real time (cpu.rt_runtime_us is 0)",
                f"CAP_SYS_NICE is there; give the group a budget: echo 900000 > {path}",
            )
    if any(names == "" and group != "/" for _, names, group in homes):
        return (
            "with CONFIG_RT_GROUP_SCHED the kernel only gives real time to the root control group",
            "CAP_SYS_NICE is there; boot with rt_group_sched=0, or run in the root control group",
        )
    return "", "give CAP_SYS_NICE; with control groups of version 1 also cpu.rt_runtime_us"


SHORTEST_NS: Final = 100_000
"""The shortest slice that the kernel grants."""

_NR_SCHED_SETATTR: Final = {
    "x86_64": 314,
    "aarch64": 274,
    "riscv64": 274,
    "loongarch64": 274,
    "s390x": 345,
    "ppc64le": 355,
    "armv7l": 380,
    "i686": 351,
}
_ATTRIBUTES: Final = struct.Struct("=IIQiIQQQ")
"""``struct sched_attr``: size, policy, flags, nice, priority, runtime, deadline, period."""


def shorten(thread: int) -> None:
    """Give an ordinary thread the shortest slices, at its present nice value.

    When it wakes, it then takes the CPU from threads with longer slices, instead of waiting some milliseconds
    until they have used theirs up. Threads that it starts from now on inherit this. Linux before 6.12 ignores
    it. Raises ``OSError``.
    """
    number = _NR_SCHED_SETATTR.get(platform.machine())
    if number is None:
        raise OSError(0, f"not tried on {platform.machine()}")
    nice = os.getpriority(os.PRIO_PROCESS, thread)
    packed = _ATTRIBUTES.pack(_ATTRIBUTES.size, os.SCHED_OTHER, 0, nice, 0, SHORTEST_NS, 0, 0)
    attributes = ctypes.create_string_buffer(packed)
    syscalls.syscall(
        number,
        "shorten the slices of a thread",
        ctypes.c_long(thread),
        ctypes.c_void_p(ctypes.addressof(attributes)),
        ctypes.c_long(0),
    )


def shorten_all(processes: Iterable[int]) -> None:
    """Do so for all threads of processes, as the lab does with those that a device starts with."""
    for thread in (each for process in processes for each in threads_of(process)):
        # It may have ended.
        with suppress(OSError):
            shorten(thread)


def slice_ns(thread: int) -> int:
    """The slices that a thread requested or was given; raises ``OSError``."""
    number = _NR_SCHED_SETATTR.get(platform.machine())
    if number is None:
        raise OSError(0, f"not tried on {platform.machine()}")
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.size)
    syscalls.syscall(
        number + 1,
        "ask for the slices of a thread",
        ctypes.c_long(thread),
        ctypes.c_void_p(ctypes.addressof(attributes)),
        ctypes.c_long(_ATTRIBUTES.size),
        ctypes.c_long(0),
    )
    return int(_ATTRIBUTES.unpack(attributes.raw[: _ATTRIBUTES.size])[5])
