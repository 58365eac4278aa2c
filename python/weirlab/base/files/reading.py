"""Input files: a regular file, or a pipe with a writer, with an upper limit on the size.

A scenario may come from someone who may not read this host's files, such as a user of ``weir web``. Parsing
it opens nothing. What opens a file that it names gets an :class:`Inputs`, and opens nothing without it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from weirlab.base.errors import InputError
from weirlab.base.files.refusals import LONG_NAME, kind_of, shown

_BLOCK_BYTES: Final = 1 << 16


def read_bytes(path: Path, what: str, limit: int) -> bytes:
    """The content of an input file; ``what`` names the expected input in messages, e.g. "a ruleset".

    Raises ``InputError`` if it cannot be read, is neither a regular file nor a pipe with a writer, or has
    more than ``limit`` bytes.
    """
    with _refusing(path, what):
        fd = _opened(path)
        try:
            first = _begin_of_pipe(fd, path, what)
            content = first + _up_to(fd, limit + 1)
        finally:
            os.close(fd)
    if len(content) > limit:
        raise InputError(
            f"{shown(path)}: more than {limit:,} bytes, and {what} is never so large; {_advice(what)}"
        )
    return content


def open_file(path: Path, what: str) -> int:
    """A descriptor of an input file, for reading; ``what`` as for :func:`read_bytes`.

    Raises ``InputError`` if it cannot be read, or is not a regular file.
    """
    with _refusing(path, what):
        fd = _opened(path)
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise InputError(f"{shown(path)}: that is {kind_of(mode)}; {_advice(what)}")
    return fd


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


@contextmanager
def _refusing(path: Path, what: str) -> Iterator[None]:
    """Turn errors of the operating system inside the block into ``InputError`` about ``path``."""
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"{shown(path)}: no such file; {_advice(what)}") from None
    except OSError as error:
        reason = LONG_NAME[0] if error.errno == errno.ENAMETOOLONG else error.strerror
        raise InputError(f"{shown(path)}: cannot be read: {reason}; {_advice(what)}") from error


def _advice(what: str) -> str:
    return f"give the path of {what}"


def _opened(path: Path) -> int:
    # Without O_NONBLOCK, opening a pipe blocks until its other end is opened.
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _begin_of_pipe(fd: int, path: Path, what: str) -> bytes:
    """The first byte of a pipe, if it has come already; reading the rest waits for the writer.

    Empty for a regular file. Raises ``InputError`` for anything else, and for a pipe without a writer.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return b""
    if not stat.S_ISFIFO(mode):
        raise InputError(f"{shown(path)}: that is {kind_of(mode)}; {_advice(what)}")
    try:
        first = os.read(fd, 1)
    except BlockingIOError:
        # It has a writer, which has not written yet.
        first = b""
    else:
        if not first:
            raise InputError(
                f"{shown(path)}: that is a pipe without a writer, or one that was already read; "
                f"{_advice(what)}"
            )
    os.set_blocking(fd, True)
    return first


def _up_to(fd: int, size: int) -> bytes:
    """All of the rest, but at most ``size`` bytes."""
    chunks = []
    while size > 0 and (chunk := os.read(fd, min(size, _BLOCK_BYTES))):
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


T = TypeVar("T")


@dataclass(frozen=True)
class Inputs:
    """Opens files that a user names. ``refusal`` says why it opens none; empty: it opens them."""

    refusal: str = ""

    def open(self, path: Path, what: str) -> int:
        """As :func:`reading.open_file`."""
        return self._allowed(path, lambda: open_file(path, what))

    def read_bytes(self, path: Path, what: str, limit: int) -> bytes:
        """As :func:`reading.read_bytes`."""
        return self._allowed(path, lambda: read_bytes(path, what, limit))

    def read_text(self, path: Path, what: str, limit: int) -> str:
        """As :func:`reading.read_text`."""
        return self._allowed(path, lambda: read_text(path, what, limit))

    def _allowed(self, path: Path, read: Callable[[], T]) -> T:
        if self.refusal:
            raise InputError(f"{shown(path)}: {self.refusal}")
        return read()


HOST_FILES: Final = Inputs()
"""Every file that this process may open: for what was typed on this host."""
NO_FILES: Final = Inputs("no file of this host may be opened here; start the scenario with weir run instead")
"""No file: for what came from elsewhere."""
