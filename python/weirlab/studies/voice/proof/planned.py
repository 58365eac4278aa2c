"""Which calls prove a plan: its test numbers, and each again without the engine preferred. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from weirlab.studies.voice.lab.engines import impossible
from weirlab.studies.voice.plan.model import Test
from weirlab.studies.voice.routing import Network, Way
from weirlab.studies.voice.routing.calls import MOST_WAYS, calls


@dataclass(frozen=True)
class Planned:
    """A call and what the plan says of it."""

    index: int
    test: Test
    caller: str
    way: Way
    down: str | None = None
    """An engine that is switched off meanwhile."""
    impossible: str = ""
    """Why it cannot be made here; empty if it can."""

    @property
    def answered(self) -> bool:
        return self.way.end.kind == "answered"

    @property
    def decisions(self) -> dict[str, str]:
        """By what each engine on the way decides: ``static`` for a route, else a tree."""
        found: dict[str, str] = {}
        for step in self.way.steps:
            if step.what in ("prefix", "record"):
                by = "static" if step.what == "prefix" else str(step.facts["tree"])
                found.setdefault(step.engine, by)
        return found

    @property
    def codecs(self) -> tuple[str | None, ...]:
        """Of every leg; None where the plan does not tell."""
        return tuple(step.facts["codec"] for step in self.way.steps if step.what == "leg")


NO_TESTS: Final = "the plan has no test numbers; list some under tests: with what a call to each must do"


def planned(network: Network, *, fall_back: bool) -> list[Planned]:
    """The calls in order; those that fall back come behind the one that does not."""
    found: list[Planned] = []
    for test in network.plan.tests:
        caller = test.caller or network.plan.caller
        ways = [*islice(calls(network, test.number, caller), MOST_WAYS)]
        first = next((way for way in ways if way.end.good), ways[0])
        found.append(_planned(network, len(found), test, caller, first))
        if fall_back and first.end.good:
            for down, way in _fall_backs(first, ways):
                found.append(_planned(network, len(found), test, caller, way, down))
    return found


def _fall_backs(first: Way, ways: list[Way]) -> Iterator[tuple[str, Way]]:
    """The engine that the planned way goes through and the next one does not; at most one."""
    for way in ways[ways.index(first) + 1 :]:
        if way.end.good:
            down = next((name for name in first.engines if name not in way.engines), None)
            if down is not None:
                yield down, way
                return


def _planned(
    network: Network, index: int, test: Test, caller: str, way: Way, down: str | None = None
) -> Planned:
    why = ""
    if way.end.kind == "external":
        why = f"it leaves the plan ({way.end.facts['uri']}), and nobody answers there"
    elif way.engines[-1] == caller and len(way.engines) > 1:
        why = f"{caller} calls itself"
    for name in dict.fromkeys((caller, *way.engines)):
        if lacking := impossible(network.plan.engines[name]):
            why = f"the lab has no program for {name}: {lacking}"
            break
    return Planned(index, test, caller, way, down, why)
