"""An emulated link on a terminal: a line while it runs, tables at the end."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TextIO, TypeAlias

from rich.text import Text

from weirlab.base.quantities import bit_rate
from weirlab.base.quoting import printable
from weirlab.base.tables import Table
from weirlab.cli import live
from weirlab.cli.quantities import NOTHING, clock, count, duration, percent, rate
from weirlab.emulation.account import EmulationCounters

if TYPE_CHECKING:
    from weirlab.emulation.account import Direction
    from weirlab.links.emulator.netem import NetemCounters, NetemDirection

SHOW_EVERY_S = 0.5


LinkDirection: TypeAlias = "Direction | NetemDirection"
"""A direction, carried by Weir's emulator or by netem."""

LinkSnapshot: TypeAlias = "EmulationCounters | NetemCounters"
"""Both directions at one moment."""

LinkDisplay: TypeAlias = "_Screen | _LinkLines"
"""The display of a running link."""


def screen(stream: TextIO) -> LinkDisplay:
    """The display that suits ``stream``, to be closed when the link has ended."""
    return _Screen(stream) if stream.isatty() else _LinkLines(stream)


class LinkRates:
    """What left in each direction since the last look."""

    def __init__(self) -> None:
        self._before: LinkSnapshot | None = None
        self._said = ("", "")

    def look(self, account: LinkSnapshot) -> tuple[str, str]:
        """``8,110 pps, 98.2 Mbit/s`` for each direction; the last one if no time has passed."""
        before, elapsed_s = self._before, account.elapsed_s
        passed_s = elapsed_s - before.elapsed_s if before is not None else elapsed_s
        if passed_s > 0:
            old = before.directions if before is not None else (None, None)
            ways: tuple[LinkDirection, ...] = account.directions
            up, down = (_rate(now, then, passed_s) for now, then in zip(ways, old, strict=True))
            self._said, self._before = (up, down), account
        return self._said


def _rate(now: LinkDirection, then: LinkDirection | None, passed_s: float) -> str:
    frames = now.sent - (then.sent if then is not None else 0)
    sent_bytes = now.sent_bytes - (then.sent_bytes if then is not None else 0)
    return f"{rate(frames / passed_s)}, {bit_rate(sent_bytes * 8 / passed_s)}"


def line(account: LinkSnapshot, rates: tuple[str, str], left_s: float | None) -> str:
    """The state of the link in one line."""
    left = "" if left_s is None else f", {clock(left_s)} left"
    directions: tuple[LinkDirection, ...] = account.directions
    ways = [
        f"{way.source} to {way.target} {now}, {way.queued:,} queued, {_gone(way)}"
        for way, now in zip(directions, rates, strict=True)
    ]
    own = _own(account) if isinstance(account, EmulationCounters) else ""
    return f"{clock(account.elapsed_s)} so far{left}: {'; '.join(ways)}{own}"


def _own(account: EmulationCounters) -> str:
    """How well the emulator keeps up."""
    late_ns = max((way.late_ns(0.99) for way in account.directions if way.sent), default=math.nan)
    kept = f"; {account.not_kept:,} NOT KEPT" if account.not_kept else ""
    return f"; p99 late {duration(late_ns)}{kept}"


def _gone(way: LinkDirection) -> str:
    return f"{percent(way.gone / way.arrived)} lost or dropped" if way.arrived else "nothing yet"


class _Screen(live.LiveScreen):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream, SHOW_EVERY_S)
        self._rates = LinkRates()

    def show(self, account: LinkSnapshot, left_s: float | None) -> None:
        self.draw(
            lambda _: Text(f"{printable(line(account, self._rates.look(account), left_s))}; Ctrl-C ends it")
        )


class _LinkLines(live.LiveLines):
    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._rates = LinkRates()

    def show(self, account: LinkSnapshot, left_s: float | None) -> None:
        self.line(lambda: line(account, self._rates.look(account), left_s))


def of(account: EmulationCounters) -> list[Table]:
    """What is shown at the end: what became of frames, and how well the emulator did."""
    columns = [
        "From", "To", "Received", "Sent", "Lost", "Queue full", "AQM", "Duplicated", "Reordered",
        "On the link", "Not kept",
    ]  # fmt: skip
    rows = [
        [
            way.source,
            way.target,
            *map(count, (way.arrived, way.sent, way.lost, way.dropped_full, way.dropped_early)),
            *map(count, (way.duplicated, way.held_back, way.held, way.not_kept)),
        ]
        for way in account.directions
    ]
    spare = ("On the link", "Duplicated", "Reordered")
    fates = Table("Frames", columns, rows, spare=spare)
    columns = ["From", "To", "Rate set", "Rate kept", "Error", "Late p50", "p99", "p99.9", "Max"]
    rows = [
        [
            *(way.source, way.target),
            bit_rate(way.rate_bps),
            bit_rate(way.carried_bps, 4),
            NOTHING if math.isnan(way.rate_error) else f"{way.rate_error * 100:+.3f} %",
            *(duration(way.late_ns(q)) for q in (0.5, 0.99, 0.999)),
            duration(way.late_max_ns) if way.sent else NOTHING,
        ]
        for way in account.directions
    ]
    timing = Table("The emulator itself", columns, rows, spare=("p99.9", "Late p50"))
    return [fates, timing]


def conclusion(account: EmulationCounters, complaints: list[str]) -> str:
    """The result in a sentence."""
    if complaints:
        return f"NOT as configured: {'; '.join(complaints)}"
    sent = sum(way.sent for way in account.directions)
    if not sent:
        return "No frame crossed the link."
    worst = max((way for way in account.directions if way.sent), key=lambda way: way.late_ns(0.99))
    late_ns = worst.late_ns(0.99)
    return (
        f"Every frame was handled as configured; 99 % left at most {duration(late_ns)} after their "
        f"time ({worst.source} to {worst.target})."
    )


def of_netem(account: NetemCounters) -> Table:
    """What netem counted."""
    columns = ["From", "To", "Sent", "Lost", "Queue full", "Queued"]
    rows = [
        [way.source, way.target, *map(count, (way.sent, way.lost, way.dropped_full, way.queued))]
        for way in account.directions
    ]
    return Table("Frames", columns, rows)


def netem_conclusion(account: NetemCounters) -> str:
    """The result in a sentence."""
    ways = account.directions
    gone = sum(way.gone for way in ways)
    return (
        f"netem sent {sum(way.sent for way in ways):,} frames and dropped {gone:,}; it does not report how "
        "well it kept delay and rate."
    )
