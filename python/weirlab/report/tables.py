"""Numbers on a page: tables, pairs of label and value, and key numbers as tiles."""

from __future__ import annotations

from dataclasses import dataclass

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows of text; ``numeric`` columns are set flush right."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Tile:
    """One key number; ``note`` says under which conditions."""

    label: str
    value: str
    note: str
