"""The fields of forms, made from the models of a plan's pieces."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from weirlab.numbering.managing.parts import GENERAL, PARTS, PieceKind

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
