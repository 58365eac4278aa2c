"""Dataclasses as JSON documents and back, for files, tables and ``--json``.

A document has the fields of its dataclass, in their order. A dataclass can say that

- a field is left out if it is empty: ``field(default=None, metadata=SPARSE)``;
- null in a field means NaN, or infinity: ``Measured``, or ``Unlimited``, instead of ``float``;
- a field holds an array: ``Array``;
- its document deliberately differs: a method ``to_json`` returns it. Reading ignores the fields it adds.

pydantic reads documents, and is imported when the first one is read; so is numpy for the first array.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeVar

from weirlab.base.quoting import quoted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from pydantic import GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema

T = TypeVar("T")

SPARSE: Final[Mapping[str, Any]] = {"sparse": True}
"""Metadata of a field that documents leave out while it is empty."""


def plain(value: object) -> Any:
    """``value`` in the types that JSON has.

    Dataclasses and mappings become objects, sequences, sets and arrays become arrays, paths and dates
    become text. A number that is not finite becomes null, since JSON cannot express it.
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | Sequence():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=str)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return plain(value.to_json()) if hasattr(value, "to_json") else plain(document_of(value))
        case _ if hasattr(value, "tolist"):  # NumPy arrays and numbers; this module does not import NumPy.
            return plain(value.tolist())
        case _ if hasattr(value, "isoformat"):
            return value.isoformat()
        case _:
            return str(value)


class Rows(Sequence[Any]):
    """Part of a document that is too large to be held: each row is made when it is written.

    Parameters
    ----------
    source
        What the rows are made of.
    row
        Makes one.
    """

    def __init__(self, source: Sequence[T], row: Callable[[T], Any]) -> None:
        self._source, self._row = source, row

    def __len__(self) -> int:
        return len(self._source)

    def __getitem__(self, at: Any) -> Any:
        return self._row(self._source[at])

    def __iter__(self) -> Iterator[Any]:
        return map(self._row, self._source)


def document_of(value: Any) -> dict[str, Any]:
    """The fields of a dataclass by name, without those that are ``SPARSE`` and empty."""
    found = {}
    for field in fields(value):
        content = getattr(value, field.name)
        if "sparse" not in field.metadata or content:
            found[field.name] = content
    return found


def typed(kind: type[T], document: object) -> T:
    """The inverse of :func:`plain`: ``document``, of JSON values, as a ``kind``.

    Missing fields get their defaults. Only what JSON cannot express is converted: a list becomes a tuple and
    null a ``Measured`` NaN, but a string does not become a number, nor 2.5 a count.

    Raises
    ------
    ValueError
        ``document`` does not fit; the message names the place. Errors that the dataclass itself raises for
        impossible values, such as ``InputError``, are passed on.
    """
    from pydantic import ValidationError

    extra: Literal["ignore", "forbid"] = "ignore" if hasattr(kind, "to_json") else "forbid"
    adapter: TypeAdapter[T] = _adapter(kind)
    try:
        return adapter.validate_json(json.dumps(document), strict=True, extra=extra)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or getattr(kind, "__name__", str(kind))
        raise ValueError(f"{place}: {first['msg']}, not {quoted(first['input'])}") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    if kind not in _adapters:
        _adapters[kind] = TypeAdapter(kind)
    return _adapters[kind]


_adapters: Final[dict[Any, TypeAdapter[Any]]] = {}
"""Made once for each kind, since it takes a while."""


@dataclass(frozen=True)
class _NullReplacement:
    number: float

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import no_info_before_validator_function

        return no_info_before_validator_function(
            lambda value: self.number if value is None else value, handler(source)
        )


class _ArraySchema:
    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core.core_schema import no_info_plain_validator_function

        return no_info_plain_validator_function(_array)


def _array(value: Any) -> npt.NDArray[np.float64]:
    import numpy as np

    try:
        return np.asarray(value, dtype=np.float64)
    except TypeError as error:
        # pydantic reports only a ValueError as an invalid value.
        raise ValueError(str(error)) from error


Measured = Annotated[float, _NullReplacement(math.nan)]
"""A number that may be unknown: NaN, in documents null."""

Unlimited = Annotated[float, _NullReplacement(math.inf)]
"""A number that may be infinite, in documents null."""

if TYPE_CHECKING:
    Array = npt.NDArray[np.float64]
    """An array of numbers, in documents lists; a null in it is NaN."""
else:
    Array = Annotated[Any, _ArraySchema()]
