"""ENUM entries: duplicated, outside the zone, hidden, or with holes; and their NAPTR records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from weirlab.base.quantities import words
from weirlab.numbering.checking.findings import PlanFinding, error, line, warning
from weirlab.numbering.ere import TAIL, BadExpression, MissingDigits, Substitution
from weirlab.numbering.plan.model import EnumEntry, Naptr
from weirlab.numbering.plan.values import digits_below
from weirlab.numbering.routing import PlanNetwork
from weirlab.numbering.routing.calls import in_order
from weirlab.numbering.routing.profiles import SCHEMES, Uri, enumservices, leads_to

EVERYBODY: Final = "e164.arpa"
"""The domain of all numbers in the public DNS (RFC 6116), parts of which are delegated by country."""


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
        if tree.visibility == "public" and tree.origin.lower() == EVERYBODY:
            yield warning(
                "zone",
                at("trees", name, "suffix"),
                f"zone {tree.origin} of tree {name} is that of all telephone numbers: your name server would "
                "answer for those of others, too",
                f"name the zone of your own numbers, such as zone: 0.2.4.{tree.suffix} for +420",
            )
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
    """An entry of a private tree is used only if an engine that queries it has no route for its numbers.

    Peers outside the plan ask public trees, too.
    """
    plan, at = network.plan, network.book.at
    asking: dict[str, list[str]] = {name: [] for name in plan.trees}
    for name, engine in plan.engines.items():
        for tree in engine.trees:
            asking[tree].append(name)
    catch_all = {name for name in plan.engines if network.catch_all(name) is not None}
    for i, entry in network.each_entry():
        engines = asking[entry.tree] if plan.trees[entry.tree].visibility == "private" else []
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


def expressions(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Every regexp is valid, matches its numbers, and gives a URI of its service with the number in it."""
    for i, entry in network.each_entry():
        for j, record in enumerate(entry.naptr):
            place = network.book.at("enum", i, "naptr", j)
            if record.refer is not None:
                yield from _referral(network, entry, record.refer, place)
                continue
            yield from _service(record, place)
            try:
                substitution = Substitution.parse(record.expression)
            except BadExpression as wrong:
                yield error(
                    "bad regexp",
                    place,
                    f"{record.expression} is not a valid substitution expression: {wrong}",
                    r"write it as !^\+(.*)$!sip:+\1@example.net!, in POSIX extended regular expressions (RFC "
                    r"3402)",
                )
                continue
            if not substitution.pattern.anchored:
                yield warning(
                    "not anchored",
                    place,
                    f"the pattern {substitution.pattern.text} can match in the middle of a number; the "
                    "other digits are then lost",
                    "begin it with ^ and end it with $",
                )
            yield from _result(entry, record, substitution, place)


def _referral(network: PlanNetwork, entry: EnumEntry, tree: str, place: str) -> Iterator[PlanFinding]:
    found = network.trees[tree].lookup(entry.digits)
    if found is None:
        yield error(
            "refers nowhere",
            place,
            f"the record refers to tree {tree}, which has no entry for +{entry.digits}",
            f"add an entry to tree {tree}, or a record with a URI here",
        )
    elif any(record.refer is not None for record in network.plan.enum[found].naptr):
        yield error(
            "refers on",
            place,
            f"the record refers to tree {tree}, whose entry for +{entry.digits} refers on: proxies follow "
            "only one such record",
            "refer to the last tree directly",
        )


def _service(record: Naptr, place: str) -> Iterator[PlanFinding]:
    named_services = enumservices(record.service)
    if named_services is None:
        yield error(
            "bad service",
            place,
            f"{record.service} is not an ENUM service (RFC 6116, 3.4.3)",
            "write it as E2U+sip or E2U+h323",
        )
    elif leads_to(record.service) is None:
        yield warning(
            "unknown service",
            place,
            f"no engine here understands {record.service}",
            "use E2U+sip or E2U+h323",
        )


def _result(entry: EnumEntry, record: Naptr, substitution: Substitution, place: str) -> Iterator[PlanFinding]:
    number = f"+{entry.digits}" if entry.number is not None else f"+{entry.digits}{TAIL}"
    try:
        text = substitution.apply(number)
    except MissingDigits as asked:
        digits = ", ".join(sorted(asked.digits))
        yield warning(
            "matches some",
            place,
            f"the pattern {substitution.pattern.text} treats the numbers that begin with "
            f"+{entry.digits} differently, depending on the next digit ({digits})",
            "add separate entries for these numbers",
        )
        return
    shown = number.replace(TAIL, "...")
    if text is None:
        yield error(
            "no match",
            place,
            f"the pattern {substitution.pattern.text} does not match {shown}: no engine can use the record",
            "the pattern is compared with the number in international form, + included",
        )
        return
    told = text.replace(TAIL, "...")
    uri = Uri.parse(text)
    wanted = leads_to(record.service)
    if "\\" in text:
        yield error(
            "bad rewrite",
            place,
            f"{shown} becomes {told}, which contains a backslash",
            r"write \1 with one backslash in a plan; Weir doubles it in the zone",
        )
    elif uri is None:
        yield error(
            "bad rewrite",
            place,
            f"{shown} becomes {told}, which is not a URI",
            r"the replacement is a whole URI, such as sip:+\1@example.net",
        )
    elif wanted is not None and SCHEMES.get(uri.scheme) != wanted:
        yield error(
            "bad rewrite",
            place,
            f"{record.service} promises a {_scheme(wanted)} URI, but {shown} becomes {told}",
            "correct the service or the URI",
        )
    elif wanted in ("sip", "h323") and uri.number != number:
        yield warning(
            "changes number",
            place,
            f"{shown} becomes {told}: the URI does not contain the number that was looked up",
            r"use ^\+(.*)$ and \1 for the whole number, unless you mean another one",
        )


def _scheme(wanted: str) -> str:
    return next(scheme for scheme, what in SCHEMES.items() if what == wanted)


def order(network: PlanNetwork) -> Iterator[PlanFinding]:
    """Order and preference leave no ambiguity, and every client tries the fall-backs."""
    for i, entry in network.each_entry():
        if len(entry.naptr) == 1:
            continue
        by_rank: dict[tuple[int, int, str], int] = {}
        first_order: dict[str, int] = {}
        for j, record in in_order(entry):
            place = network.book.at("enum", i, "naptr", j)
            service = record.service.lower()
            rank = (record.order, record.preference, service)
            if rank in by_rank:
                yield error(
                    "tie",
                    place,
                    f"two records of {entry.key} +{entry.digits} for {record.service} have order "
                    f"{record.order} and preference {record.preference}: which comes first is left to chance",
                    "give them different preferences",
                )
            by_rank[rank] = j
            before = first_order.setdefault(service, record.order)
            if before != record.order:
                yield warning(
                    "order",
                    place,
                    f"{record.service} of {entry.key} +{entry.digits} has records of order {before} and "
                    f"{record.order}: a client "
                    f"that follows RFC 3403 uses order {before} and never tries {record.order}",
                    "give them one order and different preferences (RFC 5483, 3)",
                )
