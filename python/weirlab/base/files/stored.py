"""Files of a store or of another folder that Weir wrote, which may come from elsewhere.

Only regular files are opened, and none is read beyond a limit. Folders on their path may be links.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO, Final

from weirlab.base.errors import StoreError
from weirlab.base.files.refusals import ELSEWHERE, kind_of, shown, telling
from weirlab.base.limits import MOST_JSON_BYTES, MOST_JSON_VALUES

_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. A link in its place is not followed, and no pipe is waited for.

    Raises
    ------
    StoreError
        It is something else: a link, a pipe, a device, a folder, a socket.
    OSError
        It cannot be opened.
    """
    # Opening a device may have effects, so the kind is checked before, and again after.
    _require_regular(path, os.lstat(path).st_mode)
    try:
        # The file owns its descriptor from the start: an interrupt never leaves it open, or closes it twice.
        file = open(path, "rb", opener=lambda name, _: os.open(name, _FLAGS))  # noqa: SIM115
    except OSError as error:
        if error.errno == errno.ELOOP:
            _require_regular(path, os.lstat(path).st_mode)
        raise
    try:
        _require_regular(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def read_regular(path: Path, limit: int) -> bytes:
    """The content of a regular file, opened by :func:`open_regular`.

    Raises
    ------
    StoreError
        It is something else, or has more than ``limit`` bytes.
    OSError
        It cannot be read.
    """
    with open_regular(path) as file:
        content = file.read(limit + 1)
    if len(content) > limit:
        raise StoreError(
            f"{shown(path)} has more than {limit:,} bytes, and Weir writes no such file; delete it or "
            "restore it from a copy"
        )
    return content


def load_json(path: Path, remedy: str, *, limit: int = MOST_JSON_BYTES, elsewhere: str = ELSEWHERE) -> Any:
    """The JSON in a regular file of at most ``limit`` bytes.

    Raises ``StoreError`` that names the file, and ``remedy`` if it is damaged.
    """
    with telling(path, "read", elsewhere):
        content = read_regular(path, limit)
    # An empty list in a list takes two bytes in the file and 64 in memory.
    if content.count(b",") + content.count(b"[") + content.count(b"{") > MOST_JSON_VALUES:
        raise StoreError(f"{shown(path)} is damaged (more than {MOST_JSON_VALUES:,} values); {remedy}")
    try:
        return json.loads(content)
    except ValueError as error:
        raise StoreError(f"{shown(path)} is damaged (not JSON: {error}); {remedy}") from error
    except RecursionError as error:
        raise StoreError(f"{shown(path)} is damaged (nested too deeply); {remedy}") from error


def _require_regular(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise StoreError(
            f"{shown(path)} is {kind_of(mode)}, where a regular file was expected; delete it or restore it "
            "from a copy"
        )
