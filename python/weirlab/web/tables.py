"""Tables of commands and of reports, as the page takes them: text, and which columns are numbers."""

from __future__ import annotations

from typing import Any

from weirlab.cli.output import Table as CommandTable
from weirlab.report.tables import Table as ReportTable


def for_page(table: CommandTable | ReportTable) -> dict[str, Any]:
    """``caption``, ``columns``, ``rows`` of cells, and ``right``: the numbers of columns set flush right."""
    if isinstance(table, CommandTable):
        caption = table.title
        right = [number for number, name in enumerate(table.columns) if name in table.right]
    else:
        caption, right = table.caption, sorted(table.numeric)
    return {
        "caption": caption,
        "columns": list(table.columns),
        "rows": [list(row) for row in table.rows],
        "right": right,
    }
