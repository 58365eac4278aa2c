"""Standard output and standard error: foreign text is made printable, and a failure is reported once."""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TextIO, cast

from weirlab.base import interrupts
from weirlab.base.errors import NobodyReads, OutputError
from weirlab.base.quoting import printable

if TYPE_CHECKING:
    from rich.console import Console


def tell(text: str, stream: TextIO | None = None) -> None:
    """Print ``text`` escaped and flushed, on standard output unless another ``stream`` is given."""
    print(printable(text), file=stream, flush=True)


def tell_lines(lines: Iterable[str]) -> None:
    """As :func:`tell`, one line after the other, flushed at the end."""
    rest = iter(lines)
    while some := list(islice(rest, 1000)):
        print(printable("\n".join(some)))
    sys.stdout.flush()


def console(stream: TextIO, width: int | None = None) -> Console:
    """A rich console that does not interpret text as markup."""
    from rich.console import Console

    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def occupy() -> None:
    """Open the null device for standard streams that are closed.

    Otherwise the next file to be opened would get the descriptor of a standard stream, and the
    output of a child process, for instance, would end up in it.
    """
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(number, True)
    os.close(number)


class ReaderWatch:
    """Interrupts the command soon after the last reader of the pipe at its standard output has gone.

    Otherwise ``weir profile | head -1`` would measure to its end before it notices. A socket may belong to a
    log that begins anew, so only pipes are watched.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._end = -1

    @interrupts.shielded
    def start(self) -> None:
        """Watch from here on."""
        try:
            if not stat.S_ISFIFO(os.fstat(1).st_mode):
                return
            self._end = os.eventfd(0, os.EFD_CLOEXEC)
        except OSError:
            return
        self._thread = threading.Thread(target=self._wait, name="weir-reader", daemon=True)
        self._thread.start()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No thread of it in the block: a process that gives up rights must have one thread."""
        watched = self._thread is not None
        if self._thread is not None:
            os.eventfd_write(self._end, 1)
            self._thread.join()
            os.close(self._end)
            self._thread = None
        yield
        if watched:
            self.start()

    def _wait(self) -> None:
        # They belong to the main thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, interrupts.SIGNALS)
        output = select.poll()
        output.register(1, 0)
        output.register(self._end, select.POLLIN)
        found = dict(output.poll())
        if found.get(1, 0) & select.POLLERR:
            interrupts.end(signal.SIGPIPE)


READER: Final = ReaderWatch()


@contextmanager
def guarded() -> Iterator[None]:
    """Guard both standard streams inside the block.

    If standard output cannot be written, ``OutputError`` is raised, once. Text that cannot be
    written to standard error is lost, and the work continues.
    """
    before = sys.stdout, sys.stderr
    out, err = _SafeStream(sys.stdout), _SafeStream(sys.stderr, quiet=True)
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _SafeStream:
    """A text stream with its own ``write`` and ``flush``; None stands for a closed stream."""

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
            # A terminal or pipe that is not UTF-8 cannot show all characters.
            self._stream.write(text.encode(error.encoding, "backslashreplace").decode(error.encoding))

    def _fail(self, error: OSError) -> None:
        self._failed = True
        # Python would try to flush the buffer again when it exits, and report the error.
        with suppress(OSError), open(os.devnull, "wb") as null:
            os.dup2(null.fileno(), self._stream.fileno())
        if self._quiet:
            return
        if error.errno == errno.EPIPE:
            raise NobodyReads from error
        raise OutputError(
            f"standard output cannot be written: {error.strerror}; the work is done, only the result is "
            "not shown"
        ) from error
