"""The pieces of a plan, which are changed one at a time: their models and names. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import BaseModel

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
from weirlab.numbering.plan.values import Host, Name, Serial

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
