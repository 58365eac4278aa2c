"""The output of commands: one JSON document, or a sentence and tables, on stdout; the rest on stderr.

Most commands print one JSON document. A long-running command prints JSON Lines: one document per interval,
event or sample as it occurs, and the result last: ``tail -n 1`` leaves what other commands print. An error
is also the last line.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from weirlab.base import storage
from weirlab.base.closing import Closable
from weirlab.base.documents import Rows, plain
from weirlab.base.errors import InputError, WeirError
from weirlab.base.quoting import json_printable, quoted
from weirlab.base.tables import Table
from weirlab.cli import layout
from weirlab.cli.streams import tell, tell_lines

if TYPE_CHECKING:
    import polars as pl

    from weirlab.cli.progress import Reporter
    from weirlab.store import Store


WIDE: Final = "weirlab.wide"
DETAILS: Final = "weirlab.details"
"""Where the options ``--wide`` and ``--details`` are kept while a command runs (``Context.meta``)."""


@dataclass(frozen=True)
class Globals:
    """Options before the command's name."""

    store: Path | None = None
    command: str = ""
    """What the user typed, for the manifest and the report."""


@dataclass
class CommandResult:
    """What a command would have printed."""

    document: Mapping[str, Any] = field(default_factory=dict)
    conclusion: str = ""
    remark: str = ""
    tables: tuple[Table, ...] = ()
    notes: list[str] = field(default_factory=list)
    """Messages that are not part of the result."""
    problem: WeirError | None = None
    """Why the result does not count, or a requirement is not met; None if neither."""

    def frame(self, caption: str) -> pl.DataFrame:
        """The table ``caption`` as text; raises ``InputError`` if there is none."""
        import polars as pl

        for table in self.tables:
            if table.caption == caption:
                columns = zip(*table.rows, strict=True) if table.rows else ([] for _ in table.columns)
                return pl.DataFrame(dict(zip(table.columns, map(list, columns), strict=True)))
        known = "; ".join(table.caption for table in self.tables)
        raise InputError(f"no table {quoted(caption)}; there are: {known or 'none'}")

    def _repr_html_(self) -> str:
        """As a notebook shows it."""
        from weirlab.report import notebook

        remarks = [self.remark, *([] if self.problem is None else [str(self.problem)]), *self.notes]
        return notebook.cell(self.conclusion, self.tables, remarks)


_RESULT: ContextVar[CommandResult | None] = ContextVar("result", default=None)
"""Where the running command puts its output in place of printing it; None: it prints."""


@contextmanager
def collected() -> Iterator[CommandResult]:
    """Have the commands that run in the block print nothing, and collect what they would have printed."""
    result = CommandResult()
    token = _RESULT.set(result)
    try:
        yield result
    finally:
        _RESULT.reset(token)


class Session(Closable):
    """The output of one command. A context manager: leaving it ends the progress display."""

    def __init__(self, ctx: typer.Context, *, as_json: bool = False, store: Path | None = None) -> None:
        general = ctx.find_root().obj if isinstance(ctx.find_root().obj, Globals) else Globals()
        self.json = as_json
        self.wide = bool(ctx.meta.get(WIDE))
        self.details = bool(ctx.meta.get(DETAILS))
        self.command = general.command
        self._store = store or general.store
        self._progress: Reporter | None = None
        self._said = ""

    @property
    def store_root(self) -> Path:
        """The folder of :attr:`store`."""
        return self._store or storage.default_root()

    @property
    def store(self) -> Store:
        """The run store that the options name, or the default one."""
        from weirlab.store import Store

        return Store(self._store)

    @property
    def progress(self) -> Reporter:
        """The reporter to which jobs report their progress."""
        if self._progress is None:
            from weirlab.cli.progress import reporter

            self._progress = reporter(sys.stderr if _RESULT.get() is None else StringIO())
        return self._progress

    def say(self, message: str) -> None:
        """Print a message for the user that is not part of the result."""
        if (result := _RESULT.get()) is not None:
            result.notes.append(message)
        elif self._progress is not None:
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
        remark: str = "",
    ) -> None:
        """Print the result: ``document`` as JSON, or else the ``conclusion`` and then ``tables``.

        A ``lead`` is a listing that the conclusion sums up and comes before it; a ``remark`` comes after
        it. Tables of details are shown on request. A ``problem`` that invalidates the result is
        reported before anything else, and is ``"valid": false`` in JSON; :meth:`complain` then only
        exits.
        """
        self.close()
        if (result := _RESULT.get()) is not None:
            result.document, result.problem = {**document, "conclusion": conclusion}, problem
            result.conclusion, result.remark, result.tables = conclusion, remark, tuple(tables)
            return
        if problem is not None:
            self._said = str(problem)
            self.say(self._said)
            document = {**document, "valid": False}
        if self.json:
            for part in _json_parts({**document, "conclusion": conclusion}):
                print(part, end="")
            print(flush=True)
            return
        if lead:
            tell(lead)
        said = f"{conclusion}\n{remark}" if remark else conclusion
        tell(said)
        for lines in self._drawn(tables):
            tell_lines(chain([""], lines))

    def complain(self, problem: WeirError | None) -> None:
        """Exit with the code of ``problem``, if there is one, after the result has been shown."""
        if problem is not None and (result := _RESULT.get()) is not None:
            result.problem = problem
        elif problem is not None:
            if str(problem) != self._said:
                self.say(str(problem))
            raise typer.Exit(problem.exit_code)

    def _drawn(self, tables: Iterable[Table]) -> Iterator[Iterable[str]]:
        """The lines of each of ``tables``, and a line that names the ones that ``--details`` adds."""
        columns = None if self.wide else layout.width()
        more = []
        for table in tables:
            if table.details and not self.details:
                more.append(table.caption)
            else:
                yield layout.drawn(table, columns)
        if more:
            yield layout.wrapped(f"--details adds: {'; '.join(more)}.", columns or 0)

    def close(self) -> None:
        if self._progress is not None:
            self._progress.close()
            self._progress = None


def to_json(document: Mapping[str, Any]) -> str:
    """``document`` as JSON text; NaN and infinity, which JSON lacks, become null."""
    return "".join(_json_parts(document))


def _json_parts(document: Mapping[str, Any]) -> Iterator[str]:
    """The same in parts that are made one after the other: rows are not held together."""
    comma = "{"
    for key, value in document.items():
        yield f"{comma}\n  {_json(str(key))}: "
        comma = ","
        if isinstance(value, Rows) and len(value):
            between = "["
            for row in value:
                yield f"{between}\n    {_json(row, indent=4)}"
                between = ","
            yield "\n  ]"
        else:
            yield _json(value, indent=2)
    yield "{}" if comma == "{" else "\n}"


def _json(value: object, indent: int = 0) -> str:
    """A value as JSON text whose lines but the first are indented by ``indent``."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    return json_printable(text.replace("\n", "\n" + " " * indent))


LinesOption = Annotated[
    bool,
    typer.Option(
        "--json", help="Print JSON Lines on stdout: one document per line as it happens, the result last."
    ),
]


def line(document: Mapping[str, Any]) -> str:
    """``document`` on one line."""
    text = json.dumps(plain(document), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return json_printable(text)


def say(document: Mapping[str, Any]) -> None:
    """Print ``document`` at once."""
    tell(line(document))
