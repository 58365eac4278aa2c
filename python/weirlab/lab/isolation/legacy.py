"""Keeps CPUs free with control groups of version 1.

Nothing has to join anything here: the root group keeps the right to all CPUs, with this process and the
kernel's threads in it, so whatever could be bound to a CPU before still can. Everything else in the root
group moves to ``weir-IDENTIFIER-rest``, which has the other CPUs, and moves back at the end. Threads that
were bound to some CPUs on purpose stay, because the kernel would forget their affinity.

``weir-IDENTIFIER`` has the measuring CPUs to itself among its siblings (``cpu_exclusive``), so no other group
can be made with them. Load balancing stays on in the root group. Without it the threads that
cannot be moved would be stuck on the measuring CPUs, behind a sender that never sleeps.

Source: Documentation/admin-guide/cgroup-v1/cpusets.rst of the kernel.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from weirlab.lab.cores import descendants, parse_list, threads_of
from weirlab.lab.isolation.groups import KTHREADD, PROC, CgroupHierarchy, IsolationError, cpu_list

_ROUNDS: Final = 20
"""Tasks that are being moved may start others."""


@dataclass(frozen=True)
class LegacyGroup:
    """The groups that are made; kept in the journal."""

    group: str

    @property
    def rest(self) -> str:
        return f"{self.group}-rest"

    def to_json(self) -> dict[str, Any]:
        return {"version": 1, **vars(self)}


def plan(groups: CgroupHierarchy, group: str) -> LegacyGroup:
    """Plan what :func:`make` will do; raises ``IsolationError`` if it must not be done."""
    if groups.home != "/":
        raise IsolationError(
            f"this process is in the cpuset {groups.home}, and only the root's members can be moved",
            "run it outside of that group",
        )
    return LegacyGroup(group)


def make(
    groups: CgroupHierarchy,
    what: LegacyGroup,
    cpus: frozenset[int],
    *,
    affinity: Callable[[int], set[int]] = os.sched_getaffinity,
    proc: Path = PROC,
) -> str:
    """Keep ``cpus`` free of everything that can be moved; returns the kind of isolation.

    Raises ``IsolationError`` or ``OSError``; :func:`undo` then removes what was made.
    """
    everything = parse_list(groups.read("/", "cpuset.cpus"))
    for group, own in ((what.group, cpus), (what.rest, everything - cpus)):
        groups.make(group)
        groups.write(group, "cpuset.mems", groups.read("/", "cpuset.mems"))
        groups.write(group, "cpuset.cpus", cpu_list(own))
    try:
        groups.write(what.group, "cpuset.cpu_exclusive", 1)
    except OSError as error:
        raise IsolationError(
            f"other control groups have CPUs {cpu_list(cpus)} too ({', '.join(_others(groups, what))})",
            "remove these groups, or give them other CPUs",
        ) from error
    groups.write(what.group, "cpuset.sched_load_balance", 0)
    for _ in range(_ROUNDS):
        if not _move(groups, what, everything, affinity, proc):
            break
    return "exclusive"


def undo(groups: CgroupHierarchy, what: LegacyGroup) -> bool:
    """Give everything back; False if members remain, so that it has to be tried again."""
    for _ in range(_ROUNDS):
        if not groups.exists(what.rest):
            break
        for task in groups.members(what.rest, "tasks"):
            with suppress(OSError):
                groups.write("/", "tasks", task)
        with suppress(OSError):
            groups.remove(what.rest)
    if groups.exists(what.group):
        with suppress(OSError):
            groups.remove(what.group)
    return not groups.exists(what.rest) and not groups.exists(what.group)


def _move(
    groups: CgroupHierarchy,
    what: LegacyGroup,
    everything: frozenset[int],
    affinity: Callable[[int], set[int]],
    proc: Path,
) -> int:
    """Move tasks that may run on any CPU out of the root group; returns how many moved."""
    own = {thread for process in descendants(os.getpid(), proc) for thread in threads_of(process, proc)}
    moved = 0
    for task in groups.members("/", "tasks"):
        if task == KTHREADD or task in own:
            continue
        # The task may have ended; a kernel thread with PF_NO_SETAFFINITY cannot be moved.
        with suppress(OSError):
            if everything <= affinity(task):
                groups.write(what.rest, "tasks", task)
                moved += 1
    return moved


def _others(groups: CgroupHierarchy, what: LegacyGroup) -> list[str]:
    return [name for name in groups.children("/") if name not in (what.group, what.rest)]
