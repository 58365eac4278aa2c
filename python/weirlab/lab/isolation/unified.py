"""A partition in control groups of version 2.

Only its members can use the CPUs of a partition. So the sender's threads and the device's kernel threads
have to join it, and the rest of this process must not. Threads of one process can be in different groups if
these are *threaded*, below a common one:

    weir-IDENTIFIER              this process; the CPUs that remain
    weir-IDENTIFIER/measuring    the partition: threads that ask for its CPUs, see ``enter``

Because the parent is not a partition, this is what the kernel calls a remote partition (Linux 6.7). A thread
has to join before it is bound to a CPU of the partition: with :func:`enter` here, ``partition::join`` in the
engine.

Source: Documentation/admin-guide/cgroup-v2.rst and kernel/cgroup/cpuset.c of the kernel.

Up to Linux 6.18 at least, the kernel gives all its threads that may be bound the CPUs that remain when a
partition is made, and all CPUs when it is gone (``cpuset_update_tasks_cpumask`` in
kernel/cgroup/cpuset.c). Threads bound with ``sched_setaffinity`` get their CPUs back; those that the kernel
bound itself, as it does for interrupts, do not.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.lab.cores import parse_list
from weirlab.lab.isolation.groups import PROC, CgroupHierarchy, IsolationError, cpu_list, is_kernel_thread

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


MEASURING: Final = "measuring"

_LIMITS: Final = {"memory.max": "max", "memory.high": "max", "cpu.max": "max"}
"""Limits that a process would leave with its group, and the first word that means no limit."""

_PATIENCE_S: Final = 2.0
_LOOK_EVERY_S: Final = 0.01


@dataclass(frozen=True)
class UnifiedGroup:
    """What is made, and the state before; kept in the journal."""

    group: str
    home: str
    enabled: bool
    """Whether the cpuset controller has to be switched on for the root's children."""
    bound: tuple[Bound, ...] = ()
    """Kernel threads that the kernel will unbind."""

    def to_json(self) -> dict[str, Any]:
        return {"version": 2, **vars(self)}


def plan(groups: CgroupHierarchy, group: str) -> UnifiedGroup:
    """Plan what :func:`make` will do; raises ``IsolationError`` if it must not be done."""
    if groups.home.startswith("/.."):
        raise IsolationError(
            "this process is in a control group that it cannot see",
            "share the host's control groups (--cgroupns=host)",
        )
    for file, where in _limits(groups):
        raise IsolationError(
            f"this process runs under a limit ({file} of the control group {where}), which it would leave",
            "run it outside of that group, or lift the limit",
        )
    enabled = "cpuset" not in groups.read("/", "cgroup.subtree_control").split()
    everything = parse_list(groups.read("/", "cpuset.cpus.effective"))
    return UnifiedGroup(group, groups.home, enabled, tuple(bound_threads(everything)))


def make(groups: CgroupHierarchy, what: UnifiedGroup, cpus: frozenset[int]) -> str:
    """Isolate ``cpus`` and move this process to the group outside the partition.

    Returns ``isolated``, or ``root`` if the kernel can only make a partition with load balancing. Raises
    ``IsolationError`` or ``OSError``; :func:`undo` then removes what was made.
    """
    inner = f"{what.group}/{MEASURING}"
    if what.enabled:
        groups.write("/", "cgroup.subtree_control", "+cpuset")
    groups.make(what.group)
    groups.make(inner)
    groups.write(inner, "cgroup.type", "threaded")
    groups.write(what.group, "cgroup.subtree_control", "+cpuset")
    if not groups.path(inner, "cpuset.cpus.exclusive").exists():
        raise IsolationError("this kernel has no remote partitions", "use Linux 6.7 or newer")
    # Before Linux 6.11 a group can only pass on CPUs in its cpuset.cpus.
    groups.write(what.group, "cpuset.cpus", groups.read("/", "cpuset.cpus.effective"))
    groups.write(inner, "cpuset.cpus", cpu_list(cpus))
    for group in (what.group, inner):
        groups.write(group, "cpuset.cpus.exclusive", cpu_list(cpus))
    kind = _partition(groups, inner)
    # Only threads that do not use these CPUs; the others follow when the CPUs are released.
    bind_again(each for each in what.bound if not cpus & set(each[2]))
    groups.write(what.group, "cgroup.procs", os.getpid())
    return kind


def undo(groups: CgroupHierarchy, what: UnifiedGroup) -> bool:
    """Give everything back; False if members remain, so that it has to be tried again.

    May be called again, and after :func:`make` has failed.
    """
    inner = f"{what.group}/{MEASURING}"
    if groups.exists(inner):
        with suppress(OSError):
            groups.write(inner, "cpuset.cpus.partition", "member")
        bind_again(what.bound)
    if groups.exists(what.group):
        home = what.home if groups.exists(what.home) else "/"
        end_s = time.monotonic() + _PATIENCE_S
        while not _is_removed(groups, what.group, inner, home):
            if time.monotonic() > end_s:
                return False
            # A process that was just killed may still be exiting.
            time.sleep(_LOOK_EVERY_S)
    if what.enabled and not any(_is_used(groups, child) for child in groups.children("/")):
        with suppress(OSError):
            groups.write("/", "cgroup.subtree_control", "-cpuset")
    return True


def enter(groups: CgroupHierarchy, what: UnifiedGroup) -> None:
    """Have the calling thread, and all that it starts from now on, join the partition; raises ``OSError``."""
    groups.write(f"{what.group}/{MEASURING}", "cgroup.threads", threading.get_native_id())


def admit(groups: CgroupHierarchy, what: UnifiedGroup, kernel_thread: int) -> None:
    """Have a kernel thread join the partition; raises ``OSError``.

    Threads that may be bound to a CPU may be moved (``cgroup_procs_write_start`` in kernel/cgroup/cgroup.c).
    """
    groups.write(what.group, "cgroup.procs", kernel_thread)
    groups.write(f"{what.group}/{MEASURING}", "cgroup.threads", kernel_thread)


def _partition(groups: CgroupHierarchy, inner: str) -> str:
    said = ""
    for kind in ("isolated", "root"):
        try:
            groups.write(inner, "cpuset.cpus.partition", kind)
        except OSError as error:
            said = said or f"{error.strerror}"
            continue
        state = groups.read(inner, "cpuset.cpus.partition")
        if state == kind:
            return kind
        # As in "isolated invalid (Cpu list in cpuset.cpus not exclusive)".
        said = said or state.partition("(")[2].rstrip(")") or state
    raise IsolationError(
        f"the kernel cannot make a partition of these CPUs: {said}",
        "see which control group has them in cpuset.cpus.exclusive, or choose other CPUs",
    )


def _is_removed(groups: CgroupHierarchy, group: str, inner: str, home: str) -> bool:
    with suppress(OSError):
        for number in groups.members(group, "cgroup.procs"):
            with suppress(OSError):
                groups.write("/" if is_kernel_thread(number) else home, "cgroup.procs", number)
    for each in (inner, group):
        if groups.exists(each):
            with suppress(OSError):
                groups.remove(each)
    return not groups.exists(group)


def _is_used(groups: CgroupHierarchy, child: str) -> bool:
    """Whether ``child`` binds its members to CPUs or memory."""
    for file in ("cpuset.cpus", "cpuset.mems", "cpuset.cpus.exclusive"):
        with suppress(OSError):
            if groups.read(child, file):
                return True
    return False


def _limits(groups: CgroupHierarchy) -> Iterator[tuple[str, str]]:
    """The limits on this process, as file and group."""
    group = groups.home.rstrip("/")
    while group:
        for file, none in _LIMITS.items():
            with suppress(OSError):
                if groups.read(group, file).split()[:1] != [none]:
                    yield file, group
        group = group.rpartition("/")[0]
