"""What holds for every table that a test prints."""

from __future__ import annotations

from typing import Any

import pytest

from weirlab.cli import layout
from weirlab.tables import Table

_LINES = layout.lines
_PATH = 40
"""Words of this length are paths, which are copied from a terminal and never broken."""


@pytest.fixture(autouse=True)
def tables_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every table be drawn for 80 columns, too, and looked at."""

    def drawn(table: Table, columns: int | None, **options: Any) -> list[str]:
        check(table)
        return _LINES(table, columns, **options)

    monkeypatch.setattr(layout, "lines", drawn)


def check(table: Table) -> None:
    """No line of ``table`` is longer than 80 columns, and no word in it is broken."""
    lines = _LINES(table, 80, note=False)
    cells = [table.caption, *table.columns, *(cell for row in table.rows for cell in row)]
    whole = {word for cell in cells for word in cell.split()}
    for line in lines:
        if set(line) <= {"─"}:
            continue
        words = line.split()
        assert set(words) <= whole, f"broken: {line!r}"
        assert layout._width(line) <= 80 or max(map(len, words)) >= _PATH, f"too wide: {line!r}"
    rows = table.rows and [row[0] for row in table.rows]
    assert all(set(first.split()) <= {word for line in lines for word in line.split()} for first in rows)
