"""What passed the device during a call or a trial, as rows and as a table. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weirlab.base.quantities import count, plural
from weirlab.base.tables import Table

DEVICE: Final = "voice_device"
"""The table of rows; only runs with a device have it."""

THERE: Final = "from the caller"
BACK: Final = "to the caller"


@dataclass(frozen=True)
class PassageRow:
    """Packets of one direction that passed the device during a call, or during a trial."""

    index: int
    """Number of the call, or of the trial."""
    direction: str
    """`from the caller` or `to the caller`."""
    caller_packets: int
    """Packets that the caller sent or received, at its own port."""
    entered: int
    """Packets that entered the device at its port on one side."""
    left: int
    """Packets that left the device at its port on the other side."""
    bypassed: int
    """Packets at the caller's port that did not pass the device."""
    events: int = 0
    """How often the device failed meanwhile, as its name requests: a pair's failover, a gateway's outage."""
    silence_ms: float = math.nan
    """Longest time in which speech was sent but none got through; null if none was sent."""
    ends_silent: bool = False
    """Whether that time lasted until no more speech was sent, and may have been cut short."""


@dataclass(frozen=True)
class Total:
    """Counters since the device was plugged in; the difference of two is what passed in between."""

    sent: int = 0
    got: int = 0
    """Both by the caller, at its port."""
    there_in: int = 0
    there_out: int = 0
    back_in: int = 0
    back_out: int = 0
    """All by the device, at its ports."""
    turned_away: int = 0
    """Packets from the caller for which the device's port had no room."""

    @property
    def missed_there(self) -> int:
        """Packets that the caller sent and that did not reach the device."""
        return max(0, self.sent - self.turned_away - self.there_in)

    @property
    def missed_back(self) -> int:
        """Packets that the caller got and the device did not send."""
        return max(0, self.got - self.back_out)


def total(caller: Mapping[str, int], device: Mapping[str, int], before: Total) -> Total:
    """From counters of the switch's ports (``caller_``, ``near_``) and the device's (``in_``, ``out_``)."""
    return Total(
        caller["caller_rx_packets"] - before.sent,
        caller["caller_tx_packets"] - before.got,
        device["in_rx_packets"] - before.there_in,
        device["out_tx_packets"] - before.there_out,
        device["out_rx_packets"] - before.back_in,
        device["in_tx_packets"] - before.back_out,
        caller["near_tx_dropped"] - before.turned_away,
    )


def passed(index: int, before: Total, now: Total, events: int = 0) -> list[PassageRow]:
    """What passed between two counts, in both directions; the device failed ``events`` times meanwhile."""
    there = max(0, now.missed_there - before.missed_there)
    back = max(0, now.missed_back - before.missed_back)
    return [
        PassageRow(
            index, THERE, now.sent - before.sent, now.there_in - before.there_in,
            now.there_out - before.there_out, there, events,
        ),
        PassageRow(
            index, BACK, now.got - before.got, now.back_in - before.back_in, now.back_out - before.back_out,
            back, events,
        ),
    ]  # fmt: skip


def silent(rows: Sequence[PassageRow], what: str) -> str:
    """How long speech was silent when the device failed during a ``what``; empty if it never failed.

    If it dropped nothing, it failed while there was no speech.
    """
    failed = [row for row in rows if row.events]
    if not failed:
        return ""
    times = plural(len({row.index for row in failed}), what)
    hit = [row for row in failed if row.left < row.entered and not math.isnan(row.silence_ms)]
    longest = max(hit, key=lambda row: row.silence_ms, default=None)
    if longest is None:
        return f" (failed in {times}, and dropped no speech)"
    least = "at least" if longest.ends_silent else "up to"
    return f" (failed in {times}, speech silent for {least} {longest.silence_ms:,.0f} ms)"


def bypassing(rows: Sequence[PassageRow], title: str) -> list[str]:
    """A phrase for each direction in which packets bypassed the device called ``title``."""
    return [
        f"{row.bypassed} of {row.caller_packets} packets {row.direction} bypassed {title}"
        for row in rows
        if row.bypassed
    ]


_BEGIN: Final = ("Direction", "Longest silence")
_EVENTS: Final = "Failures"
_END: Final = ("At the caller", "Into the device", "Out of the device", "Bypassed")


def device_table(
    rows: Sequence[PassageRow], what: str, titles: Mapping[int, str], device: str
) -> Table | None:
    """Two rows per call or trial, ``what`` and its title by index; None if nothing passed a device."""
    failing = any(row.events for row in rows)
    columns = (what, *_BEGIN, *([_EVENTS] if failing else []), *_END)
    cells = [
        (
            titles[row.index],
            row.direction,
            ""
            if math.isnan(row.silence_ms)
            else f"{'at least ' if row.ends_silent else ''}{row.silence_ms:,.0f} ms",
            *([count(row.events)] if failing else []),
            f"{count(row.caller_packets)} {'sent' if row.direction == THERE else 'received'}",
            count(row.entered),
            count(row.left),
            count(row.bypassed),
        )
        for row in rows
        if row.index in titles
    ]
    return Table(f"Packets through {device}", columns, cells, details=True) if cells else None
