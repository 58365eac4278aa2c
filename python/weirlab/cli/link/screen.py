"""A running tap on a terminal: one sentence, and every stage below it; elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from weirlab.cli import layout
from weirlab.cli.link import tables
from weirlab.cli.progress import LINE_EVERY_S
from weirlab.cli.quantities import clock, rate
from weirlab.cli.streams import console, tell
from weirlab.quoting import printable

if TYPE_CHECKING:
    from weirlab.link.session import Snapshot, Watcher

SHOW_EVERY_S = 0.25


@contextmanager
def screen(stream: TextIO) -> Iterator[Watcher]:
    """Whatever suits ``stream``, for as long as the tap runs."""
    if not stream.isatty():
        yield Lines(stream)
        return
    live = Screen(stream)
    try:
        yield live
    finally:
        live.close()


class Screen:
    """Drawn anew four times a second, by whoever calls: a thread of its own would only take CPU time.

    A terminal that is gone (the connection to this host broke) must not keep a tap from its good end.
    """

    def __init__(self, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        self._console = console(stream)
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._now_s, self._shown_s = now_s, float("-inf")
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        if self._now_s() - self._shown_s < SHOW_EVERY_S * 0.9:
            return
        self._shown_s = self._now_s()
        with suppress(OSError):
            self._live.update(drawn(snapshot, self._console.width), refresh=True)

    def note(self, message: str) -> None:
        with suppress(OSError):
            self._console.print(f"weir: {printable(message)}")

    def close(self) -> None:
        with suppress(OSError):
            self._live.stop()


class Lines:
    """Plain lines: the sentence at most once in ten seconds, notes at once."""

    def __init__(self, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._now_s = stream, now_s
        self._last_s = now_s()

    def show(self, snapshot: Snapshot) -> None:
        if self._now_s() - self._last_s < LINE_EVERY_S:
            return
        self._last_s = self._now_s()
        self.note(line(snapshot))

    def note(self, message: str) -> None:
        with suppress(OSError):
            tell(f"weir: {message}", self._stream)


def line(snapshot: Snapshot) -> str:
    """Rates, time and the sentence."""
    rates = ", ".join(f"{name} {rate(each.frames_per_s)}" for name, each in snapshot.rates.items())
    return f"{_time(snapshot)}{f', {rates}' if rates else ''}: {snapshot.sentence}"


def drawn(snapshot: Snapshot, columns: int) -> RenderableType:
    """The whole screen, ``columns`` wide."""
    account = snapshot.account
    harmed = account.not_forwarded or account.missing or account.unknown
    parts: list[RenderableType] = [
        Text(printable(snapshot.sentence), style="bold red" if harmed else "bold green")
    ]
    for table in (tables.link(snapshot, live=True), tables.mirror(account), tables.record(account)):
        if table is not None:
            parts.append(Text("\n".join(layout.lines(table, columns, note=False))))
    below = [_time(snapshot)]
    if snapshot.file:
        below.append(f"{snapshot.file} ({tables.size(snapshot.file_bytes)} written)")
    if account.waiting:
        below.append(f"{account.waiting:,} frames wait in the ring")
    parts.append(Text(printable(", ".join(below)) + "; Ctrl-C ends it", style="dim"))
    return Group(*parts)


def _time(snapshot: Snapshot) -> str:
    left = "" if snapshot.left_s is None else f", {clock(snapshot.left_s)} left"
    return f"{clock(snapshot.elapsed_s)} so far{left}"
