"""The numbering plan, read from its file and tables, with the place of everything in it.

``model`` has what a document may say. The first line of a table names the columns, which are called as the
keys of the plan are. A line is a range if its ``owner`` is given and its ``tree`` is not, a route if it says
``at`` and ``to``, an ENUM entry if it names a ``tree``; one line may be a range and a route. Several targets
in ``to`` are separated by blanks. Lines of one tree and number that follow each other are one entry with
several records.
"""

from __future__ import annotations

import csv
import difflib
import io
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from weirlab.base import files, limits
from weirlab.base.errors import InputError
from weirlab.base.files import HOST_FILES, NO_FILES, Inputs
from weirlab.base.quantities import words
from weirlab.base.quoting import quoted
from weirlab.numbering.plan import ready
from weirlab.numbering.plan.model import EnumEntry, NumberingPlan, PlanRoute, Range, ValidityPeriod
from weirlab.scenario.document import Document, Location, Mark, parse
from weirlab.scenario.load import refuse, validated
from weirlab.studies.scenarios import SCHEMA_ID

RANGE: Final[tuple[str, ...]] = ("prefix", "owner", "digits", "delegated_by", "valid_from", "valid_until")
ROUTE: Final[tuple[str, ...]] = (
    "at", "prefix", "to", "arriving", "by", "strip", "prepend", "after_trees", "valid_from", "valid_until",
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


Scope = Mapping[str, Sequence[int]]
"""Indices of pieces by part, such as ``routes``: the part of a plan that is examined."""

T = TypeVar("T")


def examined(part: str, pieces: Sequence[T], scope: Scope | None) -> Iterator[tuple[int, T]]:
    """The pieces of a part in the scope, with their indices; all without one."""
    if scope is None:
        return iter(enumerate(pieces))
    return ((index, pieces[index]) for index in scope.get(part, ()))


@dataclass(frozen=True)
class PlanDocument:
    """A plan and the places of its parts."""

    plan: NumberingPlan
    document: Document
    rows: Mapping[Location, str] = field(default_factory=dict)
    """Places of what came from tables: ``file:line``, for example of ``("routes", 17)``."""

    @property
    def name(self) -> str:
        """The plan's file."""
        return self.document.name

    def at(self, *location: int | str) -> str:
        """``file:line`` of the part at ``location``, else of the nearest thing around it."""
        for depth in range(len(location), 0, -1):
            if (row := self.rows.get(location[:depth])) is not None:
                return row
        key = bool(location) and isinstance(location[-1], str)
        return f"{self.name}:{self.document.where(location, key=key).line}"


def of_scenario(wanted: Path, inputs: Inputs) -> PlanDocument:
    """The plan that a scenario names, a file or one that comes with Weir; ``inputs`` opens the file.

    Raises
    ------
    InputError
        As :func:`load`, or the file may not be opened.
    """
    if not inputs.refusal:
        return load(ready.find(wanted))
    # Whether there is such a file, too, is nobody's business.
    return load(ready.FOLDER / f"{wanted}.yaml") if str(wanted) in ready.names() else load(wanted, inputs)


def load(path: Path, inputs: Inputs = HOST_FILES) -> PlanDocument:
    """Read the plan at ``path`` and its tables.

    Raises
    ------
    InputError
        With one line per problem, each beginning with ``file:line``.
    """
    text = inputs.read_text(path, "a numbering plan", limits.MOST_PLAN_BYTES)
    return loads(text, str(path), path.parent, inputs)


def loads(text: str, name: str = "<text>", folder: Path = Path(), inputs: Inputs = NO_FILES) -> PlanDocument:
    """As :func:`load`, from text; ``inputs`` opens its tables, which are in ``folder``."""
    document = parse(text, name, limits.MOST_PLAN_VALUES)
    if not isinstance(document.value, dict):
        raise InputError(f"{name}:1: a numbering plan consists of keys such as 'engines:' and 'routes:'")
    plan = validated(document, NumberingPlan)
    book = PlanDocument(plan, document)
    if plan.tables:
        book = _with_tables(book, folder, inputs)
    if problems := [*unknown_names(book)]:
        if book.rows:
            raise InputError("\n".join(f"{book.at(*where)}: {what}" for where, what in problems[:20]))
        refuse(document, [(document.where(where), what) for where, what in problems])
    return book


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a plan, for editors and other programs."""
    return {"$schema": SCHEMA_ID, **NumberingPlan.model_json_schema(), "title": "Weir numbering plan"}


def _with_tables(book: PlanDocument, folder: Path, inputs: Inputs) -> PlanDocument:
    plan = book.plan
    added: dict[str, list[Any]] = {"ranges": [*plan.ranges], "routes": [*plan.routes], "enum": [*plan.enum]}
    rows: dict[Location, str] = {}
    for i, name in enumerate(plan.tables):
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise InputError(f"{book.at('tables', i)}: tables[{i}]: must lie beside the plan or below it")
        read(folder / name, added, rows, inputs)
    return PlanDocument(plan.model_copy(update={k: tuple(v) for k, v in added.items()}), book.document, rows)


def unknown_names(book: PlanDocument, scope: Scope | None = None) -> Iterator[tuple[Location, str]]:
    """References to undefined names: where, and what is wrong.

    With a ``scope``, only the ranges, entries, routes and tests in it are examined.
    """
    plan = book.plan
    known = {
        "organisation": plan.organisations.keys(),
        "engine": plan.engines.keys(),
        "tree": plan.trees.keys(),
    }
    for kind, name, location in _references(plan, scope):
        if name is not None and name not in known[kind]:
            dotted = "".join(f"[{x}]" if isinstance(x, int) else f".{x}" for x in location).lstrip(".")
            what = f"{dotted}: there is no {kind} {quoted(name)}{_advice(name, known[kind])}"
            yield location, what


def _advice(name: str, known: Iterable[str]) -> str:
    names = [*known]
    if close := difflib.get_close_matches(name, names, n=1):
        return f"; did you mean {quoted(close[0])}?"
    return f"; there are {words(names, most=10)}" if names else ""


def _references(plan: NumberingPlan, scope: Scope | None) -> Iterator[tuple[str, str | None, Location]]:
    yield "engine", plan.caller, ("caller",)
    for name, organisation in plan.organisations.items():
        for i, other in enumerate(organisation.admits or ()):
            yield "organisation", other, ("organisations", name, "admits", i)
    for i, numbers in examined("ranges", plan.ranges, scope):
        yield "organisation", numbers.owner, ("ranges", i, "owner")
        yield "organisation", numbers.delegated_by, ("ranges", i, "delegated_by")
    for name, engine in plan.engines.items():
        here = ("engines", name)
        yield "organisation", engine.organisation, (*here, "organisation")
        for i, other in enumerate(engine.admits or ()):
            yield "organisation", other, (*here, "admits", i)
        yield "engine", engine.home, (*here, "home")
        for i, tree in enumerate(engine.trees):
            yield "tree", tree, (*here, "trees", i)
        for protocol, other in engine.hand_over.items():
            yield "engine", other, (*here, "hand_over", protocol)
    for i, entry in examined("enum", plan.enum, scope):
        yield "tree", entry.tree, ("enum", i, "tree")
        yield "organisation", entry.owner, ("enum", i, "owner")
        for j, record in enumerate(entry.naptr):
            yield "tree", record.refer, ("enum", i, "naptr", j, "refer")
    for i, route in examined("routes", plan.routes, scope):
        yield "engine", route.at, ("routes", i, "at")
        for j, target in enumerate(route.to):
            yield "engine", target, ("routes", i, "to", j)
    for i, test in examined("tests", plan.tests, scope):
        yield "engine", test.caller, ("tests", i, "caller")
        yield "engine", test.ends_at, ("tests", i, "ends_at")
        if test.via != "static":
            yield "tree", test.via, ("tests", i, "via")
