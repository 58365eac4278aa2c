"""The stages of a tap or a logger as tables: on the screen while it runs, and at the end."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from weirlab.base.quantities import bit_rate, scaled
from weirlab.base.tables import Table
from weirlab.cli.quantities import NOTHING, count, rate

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
