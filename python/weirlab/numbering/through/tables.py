"""The table of what passed the device."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from weirlab.base.quantities import count
from weirlab.base.tables import Table
from weirlab.numbering.through.rows import THERE, DeviceRow

_BEGIN: Final = ("Direction", "Longest silence")
_EVENTS: Final = "Failures"
_END: Final = ("At the caller", "Into the device", "Out of the device", "Bypassed")


def packets(rows: Sequence[DeviceRow], what: str, titles: Mapping[int, str], device: str) -> Table | None:
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
