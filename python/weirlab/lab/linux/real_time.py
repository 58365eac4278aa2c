"""Whether threads may have real-time priority (SCHED_FIFO), and if not, why."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final

from weirlab.lab.linux.namespace import in_thread

_PROC: Final = Path("/proc")
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
    if not _has_sys_nice(proc):
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


def _has_sys_nice(proc: Path) -> bool:
    match = re.search(r"^CapEff:\s*([0-9a-f]+)", (proc / "self/status").read_text(), re.M)
    return bool(match and int(match[1], 16) >> _CAP_SYS_NICE & 1)
