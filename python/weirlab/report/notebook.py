"""Results as HTML for the cell of a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape

from weirlab.base.tables import Table


def cell(conclusion: str, tables: Iterable[Table], remarks: Iterable[str] = ()) -> str:
    """The ``conclusion``, then ``remarks``, then ``tables``; those of details are folded."""
    lines = [
        f"<p><b>{_text(conclusion)}</b></p>",
        *(f"<p>{_text(remark)}</p>" for remark in remarks if remark),
    ]
    return "\n".join([*lines, *map(_table, tables)])


def _table(table: Table) -> str:
    head = "".join(f"<th>{_text(name)}</th>" for name in table.columns)
    head = f"<thead><tr>{head}</tr></thead>" if any(table.columns) else ""
    body = "\n".join(f"<tr>{''.join(_cells(row, table.numeric))}</tr>" for row in table.rows)
    drawn = f"<table>{head}<tbody>\n{body}\n</tbody></table>"
    caption = _text(table.caption)
    if table.details:
        return f"<details><summary>{caption}</summary>{drawn}</details>"
    return f"<p>{caption}</p>{drawn}" if caption else drawn


def _cells(row: Iterable[str], numeric: frozenset[int]) -> Iterator[str]:
    for index, text in enumerate(row):
        side = "right" if index in numeric else "left"
        yield f'<td style="text-align: {side}">{_text(text)}</td>'


def _text(text: str) -> str:
    """Escaped; a dollar sign would begin a formula in notebooks."""
    return escape(text).replace("$", "&#36;").replace("\n", "<br>")
