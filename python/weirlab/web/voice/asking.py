"""Requests and responses of the API of zone management."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from weirlab.numbering.managing.pieces import GENERAL, PARTS, PieceKind
from weirlab.numbering.managing.state import Problem
from weirlab.numbering.managing.transaction import PlanEvent, UserAccount

Kind = Literal["text", "number", "flag", "date", "choice", "words", "pairs", "rows", "group"]

_NAMES: Final = {
    "owner": "organisations",
    "delegated_by": "organisations",
    "organisation": "organisations",
    "admits": "organisations",
    "home": "engines",
    "at": "engines",
    "to": "engines",
    "caller": "engines",
    "ends_at": "engines",
    "hand_over": "engines",
    "tree": "trees",
    "trees": "trees",
    "refer": "trees",
    "via": "trees",
}
"""Fields that name another piece, and its part."""
_TIMES: Final = {
    "ttl": "time to live, s", "negative_ttl": "negative time to live, s", "refresh": "refresh, s",
    "retry": "retry, s", "expire": "expire, s",
}  # fmt: skip
"""Labels of times."""
_FIXED: Final = ("serial",)
"""Fields that forms do not show."""


@dataclass(frozen=True)
class FormField:
    """A field of a form."""

    name: str
    label: str
    help: str
    kind: Kind
    required: bool
    choices: tuple[str, ...] = ()
    """Values of a choice, or keys of pairs."""
    names: str = ""
    """The part whose names can be entered."""
    fields: tuple[FormField, ...] = ()
    """Fields of each row, or of the group."""
    default: Any = None


def fields(part: PieceKind) -> tuple[FormField, ...]:
    """The fields of a piece, in order."""
    schema = part.model.model_json_schema()
    shown = [name for name in part.fields if not (part.key == GENERAL and name in _FIXED)]
    return tuple(_field(name, schema, schema.get("$defs", {})) for name in shown)


def _field(name: str, around: Mapping[str, Any], defs: Mapping[str, Any]) -> FormField:
    described = around["properties"][name]
    schema = _resolved(described, defs)
    required = name in around.get("required", ())
    label = name.replace("_", " ")
    label = {"naptr": "NAPTR records", "uri": "URI", "dns": "DNS", **_TIMES}.get(name, label)
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    inner: tuple[FormField, ...] = ()
    match schema.get("type"):
        case "boolean":
            kind = "flag"
        case "integer":
            kind = "number"
        case "array":
            items = _resolved(schema.get("items", {}), defs)
            kind = "rows" if items.get("type") == "object" else "words"
            if kind == "rows":
                inner = tuple(_field(each, items, defs) for each in items["properties"])
        case "object" if "properties" in schema:
            kind = "group"
            inner = tuple(_field(each, schema, defs) for each in schema["properties"])
        case "object":
            kind = "pairs"
            choices = tuple(_resolved(schema.get("propertyNames", {}), defs).get("enum", ()))
        case _ if "enum" in schema:
            kind, choices = "choice", tuple(schema["enum"])
        case _ if schema.get("format") == "date":
            kind = "date"
    return FormField(
        name=name,
        label=label[:1].upper() + label[1:],
        help=str(described.get("description", "")),
        kind=kind,
        required=required,
        choices=choices,
        names=_NAMES.get(name, ""),
        fields=inner,
        default=described.get("default"),
    )


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """``schema`` with references resolved, and without the null of optional values."""
    if "anyOf" in schema:
        options = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return _resolved(options[0], defs)
    if "$ref" in schema:
        return _resolved(defs[schema["$ref"].rpartition("/")[2]], defs)
    return schema


FIELDS: Final = {key: fields(part) for key, part in PARTS.items()}
"""The fields of every part, by its key."""


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


class VoiceRequest(BaseModel):
    """A request, which refuses unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)


class SignInRequest(VoiceRequest):
    """A request to begin a session."""

    name: Annotated[str, Field(max_length=64)]
    password: Annotated[str, Field(max_length=1000)]


class PasswordRequest(VoiceRequest):
    """A request to change the user's password from ``before`` to ``after``."""

    before: Annotated[str, Field(max_length=1000)]
    after: Annotated[str, Field(max_length=1000)]


class EmptyRequest(VoiceRequest):
    """A request without content."""


class AddRequest(VoiceRequest):
    """A request to add a piece; ``accept``: despite mistakes that the checks find."""

    content: Content
    accept: bool = False


class ChangeRequest(VoiceRequest):
    """A request to change a piece that was read at ``revision``."""

    content: Content
    revision: EventNumber
    accept: bool = False


class RemoveRequest(VoiceRequest):
    """A request to remove a piece that was read at ``revision``."""

    revision: EventNumber
    accept: bool = False


class UndoRequest(VoiceRequest):
    """A request to undo an event."""

    accept: bool = False


class PublishRequest(VoiceRequest):
    """A request to publish the plan as it was at ``head``."""

    head: Annotated[int, Field(ge=0, le=2**31 - 1)]


@dataclass(frozen=True)
class User:
    """The user who is signed in."""

    name: str
    organisation: str | None
    administrator: bool
    publishes: bool
    form_key: str
    """For the header X-Weir-Form of requests that change something."""
    vouched: bool
    """Signed in by a proxy, which also handles signing out."""

    @classmethod
    def of(cls, account: UserAccount, form_key: str, *, vouched: bool) -> User:
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
    """Whether a user is signed in."""

    plan: str
    user: User | None
    refused: str = ""
    """Why a user named by a proxy is not signed in."""


@dataclass(frozen=True)
class PartState:
    """A part of the plan, with the fields of its forms."""

    key: str
    title: str
    one: str
    count: int
    errors: int
    warnings: int
    adds: bool
    """May the user add pieces, in principle?"""
    fields: tuple[FormField, ...]


@dataclass(frozen=True)
class Overview:
    """All parts, and the names that fields can refer to."""

    parts: list[PartState]
    names: dict[str, list[str]]
    problems: list[Problem]
    checking: bool
    """Has the whole plan not been checked yet?"""


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
    """Number of pieces found."""
    pieces: list[Piece]


@dataclass(frozen=True)
class ChangeResponse:
    """A change that was made."""

    event: PlanEvent
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class EventList:
    """Events, the latest first."""

    events: list[PlanEvent]
    more: bool


@dataclass(frozen=True)
class Way:
    """A way of a call; ``steps`` are engine and what happens there."""

    title: str
    steps: list[list[str]]


@dataclass(frozen=True)
class Ways:
    """Where a call goes, and the ways that are tried one after the other."""

    conclusion: str
    good: bool
    ways: list[Way]


@dataclass(frozen=True)
class RoutingDifference:
    """Numbers that are routed differently than before."""

    numbers: list[str]
    before: str
    after: str


@dataclass(frozen=True)
class PublicationBlock:
    """An organisation whose changes would not be published, and the errors that are the reason."""

    organisation: str
    errors: tuple[Problem, ...]


@dataclass(frozen=True)
class PreviewResponse:
    """What publishing would do."""

    head: int
    serial: int | None
    """Serial of the last publication."""
    events: list[PlanEvent]
    ways: list[RoutingDifference]
    untold: str
    errors: list[Problem]
    """Errors that keep everything from being published."""
    held: list[PublicationBlock]
    may: bool
    """May the user publish, and has the service a folder for zones?"""
    why_not: str


@dataclass(frozen=True)
class PublicationResponse:
    """What was published."""

    serial: int
    zones: tuple[str, ...]
    held: tuple[str, ...]
    """Organisations whose changes were held back."""


@dataclass(frozen=True)
class ServerZone:
    """The serial of a zone at a name server."""

    server: str
    zone: str
    serial: int | None
    """None if the server does not answer for the zone."""
    current: bool
    """Is it the published serial or, if BIND signs the zone, a later one?"""
