"""What the API of zone management is asked and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from weirlab.studies.voice.managing.state import Problem
from weirlab.studies.voice.managing.transaction import Account, Event
from weirlab.web.voice import fields

PartName = Literal[
    "organisations",
    "contacts",
    "ranges",
    "engines",
    "enum",
    "routes",
    "tests",
    "trees",
    "domains",
    "general",
]
Content = dict[str, Any]
EventNumber = Annotated[int, Field(ge=1, le=2**31 - 1)]


class Asked(BaseModel):
    """A request; nothing unknown is in it."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SignIn(Asked):
    """To begin a session."""

    name: Annotated[str, Field(max_length=64)]
    password: Annotated[str, Field(max_length=1000)]


class NewPassword(Asked):
    """To change one's own password from ``before`` to ``after``."""

    before: Annotated[str, Field(max_length=1000)]
    after: Annotated[str, Field(max_length=1000)]


class Nothing(Asked):
    """A request without content."""


class Add(Asked):
    """To add a piece; ``accept``: also with mistakes that the checks find."""

    content: Content
    accept: bool = False


class Change(Asked):
    """To change a piece that was read at ``revision``."""

    content: Content
    revision: EventNumber
    accept: bool = False


class Remove(Asked):
    """To remove a piece that was read at ``revision``."""

    revision: EventNumber
    accept: bool = False


class Undo(Asked):
    """To undo an event."""

    accept: bool = False


class Publish(Asked):
    """To publish the plan as it was seen at ``head``."""

    head: Annotated[int, Field(ge=0, le=2**31 - 1)]


@dataclass(frozen=True)
class User:
    """Who is signed in."""

    name: str
    organisation: str | None
    administrator: bool
    publishes: bool
    form_key: str
    """For the header X-Weir-Form of requests that change something."""
    vouched: bool
    """By a proxy: signing out is its business."""

    @classmethod
    def of(cls, account: Account, form_key: str, *, vouched: bool) -> User:
        return cls(
            account.name,
            account.organisation,
            account.administrator,
            account.may_publish,
            form_key,
            vouched,
        )


@dataclass(frozen=True)
class SessionState:
    """Whether anybody is signed in."""

    plan: str
    user: User | None
    refused: str = ""
    """Why somebody whom a proxy names is not."""


@dataclass(frozen=True)
class PartState:
    """A part of the plan, and what its forms ask for."""

    key: str
    title: str
    one: str
    count: int
    errors: int
    warnings: int
    adds: bool
    """May the user add a piece, in principle?"""
    fields: tuple[fields.Field, ...]


@dataclass(frozen=True)
class Overview:
    """All parts, and the names that fields can refer to."""

    parts: list[PartState]
    names: dict[str, list[str]]
    problems: list[Problem]
    checking: bool
    """Have the checks not looked at the whole plan yet?"""


@dataclass(frozen=True)
class Piece:
    """A piece of the plan."""

    id: int
    revision: int
    name: str
    content: Content
    mine: bool
    """May the user change it?"""
    problems: list[Problem]


@dataclass(frozen=True)
class Pieces:
    """Some of the pieces of a part."""

    total: int
    """That were found."""
    pieces: list[Piece]


@dataclass(frozen=True)
class Made:
    """A change that was made."""

    event: Event
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Events:
    """Events, the latest first."""

    events: list[Event]
    more: bool


@dataclass(frozen=True)
class Way:
    """Numbers that go another way than before."""

    numbers: list[str]
    before: str
    after: str


@dataclass(frozen=True)
class Unpublished:
    """What publishing would do."""

    head: int
    serial: int | None
    """Published last."""
    events: list[Event]
    ways: list[Way]
    untold: str
    errors: list[Problem]
    may: bool
    """May the user publish, and does the service know where to?"""
    why_not: str


@dataclass(frozen=True)
class Publication:
    """What was published."""

    serial: int
    zones: tuple[str, ...]


@dataclass(frozen=True)
class ServerZone:
    """Which serial a name server has of a zone."""

    server: str
    zone: str
    serial: int | None
    """None: it does not answer for the zone."""
    current: bool
    """Is it the published one, or, where BIND signs the zone, a later one?"""
