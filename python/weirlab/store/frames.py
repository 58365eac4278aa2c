"""Converts dataclass rows to Polars frames and back: the fields of the row are the columns of the table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl

from weirlab.base.errors import StoreError

R = TypeVar("R")

Schema = dict[str, pl.DataType]

INT: Final = pl.Int64()
FLOAT: Final = pl.Float64()
TEXT: Final = pl.String()
BOOL: Final = pl.Boolean()

_MOST_ROWS: Final = 1_000_000
_REMEDY: Final = "restore it from a copy or delete its run"

_KINDS: Final[dict[Any, pl.DataType]] = {str: TEXT, int: INT, float: FLOAT, bool: BOOL}
_ARRAYS: Final[dict[str, pl.DataType]] = {"b": BOOL, "i": INT, "u": INT, "f": FLOAT}
"""By numpy's array kind. Counts are signed, so that differences of columns cannot wrap around."""


def schema_of(row: type) -> Schema:
    """The columns of a table of ``row``, a dataclass; its fields may also be arrays.

    Raises ``TypeError`` for a field that no column can hold.
    """
    return dict(_schema(row))


def frame_of(row: type[R], rows: Iterable[R]) -> pl.DataFrame:
    """``rows`` as a table; unknown values, None or NaN, are null."""
    schema = schema_of(row)
    values = ([getattr(each, name) for name in schema] for each in rows)
    # Most frames have one row. Building it as a row takes a tenth of the time of columns with one value.
    listed = [tuple(None if value != value else value for value in each) for each in values]
    return pl.DataFrame(listed, schema=schema, orient="row")


def checked(columns: type | Schema, frame: pl.DataFrame, what: str) -> pl.DataFrame:
    """``frame``, if it has the ``columns``: all of a schema, or the fields of a row class without a default.

    Raises ``StoreError`` about ``what`` that names the columns that are missing, or hold something else.
    """
    schema = schema_of(columns) if isinstance(columns, type) else columns
    known, wrong = frame.schema, []
    for name, kind in schema.items():
        found = known.get(name)
        if found is None and not (isinstance(columns, type) and name in _later(columns)):
            wrong.append(f"it has no column {name}")
        elif found not in (None, kind, pl.Null) and not (found.is_numeric() and kind.is_numeric()):
            wrong.append(f"its column {name} holds {found} instead of {kind}")
    if wrong:
        raise StoreError(f"{what} is damaged: {', '.join(wrong)}; {_REMEDY}")
    return frame


def rows_of(row: type[R], frame: pl.DataFrame, what: str = "") -> list[R]:
    """Inverse of :func:`frame_of`; messages call the table ``what``.

    A null becomes NaN again if the field is a float. Columns that a later version added are left out; fields
    that an earlier version did not write get their defaults. Raises ``StoreError`` for more rows than any
    study writes, as each takes some hundred bytes, and for other columns than Weir writes.
    """
    what = what or f"a table of {row.__name__}"
    if frame.height > _MOST_ROWS:
        raise StoreError(f"{what} has {frame.height:,} rows, and no study writes more than {_MOST_ROWS:,}")
    hints, schema = get_type_hints(row), schema_of(row)
    known = [name for name in schema if name in checked(row, frame, what).columns]
    try:
        frame = frame.select(known).cast({name: schema[name] for name in known})
    except pl.exceptions.PolarsError as error:
        raise StoreError(f"{what} is damaged ({error}); {_REMEDY}") from error
    return [
        row(
            **{
                name: math.nan if value is None and hints[name] is float else value
                for name, value in one.items()
            }
        )
        for one in frame.iter_rows(named=True)
    ]


def completed(row: type, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with all columns of ``row``, a dataclass.

    Columns that an earlier version did not write get the fields' defaults; null without one, or for NaN.
    """
    schema = schema_of(row)
    missing = [field for field in fields(row) if field.name not in frame.columns]
    filled = (pl.lit(_default(each), dtype=schema[each.name]).alias(each.name) for each in missing)
    return frame.with_columns(filled)


@cache
def _later(row: type) -> frozenset[str]:
    """The fields that rows of earlier versions may lack."""
    return frozenset(
        field.name for field in fields(row) if not (field.default is field.default_factory is MISSING)
    )


@cache
def _schema(row: type) -> Schema:
    hints = get_type_hints(row)
    return {field.name: _column(hints[field.name]) for field in fields(row)}


def _default(field: Field[Any]) -> Any:
    if field.default is MISSING or field.default != field.default:
        return None
    return field.default


def _column(hint: Any) -> pl.DataType:
    if get_origin(hint) is UnionType:
        (hint,) = (choice for choice in get_args(hint) if choice is not NoneType)
    if get_origin(hint) is Literal:
        hint = type(get_args(hint)[0])
    if get_origin(hint) is np.ndarray:
        (kind,) = get_args(get_args(hint)[1])
        return _ARRAYS[np.dtype(kind).kind]
    if hint not in _KINDS:
        raise TypeError(f"no column of a table can hold {hint}")
    return _KINDS[hint]
