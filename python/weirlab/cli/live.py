"""What runs for long on a terminal: drawn anew in its place; elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from rich.console import RenderableType
from rich.live import Live

from weirlab.cli.progress import LINE_EVERY_S
from weirlab.cli.streams import console, tell
from weirlab.quoting import printable


class Screen:
    """Drawn anew by whoever calls: a thread of its own would only take CPU time.

    A terminal that is gone (the connection to this host broke) must not keep a link from its good end.
    """

    def __init__(self, stream: TextIO, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console(stream)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._every_s, self._now_s, self._shown_s = every_s, now_s, float("-inf")
        self._live.start()

    def draw(self, make: Callable[[int], RenderableType]) -> None:
        """Show what ``make`` makes for so many columns, if it is time for that."""
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


class Lines:
    """Plain lines: the state at most once in ten seconds, notes at once."""

    def __init__(self, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._now_s, self._last_s = stream, now_s, now_s()

    def line(self, make: Callable[[], str]) -> None:
        """Say what ``make`` makes, if it is time for that."""
        if self._now_s() - self._last_s >= LINE_EVERY_S:
            self._last_s = self._now_s()
            self.note(make())

    def note(self, message: str) -> None:
        with suppress(OSError):
            tell(f"weir: {message}", self._stream)
