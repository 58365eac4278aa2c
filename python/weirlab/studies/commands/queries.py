"""``weir ask``: SQL over the tables of runs and of folders of series."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from weirlab.base.errors import InputError
from weirlab.cli.options import ResultOptions, completing, grouped

if TYPE_CHECKING:
    import polars as pl

    from weirlab.store import Store

ASK = """Ask runs and folders of series in SQL.

SOURCE is a run, or a folder of Parquet files such as weir trace --series and
weir export write; by default the newest run. Each table has the name of its
file. With several sources, tables of one name become one, and a column source
says where a row is from. 'show tables' lists the tables with their columns.
docs/tables.md and docs/trace.md say what the columns mean.

The SQL is that of Polars: select, join, group by, order by, with, union.

Examples:
  weir ask 'show tables' last
  weir ask 'select position, max(forwarding_pps) from trials where valid
    group by position order by position' last
  weir ask 'select source, count(*) as lost from segments
    where retransmission group by source' a-series b-series --json
"""

_WORD: Final = re.compile(r"\w+")
_SHOW: Final = re.compile(r"\s*show\s+tables\s*;?\s*", re.IGNORECASE)
_READER: Final = re.compile(r"\b((?:read|scan)_(?:csv|ipc|json|ndjson|parquet))\b", re.IGNORECASE)
"""Functions with which a query would read other files than its sources."""
MOST_ROWS: Final = 1000


@dataclass(frozen=True)
class QueryAnswer:
    """The rows of an answer, and whether there are more."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    more: bool


def answer(store: Store, query: str, sources: Sequence[str], most: int = MOST_ROWS) -> QueryAnswer:
    """The answer to ``query``, at most ``most`` rows.

    Raises
    ------
    InputError
        The query cannot be understood, or a source is neither a run nor a folder with tables.
    StoreError
        A run is damaged, or its tables are too large for the memory allowed.
    """
    import polars as pl

    if reader := _READER.search(query):
        raise InputError(f"{reader[1]} is not allowed: name a folder of Parquet files as a SOURCE instead")
    every = [(source, dict(_tables(store, source))) for source in sources]
    names = sorted({name for _, tables in every for name in tables})
    wanted = names if _SHOW.fullmatch(query) else [name for name in names if name in _WORD.findall(query)]
    frames = {}
    for name in wanted:
        parts = [(source, tables[name]) for source, tables in every if name in tables]
        read = [(source, _frame(store, place, name)) for source, place in parts]
        if len(sources) > 1:
            read = [(source, frame.with_columns(pl.lit(source).alias("source"))) for source, frame in read]
        frames[name] = pl.concat([frame for _, frame in read], how="diagonal_relaxed")
    try:
        if _SHOW.fullmatch(query):
            rows = tuple((name, ", ".join(frame.collect_schema().names())) for name, frame in frames.items())
            return QueryAnswer(("table", "columns"), rows, False)
        found = pl.SQLContext(frames).execute(query).head(most + 1).collect()
    except (pl.exceptions.PolarsError, ValueError, TypeError) as error:
        reason = re.split(r"[\n;]", str(error))[0]
        raise InputError(
            f"the query cannot be answered: {reason}; the tables are {', '.join(names)}"
        ) from error
    return QueryAnswer(tuple(found.columns), tuple(found.head(most).rows()), found.height > most)


def _tables(store: Store, source: str) -> Iterator[tuple[str, Path | str]]:
    """Each table of ``source``, and the folder or the run that has it."""
    from weirlab.store.rows import TABLES

    folder = Path(source)
    if folder.is_dir():
        found = [path.stem for path in sorted(folder.glob("*.parquet")) if not path.name.startswith(".")]
        if not found:
            raise InputError(f"{source} has no Parquet files: weir trace FILE --series {source} writes some")
        yield from ((name, folder) for name in found)
        return
    run = store.open(source)
    yield from ((name, run.run_id) for name in (*TABLES, *run.own_tables))


def _frame(store: Store, place: Path | str, name: str) -> pl.LazyFrame:
    """The table ``name`` of a folder, or of a run."""
    import polars as pl

    from weirlab.store.rows import TABLES
    from weirlab.trace.frames import from_folder

    if isinstance(place, str):
        run = store.open(place)
        return (getattr(run, name)() if name in TABLES else run.table(name)).lazy()
    try:
        return from_folder(place, name)
    except (pl.exceptions.PolarsError, OSError) as error:
        raise InputError(f"{place / name}.parquet cannot be read: {error}") from error


def add_to(app: typer.Typer) -> None:
    app.command("ask", help=ASK, rich_help_panel="Runs")(grouped(ask))


def ask(
    ctx: typer.Context,
    query: Annotated[str, typer.Argument(help="One SQL query, or 'show tables'.", metavar="SQL")],
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            help="Runs, or folders of Parquet files (default: last).",
            metavar="SOURCE",
            autocompletion=completing.runs,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Most rows of the answer.")] = MOST_ROWS,
    *,
    result: ResultOptions,
) -> None:
    from weirlab.base.tables import Table
    from weirlab.cli.quantities import NOTHING, plural

    with result.session(ctx) as session:
        asked = tuple(dict.fromkeys(sources or ("last",)))
        found = answer(session.store, query, asked, limit)
        said = plural(len(found.rows), "row") + (", and there are more: --limit N" if found.more else "")
        rows = [[NOTHING if cell is None else _text(cell) for cell in row] for row in found.rows]
        tables = [Table("Answer", found.columns, rows)] if rows else []
        documents = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
        document = {"kind": "answer", "sources": asked, "rows": documents, "more": found.more}
        session.finish(document, said, tables)


def _text(cell: object) -> str:
    return f"{cell:.6g}" if isinstance(cell, float) else str(cell)
