"""What a killed command may have changed on the machine: priorities, CPUs, control groups, settings."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_REAL_TIME = (os.SCHED_FIFO, os.SCHED_RR)
_NAPI = "napi/"
_SETTINGS = (
    "/proc/sys/kernel/sched_*", "/proc/sys/net/core/*", "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/net/ipv[46]/conf/all/*", "/proc/sys/net/ipv[46]/conf/default/*",
    "/proc/sys/net/netfilter/nf_conntrack_max", "/proc/sys/vm/percpu_pagelist_high_fraction",
    "/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched/fair_server/cpu*/*",
    "/sys/devices/virtual/workqueue/cpumask", "/sys/fs/cgroup/cgroup.subtree_control",
    "/sys/fs/cgroup/unified/cgroup.subtree_control", "/sys/fs/cgroup/cpuset/cpuset.*",
)  # fmt: skip
_MOMENTARY = ("cpuset.memory_pressure",)
_GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpuset")
_PATIENCE_S = 3.0
_LOOK_S = 0.2

Thread = tuple[int, int]
"""Number and time of its start: numbers come again."""


@dataclass(frozen=True)
class State:
    """The machine at one moment."""

    affinity: dict[Thread, frozenset[int]]
    real_time: dict[Thread, str]
    """Names of the threads with a real-time policy."""
    settings: dict[str, str]

    @classmethod
    def now(cls) -> State:
        affinity: dict[Thread, frozenset[int]] = {}
        real_time: dict[Thread, str] = {}
        for thread, folder in _threads():
            # It may end while we look.
            with suppress(OSError):
                number = thread[0]
                affinity[thread] = frozenset(os.sched_getaffinity(number))
                if os.sched_getscheduler(number) in _REAL_TIME:
                    real_time[thread] = (folder / "comm").read_text().strip()
        return cls(affinity, real_time, dict(_settings()))


def changes(before: State, labs: set[str]) -> list[str]:
    """What is not as it was, in words; waits for a moment, since others work on this machine as well.

    ``labs`` are the identifiers of those that have been killed.
    """
    end_s = time.monotonic() + _PATIENCE_S
    while (found := [*_changed(before), *_groups(labs)]) and time.monotonic() < end_s:
        time.sleep(_LOOK_S)
    return found


def _changed(before: State) -> Iterator[str]:
    now = State.now()
    others = _other_labs()
    for thread, name in now.real_time.items():
        # The threads of a device that somebody else is measuring just now are none of ours.
        if thread not in before.real_time and not (name.startswith(_NAPI) and others):
            yield f"real-time thread {thread[0]} ({name})"
    for thread, cpus in before.affinity.items():
        if now.affinity.get(thread, cpus) != cpus and not others:
            yield f"thread {thread[0]} may use CPUs {sorted(now.affinity[thread])}, was {sorted(cpus)}"
    for path, value in before.settings.items():
        if (found := now.settings.get(path)) != value:
            yield f"{path} is {found!r}, was {value!r}"


def _groups(labs: set[str]) -> Iterator[str]:
    for lab in labs:
        for mount in map(Path, _GROUPS):
            yield from (f"control group {path}" for path in mount.glob(f"weir-{lab}*"))
        if (journal := Path(f"/run/weir/{lab}.cpuset")).exists():
            yield f"journal {journal}"


def _threads() -> Iterator[tuple[Thread, Path]]:
    for process in _PROC.glob("[0-9]*"):
        for folder in process.glob("task/[0-9]*"):
            with suppress(OSError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                yield (int(folder.name), int(fields[19])), folder


def _settings() -> Iterator[tuple[str, str]]:
    for pattern in _SETTINGS:
        for path in Path("/").glob(pattern.lstrip("/")):
            if path.name not in _MOMENTARY:
                with suppress(OSError, ValueError):
                    yield str(path), path.read_text()


def _other_labs() -> bool:
    """Is a test bed open on this machine? The killed ones are gone by now."""
    return any(Path("/run/weir").glob("*.lock"))
