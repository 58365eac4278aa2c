"""A table as data: a study defines it once, and terminal, page and Markdown file show it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from weirlab.quoting import printable


@dataclass(frozen=True)
class Table:
    """Rows of text under headings.

    Parameters
    ----------
    caption:
        What the rows are; may be empty on a terminal.
    columns:
        Headings. The first column says what a row is about.
    rows:
        Cells, as many per row as there are headings.
    numeric:
        Indices of the columns that are set flush right and never broken over lines.
    spare:
        Headings of the columns that a narrow terminal does without, the first to go first.
    details:
        Whether the table is shown on request only (``--details``; folded away on a page).
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Collection[int] = frozenset()
    spare: Sequence[str] = ()
    details: bool = False

    def __post_init__(self) -> None:
        """Cells hold names and other foreign text, and there are several ways to draw them."""
        object.__setattr__(self, "caption", printable(self.caption))
        object.__setattr__(self, "columns", tuple(map(printable, self.columns)))
        object.__setattr__(self, "rows", tuple(tuple(map(printable, row)) for row in self.rows))
        object.__setattr__(self, "numeric", frozenset(self.numeric))
        if unknown := [name for name in self.spare if name not in self.columns]:
            raise ValueError(f"{self.caption}: no columns {', '.join(unknown)} to do without")
