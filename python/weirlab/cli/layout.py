"""Tables as lines of text that fit a terminal.

A table that is too wide is made to fit in this order: headings and texts break between words; columns that
the table can spare are left out and named below it; then other columns, from the right. No word is broken:
an ID, a number with its unit, an address or a path stays in one piece, even if it is wider than the terminal.
"""

from __future__ import annotations

import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from weirlab.base.tables import Table

USUAL_COLUMNS: Final = 80
"""Width if there is neither a terminal nor ``COLUMNS``."""

_MARGIN: Final = " "
_GAP: Final = "  "
_READABLE: Final = 16
_NAMES_READABLE: Final = 24
"""Least widths of texts, in general and in the first column, while other columns can be spared."""
_LEAST_COLUMNS: Final = 2
_BREAK: Final = re.compile(r"(?<!\d) +(?!>)| +(?![A-Za-zµ%\d>])")
"""Spaces, except between a number and its unit, date and time, or an address and the sign after it."""
_WIDE: Final = ("W", "F")


def width() -> int:
    """Columns for tables: ``COLUMNS`` if set, else those of the terminal, else 80."""
    return shutil.get_terminal_size((USUAL_COLUMNS, 24)).columns


def lines(table: Table, columns: int | None, *, note: bool = True) -> list[str]:
    """The table as lines of at most ``columns`` (None: no limit): caption, headings, a rule and rows.

    A ``note`` below says what was left out.
    """
    return list(drawn(table, columns, note=note))


def drawn(table: Table, columns: int | None, *, note: bool = True) -> Iterator[str]:
    """As :func:`lines`, one after the other: all lines of a long table take as much memory as the table."""
    shown = [_Column(table, i) for i in range(len(table.columns))]
    kept, widths = (shown, [each.natural for each in shown]) if columns is None else _fitted(shown, columns)
    room = columns or 0
    head = wrapped(table.caption, room) if table.caption else []
    broken = [
        {cell: lines for cell in {column.heading, *column.cells} if (lines := wrapped(cell, size)) != [cell]}
        for column, size in zip(kept, widths, strict=True)
    ]
    # Wrapped lines may leave some of the width unused.
    used = [
        max(_widest(line for cell in {column.heading, *column.cells} for line in known.get(cell, (cell,))), 1)
        for column, known in zip(kept, broken, strict=True)
    ]
    headings = [
        known.get(column.heading, [column.heading]) for column, known in zip(kept, broken, strict=True)
    ]
    deepest = max(map(len, headings), default=0)
    above = [[""] * (deepest - len(heading)) + heading for heading in headings]
    rule = "─" * (sum(used) + len(_GAP) * (len(used) - 1) + 2 * len(_MARGIN))
    left_out = [each.heading for each in shown if each not in kept]
    yield from head
    if any(table.columns):
        yield from _row(above, kept, used)
    yield rule if columns is None else rule[:columns]
    for row in zip(*(column.cells for column in kept), strict=True):
        yield from _row(
            [known.get(cell, (cell,)) for known, cell in zip(broken, row, strict=True)], kept, used
        )
    if left_out and note:
        yield from _noted(left_out, room)


def wrapped(text: str, columns: int) -> list[str]:
    """``text`` in lines of at most ``columns``, broken between words; 0 breaks nothing."""
    # Most cells of a long table are short.
    if text.isascii() and text.isprintable() and (not columns or len(text) <= columns):
        return [text]
    found = []
    for part in text.expandtabs(4).split("\n"):
        if not columns or _width(part) <= columns:
            found.append(part)
            continue
        line = ""
        for word in _BREAK.split(part):
            longer = f"{line} {word}" if line else word
            if line and _width(longer) > columns:
                found.append(line)
                line = word
            else:
                line = longer
        found.append(line)
    return [line.replace("\u00a0", " ") for line in found]


class _Column:
    """One column and how narrow it can be."""

    def __init__(self, table: Table, index: int) -> None:
        self.heading = table.columns[index]
        self.cells = [row[index] for row in table.rows]
        self.numeric = index in table.numeric
        self.rank = table.spare.index(self.heading) if self.heading in table.spare else None
        distinct = set(self.cells)
        whole = _widest(distinct)
        words = whole if self.numeric else _widest(word for cell in distinct for word in _words(cell))
        heading = _widest(_words(self.heading))
        self.natural = max(whole, _width(self.heading))
        self.least = max(words, heading)
        self.readable = max(self.least, min(whole, _READABLE if index else _NAMES_READABLE))


def _fitted(shown: Sequence[_Column], columns: int) -> tuple[list[_Column], list[int]]:
    """The columns that fit, and their widths."""
    kept = list(shown)
    spare = sorted((each for each in shown if each.rank is not None), key=lambda each: each.rank or 0)
    for each in (None, *spare):
        if each is not None and len(kept) > _LEAST_COLUMNS:
            kept.remove(each)
        if _room(kept, columns) >= sum(one.readable for one in kept):
            return kept, _spread(kept, columns, [one.readable for one in kept])
    while len(kept) > _LEAST_COLUMNS and _room(kept, columns) < sum(one.least for one in kept):
        kept.pop()
    return kept, _spread(kept, columns, [one.least for one in kept])


def _room(kept: Sequence[_Column], columns: int) -> int:
    return columns - len(_MARGIN) - len(_GAP) * (len(kept) - 1)


def _spread(kept: Sequence[_Column], columns: int, widths: list[int]) -> list[int]:
    """``widths`` with the remaining room distributed, first to the columns that lack least."""
    left = _room(kept, columns) - sum(widths)
    if left < 0:
        # A word that does not fit overflows on its own line; the other lines keep to the width.
        texts = [i for i, each in enumerate(kept) if not each.numeric]
        if texts:
            widest = max(texts, key=widths.__getitem__)
            widths[widest] = max(widths[widest] + left, _READABLE)
        return widths
    lacking = sorted(range(len(kept)), key=lambda i: kept[i].natural - widths[i])
    for done, i in enumerate(lacking):
        more = min(kept[i].natural - widths[i], max(left, 0) // (len(lacking) - done))
        widths[i] += more
        left -= more
    return widths


def _row(cells: Sequence[Sequence[str]], kept: Sequence[_Column], widths: Sequence[int]) -> Iterator[str]:
    """The lines of one row, whose cells are lists of lines."""
    for line in zip_longest(*cells, fillvalue=""):
        placed = [
            _padded(text, size, right=column.numeric)
            for text, column, size in zip(line, kept, widths, strict=True)
        ]
        yield f"{_MARGIN}{_GAP.join(placed)}".rstrip()


def _noted(left_out: Sequence[str], columns: int) -> list[str]:
    text = f"Not shown: {', '.join(left_out)}. --wide shows every column."
    return [f"{_MARGIN}{line}" for line in wrapped(text, columns - len(_MARGIN))]


def _padded(text: str, size: int, *, right: bool) -> str:
    if text.isascii():
        return text.rjust(size) if right else text.ljust(size)
    fill = " " * (size - _width(text))
    return fill + text if right else text + fill


def _words(cell: str) -> Iterator[str]:
    return (word for line in cell.split("\n") for word in _BREAK.split(line))


def _widest(texts: Iterable[str]) -> int:
    return max(map(_width, texts), default=0)


def _width(text: str) -> int:
    """Columns that ``text`` takes on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in _WIDE)
        for sign in text
    )
