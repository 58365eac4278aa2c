"""Files of the store: errors of the operating system and of Polars as ``StoreError``, and JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from weirlab.base import files
from weirlab.base.documents import plain

_ELSEWHERE: Final = "choose another place with --store DIR"


load_json: Final = partial(files.load_json, elsewhere=_ELSEWHERE)


def _polars_errors() -> tuple[type[Exception], ...]:
    """The errors that Polars raises. Listing runs does without Polars, whose import takes longer."""
    polars = sys.modules.get("polars")
    return () if polars is None else (polars.exceptions.PolarsError,)


@contextmanager
def telling(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of the operating system or Polars inside the block into ``StoreError`` about ``path``."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (OSError, *_polars_errors())):
            raise
        raise files.explain(path, doing, error, _ELSEWHERE) from error


def write_with(path: Path, write: Callable[[BinaryIO], object], *, durable: bool = False) -> None:
    """Let ``write`` fill a file, then put it in place of ``path`` in one step; see :func:`files.write`."""
    with telling(path, "write"):
        files.write(path, write, durable=durable, elsewhere=_ELSEWHERE)


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write ``content`` to ``path`` in one step, see :func:`write_with`."""
    write_with(path, lambda file: file.write(content), durable=durable)


def write_json(path: Path, value: object, *, durable: bool = False) -> None:
    """Write ``value`` as JSON in one step, see :func:`weirlab.base.documents.plain` for what is accepted."""
    text = json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n", durable=durable)
