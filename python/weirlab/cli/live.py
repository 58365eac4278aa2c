"""Display of long-running commands: redrawn in place on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from rich.console import RenderableType
from rich.live import Live

from weirlab.base.closing import Closable
from weirlab.base.quoting import printable
from weirlab.cli.progress import LINE_EVERY_S
from weirlab.cli.streams import console, tell


class LiveScreen(Closable):
    """A display that the caller redraws: a separate thread would only take CPU time.

    If the terminal is gone (the connection to this host broke), the command must still shut down cleanly.
    """

    def __init__(self, stream: TextIO, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console(stream)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._every_s, self._now_s, self._shown_s = every_s, now_s, float("-inf")
        self._live.start()

    def draw(self, make: Callable[[int], RenderableType]) -> None:
        """Show the result of ``make``, which gets the width in columns, if it is time for an update."""
        if self._now_s() - self._shown_s < self._every_s:
            return
        self._shown_s = self._now_s()
        with suppress(OSError):
            self._live.update(make(self._console.width), refresh=True)

    def note(self, message: str) -> None:
        with suppress(OSError):
            self._console.print(f"weir: {printable(message)}")

    def close(self) -> None:
        with suppress(OSError):
            self._live.stop()


class LiveLines(Closable):
    """Plain lines: the state at most once in ten seconds, notes at once."""

    def __init__(self, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._now_s, self._last_s = stream, now_s, now_s()

    def line(self, make: Callable[[], str]) -> None:
        """Print the result of ``make``, if it is time for a line."""
        if self._now_s() - self._last_s >= LINE_EVERY_S:
            self._last_s = self._now_s()
            self.note(make())

    def note(self, message: str) -> None:
        with suppress(OSError):
            tell(f"weir: {message}", self._stream)

    def close(self) -> None:
        """Nothing is left on the terminal."""
