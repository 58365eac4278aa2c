"""Errors of the operating system in words: what happened to which file, and what to do about it."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from weirlab.base.errors import DiskFull, StoreError
from weirlab.base.quoting import printable, shortened

ELSEWHERE: Final = "choose another place"

_SHOWN: Final = 320
"""Characters of a path in a message; a name alone may have 255."""
_LEAST_BYTES: Final = 1 << 16
"""A disk with less free space than this is full."""
LONG_NAME: Final = ("the name is too long", "give a shorter one")
_ADVICE: Final[dict[int, tuple[str, str]]] = {
    errno.ENOSPC: ("no space is left on the disk", "free some space there or {elsewhere}"),
    errno.EDQUOT: ("the disk quota is used up", "free some space there or {elsewhere}"),
    errno.EFBIG: ("the file would be larger than is allowed", "{elsewhere}, or raise the limit (ulimit -f)"),
    errno.EROFS: ("the file system is read-only", "make it writable for this user or {elsewhere}"),
    errno.EACCES: ("permission denied", "make it writable for this user or {elsewhere}"),
    errno.EPERM: ("operation not permitted", "make it writable for this user or {elsewhere}"),
    errno.ENOTDIR: ("a part of this path is a file, not a folder", "{elsewhere}"),
    errno.EEXIST: ("a file is in the way where a folder is needed", "{elsewhere}"),
    errno.EISDIR: ("a folder is in the way where a file is needed", "{elsewhere}"),
    errno.ELOOP: ("a symbolic link is in the way, or links lead in a circle", "{elsewhere}"),
    errno.EIO: ("the disk reports an input/output error", "check the disk or {elsewhere}"),
    errno.ENAMETOOLONG: LONG_NAME,
}
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)
_KINDS: Final = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a symbolic link",
}

# Polars passes the operating system's error on as text only, and not always that.
_OS_ERROR: Final = re.compile(r"\(os error (\d+)\)")


def explain(path: Path, doing: str, error: Exception, elsewhere: str = ELSEWHERE) -> StoreError:
    """The ``StoreError`` that says why ``doing`` failed for ``path``, and what to do about it."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (match := _OS_ERROR.search(str(error))):
        number = int(match[1])
    if number is None and doing == "write" and _is_full(path):
        number = errno.ENOSPC
    fallback = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
    what, advice = _ADVICE.get(number or 0, (fallback, "{elsewhere}"))
    message = f"cannot {doing} {shown(path)}: {what}; {advice.format(elsewhere=elsewhere)}"
    return DiskFull(message) if number in _FULL else StoreError(message)


@contextmanager
def telling(path: Path, doing: str, elsewhere: str = ELSEWHERE) -> Iterator[None]:
    """Turn errors of the operating system inside the block into ``StoreError`` about ``path``."""
    try:
        yield
    except OSError as error:
        raise explain(path, doing, error, elsewhere) from error


def shown(path: Path) -> str:
    """A path for a message: printable, and without its middle if it is very long."""
    return shortened(printable(str(path)), _SHOWN)


def kind_of(mode: int) -> str:
    """What kind of file it is if it is not a regular one: ``a pipe``."""
    return _KINDS.get(stat.S_IFMT(mode), "not a regular file")


def _is_full(path: Path) -> bool:
    try:
        state = os.statvfs(path.parent)
    except OSError:
        return False
    return state.f_bavail * state.f_frsize < _LEAST_BYTES
