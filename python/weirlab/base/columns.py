"""Columns of stored tables, each described once, as a field of the dataclass that represents a row."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Final

_UNITS: Final[Mapping[str, str]] = {
    "_ns": "ns",
    "_ms": "ms",
    "_s": "s",
    "_pps": "packets/s",
    "_bytes": "bytes",
    "_ratio": "0 to 1",
    "_share": "0 to 1",
    "_mhz": "MHz",
    "_c": "°C",
}
_TYPES: Final[Mapping[str, str]] = {"str": "text", "int": "integer", "float": "real", "bool": "boolean"}


@dataclass(frozen=True)
class Column:
    """A column as documents show it."""

    name: str
    type: str
    unit: str
    """From the suffix of the name; empty without one."""
    meaning: str


def described(row: type) -> list[Column]:
    """The columns of ``row`` and its base classes, described by the string below each field in the source.

    Raises
    ------
    LookupError
        A field has no description.
    """
    told: dict[str, str] = {}
    for part in reversed(row.__mro__):
        if is_dataclass(part):
            told |= _docstrings(part)
    return [
        Column(
            field.name, _TYPES.get(_plain(field.type), _plain(field.type)), unit(field.name), told[field.name]
        )
        for field in fields(row)
    ]


def unit(name: str) -> str:
    """The unit of a quantity, from the suffix of its name; empty without one."""
    return next((text for end, text in _UNITS.items() if name.endswith(end)), "")


def _plain(annotation: object) -> str:
    """``float`` of ``float | None``."""
    return str(annotation).split(" | ")[0]


def _docstrings(row: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(row))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            found[statement.target.id] = " ".join(str(following.value.value).split())
    return found
