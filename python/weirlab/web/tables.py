"""Tables as the page takes them: text, and which columns are numbers."""

from __future__ import annotations

from typing import Any

from weirlab.base.tables import Table


def for_page(table: Table) -> dict[str, Any]:
    """``caption``, ``columns``, ``rows`` of cells, and ``right``: the numbers of columns set flush right."""
    return {
        "caption": table.caption,
        "columns": list(table.columns),
        "rows": [list(row) for row in table.rows],
        "right": sorted(table.numeric),
    }
