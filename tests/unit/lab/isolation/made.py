"""Control groups as plain files, which change as the kernel changes them."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from weirlab.lab.isolation.groups import CgroupHierarchy

_OF_EVERY_GROUP = {
    1: ("tasks", "cpuset.cpus", "cpuset.mems", "cpuset.cpu_exclusive", "cpuset.sched_load_balance"),
    2: ("cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "cgroup.type"),
}
_OF_CPUSET = ("cpuset.cpus", "cpuset.mems", "cpuset.cpus.exclusive", "cpuset.cpus.partition")
_MEMBERS = ("tasks", "cgroup.procs", "cgroup.threads")


@dataclass(frozen=True)
class FakeGroups(CgroupHierarchy):
    """``refused`` has the error by the file and the value that is written to it."""

    refused: dict[tuple[str, str], int] = field(default_factory=dict)
    without: frozenset[str] = frozenset()
    """Files that this kernel does not know."""
    said: dict[str, str] = field(default_factory=dict)
    """What the kernel makes of a value of cpuset.cpus.partition."""
    log: list[tuple[str, str, str]] = field(default_factory=list)

    def make(self, group: str) -> None:
        super().make(group)
        for name in _OF_EVERY_GROUP[self.version]:
            self.path(group, name).write_text("")
        if self.version == 2 and "cpuset" in self.read(str(Path(group).parent), "cgroup.subtree_control"):
            self._control(group)

    def remove(self, group: str) -> None:
        if any(self.members(group, name) for name in _MEMBERS if self.path(group, name).exists()):
            raise OSError(errno.EBUSY, "Device or resource busy", str(self.path(group)))
        for entry in list(self.path(group).iterdir()):
            if entry.is_file():
                entry.unlink()
        super().remove(group)

    def write(self, group: str, file: str, value: object) -> None:
        path, text = self.path(group, file), str(value)
        if not path.exists():
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", str(path))
        if number := self.refused.get((file, text)):
            raise OSError(number, "refused", str(path))
        self.log.append((group.strip("/"), file, text))
        if file in _MEMBERS:
            self._move(text, path)
        elif file == "cgroup.subtree_control":
            names = set(path.read_text().split())
            (names.add if text[0] == "+" else names.discard)(text[1:])
            path.write_text(" ".join(sorted(names)))
            if text == "+cpuset":
                for child in self.children(group):
                    self._control(f"{group.rstrip('/')}/{child}")
        elif file == "cpuset.cpus.partition":
            path.write_text(self.said.get(text, text))
        else:
            path.write_text(text)

    def _control(self, group: str) -> None:
        for name in _OF_CPUSET:
            if name not in self.without and not self.path(group, name).exists():
                self.path(group, name).write_text("member" if name.endswith("partition") else "")

    def _move(self, member: str, path: Path) -> None:
        kinds = ("tasks",) if self.version == 1 else ("cgroup.procs", "cgroup.threads")
        # A thread that joins a group stays a member of its process's group.
        left = kinds if path.name in ("tasks", "cgroup.procs") else ("cgroup.threads",)
        for name in left:
            for each in self.mount.rglob(name):
                each.write_text("\n".join(line for line in each.read_text().split() if line != member))
        path.write_text("\n".join([*path.read_text().split(), member]))


def unified(mount: Path, *, home: str = "/user.slice", enabled: bool = False, **how: object) -> FakeGroups:
    """A machine with control groups of version 2, and a process in ``home``."""
    mount.mkdir(exist_ok=True)
    (mount / "cgroup.controllers").write_text("cpuset cpu memory")
    (mount / "cgroup.subtree_control").write_text("cpu memory cpuset" if enabled else "cpu memory")
    (mount / "cgroup.procs").write_text("")
    (mount / "cpuset.cpus.effective").write_text("0-3")
    groups = FakeGroups(mount, 2, home, **how)  # type: ignore[arg-type]
    if home != "/":
        groups.make(home)
    return groups


def legacy(mount: Path, tasks: Iterable[int] = (), *, home: str = "/", **how: object) -> FakeGroups:
    """A machine with control groups of version 1, and ``tasks`` in the root group."""
    mount.mkdir(exist_ok=True)
    (mount / "cpuset.cpus").write_text("0-3")
    (mount / "cpuset.mems").write_text("0")
    (mount / "tasks").write_text("\n".join(map(str, tasks)))
    return FakeGroups(mount, 1, home, **how)  # type: ignore[arg-type]


def everything(groups: FakeGroups) -> dict[str, str]:
    """All files by their path."""
    return {
        str(path.relative_to(groups.mount)): path.read_text()
        for path in sorted(groups.mount.rglob("*"))
        if path.is_file()
    }
