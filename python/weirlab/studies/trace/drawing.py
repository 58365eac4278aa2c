"""Tables as plain text. They look like those of other commands, without the time that rich takes to start:
a summary of a million packets takes hardly longer.
"""

from __future__ import annotations

from weirlab.cli.output import Table

_GAP = "  "


def drawn(table: Table) -> str:
    """Lines of ``table``: title, headings, a rule, rows; columns as wide as their longest cell."""
    widths = [
        max(len(heading), *(len(row[i]) for row in table.rows), 0) if table.rows else len(heading)
        for i, heading in enumerate(table.columns)
    ]
    right = [heading in table.right for heading in table.columns]

    def line(cells: tuple[str, ...]) -> str:
        placed = (
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(cells, widths, right, strict=True)
        )
        return f" {_GAP.join(placed)}".rstrip()

    rule = "─" * (sum(widths) + len(_GAP) * (len(widths) - 1) + 2)
    head = [table.title] if table.title else []
    return "\n".join([*head, line(tuple(table.columns)), rule, *(line(tuple(row)) for row in table.rows)])
