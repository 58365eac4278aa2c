"""Calls that reach a carrier, who is paid for them, although they should not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from weirlab.base.quantities import words
from weirlab.numbering.checking.callers import telephones
from weirlab.numbering.checking.findings import PlanFinding, line, named, warning
from weirlab.numbering.checking.routes import USUAL_DIGITS, can_walk, example
from weirlab.numbering.plan.model import Range
from weirlab.numbering.plan.values import Protocol
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import Arrival, arrivals, calls
from weirlab.numbering.routing.trees import Prefixes
from weirlab.scenario.document import Location

MOST_NUMBERS: Final = 200
"""Numbers whose calls a check traces."""
_MOST_WAYS: Final = 8


@dataclass(frozen=True)
class NumberSample:
    """Numbers whose calls are traced, out of all that the plan suggests."""

    numbers: list[str]
    of: int


def sample(network: PlanNetwork) -> NumberSample:
    """The test numbers, examples of all prefixes, and the edges of ranges; if they are many, a share of each.

    Of prefixes, short ones come first, because they take the most numbers.
    """
    tests = [*dict.fromkeys(test.number for test in network.plan.tests)]
    tables = [*network.routes.values(), *(tree.prefixes for tree in network.trees.values())]
    known: dict[str, Prefixes[int]] = {}
    for table in tables:
        known.update(dict.fromkeys(table, table))
    prefixes = sorted(known, key=lambda prefix: (len(prefix), prefix))
    edges = [*dict.fromkeys(edge for _, range_ in network.each_range() for edge in edges_of(range_))]
    left = max(0, MOST_NUMBERS - len(tests))
    share = max(left // 2, left - len(edges))
    chosen = spread(prefixes, share)
    examples = (example(network, each, known[each].free_continuation(each)) for each in chosen)
    edges_chosen = spread(edges, left - len(chosen))
    numbers = [*dict.fromkeys((*tests[:MOST_NUMBERS], *filter(None, examples), *edges_chosen))]
    every = len(tests) + len(prefixes) + len(edges)
    # Of few numbers, those that are the same count once.
    return NumberSample(numbers, every if every > MOST_NUMBERS else len(numbers))


def edges_of(range_: Range) -> tuple[str, ...]:
    """The first and the last number of a range, and the numbers next to them."""
    prefix = range_.prefix[1:]
    left = max(0, (range_.digits or USUAL_DIGITS) - len(prefix))
    first, last = int(prefix + "0" * left), int(prefix + "9" * left)
    return tuple(f"+{each}" for each in (first, last, first - 1, last + 1))


def spread(items: Sequence[str], most: int) -> list[str]:
    """At most ``most`` of ``items``, evenly: the first, the last, and some between them."""
    if len(items) <= most:
        return [*items]
    return [items[i * (len(items) - 1) // max(1, most - 1)] for i in range(most)]


def relays(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Engines that lead to a carrier take calls only from neighbours that send them some."""
    plan = network.plan
    if not can_walk(network) or network.scope is not None or not plan.ranges:
        return
    tried = sample(network).numbers
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
    yield from _transit(network, found, legs)
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
            f"from {'these organisations and ' if wanted - {None} else ''}its own; others call a proxy "
            "without a way to a carrier",
        )


def _transit(
    network: PlanNetwork, found: dict[str, tuple[str, str]], legs: set[tuple[str, str]]
) -> Iterator[PlanFinding]:
    """Engines whose neighbours of other networks reach a carrier by them, unless a test expects such a call.

    ``found`` are engines that lead to a carrier, with a number and the carrier; ``legs`` are those of calls.
    """
    plan = network.plan
    homes = {(name, engine.home) for name, engine in plan.engines.items() if engine.home is not None}
    routing = {each.organisation for each in plan.engines.values() if each.kind != "endpoint"}
    for name, (number, carrier) in found.items():
        engine = plan.engines[name]
        if network.admitted(engine) is None or engine.organisation is None:
            continue  # The check of open relays reports the former; nobody pays for the latter.
        paid = plan.engines[carrier].organisation if carrier in plan.engines else None
        peers = {plan.engines[at].organisation for at, to in (*legs, *homes) if to == name}
        peers &= {*routing, paid} - {None, engine.organisation}
        peers -= {each for each in peers if not network.admits(engine, each)}
        expected = {
            plan.engines[test.caller or plan.caller].organisation
            for test in plan.tests
            if test.answer == 200 and test.ends_at == carrier
        }
        if wrong := sorted(filter(None, peers - expected)):
            yield warning(
                "transit",
                network.book.at("engines", name),
                f"{name} takes calls of {named(wrong)}, and sends those to {number} on to {carrier}: "
                f"{engine.organisation} pays for them",
                f"give {name} routes for the numbers alone that {named(wrong)} may call; if such calls are "
                f"meant, add a test of one by a telephone of {words(wrong, last='or')}, "
                f"with ends_at: {carrier}",
            )


def own_ranges(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Numbers of its own do not leave a network by a route after the trees, or by a shorter prefix."""
    if not can_walk(network):
        return
    plan = network.plan
    for at, engine in plan.engines.items():
        routes = any(table[0] == at for table in network.routes)
        for i, range_ in network.each_range() if routes and engine.kind == "proxy" else ():
            if range_.owner != engine.organisation or not range_.holds(network.day):
                continue
            for number in (example(network, range_.prefix[1:], ""), *edges_of(range_)[:2]):
                is_own = number and network.owner(number[1:]) == range_.owner
                wrong = _leaves(network, at, number, range_) if number and is_own else None
                if wrong:
                    route, to = wrong
                    is_last = plan.routes[route].after_trees
                    when = " if no tree has it or its records fail" if is_last else ""
                    where = line(network.book.at("ranges", i))
                    yield warning(
                        "own numbers leave",
                        network.book.at("routes", route),
                        f"{range_.prefix}... belongs to {range_.owner} ({where}), but {at} sends {number} to "
                        f"{to}{when}",
                        f"add a route for {range_.prefix} at {at}"
                        + (" with after_trees: true, to an operator or an announcement" if is_last else ""),
                    )
                    break


def _leaves(network: PlanNetwork, at: str, number: str, range_: Range) -> tuple[int, str] | None:
    """The route by which a number leaves its owner's network, and who then gets it.

    It is one after the trees, or one for a shorter prefix than that of the number's range, made for others.
    """
    for way in islice(arrivals(network, Arrival(at, number, "sip", None, None)), _MOST_WAYS):
        own = (step for step in reversed(way.steps) if step.what == "prefix")
        own = (step for step in own if network.plan.engines[step.engine].organisation == range_.owner)
        last = next(own, None)
        if last is None or last.engine != at:
            continue
        if not last.facts["after_trees"] and len(last.facts["prefix"]) >= len(range_.prefix):
            continue
        if way.end.kind == "external":
            return int(last.place[1]), str(way.end.facts["host"])
        if way.end.kind == "answered" and network.plan.engines[way.end.engine].organisation != range_.owner:
            return int(last.place[1]), way.end.engine
    return None


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
