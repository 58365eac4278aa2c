"""Control groups: where the cpuset controller is, version 2, and CPUs kept free with version 1."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from weirlab.lab.cores import descendants, parse_list, threads_of
from weirlab.lab.linux.syscalls import way_out

PROC: Final = Path("/proc")
KTHREADD: Final = 2
"""The parent of all other kernel threads, which start in its group."""

_DISSOLVE_S: Final = 2.0
_DISSOLVE_POLL_S: Final = 0.01
"""A group stays in use for a moment after its last member has ended."""

_IS_KERNEL_THREAD: Final = 0x0020_0000
"""PF_KTHREAD of the kernel's sched.h, in the ninth field of /proc/PID/stat."""

_ROUNDS: Final = 20
"""Tasks that are being moved may start others."""


class IsolationError(Exception):
    """CPUs cannot be isolated here: why, and what to do about it."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why = why
        self.remedy = remedy


@dataclass(frozen=True)
class CgroupHierarchy:
    """A hierarchy of control groups at ``mount``.

    ``home`` is the group of this process in it, such as ``/user.slice``; ``/`` is the root.
    """

    mount: Path
    version: Literal[1, 2]
    home: str

    def path(self, group: str, file: str = "") -> Path:
        """Path of ``group``, or of one of its files."""
        return self.mount / group.strip("/") / file

    def read(self, group: str, file: str) -> str:
        return self.path(group, file).read_text().strip()

    def write(self, group: str, file: str, value: object) -> None:
        """Write ``value``; raises ``OSError`` with the file's name if the kernel refuses."""
        path = self.path(group, file)
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, f"{value}\n".encode())
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None
        finally:
            os.close(fd)

    def make(self, group: str) -> None:
        self.path(group).mkdir()

    def remove(self, group: str) -> None:
        """Remove ``group``; raises ``OSError`` while it has members."""
        self.path(group).rmdir()

    def dissolve(self, group: str) -> None:
        """Remove ``group``; its members, if any, move to its parent.

        Raises ``FileNotFoundError`` if there is no such group, ``OSError`` if that is refused.
        """
        above, _, _ = group.strip("/").rpartition("/")
        due = time.monotonic() + _DISSOLVE_S
        while True:
            for number in self.members(group, "cgroup.procs"):
                with suppress(ProcessLookupError):
                    self.write(above, "cgroup.procs", number)
            try:
                return self.remove(group)
            except OSError as error:
                if error.errno != errno.EBUSY or time.monotonic() > due:
                    raise
            time.sleep(_DISSOLVE_POLL_S)

    def exists(self, group: str) -> bool:
        return self.path(group).is_dir()

    def children(self, group: str) -> list[str]:
        """Names of the groups in ``group``."""
        return sorted(entry.name for entry in os.scandir(self.path(group)) if entry.is_dir())

    def members(self, group: str, file: str) -> list[int]:
        """IDs of processes (``cgroup.procs``) or threads (``tasks``, ``cgroup.threads``)."""
        return [int(line) for line in self.read(group, file).split()]


def find(proc: Path = PROC) -> CgroupHierarchy:
    """The hierarchy that has the cpuset controller; raises ``IsolationError`` if there is none."""
    homes = _homes((proc / "self/cgroup").read_text())
    unified: Path | None = None
    for line in (proc / "self/mounts").read_text().splitlines():
        _, mount, kind, options, *_ = line.split()
        if kind == "cgroup" and "cpuset" in options.split(","):
            return CgroupHierarchy(Path(mount), 1, homes.get("cpuset", "/"))
        if kind == "cgroup2" and unified is None:
            unified = Path(mount)
    if unified is None:
        raise IsolationError("no control groups are mounted", "mount -t cgroup2 none /sys/fs/cgroup")
    found = CgroupHierarchy(unified, 2, homes.get("", "/"))
    if "cpuset" not in found.read("/", "cgroup.controllers").split():
        raise IsolationError(
            f"the control groups at {unified} do not have the cpuset controller",
            "in a container: share the host's control groups (--cgroupns=host), and delegate cpuset to it",
        )
    return found


def unified(proc: Path = PROC) -> CgroupHierarchy:
    """The hierarchy of version 2, whatever controllers it has; raises ``IsolationError`` if there is none."""
    homes = _homes((proc / "self/cgroup").read_text())
    for line in (proc / "self/mounts").read_text().splitlines():
        _, mount, kind, *_ = line.split()
        if kind == "cgroup2":
            return CgroupHierarchy(Path(mount), 2, homes.get("", "/"))
    raise IsolationError(
        "no control groups of version 2 are mounted",
        "ip netns exec hides them: use nsenter --net=/run/netns/NAME; otherwise mount -t cgroup2 none "
        "/sys/fs/cgroup (or a folder in it)",
    )


def cpu_list(cpus: Iterable[int]) -> str:
    """CPU numbers in the kernel's list format."""
    return ",".join(map(str, sorted(cpus)))


def is_kernel_thread(number: int, proc: Path = PROC) -> bool:
    """Whether a process or thread is a kernel thread; False if it has ended."""
    try:
        # The name in parentheses may contain anything.
        fields = (proc / str(number) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return bool(int(fields[6]) & _IS_KERNEL_THREAD)


def refusal(error: OSError) -> IsolationError:
    """Explain the kernel's refusal."""
    where = f"{error.filename}: " if error.filename else ""
    if error.errno == errno.EROFS:
        remedy = "in a container: mount the host's control groups read-write (--cgroupns=host --privileged)"
    elif error.errno == errno.EBUSY:
        remedy = "delegate the cpuset controller to this container, or run outside of it"
    elif error.errno == errno.EINVAL:
        remedy = "see which control group has these CPUs to itself (cpuset.cpus.exclusive), and remove that"
    else:
        remedy = way_out(error)
    return IsolationError(f"{where}{error.strerror}", remedy)


def _homes(text: str) -> dict[str, str]:
    """Group of a process by controller, from /proc/PID/cgroup; that of version 2 under the empty name."""
    homes: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, group = line.split(":", 2)
        homes |= dict.fromkeys(controllers.split(","), group)
    return homes


@dataclass(frozen=True)
class LegacyGroup:
    """The groups of version 1 that keep CPUs free; kept in the journal.

    Nothing has to join anything here: the root group keeps the right to all CPUs, with this process and the
    kernel's threads in it, so whatever could be bound to a CPU before still can. Everything else in the root
    group moves to ``weir-IDENTIFIER-rest``, which has the other CPUs, and moves back at the end. Threads that
    were bound to some CPUs on purpose stay, because the kernel would forget their affinity.

    ``weir-IDENTIFIER`` has the measuring CPUs to itself among its siblings (``cpu_exclusive``), so no other
    group can be made with them. Load balancing stays on in the root group. Without it the threads that
    cannot be moved would be stuck on the measuring CPUs, behind a sender that never sleeps.

    Source: Documentation/admin-guide/cgroup-v1/cpusets.rst of the kernel.
    """

    group: str

    @property
    def rest(self) -> str:
        return f"{self.group}-rest"

    def to_json(self) -> dict[str, Any]:
        return {"version": 1, **vars(self)}


def plan_legacy(groups: CgroupHierarchy, group: str) -> LegacyGroup:
    """Plan what :func:`make` will do; raises ``IsolationError`` if it must not be done."""
    if groups.home != "/":
        raise IsolationError(
            f"this process is in the cpuset {groups.home}, and only the root's members can be moved",
            "run it outside of that group",
        )
    return LegacyGroup(group)


def make_legacy(
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


def undo_legacy(groups: CgroupHierarchy, what: LegacyGroup) -> bool:
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
