"""Keys of a scenario that are valid by themselves but not together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weirlab.scenario.document import Location
from weirlab.scenario.model import BLACK_BOX, NO_DEVICE, Dut, Lab

Conflict = tuple[Location, str]

OWN_RULES: Final = ("ruleset", "image", BLACK_BOX)
"""Devices that come with their own rules."""


def of_lab(lab: Lab, dut: Dut) -> Iterator[Conflict]:
    """Conflicts between the lab and the device."""
    if why := misplaced(lab.kind, dut.name):
        yield ("dut", "name"), why


def misplaced(lab: str, device: str) -> str:
    """Why there cannot be such a device in a lab of that kind; empty if there can."""
    if lab == "wired" and device not in (BLACK_BOX, NO_DEVICE):
        return (
            f"the lab 'wired' has your own device between its ports, so it cannot build {device!r}: leave "
            f"the device out, or write {NO_DEVICE!r} for a patch cable"
        )
    if lab != "wired" and device == BLACK_BOX:
        return "your own device is between two ports of this machine: --lab wired --between A B"
    return ""


def of_device(dut: Dut, position_lists: Iterator[tuple[Location, tuple[int, ...]]]) -> Iterator[Conflict]:
    """Conflicts between the device, its file and the requested positions."""
    if dut.image is not None and dut.name != "image":
        yield ("dut", "image"), f"goes with the device 'image', not with {dut.name!r}"
    if dut.name == "image" and dut.image is None:
        yield ("dut",), "the device 'image' needs the key 'image' with the path of a file"
        return
    if dut.name in OWN_RULES:
        for loc, positions in position_lists:
            if positions != (0,):
                yield loc, f"the device {dut.name!r} has its own rules: write 'positions: [0]'"
    if dut.name in ("image", BLACK_BOX) and dut.stateful:
        yield ("dut", "stateful"), f"the device {dut.name!r} has its own rules: leave it out"
    if dut.name == "ruleset":
        if dut.ruleset is None:
            yield ("dut",), "the device 'ruleset' needs the key 'ruleset' with the path of a file"
        return
    for key in ("ruleset", "match", "include", "ipset"):
        if getattr(dut, key):
            yield ("dut", key), f"goes with the device 'ruleset', not with {dut.name!r}"
