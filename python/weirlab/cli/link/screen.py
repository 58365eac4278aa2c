"""Display of a running tap: on a terminal one sentence and every stage, elsewhere an occasional line."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TextIO

from rich.console import Group, RenderableType
from rich.text import Text

from weirlab.base.quoting import printable
from weirlab.cli import layout, live
from weirlab.cli.link import tables
from weirlab.cli.quantities import clock, rate

if TYPE_CHECKING:
    from weirlab.link.session import Snapshot

SHOW_EVERY_S = 0.25


def screen(stream: TextIO) -> TapScreen | TapLines:
    """The display that suits ``stream``, to be closed when the tap has ended."""
    return TapScreen(stream) if stream.isatty() else TapLines(stream)


class TapScreen(live.LiveScreen):
    """A screen that is redrawn four times a second."""

    def __init__(self, stream: TextIO, now_s: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream, SHOW_EVERY_S * 0.9, now_s)

    def show(self, snapshot: Snapshot) -> None:
        self.draw(lambda columns: drawn(snapshot, columns))


class TapLines(live.LiveLines):
    """Plain lines with the rates and the sentence."""

    def show(self, snapshot: Snapshot) -> None:
        self.line(lambda: line(snapshot))


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
