"""Numbers on a page: tables, pairs of label and value, and key numbers as tiles."""

from __future__ import annotations

from dataclasses import dataclass

from weirlab.base.tables import Table

__all__ = ["Pairs", "Table", "Tile"]

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Tile:
    """One key number; ``note`` says under which conditions."""

    label: str
    value: str
    note: str
