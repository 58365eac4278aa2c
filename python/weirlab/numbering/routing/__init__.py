"""Where a number goes: a plan on one day, indexed for many look-ups by engine, tree, name and organisation.

``calls`` traces the ways of a call.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import date
from functools import cached_property
from typing import Final

from weirlab.base.errors import InputError
from weirlab.base.quoting import quoted
from weirlab.numbering.ere import BadExpression, Substitution
from weirlab.numbering.plan import PlanDocument, Scope, examined, ready
from weirlab.numbering.plan.model import Engine, EnumEntry, PlanRoute, Range
from weirlab.numbering.plan.values import Protocol
from weirlab.numbering.routing.profiles import Names
from weirlab.numbering.routing.trees import EnumTree, Prefixes, continued
from weirlab.scenario.document import Location

Table = tuple[str, Protocol | None, bool]
"""An engine, the protocol over which calls arrive for its routes (None for any), and ``after_trees``."""


_MADE_OF: Final = {
    "routes": {"routes"},
    "ranges": {"ranges"},
    "towards_ranges": {"ranges"},
    "trees": {"trees", "enum"},
    "referred": {"enum"},
    "askers": {"trees", "enum", "engines"},
    "gatekeepers": {"routes", "engines"},
}
"""Indexes over many pieces, and the parts of the plan from which they are made."""


class PlanNetwork:
    """What engines, trees and name servers of a plan know on ``day``.

    Parameters
    ----------
    scope:
        Ranges, entries and routes that checks examine; None for all. Calls always use all of them.
    """

    def __init__(self, book: PlanDocument, day: date, scope: Scope | None = None) -> None:
        self.book = book
        self.plan = book.plan
        self.day = day
        self.scope = scope
        self.names = Names(self.plan)
        self.is_dated = False
        """Did the user name the day?"""

    def command(self, *words: str) -> str:
        """``weir voice WORDS --plan FILE``, for a message: as printed, it runs on this plan and day."""
        day = ("--date", self.day.isoformat()) if self.is_dated else ()
        return shlex.join(("weir", "voice", *words, "--plan", ready.shown(self.book.name), *day))

    def follow(self, other: PlanNetwork, changed: str = "") -> None:
        """Take over the indexes of ``other``, a plan that differs only in the part ``changed``."""
        for name, parts in _MADE_OF.items():
            if changed not in parts and name in other.__dict__:
                self.__dict__[name] = other.__dict__[name]

    def limited(self, scope: Scope) -> PlanNetwork:
        """The same network, of which checks examine only ``scope``."""
        found = PlanNetwork(self.book, self.day, scope)
        found.is_dated = self.is_dated
        for name in _MADE_OF:
            found.__dict__[name] = getattr(self, name)
        return found

    def each_range(self) -> Iterator[tuple[int, Range]]:
        """Index and range of each range in the scope."""
        return examined("ranges", self.plan.ranges, self.scope)

    def each_entry(self) -> Iterator[tuple[int, EnumEntry]]:
        """Index and entry of each ENUM entry in the scope."""
        return examined("enum", self.plan.enum, self.scope)

    def each_route(self) -> Iterator[tuple[int, PlanRoute]]:
        """Index and route of each route in the scope."""
        return examined("routes", self.plan.routes, self.scope)

    def deciding(self) -> Iterator[tuple[Table, str, int]]:
        """Routes in the scope that decide for their prefix: table, prefix without +, index."""
        if self.scope is None:
            for table, prefixes in self.routes.items():
                for prefix, index in prefixes.items():
                    yield table, prefix, index
            return
        for index, route in self.each_route():
            table, prefix = (route.at, route.arriving, route.after_trees), route.prefix[1:]
            if table in self.routes and self.routes[table].get(prefix) == index:
                yield table, prefix, index

    @cached_property
    def routes(self) -> dict[Table, Prefixes[int]]:
        """Indices of routes by prefix, without +; of two routes for one prefix, the first is used."""
        listed: dict[Table, list[tuple[str, int]]] = {}
        for index, route in enumerate(self.plan.routes):
            if route.holds(self.day):
                table = (route.at, route.arriving, route.after_trees)
                listed.setdefault(table, []).append((route.prefix[1:], index))
        return {table: Prefixes(items) for table, items in listed.items()}

    @cached_property
    def gatekeepers(self) -> dict[str, tuple[str, ...]]:
        """By engine: the gatekeepers that it sends calls to or gets them from. It can register with one."""
        engines = self.plan.engines
        order = [name for name, engine in engines.items() if engine.kind == "gatekeeper"]
        if not order:
            return dict.fromkeys(engines, ())
        pairs = {(route.at, to) for route in self.plan.routes if route.holds(self.day) for to in route.to}
        pairs.update((at, to) for at, engine in engines.items() for to in engine.hand_over.values())
        near: dict[str, set[str]] = {name: set() for name in engines}
        for at, to in pairs:
            if engines[at].kind == "gatekeeper":
                near[to].add(at)
        for (at, _, _), prefixes in self.routes.items():
            near[at].update(to for _, index in prefixes.items() for to in self.plan.routes[index].to)
        for name, engine in engines.items():
            near[name].update(filter(None, (engine.home,)))
        return {name: tuple(each for each in order if each in others) for name, others in near.items()}

    @cached_property
    def trees(self) -> dict[str, EnumTree]:
        """The trees by name."""
        listed: dict[str, list[tuple[int, EnumEntry]]] = {name: [] for name in self.plan.trees}
        for index, entry in enumerate(self.plan.enum):
            if entry.holds(self.day):
                listed[entry.tree].append((index, entry))
        return {name: EnumTree(tree, listed[name]) for name, tree in self.plan.trees.items()}

    @cached_property
    def referred(self) -> frozenset[str]:
        """Trees to which records refer."""
        return frozenset(
            record.refer for entry in self.plan.enum for record in entry.naptr if record.refer is not None
        )

    @cached_property
    def askers(self) -> dict[str, frozenset[str]]:
        """By tree: the engines that query it, also because a record of another tree refers to it."""
        found = {tree: {name for name, each in self.plan.engines.items() if tree in each.trees}
                 for tree in self.plan.trees}  # fmt: skip
        for entry in self.plan.enum:
            for record in entry.naptr:
                if record.refer is not None:
                    found[record.refer] |= found[entry.tree]
        return {tree: frozenset(names) for tree, names in found.items()}

    @cached_property
    def ranges(self) -> Prefixes[int]:
        """Indices of ranges by prefix, without +."""
        return Prefixes((r.prefix[1:], i) for i, r in enumerate(self.plan.ranges) if r.holds(self.day))

    @cached_property
    def towards_ranges(self) -> frozenset[str]:
        """Prefixes of ranges and all beginnings of them, without +, including ranges that are not valid."""
        names = [range_.prefix[1:] for range_ in self.plan.ranges]
        return frozenset((*continued(names), *names))

    @cached_property
    def rewrites(self) -> dict[str, tuple[Substitution, ...]]:
        """The rewrite rules of each engine.

        Raises
        ------
        InputError
            One of them is not a valid expression.
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

    def route(
        self, engine: str, arriving: Protocol, digits: str, *, after_trees: bool = False
    ) -> tuple[str, int] | None:
        """Prefix and index of the route that decides; a route for the protocol takes precedence."""
        best: tuple[str, int] | None = None
        for table in ((engine, arriving, after_trees), (engine, None, after_trees)):
            if (prefixes := self.routes.get(table)) is not None:
                found = prefixes.longest(digits)
                if found is not None and (best is None or len(found[0]) > len(best[0])):
                    best = found
        return best

    def catch_all(self, engine: str) -> int | None:
        """The index of a route that takes every number over every protocol; None for none."""
        found = [self.route(engine, protocol, "") for protocol in self.plan.engines[engine].speaks]
        return found[0][1] if found and found[0] is not None and all(found) else None

    def may_call(self, organisation: str | None, digits: str) -> bool:
        """May callers of ``organisation`` call this number?"""
        if organisation is None:
            return True
        found = self.permissions[organisation].longest(digits)
        return found is not None and found[1]

    def most_calls(self, organisation: str | None) -> int | None:
        """Calls that callers of ``organisation`` may have at once; None for no limit."""
        return None if organisation is None else self.plan.organisations[organisation].most_calls

    def admitted(self, engine: Engine) -> tuple[str, ...] | None:
        """Organisations that ``engine`` takes calls from, besides its own; None for any address."""
        if engine.admits is not None or engine.organisation is None:
            return engine.admits
        return self.plan.organisations[engine.organisation].admits

    def admits(self, engine: Engine, organisation: str | None) -> bool:
        """Does ``engine`` take calls from engines and telephones of ``organisation``?"""
        admitted = self.admitted(engine)
        return admitted is None or organisation in (None, engine.organisation, *admitted)

    def admission(self, name: str) -> Location:
        """The part of the plan that says whom the engine ``name`` admits."""
        engine = self.plan.engines[name]
        if engine.admits is not None or engine.organisation is None:
            return ("engines", name, "admits")
        return ("organisations", engine.organisation, "admits")

    def international(self, dialled: str) -> str | None:
        """The number of a range that ``dialled`` means, without + and perhaps without its country code.

        None if the ranges do not say, or say several.
        """
        digits = dialled.removeprefix("+").lstrip("0")
        found = set()
        for _, range_ in self.each_range():
            prefix = range_.prefix[1:]
            for country in range(len(prefix)):
                number = prefix[:country] + digits
                if number.startswith(prefix) and range_.digits in (None, len(number)):
                    found.add(f"+{number}")
        return found.pop() if len(found) == 1 else None

    def owner(self, digits: str) -> str | None:
        """The owner of a number; None if it has none."""
        found = self.ranges.longest(digits)
        return None if found is None else self.plan.ranges[found[1]].owner
