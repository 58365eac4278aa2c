"""Standard output and standard error: foreign text printable, and a stream that fails told once."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from weirlab.errors import NobodyReads, OutputError
from weirlab.quoting import printable

if TYPE_CHECKING:
    from rich.console import Console


def tell(text: str, stream: TextIO | None = None) -> None:
    """Print ``text`` harmlessly and at once, on standard output unless another ``stream`` is given."""
    print(printable(text), file=stream, flush=True)


def console(stream: TextIO, width: int | None = None) -> Console:
    """One of rich's that takes nothing in a text for markup."""
    from rich.console import Console

    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def occupy() -> None:
    """Put the null device in place of standard streams that are closed.

    Otherwise the next file that is opened would get the number of one, and what somebody prints,
    a child process for instance, would end up in it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


@contextmanager
def guarded() -> Iterator[None]:
    """Watch both standard streams inside.

    Where standard output cannot be written, ``OutputError`` is raised, once; what could not be
    written on standard error is lost, but what was to be done goes on.
    """
    before = sys.stdout, sys.stderr
    out, err = _Guarded(sys.stdout), _Guarded(sys.stderr, quiet=True)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Guarded:
    """A text stream as it was but for ``write`` and ``flush``; None stands for one that was closed."""

    def __init__(self, stream: TextIO | None, *, quiet: bool = False) -> None:
        self._closed = stream is None
        self._stream = stream if stream is not None else io.StringIO()
        self._quiet = quiet
        self._failed = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if not self._failed:
            try:
                self._write(text)
            except OSError as error:
                self._fail(error)
        return len(text)

    def flush(self) -> None:
        if not self._failed:
            try:
                self._stream.flush()
            except OSError as error:
                self._fail(error)

    def _write(self, text: str) -> None:
        if self._closed:
            raise OSError(errno.EBADF, "it is closed")
        try:
            self._stream.write(text)
        except UnicodeEncodeError as error:
            # A terminal or pipe that is not UTF-8 lacks some of our signs.
            self._stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))

    def _fail(self, error: OSError) -> None:
        self._failed = True
        # What is left in the buffer would be tried again, and complained of, when Python ends.
        with suppress(OSError), open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), self._stream.fileno())
        if self._quiet:
            return
        if error.errno == errno.EPIPE:
            raise NobodyReads from error
        raise OutputError(
            f"standard output cannot be written: {error.strerror}; what was done is done, only the result is "
            "not shown"
        ) from error
