"""Routes: prefixes hidden by others, and routes that no call can take."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.numbering.checking.findings import PlanFinding, error, line, named, warning
from weirlab.numbering.configs import parts
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.wording import PROTOCOLS


def duplicates(network: PlanNetwork) -> Iterator[PlanFinding]:
    """At most one route per engine, protocol and prefix on any day, and each target once."""
    plan, at = network.plan, network.book.at
    seen: dict[tuple[str, str | None, str], list[int]] = {}
    for i, route in network.each_route():
        same = seen.setdefault((route.at, route.arriving, route.prefix), [])
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
                "remove it",
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
                f"give it a longer prefix, or remove trees of {name}",
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
        for key, protocol in (("arriving", route.arriving), ("by", route.by)):
            if protocol is not None and protocol not in engine.speaks:
                spoken = named(PROTOCOLS[speak] for speak in engine.speaks)
                yield error(
                    "misplaced",
                    at("routes", i, key),
                    f"{key}: {protocol}, but {route.at} speaks {spoken}",
                    f"correct {key}, or add the protocol to {route.at}",
                )


def past_gatekeepers(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A gateway that registers with a gatekeeper sends all its H.323 calls through that gatekeeper."""
    plan, at = network.plan, network.book.at
    for (name, _), _, index in network.deciding():
        if plan.engines[name].kind != "gateway" or not network.gatekeepers[name]:
            continue
        for target in plan.routes[index].to:
            if (wrong := parts.past_gatekeeper(network, plan.routes[index], target)) is not None:
                yield error("past gatekeeper", at("routes", index), *wrong)
