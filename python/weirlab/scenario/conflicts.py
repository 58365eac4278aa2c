"""Keys of a profile's scenario that are right by themselves but do not go together."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.errors import InputError
from weirlab.scenario.document import Location
from weirlab.scenario.model import Dut, Scenario
from weirlab.traffic.flows import describe_headers, min_frame_bytes
from weirlab.traffic.sizes import parse_sizes, validate
from weirlab.traffic.spec import Flows

Conflict = tuple[Location, str]


def of_profile(scenario: Scenario) -> Iterator[Conflict]:
    """Every conflict in a scenario with a profile."""
    yield from of_device(scenario.dut, _position_lists(scenario))
    traffic, profile = scenario.traffic, scenario.profile
    if scenario.dut.name == "ruleset":
        if profile.mixed:
            yield ("profile", "mixed"), "the device 'ruleset' has its own rules: leave it out"
        if profile.position_step:
            yield ("profile", "position_step"), "the device 'ruleset' has its own rules: leave it out"
    if profile.stateful and scenario.dut.stateful not in profile.stateful:
        yield ("profile", "stateful"), "write [false, true] to compare, or 'stateful: true' below 'dut'"
    if profile.arrivals and traffic.arrivals not in profile.arrivals:
        yield ("profile", "arrivals"), f"must have {traffic.arrivals!r} in it, which 'traffic' asks for"
    flows = Flows(traffic.flows, traffic.l4, traffic.ip, traffic.order, traffic.seed)
    smallest = min_frame_bytes(flows)
    for loc, sizes in _size_lists(scenario):
        for i, text in enumerate(sizes):
            try:
                validate(parse_sizes(text), smallest, describe_headers(flows))
            except InputError as error:
                yield (*loc, i), str(error)


def of_device(dut: Dut, position_lists: Iterator[tuple[Location, tuple[int, ...]]]) -> Iterator[Conflict]:
    """Conflicts between the device, its ruleset and the positions asked for."""
    if dut.name == "ruleset":
        if dut.ruleset is None:
            yield ("dut",), "the device 'ruleset' needs the key 'ruleset' with the path of a file"
        for loc, positions in position_lists:
            if positions != (0,):
                yield loc, "the device 'ruleset' has its own rules: write 'positions: [0]'"
        return
    for key in ("ruleset", "match"):
        if getattr(dut, key) is not None:
            yield ("dut", key), f"goes with the device 'ruleset', not with {dut.name!r}"


def _position_lists(scenario: Scenario) -> Iterator[tuple[Location, tuple[int, ...]]]:
    yield ("profile", "positions"), scenario.profile.positions
    for i, held_out in enumerate(scenario.verify):
        yield ("verify", i, "positions"), held_out.positions


def _size_lists(scenario: Scenario) -> Iterator[tuple[Location, tuple[str, ...]]]:
    yield ("profile", "sizes"), scenario.profile.sizes
    for i, held_out in enumerate(scenario.verify):
        yield ("verify", i, "sizes"), held_out.sizes
