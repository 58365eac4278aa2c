"""Admission rules that no engine enforces."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from weirlab.numbering.checking.findings import PlanFinding, warning
from weirlab.numbering.checking.ways import can_walk, example
from weirlab.numbering.plan.model import Engine
from weirlab.numbering.routing import CallRoute, PlanNetwork
from weirlab.numbering.routing.calls import calls

_MOST_NUMBERS: Final = 200
"""Numbers whose calls this check traces; in a plan with many routes, the first ones."""
_MOST_WAYS: Final = 8


def unenforced(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Engines know callers by the source address of a call, which may be that of another engine."""
    if all(organisation.admits is None for organisation in network.plan.organisations.values()):
        return
    if not can_walk(network):
        return
    told: set[tuple[str, str, str]] = set()
    numbers = [*islice(_numbers(network), _MOST_NUMBERS)]
    for name in _callers(network):
        caller = network.plan.engines[name]
        for number in numbers:
            for way in islice(calls(network, number, name), _MOST_WAYS):
                if way.end.kind != "not admitted" or _refuses(network, caller, way):
                    continue
                here, there = way.engines[-2:]
                about = (caller.organisation or "", here, there)
                if about not in told:
                    told.add(about)
                    yield _unseen(network, name, *about, number)


def _callers(network: PlanNetwork) -> list[str]:
    """One endpoint of each organisation for each home and protocol."""
    found: dict[tuple[object, ...], str] = {}
    for name, engine in network.plan.engines.items():
        if engine.kind == "endpoint" and engine.home is not None and engine.organisation is not None:
            found.setdefault((engine.organisation, engine.home, engine.speaks), name)
    return [*found.values()]


def _numbers(network: PlanNetwork) -> Iterator[str]:
    """The test numbers, then one for each route."""
    yield from dict.fromkeys(test.number for test in network.plan.tests)
    for prefixes in network.routes.values():
        for prefix in prefixes:
            if (number := example(network, prefix, prefixes.free_continuation(prefix))) is not None:
                yield number


def _refuses(network: PlanNetwork, caller: Engine, way: CallRoute) -> bool:
    """Does the engine that must refuse a call know whose call it is?

    It knows its own callers. Gatekeepers tell each other which telephone asks, and the telephone then
    calls the gateway directly.
    """
    end = network.plan.engines[way.end.engine]
    if end.kind == "endpoint":
        return False
    between = {network.plan.engines[name].kind for name in way.engines[1:-1]}
    asked = caller.speaks[0] == "h323" and between == {"gatekeeper"} and end.kind != "proxy"
    return not between or asked


def _unseen(
    network: PlanNetwork, caller: str, organisation: str, here: str, there: str, number: str
) -> PlanFinding:
    by = network.plan.engines[there].organisation or ""
    if network.plan.engines[there].kind == "endpoint":
        reason = f"{there} is an endpoint and accepts every call"
    else:
        reason = f"{there} takes it for a call from {here}"
    return warning(
        "not enforced",
        network.book.at("organisations", by, "admits"),
        f"{by} does not admit {organisation}, but a call from {caller} to {number} reaches {there} through "
        f"{here}: {reason}",
        f"bar these numbers for {organisation}: the home of {caller} then rejects the calls",
    )
