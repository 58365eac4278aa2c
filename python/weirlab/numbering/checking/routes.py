"""Routes: prefixes hidden by others, and routes that no call can take.

A call is traced for every route, every entry and every test number, and it is checked how it ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from weirlab.base.errors import InputError
from weirlab.numbering.checking.findings import PlanFinding, error, line, named, warning
from weirlab.numbering.configs import parts
from weirlab.numbering.plan.model import EnumEntry
from weirlab.numbering.routing import PlanNetwork, wording
from weirlab.numbering.routing.calls import Arrival, arrivals, calls
from weirlab.numbering.routing.profiles import leads_to
from weirlab.numbering.routing.wording import PROTOCOLS, CallRoute
from weirlab.scenario.document import Location

_PROPOSALS = {
    "loop": "give one of these engines a route that leads on",
    "no protocol": "send the call to an engine that speaks the protocol, or through a gateway first",
    "no codec": "give both a common codec, or send the call through a gateway that translates between them",
    "no route": "add a route there, or send the calls elsewhere",
    "not admitted": "add the organisation to admits there, or remove the route",
    "no digits": "strip fewer digits, or put others in front with prepend",
}

_SENDING = ("prefix", "record", "forwarded")
"""Steps that decide where a call goes next."""

_MOST_WAYS = 8
USUAL_DIGITS = 12
"""Of a number whose range does not say how many it has."""


def ways(network: PlanNetwork) -> Iterator[PlanFinding]:
    """No call loops, ends nowhere, or reaches an engine that cannot take it; calls reach every engine."""
    if not can_walk(network):
        return
    told: set[tuple[object, ...]] = set()
    legs: set[tuple[str, str]] = set()
    useless: dict[Location, bool] = {}
    demanded = _demanded(network)
    for arrival, place in _begins(network):
        if arrival is None:
            useless.setdefault(place, True)
            continue
        for way in islice(arrivals(network, arrival), _MOST_WAYS):
            legs.update((step.engine, step.facts["to"]) for step in way.steps if step.what == "leg")
            end = way.end
            if place[0] == "enum":
                useless[place] = useless.get(place, True) and _passed_over(way, place)
            if end.good or (end.kind == "no route" and not _must_go_on(network, way, place)):
                continue
            if end.kind == "no address":
                continue  # The check of URIs reports this.
            # Calls begin with international numbers here: what a test dials is not how they were lost.
            if (end.kind, end.engine) in demanded and end.kind != "no number":
                continue
            # A loop is the same wherever a call enters it, and a wrong target is wrong for every call.
            about = (
                (end.kind, frozenset(end.facts["engines"]))
                if end.kind == "loop"
                else (end.kind, end.engine, end.place or place)
            )
            if about in told:
                continue
            told.add(about)
            yield _bad_end(network, arrival, way, place)
    for place, is_useless in useless.items():
        if is_useless:
            entry = network.plan.enum[int(place[1])]
            yield error(
                "unusable",
                network.book.at(*place),
                f"no engine that asks tree {entry.tree} can use a record of {entry.key} +{entry.digits}",
                "add a record for a protocol that they speak, or name a gateway under hand_over",
            )
    if network.scope is not None:
        # A part of the plan does not show whether nothing at all leads to an engine.
        return
    reached = _reached(network, legs)
    for name, engine in network.plan.engines.items():
        if name not in reached and engine.home is None and network.plan.caller != name:
            yield warning(
                "unreachable",
                network.book.at("engines", name),
                f"no route and no entry of a tree leads to {name}",
                "add a route to it, or remove it",
            )


def _demanded(network: PlanNetwork) -> set[tuple[str, str]]:
    """How and where test calls end that the plan wants refused, which is not a mistake."""
    ends: set[tuple[str, str]] = set()
    for test in network.plan.tests:
        if test.answer != 200 and network.plan.engines[test.caller or network.plan.caller].home is not None:
            way = planned(network, test.number, test.caller, test.meanwhile)
            if way.answer == test.answer:
                ends.add((way.end.kind, way.end.engine))
    return ends


def _reached(network: PlanNetwork, legs: set[tuple[str, str]]) -> set[str]:
    """Engines that calls from the homes of endpoints can reach."""
    engines = network.plan.engines
    reached = {engine.home for engine in engines.values() if engine.home is not None}
    waiting = [*reached]
    while waiting:
        at = waiting.pop()
        onward = {to for here, to in legs if here == at} - reached
        reached |= onward
        waiting += onward
    return reached


def _passed_over(way: CallRoute, entry: Location) -> bool:
    """Was an entry asked, and none of its records used?"""
    steps = [step.what for step in way.steps if step.place[:2] == entry]
    return "tree" in steps and not {"record", "referred"}.intersection(steps)


def _left(way: CallRoute) -> bool:
    """Did the call leave the engine where it began?"""
    return any(step.what == "leg" for step in way.steps)


def _must_go_on(network: PlanNetwork, way: CallRoute, place: Location) -> bool:
    """Is a missing onward route a mistake? Not for a route that takes all numbers, even wrong ones."""
    if place[0] == "routes":
        return len(network.plan.routes[int(place[1])].prefix) > 1
    return _left(way)


def _bad_end(network: PlanNetwork, arrival: Arrival, way: CallRoute, place: Location) -> PlanFinding:
    end, number = way.end, f"a call to {arrival.number} at {arrival.engine}"
    reason = f"{number}: {wording.end(end)}"
    if end.kind == "loop":
        closing = next(
            (step.place for step in reversed(way.steps) if step.what in _SENDING and step.place), None
        )
        by = f"; {line(network.book.at(*closing))} closes it" if closing is not None else ""
        reason = f"{number} {wording.end(end)}{by}"
    code = "dead end" if end.kind == "no route" else end.kind
    proposal = wording.cure(way) if end.kind == "no number" else _PROPOSALS[end.kind]
    return error(code, network.book.at(*(end.place or place)), reason, proposal)


def can_walk(network: PlanNetwork) -> bool:
    """Can calls be traced?"""
    try:
        return network.rewrites is not None
    except InputError:
        return False  # The check of rewrites reports this.


def _begins(network: PlanNetwork) -> Iterator[tuple[Arrival | None, Location]]:
    """A call for every route and entry, at each engine that uses it; None if the engine cannot use it."""
    plan = network.plan
    offers_at = {name: _offers(network, name) for name in plan.engines}
    for table, prefix, index in network.deciding():
        name, arriving, _ = table
        engine = plan.engines[name]
        number = example(network, prefix, network.routes[table].free_continuation(prefix))
        if engine.kind == "endpoint" or number is None:
            continue
        for protocol in [arriving] if arriving is not None else engine.speaks:
            for offer in offers_at[name]:
                yield Arrival(name, number, protocol, offer, None), ("routes", index)
    for tree, entries in _answering(network).items():
        found = network.trees[tree]
        asking = [name for name, engine in plan.engines.items() if tree in engine.trees]
        for index, entry in entries:
            number = f"+{entry.digits}"
            if entry.number is None:
                free = found.prefixes.free_continuation(entry.digits)
                number = example(network, entry.digits, free) or ""
            for name in asking if number else ():
                engine = plan.engines[name]
                known = {*engine.speaks, *engine.hand_over, "tel"}
                if not any(each.refer or leads_to(each.service) in known for each in entry.naptr):
                    yield None, ("enum", index)
                    continue
                for protocol in engine.speaks:
                    if network.route(name, protocol, number[1:]) is None:
                        for offer in offers_at[name]:
                            yield Arrival(name, number, protocol, offer, None), ("enum", index)


def _answering(network: PlanNetwork) -> dict[str, list[tuple[int, EnumEntry]]]:
    """The entries that answer, by tree: those of numbers before those of prefixes."""
    listed: dict[str, list[tuple[int, EnumEntry]]] = {tree: [] for tree in network.trees}
    for index, entry in network.each_entry():
        if network.trees[entry.tree].counts(index, entry):
            listed[entry.tree].append((index, entry))
    return {tree: sorted(each, key=lambda one: one[1].number is None) for tree, each in listed.items()}


def example(network: PlanNetwork, prefix: str, continuation: str | None) -> str | None:
    """A number of usual length that begins with ``prefix`` and matches no longer prefix."""
    if continuation is None:
        return None
    digits = prefix + continuation
    found = network.ranges.longest(digits)
    wanted = network.plan.ranges[found[1]].digits if found else None
    return "+" + digits.ljust(min(wanted or USUAL_DIGITS, 15), "0")


def _offers(network: PlanNetwork, name: str) -> list[tuple[str, ...] | None]:
    """Codecs that calls may offer: those of the endpoints whose home this is; None if unknown."""
    engine = network.plan.engines[name]
    if engine.kind == "gateway" and engine.transcodes and engine.codecs:
        return [engine.codecs]
    homely = {each.codecs for each in network.plan.engines.values() if each.home == name and each.codecs}
    return [*sorted(homely)] or [None]


def tests(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Calls to test numbers go where the plan expects."""
    if not can_walk(network):
        return
    plan, at = network.plan, network.book.at
    if not plan.tests and network.scope is None:
        yield warning(
            "no tests",
            at("plan"),
            "there are no test numbers: nothing says where calls should go",
            "list numbers under tests:, each with the engine that should answer (ends_at)",
        )
    for i, test in enumerate(plan.tests):
        if plan.engines[test.caller or plan.caller].home is None:
            continue  # The check of homes reports this.
        way = planned(network, test.number, test.caller, test.meanwhile)
        wrong = []
        if way.answer != test.answer:
            wrong.append((f"gets {way.answer} ({wording.end(way.end)})", f"answer {test.answer}"))
        if test.via is not None and way.decided_by != test.via:
            wrong.append((f"is decided by {way.decided_by or 'nothing'}", f"a decision by {test.via}"))
        if test.ends_at is not None and way.end.engine != test.ends_at:
            wrong.append((f"ends at {way.end.engine}", f"an end at {test.ends_at}"))
        if wrong:
            caller = ("--caller", test.caller) if test.caller is not None else ()
            yield error(
                "test",
                at("tests", i),
                f"a call to {test.number} {named([found for found, _ in wrong])}; the test expects "
                f"{named([expected for _, expected in wrong])}",
                f"see {network.command('route', test.number, *caller)}; correct the plan or the expectation",
            )


def planned(network: PlanNetwork, dialled: str, caller: str | None = None, meanwhile: int = 0) -> CallRoute:
    """The first way that leads somewhere, otherwise the first way."""
    first: CallRoute | None = None
    for way in islice(calls(network, dialled, caller, meanwhile), _MOST_WAYS):
        if way.end.good:
            return way
        first = first or way
    assert first is not None
    return first


def duplicates(network: PlanNetwork) -> Iterator[PlanFinding]:
    """At most one route per engine, protocol and prefix on any day, and each target once."""
    plan, at = network.plan, network.book.at
    seen: dict[tuple[str, str | None, str, bool], list[int]] = {}
    for i, route in network.each_route():
        same = seen.setdefault((route.at, route.arriving, route.prefix, route.after_trees), [])
        for other in same:
            if plan.routes[other].meets(route):
                yield error(
                    "duplicate",
                    at("routes", i),
                    f"{route.prefix} at {route.at} already has a route in {line(at('routes', other))}: this "
                    "one is never used",
                    "remove one of them; list several targets for one prefix under to of one route",
                )
                break
        same.append(i)
        for target in dict.fromkeys(route.to):
            if route.to.count(target) > 1:
                yield error(
                    "duplicate",
                    at("routes", i, "to"),
                    f"{target} is listed twice under to: it would be tried again after it has failed",
                    "name it once",
                )


def shadowed(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Longer prefixes do not cover all numbers of a prefix, which would then never be used."""
    for table, prefix, index in network.deciding():
        if network.routes[table].is_hidden(prefix):
            yield error(
                "shadowed",
                network.book.at("routes", index),
                f"+{prefix} at {table[0]} is never used: longer prefixes cover every number that "
                "continues it",
                "remove it, or one of the longer prefixes",
            )


def redundant(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A longer prefix does not lead where the shorter one leads, which would make it redundant."""
    plan, at = network.plan, network.book.at
    for table, prefix, index in network.deciding():
        outer = network.routes[table].covering(prefix)
        if outer is None:
            continue
        one, other = plan.routes[index], plan.routes[outer[1]]
        if (one.to, one.by, one.strip, one.prepend) == (other.to, other.by, other.strip, other.prepend):
            yield warning(
                "overlapping",
                at("routes", index),
                f"+{prefix} at {table[0]} has no effect: +{outer[0]} in {line(at('routes', outer[1]))} "
                f"also leads to {named(one.to)}",
                "remove it"
                + ("" if outer[0] else "; or remove the other, if not all numbers should go there"),
            )


def trees_never_asked(network: PlanNetwork) -> Iterator[PlanFinding]:
    """No route takes every number of an engine that queries trees; some engine queries each private tree."""
    plan, at = network.plan, network.book.at
    asked = {*network.referred}
    for name, engine in plan.engines.items():
        asked.update(engine.trees)
        if engine.trees and (index := network.catch_all(name)) is not None:
            yield error(
                "hides trees",
                at("routes", index),
                f'the route for "+" takes every number, so {name} never asks {named(engine.trees)}',
                f"set after_trees: true, to use it only if ENUM leads nowhere; or remove trees of {name}",
            )
    for name, tree in plan.trees.items():
        if name not in asked and tree.visibility == "private":
            yield warning(
                "never asked",
                at("trees", name),
                f"tree {name} is private, and no engine asks it",
                "name it under trees of an engine, or remove it",
            )


def misplaced(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Routes belong to engines that route, for protocols that these engines speak."""
    plan, at = network.plan, network.book.at
    for i, route in network.each_route():
        engine = plan.engines[route.at]
        if engine.kind == "endpoint":
            yield error(
                "misplaced",
                at("routes", i, "at"),
                f"{route.at} is an endpoint, and endpoints do not route",
                "name the proxy, gateway or gatekeeper",
            )
            continue
        if route.after_trees and engine.kind == "proxy" and not engine.trees:
            yield error(
                "misplaced",
                at("routes", i, "after_trees"),
                f"{route.at} queries no trees, so there is nothing after which to use the route",
                f"leave out after_trees, or name trees of {route.at}",
            )
        for key, protocol in (("arriving", route.arriving), ("by", route.by)):
            if protocol is not None and protocol not in engine.speaks:
                spoken = named(PROTOCOLS[speak] for speak in engine.speaks)
                yield error(
                    "misplaced",
                    at("routes", i, key),
                    f"{key}: {protocol}, but {route.at} speaks {spoken}",
                    f"correct {key}"
                    + (f", or add the protocol to {route.at}" if engine.kind == "gateway" else ""),
                )


def past_gatekeepers(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A gateway that registers with a gatekeeper sends all its H.323 calls through that gatekeeper."""
    plan, at = network.plan, network.book.at
    for (name, _, _), _, index in network.deciding():
        if plan.engines[name].kind != "gateway" or not network.gatekeepers[name]:
            continue
        for target in plan.routes[index].to:
            if (wrong := parts.past_gatekeeper(network, plan.routes[index], target)) is not None:
                yield error("past gatekeeper", at("routes", index), *wrong)
