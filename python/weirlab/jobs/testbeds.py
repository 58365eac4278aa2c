"""From a scenario's sections to a test bed that is ready."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Final, Literal

from weirlab.errors import InputError, MissingCapability
from weirlab.jobs.progress import Progress
from weirlab.lab.base import TestBed
from weirlab.scenario import NO_DEVICE, Dut, Lab

BUSY_LOAD: Final = 0.5
"""Load average per CPU from which on other work will disturb trials."""


def tell_if_busy(lab: str, progress: Progress) -> None:
    """Tell when a real ``lab`` (``netns``) is to work on a machine that is not free; trials show that."""
    cpus = os.cpu_count() or 1
    load = os.getloadavg()[0]
    if lab != "sim" and load > BUSY_LOAD * cpus:
        progress.note(
            f"load average {load:.2f} on {cpus} CPUs over the last minute: other work than Weir's spoils "
            "trials, which are then repeated; best let it finish first"
        )


def choose(lab: Lab, dut: Dut, progress: Progress) -> Literal["netns", "sim"]:
    """Which lab is meant. ``auto`` is ``netns`` where that works and else ``sim``, which is said.

    Raises
    ------
    MissingCapability, InputError
        The simulated lab would have to stand in for the user's own rules, or for a cable.
    """
    if lab.kind == "netns":
        return "netns"
    missing = _missing() if lab.kind == "auto" else None
    if lab.kind == "auto" and missing is None:
        return "netns"
    if dut.name in ("ruleset", NO_DEVICE):
        if lab.kind == "auto":
            raise MissingCapability(
                f"the device {dut.name!r} needs network namespaces, which do not work here ({missing}): "
                "run as root (sudo); weir doctor says more"
            )
        raise InputError(f"the simulated lab cannot stand in for the device {dut.name!r}; use --lab netns")
    if lab.kind == "auto":
        progress.note(
            f"network namespaces do not work here ({missing}): a simulated device stands in for "
            f"{dut.name}; run as root to measure the real one"
        )
    return "sim"


def _missing() -> str | None:
    """Why the namespaces lab does not work here; root alone does not settle it in a container."""
    from weirlab.lab.doctor import missing_for_namespaces

    return missing_for_namespaces()


def open_bed(lab: Lab, dut: Dut, progress: Progress) -> TestBed:
    """Build the test bed; use it as a context manager.

    Raises
    ------
    MissingCapability, LabError, InputError
        As the lab and the driver say.
    """
    if choose(lab, dut, progress) == "sim":
        from weirlab.lab.sim import SimDevice, SimLab

        return SimLab(SimDevice(**lab.device.model_dump()))
    if dut.name == NO_DEVICE:
        return open_cable(lab)
    from weirlab.lab.dut import make
    from weirlab.lab.netns import NetnsLab

    return NetnsLab(make(dut.name, dut.ruleset), backend=lab.backend)


def open_cable(lab: Lab) -> TestBed:
    """A plain veth pair without a device."""
    from weirlab.lab.netns import PlainPair

    return PlainPair(backend=lab.backend)


def facts(bed: TestBed, command: str = "") -> dict[str, Any]:
    """What the manifest says about ``bed``, and the ``command`` that the user gave."""
    known: dict[str, Any] = {"lab": bed.lab, "dut": bed.dut, "backend": bed.backend, **bed.facts}
    return {**known, "command": command} if command else known


def require_same(bed: TestBed, recorded: Mapping[str, Any], run_id: str) -> None:
    """Refuse to go on with a run in another lab or with another device than it was begun with."""
    for what, now in (("lab", bed.lab), ("dut", bed.dut), ("backend", bed.backend)):
        before = recorded.get(what, now)
        if before != now:
            raise InputError(
                f"run {run_id} was begun with the {what} {before!r} and here it would be {now!r}; "
                "go on where it was begun (same machine, same privileges), or start a new run"
            )
