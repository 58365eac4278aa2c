"""How a command talks: one JSON document or tables and a sentence on stdout, the rest on stderr."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

import typer

from weirlab.cli.streams import console, tell
from weirlab.documents import plain
from weirlab.errors import WeirError
from weirlab.quoting import json_printable, printable

if TYPE_CHECKING:
    from rich.table import Table as RichTable

    from weirlab.cli.progress import Reporter
    from weirlab.store import Store

PIPE_COLUMNS = 140
"""Width of tables when stdout is no terminal."""

_WIDE = 10_000
_RUN_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9]+-[0-9a-f]{4}")


@dataclass(frozen=True)
class Globals:
    """Options before the command's name."""

    store: Path | None = None
    command: str = ""
    """What the user typed, for the manifest and the report."""


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; numbers (``right``) are set flush right."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    right: Sequence[str] = field(default_factory=tuple)

    def __post_init__(self) -> None:
        """Cells hold names and other foreign text, and there are several ways to draw them."""
        object.__setattr__(self, "title", printable(self.title))
        object.__setattr__(self, "columns", tuple(map(printable, self.columns)))
        object.__setattr__(self, "rows", [tuple(map(printable, row)) for row in self.rows])


class Session:
    """One command's way to the user. A context manager: leaving it ends the progress display."""

    def __init__(self, ctx: typer.Context, *, as_json: bool = False, store: Path | None = None) -> None:
        general = ctx.find_root().obj if isinstance(ctx.find_root().obj, Globals) else Globals()
        self.json = as_json
        self.command = general.command
        self._store = store or general.store
        self._progress: Reporter | None = None
        self._said = ""

    @property
    def store(self) -> Store:
        """The run store that the options name, or the default one."""
        from weirlab.store import Store, default_root

        return Store(self._store or default_root())

    @property
    def progress(self) -> Reporter:
        """Where jobs report what they do."""
        if self._progress is None:
            from weirlab.cli.progress import reporter

            self._progress = reporter(sys.stderr)
        return self._progress

    def say(self, message: str) -> None:
        """A message for the user that is no part of the result."""
        if self._progress is not None:
            self._progress.note(message)
        else:
            tell(f"weir: {message}", sys.stderr)

    def finish(
        self,
        document: Mapping[str, Any],
        conclusion: str,
        tables: Iterable[Table] = (),
        problem: WeirError | None = None,
        lead: str = "",
    ) -> None:
        """Print the result: ``document`` as JSON, or ``lead``, ``tables`` and the ``conclusion`` for people.

        A ``problem`` that keeps the result from counting is said before anything else, and is
        ``"valid": false`` in JSON; :meth:`complain` then only leaves.
        """
        self.close()
        if problem is not None:
            self._said = str(problem)
            self.say(self._said)
            document = {**document, "valid": False}
        if self.json:
            tell(to_json({**document, "conclusion": conclusion}))
            return
        if lead:
            tell(lead)
        shown = list(tables)
        if shown:
            _print_tables(shown, sys.stdout)
        tell(conclusion)

    def complain(self, problem: WeirError | None) -> None:
        """Leave with the exit code of ``problem``, if there is one, after the result has been shown."""
        if problem is not None:
            if str(problem) != self._said:
                self.say(str(problem))
            raise typer.Exit(problem.exit_code)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def to_json(document: Mapping[str, Any]) -> str:
    """``document`` as JSON text; NaN and infinity, which JSON lacks, become null."""
    return json_printable(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def _print_tables(tables: Sequence[Table], file: TextIO) -> None:
    from rich import box
    from rich.table import Table as RichTable

    columns = console(file).width if file.isatty() else PIPE_COLUMNS
    for table in tables:
        drawn = RichTable(title=table.title or None, title_justify="left", box=box.SIMPLE_HEAD)
        for column in table.columns:
            drawn.add_column(column, justify="right" if column in table.right else "left", overflow="fold")
        for row in table.rows:
            drawn.add_row(*row)
        natural = console(file, _WIDE).measure(drawn)
        if natural.maximum > columns:
            _keep_ids_whole(drawn, table)
            natural = console(file, _WIDE).measure(drawn)
        console(file, max(columns, natural.minimum)).print(drawn)


def _keep_ids_whole(drawn: RichTable, table: Table) -> None:
    """Let no column fold a run's ID, which somebody has to copy: a terminal so narrow breaks the line."""
    for column, cells in zip(drawn.columns, zip(*table.rows, strict=True), strict=False):
        ids = [len(run_id) for cell in cells for run_id in _RUN_ID.findall(cell)]
        if ids:
            column.width = max(ids)
