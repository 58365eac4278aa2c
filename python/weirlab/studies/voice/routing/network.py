"""A plan as it holds on one day, made ready for many look-ups: routes by engine, trees, names, admission."""

from __future__ import annotations

from datetime import date
from functools import cached_property

from weirlab.errors import InputError
from weirlab.quoting import quoted
from weirlab.studies.voice.ere import BadExpression, Substitution
from weirlab.studies.voice.plan.load import Book
from weirlab.studies.voice.plan.model import Engine, Entry
from weirlab.studies.voice.plan.values import Protocol
from weirlab.studies.voice.routing.enum import EnumTree
from weirlab.studies.voice.routing.names import Names
from weirlab.studies.voice.routing.prefixes import Prefixes

Table = tuple[str, Protocol | None]
"""An engine, and the protocol by which calls arrive for which its routes are; None for any."""


class Network:
    """What engines, trees and name servers know on ``day``."""

    def __init__(self, book: Book, day: date) -> None:
        self.book = book
        self.plan = book.plan
        self.day = day
        self.names = Names(self.plan)

    @cached_property
    def routes(self) -> dict[Table, Prefixes[int]]:
        """Indices of routes by prefix, without +; of two for one prefix the first counts."""
        listed: dict[Table, list[tuple[str, int]]] = {}
        for index, route in enumerate(self.plan.routes):
            if route.holds(self.day):
                listed.setdefault((route.at, route.arriving), []).append((route.prefix[1:], index))
        return {table: Prefixes(items) for table, items in listed.items()}

    @cached_property
    def trees(self) -> dict[str, EnumTree]:
        """The trees by name."""
        listed: dict[str, list[tuple[int, Entry]]] = {name: [] for name in self.plan.trees}
        for index, entry in enumerate(self.plan.enum):
            if entry.holds(self.day):
                listed[entry.tree].append((index, entry))
        return {name: EnumTree(tree, listed[name]) for name, tree in self.plan.trees.items()}

    @cached_property
    def ranges(self) -> Prefixes[int]:
        """Indices of ranges by prefix, without +."""
        return Prefixes((r.prefix[1:], i) for i, r in enumerate(self.plan.ranges) if r.holds(self.day))

    @cached_property
    def rewrites(self) -> dict[str, tuple[Substitution, ...]]:
        """The rules of each engine.

        Raises
        ------
        InputError
            One of them is no expression.
        """
        found: dict[str, tuple[Substitution, ...]] = {}
        for name, engine in self.plan.engines.items():
            rules = []
            for index, rule in enumerate(engine.rewrite):
                try:
                    rules.append(Substitution.of(rule.match, rule.replace))
                except BadExpression as wrong:
                    place = self.book.at("engines", name, "rewrite", index)
                    raise InputError(f"{place}: {quoted(rule.match)}: {wrong}") from None
            found[name] = tuple(rules)
        return found

    @cached_property
    def permissions(self) -> dict[str, Prefixes[bool]]:
        """By organisation: may its callers call numbers with this prefix?"""
        found = {}
        for name, organisation in self.plan.organisations.items():
            start = [("", True)] if organisation.may_call is None else []
            barred = [(prefix[1:], False) for prefix in organisation.barred]
            allowed = [(prefix[1:], True) for prefix in organisation.may_call or ()]
            found[name] = Prefixes([*barred, *allowed, *start])
        return found

    def route(self, engine: str, arriving: Protocol, digits: str) -> tuple[str, int] | None:
        """Prefix and index of the route that decides; one for the protocol goes before one for any."""
        best: tuple[str, int] | None = None
        for table in ((engine, arriving), (engine, None)):
            if (prefixes := self.routes.get(table)) is not None:
                found = prefixes.longest(digits)
                if found is not None and (best is None or len(found[0]) > len(best[0])):
                    best = found
        return best

    def catch_all(self, engine: str) -> int | None:
        """The index of a route that takes every number, by whatever protocol calls arrive; None for none."""
        found = [self.route(engine, protocol, "") for protocol in self.plan.engines[engine].speaks]
        return found[0][1] if found and found[0] is not None and all(found) else None

    def may_call(self, organisation: str | None, digits: str) -> bool:
        """May callers of ``organisation`` call this number?"""
        if organisation is None:
            return True
        found = self.permissions[organisation].longest(digits)
        return found is not None and found[1]

    def most_calls(self, organisation: str | None) -> int | None:
        """Calls that callers of ``organisation`` may have at once; None for any number."""
        return None if organisation is None else self.plan.organisations[organisation].most_calls

    def admits(self, engine: Engine, organisation: str | None) -> bool:
        """Does ``engine`` take calls of ``organisation``?"""
        if engine.organisation is None or organisation in (None, engine.organisation):
            return True
        admitted = self.plan.organisations[engine.organisation].admits
        return admitted is None or organisation in admitted

    def owner(self, digits: str) -> str | None:
        """Who owns a number; None for nobody."""
        found = self.ranges.longest(digits)
        return None if found is None else self.plan.ranges[found[1]].owner
