"""Rows that are dataclasses as Polars frames and back: a table's columns are its row's fields."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import MISSING, Field, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
import polars as pl

R = TypeVar("R")

Schema = dict[str, pl.DataType]

INT: Final = pl.Int64()
FLOAT: Final = pl.Float64()
TEXT: Final = pl.String()
BOOL: Final = pl.Boolean()

_KINDS: Final[dict[Any, pl.DataType]] = {str: TEXT, int: INT, float: FLOAT, bool: BOOL}
_ARRAYS: Final[dict[str, pl.DataType]] = {"b": BOOL, "i": INT, "u": INT, "f": FLOAT}
"""By numpy's kind of array. Counts are signed, so that differences of columns cannot wrap around."""


def schema_of(row: type) -> Schema:
    """The columns of a table of ``row``, a dataclass; its fields may be arrays of such values, too.

    Raises ``TypeError`` for a field that no column can hold.
    """
    return dict(_schema(row))


def frame_of(row: type[R], rows: Iterable[R]) -> pl.DataFrame:
    """``rows`` as a table; what is not known, None or NaN, is null."""
    schema = schema_of(row)
    values = ([getattr(each, name) for name in schema] for each in rows)
    # A row at a time, which is what there mostly is, takes a tenth of the time of columns of one value.
    listed = [tuple(None if value != value else value for value in each) for each in values]
    return pl.DataFrame(listed, schema=schema, orient="row")


def rows_of(row: type[R], frame: pl.DataFrame) -> list[R]:
    """Inverse of :func:`frame_of`.

    A null is NaN again where the field is a number. Columns that a later Weir added are left out, those that
    an earlier one did not write have the fields' defaults.
    """
    hints = get_type_hints(row)
    known = [field.name for field in fields(row) if field.name in frame.columns]  # type: ignore[arg-type]
    return [
        row(
            **{
                name: math.nan if value is None and hints[name] is float else value
                for name, value in one.items()
            }
        )
        for one in frame.select(known).iter_rows(named=True)
    ]


def completed(row: type, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with all columns of ``row``, a dataclass.

    Columns that an earlier Weir did not write have the fields' defaults; null without one, and for NaN.
    """
    schema = schema_of(row)
    missing = [each for each in fields(row) if each.name not in frame.columns]
    filled = (pl.lit(_default(each), dtype=schema[each.name]).alias(each.name) for each in missing)
    return frame.with_columns(filled)


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
