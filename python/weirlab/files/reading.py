"""Input files: a regular file, or a pipe with a writer, with an upper limit on the size."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

from weirlab.errors import InputError
from weirlab.files.refusals import LONG_NAME, kind_of, shown

_BLOCK_BYTES: Final = 1 << 16


def read_bytes(path: Path, what: str, limit: int) -> bytes:
    """The content of an input file; ``what`` names the expected input in messages, e.g. "a ruleset".

    Raises ``InputError`` if it cannot be read, is neither a regular file nor a pipe with a writer, or has
    more than ``limit`` bytes.
    """
    advice = f"give the path of {what}"
    try:
        # Without O_NONBLOCK, opening a pipe blocks until its other end is opened.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        try:
            mode = os.fstat(fd).st_mode
            first: bytes | None = None
            if stat.S_ISFIFO(mode):
                first = _first(fd)
                if first == b"":
                    raise InputError(
                        f"{shown(path)}: that is a pipe without a writer, or one that was already read; "
                        f"{advice}"
                    )
                os.set_blocking(fd, True)
            elif not stat.S_ISREG(mode):
                raise InputError(f"{shown(path)}: that is {kind_of(mode)}; {advice}")
            content = (first or b"") + _up_to(fd, limit + 1)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise InputError(f"{shown(path)}: no such file; {advice}") from None
    except OSError as error:
        reason = LONG_NAME[0] if error.errno == errno.ENAMETOOLONG else error.strerror
        raise InputError(f"{shown(path)}: cannot be read: {reason}; {advice}") from error
    if len(content) > limit:
        raise InputError(f"{shown(path)}: more than {limit:,} bytes, and {what} is never so large; {advice}")
    return content


def read_text(path: Path, what: str, limit: int) -> str:
    """As :func:`read_bytes`, for UTF-8 text; all line endings become ``\\n``."""
    content = read_bytes(path, what, limit)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise InputError(f"{shown(path)}:{line}:{column}: not UTF-8 text, and {what} is") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _first(pipe: int) -> bytes | None:
    """The first byte of a pipe: empty if it has no writer, None if a writer has not written yet."""
    try:
        return os.read(pipe, 1)
    except BlockingIOError:
        return None


def _up_to(fd: int, size: int) -> bytes:
    """All of the rest, but at most ``size`` bytes."""
    chunks = []
    while size > 0 and (chunk := os.read(fd, min(size, _BLOCK_BYTES))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)
