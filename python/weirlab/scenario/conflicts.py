"""Keys of a scenario that are valid by themselves but not together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weirlab.scenario.document import Location
from weirlab.scenario.model import Dut

Conflict = tuple[Location, str]

OWN_RULES: Final = ("ruleset", "image")
"""Devices that come with their own rules."""


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
    if dut.name == "image" and dut.stateful:
        yield ("dut", "stateful"), "the device 'image' has its own rules: leave it out"
    if dut.name == "ruleset":
        if dut.ruleset is None:
            yield ("dut",), "the device 'ruleset' needs the key 'ruleset' with the path of a file"
        return
    for key in ("ruleset", "match", "include", "ipset"):
        if getattr(dut, key):
            yield ("dut", key), f"goes with the device 'ruleset', not with {dut.name!r}"
