"""Keys of a scenario that are valid by themselves but not together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weirlab.scenario.document import Location
from weirlab.scenario.model import BLACK_BOX, NO_DEVICE, Dut, Lab

Conflict = tuple[Location, str]


def of_lab(lab: Lab, dut: Dut) -> Iterator[Conflict]:
    """Conflicts between the lab and the device."""
    for key, why in misplaced(lab.kind, dut):
        yield ("dut", key), why


ONE_CPU: Final = (
    "only simulated devices have several CPUs: --lab sim. For a profiled device: weir predict --dut-cpus"
)


def misplaced(lab: str, dut: Dut) -> Iterator[tuple[str, str]]:
    """Which keys of a device do not fit a lab of that kind, or each other, and why."""
    from weirlab.lab.remote.filters import FILTERS

    if dut.cpus > 1 and lab in ("netns", "wired"):
        yield "cpus", ONE_CPU
    if lab != "wired":
        if dut.elsewhere or not _built(dut.name):
            yield "name", "your own device is between two ports of this machine: --lab wired --between A B"
        return
    if not dut.elsewhere:
        if dut.name != NO_DEVICE:
            yield (
                "name",
                f"the lab 'wired' has your own device between its ports, so it cannot build {dut.name!r}: "
                f"leave the device out, write {NO_DEVICE!r} for a patch cable, or say how the rules of your "
                "device are set (at, change)",
            )
    elif dut.change == "rules" and dut.at is None:
        yield "change", "Weir sets rules through a login, which is missing: ssh://user@host (at)"
    elif dut.change == "rules" and dut.name not in FILTERS:
        yield "name", f"for Weir to set rules there, name the filter of the device: {', '.join(FILTERS)}"
    elif dut.name not in (BLACK_BOX, *FILTERS):
        yield "name", f"a device of your own is called {BLACK_BOX!r}, or by its filter: {', '.join(FILTERS)}"
    elif dut.ports and dut.at is None:
        yield "ports", "its ports are only looked at through a login, which is missing: ssh://user@host (at)"


def _built(name: str) -> bool:
    from weirlab.lab.dut import known

    return name == NO_DEVICE or known(name)


def of_device(dut: Dut, position_lists: Iterator[tuple[Location, tuple[int, ...]]]) -> Iterator[Conflict]:
    """Conflicts between the device, its file and the requested positions."""
    if dut.image is not None and dut.name != "image":
        yield ("dut", "image"), f"goes with the device 'image', not with {dut.name!r}"
    if dut.name == "image" and dut.image is None:
        yield ("dut",), "the device 'image' needs the key 'image' with the path of a file"
        return
    if dut.has_own_rules:
        for loc, positions in position_lists:
            if positions != (0,):
                yield loc, f"the device {dut.name!r} has its own rules: write 'positions: [0]'"
    if dut.has_own_rules and dut.name != "ruleset" and dut.stateful:
        yield ("dut", "stateful"), f"the device {dut.name!r} has its own rules: leave it out"
    if dut.name == "ruleset":
        if dut.ruleset is None:
            yield ("dut",), "the device 'ruleset' needs the key 'ruleset' with the path of a file"
        return
    for key in ("ruleset", "match", "include", "ipset"):
        if getattr(dut, key):
            yield ("dut", key), f"goes with the device 'ruleset', not with {dut.name!r}"
