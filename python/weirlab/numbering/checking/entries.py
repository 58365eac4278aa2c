"""ENUM entries: duplicated, outside the zone, hidden, or with holes."""

from __future__ import annotations

from collections.abc import Iterator

from weirlab.base.quantities import words
from weirlab.numbering.checking.findings import PlanFinding, error, line, warning
from weirlab.numbering.plan.numbers import digits_below
from weirlab.numbering.routing import PlanNetwork


def duplicates(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A name in a tree has at most one entry on any day."""
    plan, at = network.plan, network.book.at
    seen: dict[tuple[str, str, str], list[int]] = {}
    for i, entry in network.each_entry():
        same = seen.setdefault((entry.tree, entry.key, entry.digits), [])
        for other in same:
            if plan.enum[other].meets(entry):
                yield error(
                    "duplicate",
                    at("enum", i),
                    f"{entry.key} +{entry.digits} of tree {entry.tree} has an entry in "
                    f"{line(at('enum', other))} already: this one is never used",
                    "put all records under naptr of one entry",
                )
                break
        same.append(i)


def outside_zone(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Every entry lies in the zone of its tree."""
    plan, at = network.plan, network.book.at
    for name, tree in plan.trees.items():
        top = digits_below(tree.origin, tree.suffix)
        if top is None:
            yield error(
                "zone",
                at("trees", name, "zone"),
                f"zone {tree.origin} is not made of digits below {tree.suffix}",
                f"write it as 0.2.4.{tree.suffix} for +420",
            )
            continue
        for i, entry in network.each_entry():
            if entry.tree == name and not entry.digits.startswith(top):
                yield error(
                    "zone",
                    at("enum", i, entry.key),
                    f"+{entry.digits} does not lie in zone {tree.origin}, which begins with +{top}",
                    "correct the number, or make a tree with another zone for it",
                )


def hidden_by_routes(network: PlanNetwork) -> Iterator[PlanFinding]:
    """An entry is used only if an engine that queries its tree has no route for its numbers."""
    plan, at = network.plan, network.book.at
    asking: dict[str, list[str]] = {name: [] for name in plan.trees}
    for name, engine in plan.engines.items():
        for tree in engine.trees:
            asking[tree].append(name)
    catch_all = {name for name in plan.engines if network.catch_all(name) is not None}
    for i, entry in network.each_entry():
        engines = asking[entry.tree]
        if not engines or not entry.holds(network.day) or catch_all.issuperset(engines):
            continue
        found = [
            network.route(name, protocol, entry.digits)
            for name in engines
            for protocol in plan.engines[name].speaks
        ]
        if all(found) and (first := found[0]) is not None:
            yield warning(
                "hidden",
                at("enum", i),
                f"no engine asks tree {entry.tree} for +{entry.digits}: the route for +{first[0]} at "
                f"{engines[0]} ({line(at('routes', first[1]))}) takes precedence",
                "remove the route, or the entry",
            )


def holes(network: PlanNetwork) -> Iterator[PlanFinding]:
    """A longer name below a wildcard hides numbers for which nothing then answers (RFC 4592, 2.2.2)."""
    plan, at = network.plan, network.book.at
    if network.scope is not None and not network.scope.get("enum"):
        return
    for name, tree in network.trees.items():
        if tree.tree.fill_holes:
            continue
        found: dict[tuple[int, int], list[str]] = {}
        for hole in tree.holes():
            # Nobody dials digits beyond a whole number.
            if hole.digits != plan.enum[hole.cause].digits:
                found.setdefault((hole.prefix, hole.cause), []).append(hole.digits)
        for (prefix, cause), digits in found.items():
            entry, punch = plan.enum[prefix], plan.enum[cause]
            lost = words(
                [f"+{digit}" for digit in sorted(digits, key=lambda each: (len(each), each))], most=3
            )
            yield error(
                "wildcard hole",
                at("enum", cause),
                f"{punch.key} +{punch.digits} hides the wildcard of +{entry.digits} "
                f"({line(at('enum', prefix))}) in "
                f"tree {name}: other numbers that begin with {lost} get no answer (RFC 4592)",
                f"add entries for these prefixes, or fill_holes: true to tree {name}",
            )
