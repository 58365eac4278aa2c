"""Calls that reach a carrier, who is paid for them, although they should not."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from weirlab.numbering.checking.callers import telephones
from weirlab.numbering.checking.findings import PlanFinding, named, warning
from weirlab.numbering.checking.routes import can_walk, example
from weirlab.numbering.plan.values import Protocol
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import Arrival, arrivals, calls
from weirlab.scenario.document import Location

_MOST_NUMBERS: Final = 200
"""Numbers whose calls a check traces; in a plan with many routes, the first ones."""


def numbers(network: PlanNetwork) -> list[str]:
    """The test numbers, then one for each route and each prefix of a tree, as far as checks trace them."""
    found = dict.fromkeys(test.number for test in network.plan.tests)
    tables = [*network.routes.values(), *(tree.prefixes for tree in network.trees.values())]
    examples = (
        example(network, prefix, prefixes.free_continuation(prefix))
        for prefixes in tables
        for prefix in prefixes
    )
    return [*dict.fromkeys((*found, *filter(None, islice(examples, _MOST_NUMBERS))))][:_MOST_NUMBERS]


def relays(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Engines that lead to a carrier take calls only from neighbours that send them some."""
    plan = network.plan
    if not can_walk(network) or network.scope is not None or not plan.ranges:
        return
    tried = numbers(network)
    found: dict[str, tuple[str, str]] = {}
    for name, engine in plan.engines.items():
        for number in tried if engine.kind in ("proxy", "gateway") else ():
            if (carrier := _carrier(network, name, number)) is not None:
                found[name] = number, carrier
                break
    ways = (way for name in (telephones(network) if found else ()) for number in tried
            for way in islice(calls(network, number, name), 1))  # fmt: skip
    legs = {(step.engine, step.facts["to"]) for way in ways for step in way.steps if step.what == "leg"}
    told: set[Location] = set()
    for name, (number, carrier) in found.items():
        engine, rule = plan.engines[name], network.admission(name)
        alike = [each for each in plan.engines if network.admission(each) == rule]
        near = {plan.engines[at].organisation for at, to in legs if to in alike}
        routing = {each.organisation for each in plan.engines.values() if each.kind != "endpoint"}
        known = {*near, engine.organisation}
        strangers = [each for each in network.admitted(engine) or () if each in routing - known]
        if rule in told or (network.admitted(engine) is not None and not strangers):
            continue
        told.update([rule] if strangers else [])
        reason = f"{name} takes calls from any address"
        if strangers:
            reason = f"{name} admits engines of {named(strangers)}, which send it no calls in this plan"
        wanted = {plan.engines[at].organisation for at, to in legs if to == name} - {engine.organisation}
        yield warning(
            "open relay",
            network.book.at(*(rule if strangers else ("engines", name))),
            f"{reason}, and sends those to {number} on to {carrier}",
            f"set admits: [{', '.join(sorted(filter(None, wanted)))}] at {name}, so that it takes calls only "
            "from these organisations and its own; others call a proxy without a way to a carrier",
        )


def _carrier(network: PlanNetwork, at: str, number: str) -> str | None:
    """The endpoint of others, or the host, that gets a number from ``at`` that nobody on the way owns."""
    engine, owner = network.plan.engines[at], network.owner(number.removeprefix("+"))
    # Gateways refuse SIP from addresses that they do not know.
    arriving: Protocol = "sip" if engine.kind == "proxy" else "h323"
    if not number.startswith("+") or arriving not in engine.speaks:
        return None
    for way in islice(arrivals(network, Arrival(at, number, arriving, None, None)), 1):
        if way.end.kind == "external" and owner is None:
            by = next((step.facts["tree"] for step in way.steps if step.what == "record"), "")
            return str(way.end.facts["host"]) if network.plan.trees[by].visibility == "private" else None
        carrier = network.plan.engines[way.end.engine].organisation
        passed = {network.plan.engines[name].organisation for name in way.engines}
        if way.end.kind == "answered" and carrier != engine.organisation and owner not in passed - {None}:
            return way.end.engine
    return None
