"""Tables of prefixes in CSV: ranges, routes and ENUM entries, a line each.

The first line names the columns, which are called as the keys of the plan are. A line is a range if its
``owner`` is given and its ``tree`` is not, a route if it says ``at`` and ``to``, an ENUM entry if it names a
``tree``; one line may be a range and a route. Several targets in ``to`` are separated by blanks. Lines of
one tree and number that follow each other are one entry with several records.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any, Final

from weirlab.base import files, limits
from weirlab.base.errors import InputError
from weirlab.base.files import Inputs
from weirlab.numbering.plan.model import EnumEntry, PlanRoute, Range, ValidityPeriod
from weirlab.scenario.document import Document, Location, Mark
from weirlab.scenario.load import validated

RANGE: Final[tuple[str, ...]] = ("prefix", "owner", "digits", "delegated_by", "valid_from", "valid_until")
ROUTE: Final[tuple[str, ...]] = (
    "at", "prefix", "to", "arriving", "by", "strip", "prepend", "valid_from", "valid_until",
)  # fmt: skip
ENTRY: Final[tuple[str, ...]] = ("tree", "number", "prefix", "owner", "valid_from", "valid_until")
NAPTR: Final[tuple[str, ...]] = ("order", "preference", "service", "regexp", "uri", "refer")
COLUMNS: Final = tuple(dict.fromkeys((*ENTRY, *NAPTR, *RANGE, *ROUTE)))

_WHOLE: Final = frozenset(("digits", "strip", "order", "preference"))


def read(
    path: Path, added: MutableMapping[str, list[Any]], rows: MutableMapping[Location, str], inputs: Inputs
) -> None:
    """Append what the table at ``path`` holds to the lists of ``added``, and its places to ``rows``.

    Raises
    ------
    InputError
        The table cannot be read, or a line of it is wrong; with ``file:line``.
    """
    text = inputs.read_text(path, "a table of prefixes", limits.MOST_INPUT_BYTES)
    open_entry: dict[str, Any] = {}
    naptr_rows: list[str] = []
    opened = 0

    def close() -> None:
        if open_entry:
            index = len(added["enum"])
            added["enum"].append(_checked(EnumEntry, dict(open_entry), path, opened))
            rows["enum", index] = naptr_rows[0]
            for j, place in enumerate(naptr_rows):
                rows["enum", index, "naptr", j] = place
            open_entry.clear()
            naptr_rows.clear()

    for line, row in _lines(path, text):
        place = f"{files.shown(path)}:{line}"
        meant = False
        if "tree" in row:
            meant = True
            head = {key: row[key] for key in ENTRY if key in row}
            if head != {key: value for key, value in open_entry.items() if key != "naptr"}:
                close()
                open_entry.update(head, naptr=[])
                opened = line
            open_entry["naptr"].append({key: row[key] for key in NAPTR if key in row})
            naptr_rows.append(place)
        else:
            close()
            if "owner" in row:
                meant = True
                rows["ranges", len(added["ranges"])] = place
                found = {key: row[key] for key in RANGE if key in row}
                added["ranges"].append(_checked(Range, found, path, line))
        if "at" in row or "to" in row:
            meant = True
            rows["routes", len(added["routes"])] = place
            found = {key: row[key] for key in ROUTE if key in row}
            found["to"] = str(row.get("to", "")).split()
            added["routes"].append(_checked(PlanRoute, found, path, line))
        if not meant:
            raise InputError(f"{place}: the line gives neither owner, nor at and to, nor tree")
    close()


def _lines(path: Path, text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and filled cells of every line."""
    reader = csv.reader(io.StringIO(text), strict=True)
    shown = files.shown(path)
    try:
        header = [name.strip() for name in next(reader, [])]
        for number, name in enumerate(header, 1):
            if name not in COLUMNS:
                # The file may be no table at all: its content is not quoted.
                known = ", ".join(COLUMNS)
                raise InputError(f"{shown}:1: cell {number} is not the name of a column; known are {known}")
        if len(set(header)) < len(header):
            raise InputError(f"{shown}:1: a column appears twice")
        for count, cells in enumerate(reader, 1):
            if count > limits.MOST_PLAN_ROWS:
                raise InputError(f"{shown}:{reader.line_num}: more than {limits.MOST_PLAN_ROWS:,} lines")
            if not cells:
                continue
            if len(cells) != len(header):
                raise InputError(
                    f"{shown}:{reader.line_num}: {len(cells)} cells for {len(header)} columns; put cells "
                    "with a comma in double quotes"
                )
            yield (
                reader.line_num,
                {
                    name: int(cell) if name in _WHOLE and cell.isascii() and cell.isdigit() else cell
                    for name, cell in zip(header, map(str.strip, cells), strict=True)
                    if cell
                },
            )
    except csv.Error as error:
        raise InputError(f"{shown}:{reader.line_num}: not CSV: {error}") from None


def _checked(kind: type[ValidityPeriod], found: dict[str, Any], path: Path, line: int) -> ValidityPeriod:
    # Validated once more for its message: a place costs more than all the rest.
    try:
        return kind.model_validate(found)
    except ValueError:
        document = Document(files.shown(path), found, {(): Mark(line, 1)})
        return validated(document, kind)
