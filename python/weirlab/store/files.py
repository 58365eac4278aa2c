"""Files that are either complete or absent, and one wording for what a disk can refuse."""

from __future__ import annotations

import errno
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl

from weirlab.errors import StoreError

_ELSEWHERE: Final = "choose another place with --store DIR"
_FULL: Final = f"free some space there or {_ELSEWHERE}; what is complete stays readable"
_CLOSED: Final = f"make it writable for this user or {_ELSEWHERE}"
_ADVICE: Final[dict[int, tuple[str, str]]] = {
    errno.ENOSPC: ("no space is left on the disk", _FULL),
    errno.EDQUOT: ("the disk quota is used up", _FULL),
    errno.EROFS: ("the file system is read-only", _CLOSED),
    errno.EACCES: ("permission denied", _CLOSED),
    errno.EPERM: ("operation not permitted", _CLOSED),
    errno.ENOTDIR: ("a part of this path is a file, not a folder", _ELSEWHERE),
    errno.EEXIST: ("a file is in the way where a folder is needed", _ELSEWHERE),
    errno.EISDIR: ("a folder is in the way where a file is needed", _ELSEWHERE),
    errno.EIO: ("the disk reports an input/output error", f"check the disk or {_ELSEWHERE}"),
}

_BLOCK_BYTES: Final = 1 << 16

# Polars passes the operating system's error on as text only, and not always that.
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")


def explain(path: Path, doing: str, error: OSError | pl.exceptions.PolarsError) -> StoreError:
    """The ``StoreError`` that tells what ``doing`` with ``path`` met, and the way out."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (match := _OS_ERROR.search(str(error))):
        number = int(match[1])
    if number is None and doing == "write" and _is_full(path):
        number = errno.ENOSPC
    fallback = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    what, advice = _ADVICE.get(number or 0, (fallback, _ELSEWHERE))
    return StoreError(f"cannot {doing} {path}: {what}; {advice}")


def _is_full(path: Path) -> bool:
    try:
        state = os.statvfs(path.parent)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _BLOCK_BYTES


@contextmanager
def telling(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of the operating system inside the block into ``StoreError`` about ``path``."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        raise explain(path, doing, error) from error


def write_with(path: Path, write: Callable[[Path], object], *, durable: bool = False) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one step.

    Whatever goes wrong, a disk that fills up or Ctrl-C, ``path`` keeps what it had and no
    temporary file stays. ``durable`` also survives a power failure (costs an fsync).
    """
    scratch = path.with_name(f".{path.name}.tmp")
    try:
        with telling(path, "write"):
            write(scratch)
            if durable:
                with scratch.open("rb") as file:
                    os.fsync(file.fileno())
            scratch.replace(path)
    except BaseException:
        with suppress(OSError):
            scratch.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write ``content`` to ``path`` in one step, see :func:`write_with`."""
    write_with(path, lambda scratch: scratch.write_bytes(content), durable=durable)


def write_json(path: Path, value: object, *, durable: bool = False) -> None:
    """Write ``value`` as JSON in one step, see :func:`plain` for what is accepted."""
    text = json.dumps(plain(value), indent=1, ensure_ascii=False, allow_nan=False)
    write_bytes(path, text.encode() + b"\n", durable=durable)


def read_json(path: Path, remedy: str) -> Any:
    """Read JSON; raises ``StoreError`` naming the file and ``remedy`` when it is damaged."""
    try:
        with telling(path, "read"):
            content = path.read_bytes()
        return json.loads(content)
    except ValueError as error:
        raise StoreError(f"{path} is damaged (not JSON: {error}); {remedy}") from error


def plain(value: object) -> Any:
    """``value`` as JSON knows it.

    Dataclasses and mappings become objects, sequences, sets and arrays become arrays, paths
    become text; a number that is not finite becomes null, for which JSON has no word.
    """
    match value:
        case None | bool() | str():
            return value
        case np.generic() | np.ndarray():
            return plain(value.tolist())
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted((plain(item) for item in value), key=str)
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
        case _:
            return str(value)
