"""Plans the calls of a proof: each test number, and again while its preferred engine fails. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from weirlab.numbering.configs.named import servers
from weirlab.numbering.lab.endpoints import one_call
from weirlab.numbering.lab.engines import OFF, Fault, impossible
from weirlab.numbering.plan.model import Test
from weirlab.numbering.routing import CallRoute, PlanNetwork
from weirlab.numbering.routing.calls import MOST_WAYS, calls


@dataclass(frozen=True)
class ProofCall:
    """A call, and what the plan expects of it."""

    index: int
    test: Test
    caller: str
    way: CallRoute
    down: str | None = None
    """The engine or name server that fails during the call."""
    fault: Fault = OFF
    """How it fails."""
    impossible: str = ""
    """Why the call cannot be made here; empty if it can."""
    tried: tuple[tuple[str, str], ...] = ()
    """Engines that get the call before the one that answers, each with its expected answer on the wire."""

    @property
    def answer(self) -> int:
        """The final answer to the caller; a busy callee has answered, so nothing else is tried."""
        return int(self.fault) if self.fault == "486" else self.way.answer

    @property
    def answered(self) -> bool:
        return self.way.end.kind == "answered" and self.answer == self.way.answer

    @property
    def decisions(self) -> dict[str, str]:
        """What each engine on the way decides by: ``static`` for a route, otherwise a tree."""
        found: dict[str, str] = {}
        for step in self.way.steps:
            if step.what in ("prefix", "record"):
                by = "static" if step.what == "prefix" else str(step.facts["tree"])
                found.setdefault(step.engine, by)
        return found

    @property
    def codecs(self) -> tuple[str | None, ...]:
        """The codec of every leg; None if the plan does not determine it."""
        return tuple(step.facts["codec"] for step in self.way.steps if step.what == "leg")


NO_TESTS: Final = "the plan has no test numbers; list some under tests: with the result expected of each call"


def planned(network: PlanNetwork, *, fall_back: bool) -> list[ProofCall]:
    """The calls in order; calls with a failure follow the same call without one."""
    found: list[ProofCall] = []
    for test in network.plan.tests:
        caller = test.caller or network.plan.caller
        ways = [*islice(calls(network, test.number, caller, test.meanwhile), MOST_WAYS)]
        first = next((way for way in ways if way.end.good), ways[0])
        found.append(_planned(network, len(found), test, caller, first))
        if fall_back and first.end.good:
            for down, fault, way in _failing(network, first, ways):
                found.append(_planned(network, len(found), test, caller, way, down, fault))
    if fall_back:
        found += _without_primary(network, found)
    return found


def _failing(
    network: PlanNetwork, first: CallRoute, ways: list[CallRoute]
) -> Iterator[tuple[str, Fault, CallRoute]]:
    """Engines of the planned way that the next way avoids: name, fault, and the way during that fault."""
    for way in ways[ways.index(first) + 1 :]:
        if way.end.good:
            down = next((name for name in first.engines if name not in way.engines), None)
            if down is None:
                continue
            yield down, OFF, way
            engine = network.plan.engines[down]
            refuses = {"sip", "h323"}.intersection(engine.speaks)
            if engine.kind == "endpoint" and refuses and down == first.engines[-1]:
                yield down, "503", way
                yield down, "486", first
            return


def _without_primary(network: PlanNetwork, found: list[ProofCall]) -> Iterator[ProofCall]:
    """The first call that a tree decides, while only the secondary name servers are up."""
    primary, *others = servers(network) or (None,)
    if primary is None or not others:
        return
    for each in found:
        if (
            each.answered
            and each.down is None
            and not each.impossible
            and each.way.decided_by not in (None, "static")
        ):
            yield _planned(network, len(found), each.test, each.caller, each.way, primary.name)
            return


def _planned(
    network: PlanNetwork,
    index: int,
    test: Test,
    caller: str,
    way: CallRoute,
    down: str | None = None,
    fault: Fault = OFF,
) -> ProofCall:
    why = ""
    if way.end.kind == "external":
        why = f"it leaves the plan ({way.end.facts['uri']}), where nothing answers"
    elif way.engines[-1] == caller and len(way.engines) > 1:
        why = f"{caller} calls itself"
    elif test.meanwhile:
        why = one_call(network, caller)
    for name in dict.fromkeys((caller, *way.engines)):
        if lacking := impossible(network.plan.engines[name]):
            why = f"the lab has no program for {name}: {lacking}"
            break
    return ProofCall(index, test, caller, way, down, fault, why, tuple(_tried(network, way, down, fault)))


def _tried(network: PlanNetwork, way: CallRoute, down: str | None, fault: Fault) -> Iterator[tuple[str, str]]:
    yield from ((step.engine, "302") for step in way.steps if step.what == "forwarded")
    failing = network.plan.engines.get(down or "")
    # A busy callee has answered; without a connection, no message is sent.
    if down is None or failing is None or fault == "486" or failing.transport != "udp":
        return
    if fault != OFF or "sip" in failing.speaks or "mgcp" in failing.speaks:
        yield down, "no answer" if fault == OFF else fault
