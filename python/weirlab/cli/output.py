"""How a command talks: one JSON document or tables and a sentence on stdout, the rest on stderr."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TextIO

import typer

from weirlab.errors import WeirError

if TYPE_CHECKING:
    from weirlab.cli.progress import Reporter
    from weirlab.store import Store

PIPE_COLUMNS = 140
"""Width of tables when stdout is no terminal."""


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


class Session:
    """One command's way to the user. A context manager: leaving it ends the progress display."""

    def __init__(self, ctx: typer.Context, *, as_json: bool = False, store: Path | None = None) -> None:
        general = ctx.find_root().obj if isinstance(ctx.find_root().obj, Globals) else Globals()
        self.json = as_json
        self.command = general.command
        self._store = store or general.store
        self._progress: Reporter | None = None

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
            print(f"weir: {message}", file=sys.stderr, flush=True)

    def finish(self, document: Mapping[str, Any], conclusion: str, tables: Iterable[Table] = ()) -> None:
        """Print the result: ``document`` as JSON, or ``tables`` and the ``conclusion`` for people."""
        self.close()
        if self.json:
            print(to_json({**document, "conclusion": conclusion}), flush=True)
            return
        shown = list(tables)
        if shown:
            _print_tables(shown, sys.stdout)
        print(conclusion, flush=True)

    def complain(self, problem: WeirError | None) -> None:
        """Leave with the exit code of ``problem``, if there is one, after the result has been shown."""
        if problem is not None:
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
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """``value`` in JSON's own types: dataclasses, arrays, paths and numpy scalars resolved."""
    match value:
        case None | bool() | str() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(item) for item in value]
        case Path():
            return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    for convert in ("tolist", "isoformat"):
        if hasattr(value, convert):
            return plain(getattr(value, convert)())
    return str(value)


def _print_tables(tables: Sequence[Table], file: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable

    width = None if file.isatty() else PIPE_COLUMNS
    console = Console(file=file, width=width, markup=False, highlight=False, emoji=False)
    for table in tables:
        drawn = RichTable(title=table.title or None, title_justify="left", box=box.SIMPLE_HEAD)
        for column in table.columns:
            drawn.add_column(column, justify="right" if column in table.right else "left", overflow="fold")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
