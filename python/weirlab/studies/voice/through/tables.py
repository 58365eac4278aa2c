"""What passed the device, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from weirlab.quantities import count
from weirlab.studies.voice.through.rows import THERE, DeviceRow
from weirlab.tables import Table

_COLUMNS: Final = ("Direction", "At the caller", "Into the device", "Out of the device", "Bypassed")


def packets(rows: Sequence[DeviceRow], what: str, titles: Mapping[int, str], device: str) -> Table | None:
    """Two rows per call or trial, ``what`` and its title by index; None if nothing passed a device."""
    cells = [
        (
            titles[row.index],
            row.direction,
            f"{count(row.caller_packets)} {'sent' if row.direction == THERE else 'received'}",
            count(row.entered),
            count(row.left),
            count(row.bypassed),
        )
        for row in rows
        if row.index in titles
    ]
    return Table(f"Packets through {device}", (what, *_COLUMNS), cells, details=True) if cells else None
