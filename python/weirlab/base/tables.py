"""A table as data: a study defines it once, and terminal, page and Markdown file show it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from weirlab.base.quantities import NOTHING
from weirlab.base.quoting import printable

# The pattern is unambiguous, so that no text from elsewhere makes it backtrack for long.
_NUMBER: Final = (
    r"(?:[≥≤<>~]\s?|at least |at most |up to |below )?[+−-]?\d+(?:,\d{3})*(?:\.\d+)?"
    r"(?:\s?(?:%(?:-points)?|[A-Za-zµ°]{1,10}(?:/[A-Za-z]+)?))?"
)
_SEVERAL: Final = rf"{_NUMBER}(?:(?:, | ?/ ?| ?[–+=] ?| of | to ){_NUMBER})*"
_NUMBERS: Final = re.compile(rf"{NOTHING}|none|\[?{_SEVERAL}\]?(?: \({_SEVERAL}\))?")
"""``1,000``, ``≥ 1.3 Mpps``, ``20 ms (18 to 25 ms)``, ``3 of 5``, ``[-1 %, 2 %]``, or ``none``."""


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
    spare:
        Headings of the columns that a narrow terminal leaves out, in the order in which they go.
    details:
        Whether the table is shown on request only (``--details``; folded away on a page).

    Attributes
    ----------
    numeric:
        Indices of the columns that are aligned right and never wrapped: every cell is a number, with a unit,
        or several of them.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    spare: Sequence[str] = ()
    details: bool = False
    numeric: frozenset[int] = field(init=False)

    def __post_init__(self) -> None:
        """Make all text printable here: cells contain text from elsewhere, and are drawn in several ways."""
        object.__setattr__(self, "caption", printable(self.caption))
        object.__setattr__(self, "columns", tuple(map(printable, self.columns)))
        object.__setattr__(self, "rows", tuple(tuple(map(printable, row)) for row in self.rows))
        object.__setattr__(self, "numeric", frozenset(self._numbers()))
        if unknown := [name for name in self.spare if name not in self.columns]:
            raise ValueError(f"{self.caption}: no columns {', '.join(unknown)} to do without")

    def _numbers(self) -> Iterator[int]:
        for index in range(len(self.columns)):
            known = {row[index] for row in self.rows if row[index]}
            if known and all(map(_NUMBERS.fullmatch, known)):
                yield index
