"""Display of a running tap: on a terminal one sentence and every stage, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TextIO

from rich.console import Group, RenderableType
from rich.text import Text

from weirlab.base.quantities import bit_rate, scaled
from weirlab.base.quoting import printable
from weirlab.base.tables import Table
from weirlab.cli import layout, live
from weirlab.cli.quantities import NOTHING, clock, count, rate

if TYPE_CHECKING:
    from weirlab.link.account import FrameBalance
    from weirlab.link.session import InterfaceRates, LinkOutcome, Snapshot


_MOST_GAPS: Final = 20
_BYTES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def of(outcome: LinkOutcome) -> list[Table]:
    """The tables that are shown at the end."""
    last = outcome.last
    shown = [*filter(None, (link(last, live=False), mirror(last.account), record(last.account)))]
    gaps, files = outcome.document["gaps"], outcome.document["files"]
    if gaps:
        rows = [
            [
                *(clock_time(gap["from_ns"]), clock_time(gap["to_ns"])),
                *(gap["interface"] or NOTHING, gap["stage"]),
                count(gap["frames"]),
            ]
            for gap in gaps[:_MOST_GAPS]
        ]
        more = (
            f" (first {_MOST_GAPS} of {len(gaps):,}; all are in the manifest)"
            if len(gaps) > _MOST_GAPS
            else ""
        )
        columns = ["From", "To", "Interface", "Lost at", "Frames"]
        shown.append(Table(f"Missing from the record{more}", columns, rows))
    if files:
        rows = [[str(file["path"]), count(file["frames"]), size(file["bytes"])] for file in files]
        shown.append(Table("Files", ["File", "Frames", "Size"], rows))
    return shown


def link(snapshot: Snapshot, *, live: bool) -> Table | None:
    """The counters of the two ends; None if there is only a logger."""
    account = snapshot.account
    if not account.sides:
        return None
    columns = ["From", "Received", "Forwarded", "Not forwarded"]
    if live:
        columns[1:1] = ["Frames/s", "Bits/s"]
    if account.ring:
        columns += ["Copied", "Ring lost"]
    if account.cut:
        columns.append("Copies cut")
    rows = []
    for side in account.sides:
        rates = _rates(snapshot.rates.get(side.interface)) if live else []
        row = [side.interface, *rates, *map(count, (side.received, side.forwarded, side.not_forwarded))]
        if account.ring:
            row += [count(side.copied), count(side.not_copied)]
        if account.cut:
            row.append(count(side.cut))
        rows.append(row)
    return Table("Link", columns, rows)


def mirror(account: FrameBalance) -> Table | None:
    """The counters of the copies to the logger."""
    if account.mirror is None:
        return None
    columns = ["Interface", "Sent", "Not sent", "Waiting"]
    row = [
        account.mirror.interface,
        *map(count, (account.mirror.sent, account.mirror.not_sent, account.mirror.waiting)),
    ]
    return Table("Mirror", columns, [row])


def record(account: FrameBalance) -> Table | None:
    """What happened to frames in the recorder."""
    if not account.recorded:
        return None
    columns = ["Interface", "Seen", "Lost before", "Filtered", "Written", "Not written"]
    rows = [
        [each.name, *map(count, (each.seen, each.lost, each.filtered, each.written, each.not_written))]
        for each in account.recorded
    ]
    return Table("Recorder", columns, rows)


def size(size_bytes: float) -> str:
    """A size such as ``1.24 GB``."""
    return scaled(size_bytes, _BYTES)


def clock_time(at_ns: int) -> str:
    """Time of day, local, to the millisecond."""
    moment = datetime.fromtimestamp(at_ns // 1_000_000_000, UTC).astimezone()
    return f"{moment:%H:%M:%S}.{at_ns // 1_000_000 % 1000:03d}"


def _rates(rates: InterfaceRates | None) -> list[str]:
    if rates is None:
        return [NOTHING, NOTHING]
    return [rate(rates.frames_per_s), bit_rate(rates.bits_per_s)]


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
    for table in (link(snapshot, live=True), mirror(account), record(account)):
        if table is not None:
            parts.append(Text("\n".join(layout.lines(table, columns, note=False))))
    below = [_time(snapshot)]
    if snapshot.file:
        below.append(f"{snapshot.file} ({size(snapshot.file_bytes)} written)")
    if account.waiting:
        below.append(f"{account.waiting:,} frames wait in the ring")
    parts.append(Text(printable(", ".join(below)) + "; Ctrl-C ends it", style="dim"))
    return Group(*parts)


def _time(snapshot: Snapshot) -> str:
    left = "" if snapshot.left_s is None else f", {clock(snapshot.left_s)} left"
    return f"{clock(snapshot.elapsed_s)} so far{left}"
