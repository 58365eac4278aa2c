"""Progress on stderr: a bar with the time left on a terminal, an occasional line elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Column

from weirlab.base.quoting import printable
from weirlab.cli import quantities
from weirlab.cli.streams import console, tell

LINE_EVERY_S = 10.0

Left = float | tuple[float, float]
"""As jobs report it: the time left in s, or the least and the most."""


def _left(left_s: Left) -> str:
    return quantities.clock(left_s) if isinstance(left_s, float | int) else quantities.clocks(*left_s)


class Reporter(Protocol):
    """The ``Progress`` to which ``weirlab.jobs`` reports, with a ``close``."""

    def stage(self, title: str) -> None: ...

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None: ...

    def note(self, message: str) -> None: ...

    def close(self) -> None: ...


def reporter(stream: TextIO) -> Reporter:
    """The reporter that suits ``stream``."""
    return Bar(stream) if stream.isatty() else ProgressLines(stream)


class Bar:
    """A bar on a terminal, below the title of its stage."""

    def __init__(self, stream: TextIO) -> None:
        self._console = console(stream)
        one_line = Column(no_wrap=True, overflow="ellipsis")
        self._bars = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}", markup=False),
            TextColumn("{task.fields[what]}", markup=False, style="dim", table_column=one_line),
            console=self._console,
            # Drawn between trials only: a display thread would take CPU time from the test bed.
            auto_refresh=False,
            transient=True,
        )
        self._task: TaskID | None = None

    def stage(self, title: str) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
        self._console.print(printable(title))

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        finished = done >= total
        left = "" if left_s is None or finished else f"{_left(left_s)} left"
        if self._task is None:
            self._bars.start()
            self._task = self._bars.add_task("", total=total, what="", left="")
        shown = "" if finished else printable(what)
        self._bars.update(self._task, completed=done, total=total, what=shown, left=left, refresh=True)

    def note(self, message: str) -> None:
        self._console.print(f"weir: {printable(message)}")

    def close(self) -> None:
        self._bars.stop()


class ProgressLines:
    """Plain lines: one per stage, and at most one in ten seconds in between."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last = clock()

    def stage(self, title: str) -> None:
        self._last = self._clock()
        self._print(title)

    def advance(self, done: int, total: int, what: str = "", left_s: Left | None = None) -> None:
        now = self._clock()
        if now - self._last < LINE_EVERY_S:
            return
        self._last = now
        left = "" if left_s is None or done >= total else f", {_left(left_s)} left"
        self._print(f"  {done} of {total}{left}{f' ({what})' if what else ''}")

    def note(self, message: str) -> None:
        self._print(message)

    def close(self) -> None:
        pass

    def _print(self, text: str) -> None:
        tell(f"weir: {text}", self._stream)
