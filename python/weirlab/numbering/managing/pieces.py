"""The pieces of a plan, which are changed one at a time, and the plan made of them. Pure.

The plan is built once from all pieces, then updated with every change. Four parts of a plan are lists and can
have very many pieces: of these, a change reads only the changed piece. All other parts together are small and
are read as a whole.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from weirlab.numbering.plan.model import (
    Contact,
    Dns,
    Domain,
    Engine,
    EnumEntry,
    NumberingPlan,
    Organisation,
    PlanElement,
    PlanRoute,
    PlanTree,
    Range,
    Test,
)
from weirlab.numbering.plan.values import Dialled, Host, Name, Serial
from weirlab.scenario import load as scenario
from weirlab.scenario.document import Location

Content = dict[str, Any]
"""A piece as plain values, as in JSON and YAML."""


class NamedOrganisation(Organisation):
    """An organisation with its name; its contacts are separate pieces."""

    name: Name
    """Short name, by which the rest of the plan refers to it."""


class OwnedContact(Contact):
    """Whom to contact at an organisation."""

    organisation: Name
    """The organisation that it belongs to."""


class NamedEngine(Engine):
    """An engine with its name."""

    name: Name
    """Short name, by which routes refer to it."""


class NamedTree(PlanTree):
    """A tree with its name."""

    name: Name
    """Short name, by which entries refer to it."""


class NamedDomain(Domain):
    """A zone of names, with its name."""

    name: Host
    """The domain."""


class GeneralSettings(PlanElement):
    """Settings of the plan as a whole."""

    plan: Name
    """Its name."""
    serial: Serial = 1
    """Of the zones; every publication raises it."""
    caller: Name
    """The endpoint that calls if no other is named."""
    dns: Dns | None = None
    """What every zone begins with; no zones can be written without it."""
    external: tuple[Host, ...] = ()
    """Domains outside the plan to which URIs may lead."""
    emergency: tuple[Dialled, ...] = ("112", "911")
    """Emergency numbers as they are dialled."""


_LAST: Final = ("valid_from", "valid_until")
"""Fields that come after all others."""


@dataclass(frozen=True)
class PieceKind:
    """A kind of piece."""

    key: str
    title: str
    one: str
    """For sentences: ``range``."""
    model: type[BaseModel]
    first: tuple[str, ...]
    """Fields that come first; of these, the first one with a value names the piece."""
    named: bool = False
    """Is the part a mapping by name in the plan?"""
    hidden: tuple[str, ...] = ()
    """Fields of the model that are not part of the piece."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in the order in which they are written."""
        others = [name for name in self.model.model_fields if name not in (*self.first, *self.hidden)]
        return (*self.first, *sorted(others, key=_LAST.__contains__))

    def name_of(self, content: Mapping[str, Any]) -> str:
        """The name of a piece for people: ``+420950052``, ``core``."""
        return str(next((content[key] for key in self.first if content.get(key)), self.one))

    def label(self, content: Mapping[str, Any]) -> str:
        """For sentences: ``range +420950052``."""
        return self.one if self.key == GENERAL else f"{self.one} {self.name_of(content)}"

    def in_order(self, content: Mapping[str, Any]) -> Content:
        """``content`` with its fields in order, those without a value left out."""
        return {key: content[key] for key in self.fields if content.get(key) is not None}


GENERAL: Final = "general"

PARTS: Final = {
    part.key: part
    for part in (
        PieceKind(
            "organisations",
            "Organisations",
            "organisation",
            NamedOrganisation,
            ("name", "title"),
            True,
            ("contacts",),
        ),
        PieceKind("contacts", "Contacts", "contact", OwnedContact, ("name", "organisation")),
        PieceKind("ranges", "Number ranges", "range", Range, ("prefix", "owner")),
        PieceKind("engines", "Engines and gateways", "engine", NamedEngine, ("name", "kind"), True),
        PieceKind("enum", "ENUM entries", "entry", EnumEntry, ("number", "prefix", "tree")),
        PieceKind("routes", "Routes", "route", PlanRoute, ("prefix", "at", "to")),
        PieceKind("tests", "Test numbers", "test number", Test, ("number", "note")),
        PieceKind("trees", "ENUM trees", "tree", NamedTree, ("name", "suffix"), True),
        PieceKind("domains", "Domains", "domain", NamedDomain, ("name",), True),
        PieceKind(GENERAL, "The plan", "plan", GeneralSettings, ("plan",)),
    )
}


@dataclass(frozen=True)
class Item:
    """A piece as it is stored."""

    id: int
    part: str
    content: Content
    revision: int
    """The event that changed it last."""

    @property
    def label(self) -> str:
        """For sentences."""
        return PARTS[self.part].label(self.content)


def pieces(plan: NumberingPlan) -> Iterator[tuple[str, Content]]:
    """The pieces of a plan, including those from tables, in the order in which they are stored."""
    plain = plan.model_dump(mode="json", exclude_defaults=True)
    general = PARTS[GENERAL]
    yield GENERAL, general.in_order({**plain, "serial": plan.serial})
    for part in PARTS.values():
        if part.named:
            for name, content in plain.get(part.key, {}).items():
                yield part.key, part.in_order({**content, "name": name})
        elif part.key == "contacts":
            for name, content in plain.get("organisations", {}).items():
                for contact in content.get("contacts", ()):
                    yield part.key, part.in_order({**contact, "organisation": name})
        elif part.key != GENERAL:
            yield from ((part.key, part.in_order(content)) for content in plain.get(part.key, ()))


LISTS: Final[Mapping[str, type[BaseModel]]] = {
    "ranges": Range,
    "enum": EnumEntry,
    "routes": PlanRoute,
    "tests": Test,
}
"""Parts that are lists in the plan, and the model of their pieces."""

_ORDER: Final = ("organisations", "ranges", "engines", "trees", "enum", "routes", "domains", "tests")
"""The order in which parts are written."""

_NUMBER: Final = attrgetter("id")

T = TypeVar("T")


class InvalidPlan(Exception):
    """Pieces do not make a valid plan; ``problems`` say where and why."""

    def __init__(self, problems: list[tuple[Location, str]]) -> None:
        super().__init__(problems)
        self.problems = problems


@dataclass(frozen=True)
class PlanAssembly:
    """The plan made of pieces, and where each piece is in it."""

    items: tuple[Item, ...]
    """All pieces in the order of their numbers."""
    parts: Mapping[str, tuple[Item, ...]]
    """The same, by part."""

    @cached_property
    def plan(self) -> NumberingPlan:
        """The plan.

        Raises
        ------
        InvalidPlan
            There is none.
        """
        return _validated(self.value)

    def item(self, number: int) -> Item | None:
        """The piece with this number."""
        rank = _rank(self.items, number)
        return self.items[rank] if rank < len(self.items) and self.items[rank].id == number else None

    def changed(self, part: str, number: int, after: Item | None) -> PlanAssembly:
        """The same with the piece ``number`` of ``part`` added, replaced, or, with None, removed.

        Raises
        ------
        InvalidPlan
            The result is not a valid plan.
        """
        listed = _with(self.parts[part], number, after)
        made = PlanAssembly(_with(self.items, number, after), {**self.parts, part: listed})
        made.__dict__["plan"] = self._plan_with(part, number, after, made)
        return made

    def _plan_with(self, part: str, number: int, after: Item | None, made: PlanAssembly) -> NumberingPlan:
        """The plan of ``made``, which differs from this one in one piece."""
        if part not in LISTS:
            lists = {name: getattr(self.plan, name) for name in LISTS}
            return _validated(made._of(part for part in PARTS if part not in LISTS)).model_copy(update=lists)
        try:
            read = None if after is None else LISTS[part].model_validate(PARTS[part].in_order(after.content))
        except ValidationError:
            # Reported with its place in the plan.
            return _validated(made.value)
        rank = _rank(self.parts[part], number)
        there = rank < len(self.parts[part]) and self.parts[part][rank].id == number
        pieces = getattr(self.plan, part)
        new = (*pieces[:rank], *(() if read is None else (read,)), *pieces[rank + there :])
        return self.plan.model_copy(update={part: new})

    @cached_property
    def value(self) -> Content:
        """The plan as plain values, in the order in which it is written."""
        return self._of(PARTS)

    def _of(self, parts: Iterable[str]) -> Content:
        wanted = {*parts}
        value: Content = {}
        for item in self.parts[GENERAL]:
            value.update(PARTS[GENERAL].in_order(item.content))
        external = value.pop("external", None)
        for key in _ORDER:
            if not self.parts[key] or key not in wanted:
                continue
            part = PARTS[key]
            contents = [part.in_order(item.content) for item in self.parts[key]]
            value[key] = {each.pop("name"): each for each in contents} if part.named else contents
        value.setdefault("engines", {})
        for item in self.parts["contacts"]:
            content = PARTS["contacts"].in_order(item.content)
            name = content.pop("organisation")
            # The organisation may be missing: removing one is refused because of its contacts.
            around = value.setdefault("organisations", {}).setdefault(name, {})
            around.setdefault("contacts", []).append(content)
        if external:
            value["external"] = external
        return value

    def find(self, location: Location) -> tuple[Item | None, str]:
        """The piece at ``location``, and the field in it, as in ``naptr.0.uri``."""
        item, rest = self._piece(location)
        return item, "" if item is None else _field(item, rest)

    def rank(self, location: Location) -> tuple[int, int, str]:
        """A sort key: the position of ``location`` in the plan."""
        section = _ORDER.index(str(location[0])) + 1 if location and location[0] in _ORDER else 0
        item, rest = self._piece(location)
        return section, 0 if item is None else item.id, ".".join(map(str, rest))

    def _piece(self, location: Location) -> tuple[Item | None, Location]:
        """The piece at ``location``, and where in it."""
        match location:
            case (str(part), int(index), *rest) if part in LISTS and index < len(self.parts[part]):
                return self.parts[part][index], tuple(rest)
            case ("organisations", name, "contacts", int(index), *rest):
                own = [each for each in self.parts["contacts"] if each.content["organisation"] == name]
                if index < len(own):
                    return own[index], tuple(rest)
            case (str(part), str(name), *rest) if part in PARTS and PARTS[part].named:
                for item in self.parts[part]:
                    if item.content["name"] == name:
                        return item, tuple(rest)
        general = self.parts[GENERAL]
        return (general[0] if general else None), location


def whole(items: Iterable[Item]) -> PlanAssembly:
    """The plan made of ``items``."""
    listed = tuple(sorted(items, key=_NUMBER))
    parts: dict[str, list[Item]] = {key: [] for key in PARTS}
    for item in listed:
        parts[item.part].append(item)
    return PlanAssembly(listed, {key: tuple(each) for key, each in parts.items()})


def _validated(value: Content) -> NumberingPlan:
    try:
        return NumberingPlan.model_validate(value)
    except ValidationError:
        raise InvalidPlan(scenario.problems(value, NumberingPlan)) from None


def _rank(items: Sequence[Item], number: int) -> int:
    return bisect_left(items, number, key=_NUMBER)


def _with(items: tuple[Item, ...], number: int, after: Item | None) -> tuple[Item, ...]:
    rank = _rank(items, number)
    there = rank < len(items) and items[rank].id == number
    return (*items[:rank], *(() if after is None else (after,)), *items[rank + there :])


def _field(item: Item, rest: Location) -> str:
    """The field at ``rest`` in a piece; the first one if it has its own fields."""
    part = PARTS[item.part]
    if not rest:
        return next((name for name in part.first if item.content.get(name)), part.first[0])
    value: Any = item.content
    for key in rest:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            value = None
    more = [next(iter(value))] if isinstance(value, Mapping) and value and isinstance(rest[-1], int) else []
    return ".".join(map(str, (*rest, *more)))


def with_serial(items: Iterable[Item], serial: int) -> list[Item]:
    """``items`` with another serial of the plan."""
    return [
        Item(item.id, item.part, {**item.content, "serial": serial}, item.revision)
        if item.part == GENERAL
        else item
        for item in items
    ]
